"""Types a query into YASGUI in a browser, and checks the result table. The page and the SPARQL server have different origins.

Usage: yasgui.py SERVER FOLDER PORT

FOLDER has YASGUI's script and style sheet. The page is served at PORT of this machine, which must be in the server's
`sparql.read_origins`. The script sends WebDriver requests to chromedriver. scripts/check-sparql-clients-long.sh calls it.
"""

import functools
import http.server
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

server, folder, port_of_page = sys.argv[1:]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
PAGE = """<!doctype html><title>YASGUI</title><link rel="stylesheet" href="yasgui.min.css">
<div id="yasgui"></div><script src="yasgui.min.js"></script>
<script>window.yasgui = new Yasgui(document.getElementById("yasgui"), {
  requestConfig: { endpoint: "%s/sparql" }, copyEndpointOnNewTab: false, persistencyExpire: 0 });</script>"""


class Files(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/":
            return super().do_GET()
        body = (PAGE % server).encode()
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Browser:
    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000"]
        capabilities = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}}
        session = self.request("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})["sessionId"]
        self.base += f"/session/{session}"

    def request(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"content-type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as e:
            raise RuntimeError(f"{method} {path}: {e.read().decode()}") from e

    def run(self, script):
        return self.request("POST", "/execute/sync", {"script": script, "args": []})

    def find(self, selector):
        found = self.request("POST", "/elements", {"using": "css selector", "value": selector})
        return [e[ELEMENT] for e in found]

    def text(self, element):
        return self.request("GET", f"/element/{element}/text")

    def wait_for(self, description, read):
        for _ in range(6000):
            value = read()
            if value:
                return value
            time.sleep(0.1)
        raise SystemExit(f"{description}: not on the page within ten minutes; the page has: {self.run('return document.body.innerText')[:2000]}")


def insert(text):
    request = urllib.request.Request(server + "/sparql", text.encode(), {"content-type": "application/sparql-update"})
    urllib.request.urlopen(request).close()


files = http.server.ThreadingHTTPServer(("127.0.0.1", int(port_of_page)), functools.partial(Files, directory=folder))
threading.Thread(target=files.serve_forever, daemon=True).start()
origin = f"http://127.0.0.1:{files.server_port}"
insert("INSERT DATA { <http://example.org/y> <http://example.org/name> 'from the server', 42, 'sieben'@de }")

driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
try:
    for line in driver.stdout:
        if "started successfully on port" in line:
            port = line.rstrip(".\n").rsplit(" ", 1)[1]
            break
    else:
        sys.exit("chromedriver did not start")
    browser = Browser(port)
    try:
        browser.request("POST", "/url", {"url": origin})
        browser.wait_for("the editor", lambda: browser.find(".CodeMirror"))
        # The query is typed; the editor closes brackets automatically, so that typed closing brackets overwrite them.
        browser.run("const e = yasgui.getTab().getYasqe(); e.setValue(''); e.focus()")
        query = "SELECT ?n WHERE { <http://example.org/y> ?p ?n } ORDER BY STR(?n)"
        area = browser.find(".CodeMirror textarea")[0]
        browser.request("POST", f"/element/{area}/value", {"text": query})
        typed = browser.run("return yasgui.getTab().getYasqe().getValue()")
        if "?n" not in typed or "example.org/y" not in typed:
            sys.exit(f"the editor has {typed!r}")
        browser.run("yasgui.getTab().getYasqe().setValue(%s)" % json.dumps(query))
        browser.request("POST", f"/element/{browser.find('.yasqe_queryButton')[0]}/click", {})
        cells = ".yasr_results table tbody tr"
        rows = browser.wait_for("the table", lambda: [t for t in map(browser.text, browser.find(cells)) if t])
        table = " ".join(rows)
        for word in ("from the server", "42", "sieben"):
            if word not in table:
                sys.exit(f"the table lacks {word!r}: {rows}")
        # The page must show the server's message for a malformed query, which is set without the editor's own parser.
        browser.run("const e = yasgui.getTab().getYasqe(); e.setValue('SELECT ?n { ?s ?p '); e.query()")
        browser.wait_for("the position of the error", lambda: "line 1, column" in browser.run("return document.body.innerText"))
        # A page of another origin may send a query with these headers.
        answer = browser.run(
            "const r = new XMLHttpRequest(); r.open('POST', '%s/sparql', false);"
            "r.setRequestHeader('content-type', 'application/sparql-query');"
            "r.setRequestHeader('accept', 'application/sparql-results+json');"
            "r.send('ASK {}'); return [r.status, location.origin, JSON.parse(r.responseText).boolean]" % server
        )
        if answer != [200, origin, True]:
            sys.exit(f"a request from another origin: {answer}")
    finally:
        browser.request("DELETE", "")
finally:
    driver.terminate()
    driver.wait()
print("YASGUI in Chromium works, from another origin")
