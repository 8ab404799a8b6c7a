"""The part of an iRODS server that reading needs: it logs one user in and serves a folder as a zone.

Each data object has two replicas, one of them stale. The number of requests received before the first reply about a path is
written to the file `before` of the scratch folder.

usage: irods_responder.py PORT FOLDER SCRATCH VERSION POLICY [garbage|silent|tls:FOLDER]

With tls, it uses the certificate and the key in that folder.
"""

import base64
import fnmatch
import hashlib
import json
import os
import queue
import re
import socket
import ssl
import struct
import sys
import threading
import time
from xml.etree import ElementTree
from xml.sax.saxutils import escape

port, folder, scratch, version, policy = sys.argv[1:6]
mode = sys.argv[6] if len(sys.argv) > 6 else ""
ZONE, USER, PASSWORD = "/lab", "ann", "secret word"
STATEMENTS = 50
number = tuple(int(n) for n in version.split("."))


def quote(text):
    # A real server escapes apostrophes, too.
    return escape(text, {"'": "&apos;", '"': "&quot;"})


def message(kind, info=0, body=""):
    body = body.encode(errors="surrogateescape")
    header = (
        f"<MsgHeader_PI>\n<type>{kind}</type>\n<msgLen>{len(body)}</msgLen>\n<errorLen>0</errorLen>\n"
        f"<bsLen>0</bsLen>\n<intInfo>{info}</intInfo>\n</MsgHeader_PI>\n"
    ).encode()
    return struct.pack(">i", len(header)) + header + body


def read_exactly(stream, count):
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def read_header(stream):
    (length,) = struct.unpack(">i", read_exactly(stream, 4))
    return ElementTree.fromstring(read_exactly(stream, length))


def receive(stream):
    header = read_header(stream)
    lengths = [int(header.find(name).text) for name in ("msgLen", "errorLen", "bsLen")]
    body, _, _ = [read_exactly(stream, n) for n in lengths]
    # Names may have any encoding, so they are parsed as Latin-1, which maps all bytes, and then converted back.
    root = ElementTree.fromstring(b"<?xml version='1.0' encoding='iso-8859-1'?>" + body) if body else None
    for element in root.iter() if body else []:
        element.text = (element.text or "").encode("iso-8859-1").decode(errors="surrogateescape")
    return header.find("type").text, int(header.find("intInfo").text), root


def local_path(path):
    if path == "/":
        return None
    return folder + path[len(ZONE) :] if path == ZONE or path.startswith(ZONE + "/") else "/nonexistent"


def collections():
    yield {501: "/", 502: "/", 503: "rods", 509: "00000000000", 500: "1"}
    for at, _, _ in os.walk(folder):
        path = ZONE + at[len(folder) :]
        yield {
            500: str(os.stat(at).st_ino),
            501: path,
            502: os.path.dirname(path),
            503: USER,
            504: "lab",
            508: "01700000000",
            509: f"{int(os.stat(at).st_mtime):011}",
        }


def objects(within):
    for collection in collections():
        at = local_path(collection[501])
        if at is None or not within(collection):
            continue
        for entry in os.scandir(at):
            if not entry.is_file():
                continue
            for replica in (0, 1):
                # The first replica is stale, with another size and time.
                yield {
                    **collection,
                    401: str(entry.inode()),
                    402: collection[500],
                    403: entry.name,
                    404: str(replica),
                    407: str(entry.stat().st_size + 7 * (1 - replica)),
                    411: USER,
                    412: "lab",
                    413: str(replica),
                    419: "01700000000",
                    420: f"{int(entry.stat().st_mtime) + 99 * (1 - replica):011}",
                }


def matcher(conditions, columns):
    def matches(row):
        for column, condition in conditions:
            if column not in columns:
                continue
            operator, value = re.fullmatch(r"(\S+)\s+'?(.*?)'?", condition, re.S).groups()
            if operator == "like":
                pattern = fnmatch.translate(value.replace("[", "[[]").replace("_", "?").replace("%", "*"))
                if not re.match(pattern, row.get(column, ""), re.S):
                    return False
            elif row.get(column, "") != value:
                return False
        return True

    return matches


