"""A server that checks signatures with Amazon's own library. A request with a valid one gets an empty listing.

usage: s3_verify.py PORT
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, urlsplit

from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

PORT = int(sys.argv[1])
EMPTY = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
WRONG = "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def has_valid_signature(self):
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        signature = query.get("X-Amz-Signature")
        plain = {k: v for k, v in query.items() if not k.startswith("X-Amz-")}
        url = f"http://127.0.0.1:{PORT}{parts.path}"
        if plain:
            url += "?" + "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in plain.items())
        auth = S3SigV4QueryAuth(Credentials("key", "secret", "token"), "s3", "eu-west-1", int(query["X-Amz-Expires"]))
        request = AWSRequest(self.command, url, headers={"host": self.headers["host"]})
        request.context["timestamp"] = query["X-Amz-Date"]
        auth._modify_request_before_signing(request)
        text = auth.string_to_sign(request, auth.canonical_request(request))
        return auth.signature(text, request) == signature

    def respond(self):
        valid = self.has_valid_signature()
        body = (EMPTY if valid else WRONG).encode()
        self.send_response(200 if valid else 403)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_GET = do_HEAD = respond

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