class Connection:
    def __init__(self, sock):
        self.sock, self.stream = sock, sock.makefile("rb", buffering=65536)
        self.requests, self.received, self.first = queue.Queue(), 0, True
        self.cursors, self.next = {}, 1

    def send(self, *args):
        self.sock.sendall(message(*args))

    def serve(self):
        kind, _, root = receive(self.stream)
        if kind != "RODS_CONNECT":
            return
        if mode == "garbage":
            self.sock.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 100)
            return
        if mode == "silent":
            threading.Event().wait()
        secure = False
        if "request_server_negotiation" in (root.findtext("option") or ""):
            self.send("RODS_CS_NEG_T", 0, f"<CS_NEG_PI>\n<status>1</status>\n<result>{policy}</result>\n</CS_NEG_PI>\n")
            _, _, answer = receive(self.stream)
            secure = "CS_NEG_USE_SSL" in answer.findtext("result")
            if not secure and "CS_NEG_USE_TCP" not in answer.findtext("result"):
                return
        self.user = root.findtext("clientUser")
        body = f"<Version_PI>\n<status>0</status>\n<relVersion>rods{version}</relVersion>\n<apiVersion>d</apiVersion>\n"
        body += "<reconnPort>0</reconnPort>\n<reconnAddr></reconnAddr>\n<cookie>400</cookie>\n</Version_PI>\n"
        self.send("RODS_VERSION", 0, body)
        if secure:
            self.secure()
        threading.Thread(target=self.read, daemon=True).start()
        self.challenge, self.logged_in = base64.b64encode(os.urandom(48)), False
        while (request := self.requests.get()) is not None:
            self.answer(*request)

    def secure(self):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        folder = mode.removeprefix("tls:")
        context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")
        self.sock = context.wrap_socket(self.sock, server_side=True)
        self.stream = self.sock.makefile("rb", buffering=65536)
        # The client sends the parameters of file encryption in the lengths of a header, and then the key.
        sizes = read_header(self.stream)
        assert sizes.findtext("type") == "AES-256-CBC"
        secret = read_header(self.stream)
        assert secret.findtext("type") == "SHARED_SECRET"
        assert secret.findtext("msgLen") == sizes.findtext("msgLen") == "32"
        read_exactly(self.stream, 32)

    def read(self):
        try:
            while True:
                kind, call, root = receive(self.stream)
                if kind == "RODS_DISCONNECT":
                    break
                self.received += call in (633, 702)
                self.requests.put((call, root))
        except (EOFError, OSError):
            pass
        self.requests.put(None)

    def is_valid(self, digest):
        hashed = hashlib.md5(self.challenge + PASSWORD.encode().ljust(50, b"\0")).digest()
        return digest == hashed.replace(b"\0", b"\1") and self.user == USER

    def answer(self, call, root):
        if call == 703:
            text = base64.b64encode(self.challenge).decode()
            body = f"<authRequestOut_PI>\n<challenge>{text}</challenge>\n</authRequestOut_PI>\n"
            self.send("RODS_API_REPLY", 0, body)
        elif call == 704:
            self.logged_in = self.is_valid(base64.b64decode(root.findtext("response")))
            self.send("RODS_API_REPLY", 0 if self.logged_in else -826000)
        elif call == 110000:
            state = json.loads(base64.b64decode(root.findtext("buf")))
            if state["next_operation"] == "auth_agent_auth_request":
                state["request_result"] = self.challenge.decode()
            elif self.is_valid(base64.b64decode(state["digest"])):
                self.logged_in = True
            else:
                return self.send("RODS_API_REPLY", -826000)
            text = json.dumps(state).encode() + b"\0"
            body = f"<BinBytesBuf_PI>\n<buflen>{len(text)}</buflen>\n<buf>{base64.b64encode(text).decode()}</buf>\n"
            self.send("RODS_API_REPLY", 0, body + "</BinBytesBuf_PI>\n")
        elif not self.logged_in:
            self.send("RODS_API_REPLY", -13000)
        elif call == 633:
            if self.first:
                self.first = False
                self.wait_for_requests()
            self.stat(root.findtext("objPath"))
        elif call == 702:
            self.query(root)
        else:
            self.send("RODS_API_REPLY", -13000)

    def wait_for_requests(self):
        """Waits for the number of requests in `hold`, if it exists, and writes the number received to `before`."""
        try:
            with open(os.path.join(scratch, "hold")) as file:
                enough = int(file.read())
        except FileNotFoundError:
            return
        while True:
            received = self.received
            with open(os.path.join(scratch, "before.new"), "w") as file:
                file.write(str(received))
            os.replace(file.name, os.path.join(scratch, "before"))
            if received >= enough:
                return
            time.sleep(0.01)

    def stat(self, path):
        at = local_path(path)
        try:
            info = os.stat(at or "/")
        except OSError:
            return self.send("RODS_API_REPLY", -310000)
        is_folder = os.path.isdir(at or "/")
        body = f"<RodsObjStat_PI>\n<objSize>{0 if is_folder else info.st_size}</objSize>\n<objType>{2 if is_folder else 1}</objType>\n"
        body += "<dataMode>0</dataMode>\n<dataId>1</dataId>\n<chksum></chksum>\n<ownerName>ann</ownerName>\n<ownerZone>lab</ownerZone>\n"
        body += f"<createTime>01700000000</createTime>\n<modifyTime>{int(info.st_mtime):011}</modifyTime>\n</RodsObjStat_PI>\n"
        self.send("RODS_API_REPLY", 2 if is_folder else 1, body)

    def query(self, root):
        most, after = int(root.findtext("maxRows")), int(root.findtext("continueInx"))
        columns = [int(e.text) for e in root.find("InxIvalPair_PI").findall("inx")]
        if after > 0:
            rows = self.cursors.pop(after, [])
            if most <= 0:
                return self.send("RODS_API_REPLY", 0)
        else:
            pairs = root.find("InxValPair_PI")
            conditions = [
                (int(i.text), v.text or "") for i, v in zip(pairs.findall("inx"), pairs.findall("svalue"), strict=True)
            ]
            about = matcher(conditions, range(500, 600))
            of_data = any(400 < c < 500 for c in columns + [c for c, _ in conditions])
            found = objects(about) if of_data else filter(about, collections())
            rows, seen = [], set()
            for row in filter(matcher(conditions, range(400, 500)), found):
                values = tuple(row.get(c, "") for c in columns)
                if values not in seen:
                    seen.add(values)
                    rows.append(values)
        if not rows:
            return self.send("RODS_API_REPLY", -808000)
        # Servers may return fewer rows than the client requested.
        most = min(most, 300)
        page, rest, index = rows[:most], rows[most:], 0
        if rest:
            if len(self.cursors) >= STATEMENTS:
                return self.send("RODS_API_REPLY", -860000)
            index, self.next = self.next, self.next + 1
            self.cursors[index] = rest
        body = f"<GenQueryOut_PI>\n<rowCnt>{len(page)}</rowCnt>\n<attriCnt>{len(columns)}</attriCnt>\n"
        body += f"<continueInx>{index}</continueInx>\n<totalRowCount>0</totalRowCount>\n"
        for at, column in enumerate(columns):
            body += f"<SqlResult_PI>\n<attriInx>{column}</attriInx>\n<reslen>100</reslen>\n"
            body += "".join(f"<value>{quote(row[at])}</value>\n" for row in page) + "</SqlResult_PI>\n"
        self.send("RODS_API_REPLY", 0, body + "</GenQueryOut_PI>\n")


def serve(sock):
    connection = Connection(sock)
    try:
        connection.serve()
        if isinstance(connection.sock, ssl.SSLSocket):
            connection.sock = connection.sock.unwrap()
    except (EOFError, OSError):
        # The client disconnected, or refused TLS.
        pass
    finally:
        # A reader may still have the file open.
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        connection.sock.close()


listener = socket.create_server(("127.0.0.1", int(port)), backlog=64)
while True:
    accepted, _ = listener.accept()
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=[accepted], daemon=True).start()
