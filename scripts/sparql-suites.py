#!/usr/bin/env python3
"""Runs the W3C's SPARQL suites through the HTTP endpoint of a server.

    scripts/sparql-suites.py RDF-TESTS
    scripts/sparql-suites.py RDF-TESTS --only sparql11/property-path/

RDF-TESTS is a copy of github.com/w3c/rdf-tests. The script serves it by HTTP, and starts the command $ESKER_BIN with `--allow-load` for these files, so
that each test's data come by LOAD. Queries are sent for JSON, XML and TSV. For SERVICE, further servers have the data of the named endpoints. The
protocols' own suites are in crates/server/tests/it, rewritten for a server.

The exit code is 1 if a test fails that is not in the list of misses, or if a test of the list passes.
"""

from __future__ import annotations

import argparse
import collections
import functools
import http.server
import os
import re
import signal
import sys
import threading
import urllib.parse
from pathlib import Path

import pyoxigraph as ox
from sparql_check.compare import LEXICAL, EQUAL, compare
from sparql_check.engines import QUADS, Answer, Esker, answer_of_json, term_of_rdf

ROOT = Path(__file__).resolve().parent.parent
MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
QT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
UT = "http://www.w3.org/2009/sparql/tests/test-update#"
RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SD = "http://www.w3.org/ns/sparql-service-description#"
MANIFESTS = [
    "sparql/sparql10/manifest-evaluation.ttl",
    "sparql/sparql10/manifest-syntax.ttl",
    "sparql/sparql11/manifest-all.ttl",
    "sparql/sparql12/manifest.ttl",
]
NOT_RUN = {
    "/protocol/": "crates/server/tests/it/sparql.rs has these tests",
    "/graph-store-protocol/": "crates/server/tests/it/sparql_graphs.rs has these tests",
    "/http-rdf-update/": "crates/server/tests/it/sparql_graphs.rs has these tests",
    "/service-description/": "crates/server/tests/it/sparql.rs has these tests",
}
MISSES = ROOT / "crates/rdf/tests/it/w3c_misses.rs"
"""The list of misses that the tests of the crate have, too."""


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves the suites with the media types of their formats."""

    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".ttl": "text/turtle",
        ".trig": "application/trig",
        ".nt": "application/n-triples",
        ".nq": "application/n-quads",
        ".rdf": "application/rdf+xml",
        ".n3": "text/turtle",
    }
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass


class Graph:
    """A graph in memory."""

    def __init__(self, quads) -> None:
        self.triples = collections.defaultdict(list)
        for quad in quads:
            self.triples[quad.subject, quad.predicate.value].append(quad.object)

    def all(self, subject, predicate: str) -> list:
        return self.triples.get((subject, predicate), [])

    def one(self, subject, predicate: str):
        return next(iter(self.all(subject, predicate)), None)

    def of_type(self, kind: str) -> list:
        return [s for (s, p), objects in self.triples.items() if p == RDF + "type" and any(getattr(o, "value", "") == kind for o in objects)]

    def list(self, head) -> list:
        items = []
        while (first := self.one(head, RDF + "first")) is not None:
            items.append(first)
            head = self.one(head, RDF + "rest")
        return items


class Failed(Exception):
    """A test that failed, with the reason."""


class Suites:
    def __init__(self, folder: Path, program: str, only: str) -> None:
        handler = functools.partial(Files, directory=str(folder))
        self.files = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.files.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{self.files.server_address[1]}/"
        self.folder, self.only = folder, only
        # The last server is the one under test; each may use those that were started before.
        servers: list[Esker] = []
        for _ in range(3):
            allowed = [text for other in servers for text in ("--allow-service", f"http://{other.address}/")]
            servers.append(Esker(program, "--allow-load", self.base, *allowed))
        self.esker, *self.endpoints = reversed(servers)
        self.inference = "none"
        self.outcomes: dict[str, str | None] = {}
        self.skipped: collections.Counter[str] = collections.Counter()

    def close(self) -> None:
        for server in (self.esker, *self.endpoints):
            server.close()
        self.files.shutdown()

    # Files

    def path(self, url: str) -> Path:
        return self.folder / urllib.parse.unquote(url.removeprefix(self.base))

    def text(self, url: str) -> str:
        return self.path(url).read_bytes().decode()

    def graph(self, url: str) -> Graph:
        ending = url.rsplit(".", 1)[-1]
        rdf_format = {"rdf": ox.RdfFormat.RDF_XML, "nt": ox.RdfFormat.N_TRIPLES}.get(ending, ox.RdfFormat.TURTLE)
        return Graph(ox.parse(self.path(url).read_bytes(), format=rdf_format, base_iri=url))

    # Manifests

    def manifest(self, url: str) -> None:
        graph = self.graph(url)
        me = graph.of_type(MF + "Manifest")[0]
        for part in graph.list(graph.one(me, MF + "include")):
            self.manifest(part.value)
        folder = url.removeprefix(self.base + "sparql/").rsplit("/", 1)[0] + "/"
        for test in graph.list(graph.one(me, MF + "entries")):
            name = folder + re.split(r"[#/]", test.value)[-1]
            why = next((why for part, why in NOT_RUN.items() if part in name), None)
            if why:
                self.skipped[f"{name.split('/')[0]}: {why}"] += 1
            elif self.only in name and name not in self.outcomes:
                try:
                    self.test(graph, test)
                    self.outcomes[name] = None
                except Failed as e:
                    self.outcomes[name] = str(e)

    def test(self, graph: Graph, test) -> None:
        kind = graph.one(test, RDF + "type").value.rsplit("#", 1)[-1]
        action = graph.one(test, MF + "action")
        if match := re.fullmatch(r"(Positive|Negative)(Update)?SyntaxTest(11)?", kind):
            self.syntax(action.value, bool(match[2]), match[1] == "Positive")
        elif kind in ("QueryEvaluationTest", "CSVResultFormatTest"):
            self.query(graph, test, action)
        elif kind == "UpdateEvaluationTest":
            self.update(graph, test, action)
        else:
            raise Failed(f"no kind of test is {kind}")

    def syntax(self, url: str, is_update: bool, positive: bool) -> None:
        """Sends a request to be parsed: a query is explained, not run; an update runs on empty data."""
        self.clear()
        if is_update:
            status, _, body = self.send("application/sparql-update", "*/*", self.request(url))
        else:
            status, _, body = self.esker.send("application/sparql-query", "*/*", self.request(url), "/sparql?explain=true")
        # An update that is parsed may fail for what it names: LOAD of other servers, CREATE and MOVE of graphs.
        parsed = status == 200 or bool(re.match(rb"(LOAD|CREATE|MOVE|SERVICE|INSERT DATA: graph) ", body))
        if parsed != positive:
            raise Failed(f"status {status}: {body.decode()}")

    def request(self, url: str) -> str:
        return f"BASE <{url}>\n{self.text(url)}"

    # Evaluation

    def send(self, content_type: str, accept: str, text: str) -> tuple[int, str, bytes]:
        return self.esker.send(content_type, accept, text)

    def clear(self) -> None:
        self.change(self.esker, "CLEAR ALL")
        self.infer("none")

    def change(self, server: Esker, text: str) -> None:
        status, _, body = server.send("application/sparql-update", "*/*", text)
        if status != 200:
            raise Failed(f"{text}: status {status}: {body.decode()}")

    def load(self, url: str, name: str | None, server: Esker | None = None) -> None:
        self.change(server or self.esker, f"LOAD <{url}>" + (f" INTO GRAPH <{name}>" if name else ""))

    def query(self, graph: Graph, test, action) -> None:
        self.clear()
        if isinstance(action, ox.NamedNode):
            url = action.value
        else:
            url = graph.one(action, QT + "query").value
            for data in graph.all(action, QT + "data"):
                self.load(data.value, None)
            for data in graph.all(action, QT + "graphData"):
                name = data.value if isinstance(data, ox.NamedNode) else graph.one(data, QT + "graph").value
                self.load(name, name)
        text = self.request(url)
        for _, name in re.findall(r"\bFROM\s+(NAMED\s+)?<([^>]*)>", text, re.IGNORECASE):
            named = urllib.parse.urljoin(url, name)
            self.load(named, named)
        names: dict[str, str] = {}
        text = self.with_endpoints(graph, action, text, names)
        if rules := self.rules(graph, action):
            self.infer(rules)
        expected = graph.one(test, MF + "result").value
        ending = expected.rsplit(".", 1)[-1]
        if ending == "csv":
            status, _, body = self.send("application/sparql-query", "text/csv", text)
            lines = [sorted(part.decode().split("\r\n" if b"\r\n" in part else "\n")) for part in (body, self.path(expected).read_bytes())]
            if status != 200 or (lines[0] != lines[1] and "_:" not in str(lines[1])):
                raise Failed(f"{lines[0]} instead of {lines[1]}")
            return
        accepts = ["application/sparql-results+json", "application/sparql-results+xml", "text/tab-separated-values"]
        if re.search(r"^\s*CONSTRUCT", re.sub(r"#.*", "", text), re.IGNORECASE | re.MULTILINE):
            accepts = ["application/n-triples", "text/turtle"]
        wanted = self.expected(expected)
        for accept in accepts:
            status, content_type, body = self.send("application/sparql-query", accept, text)
            if status != 200:
                raise Failed(f"status {status}: {body.decode()}")
            if accept == "text/tab-separated-values" and wanted[0] == "boolean":
                continue
            for address, name in names.items():
                body = body.replace(address.encode(), name.encode())
            self.same(answer_of(content_type.split(";")[0], body), wanted, accept)

    def with_endpoints(self, graph: Graph, action, text: str, names: dict[str, str]) -> str:
        """Loads the data of other endpoints into further servers, and names these servers in a query. `names` gets the original names."""
        described = graph.all(action, QT + "serviceData") if not isinstance(action, ox.NamedNode) else []
        for server, service in zip(self.endpoints, described, strict=False):
            self.change(server, "CLEAR ALL")
            for data in graph.all(service, QT + "data"):
                self.load(data.value, None, server)
            name, address = graph.one(service, QT + "endpoint").value, f"http://{server.address}/sparql"
            text, names[address] = text.replace(name, address), name
            # The data may name endpoints, too.
            for pattern in ("<{}> ?p ?o", "?s ?p <{}>"):
                old, new = pattern.format(name), pattern.format(address)
                self.change(self.esker, f"DELETE {{ {old} }} INSERT {{ {new} }} WHERE {{ {old} }}")
        return text

    def rules(self, graph: Graph, action) -> str | None:
        """Returns the smallest rule set that a test's list of entailment regimes allows."""
        regimes = graph.all(action, SD + "entailmentRegime") if not isinstance(action, ox.NamedNode) else []
        names = {getattr(regime, "value", "").rsplit("/", 1)[-1] for head in regimes for regime in [head, *graph.list(head)]}
        if not regimes:
            return None
        return "rdfs" if names & {"RDF", "RDFS", "D"} else "owl-rl"

    def infer(self, rules: str) -> None:
        """Sets the rules of inference by a load of nothing."""
        if rules == self.inference:
            return
        status, _, body = self.esker.send("application/octet-stream", "*/*", "", f"/api/v1/rdf/load?infer={rules}")
        if status != 200:
            raise Failed(f"inference: status {status}: {body.decode()}")
        self.inference = rules

    def update(self, graph: Graph, test, action) -> None:
        self.dataset(graph, graph.one(test, MF + "result"))
        wanted = self.esker.query(QUADS)
        self.clear()
        self.dataset(graph, action)
        url = graph.one(action, UT + "request").value
        status, _, body = self.send("application/sparql-update", "*/*", self.request(url))
        if status != 200:
            raise Failed(f"status {status}: {body.decode()}")
        self.same(self.esker.query(QUADS), wanted, "the dataset")

    def dataset(self, graph: Graph, at) -> None:
        self.clear()
        for data in graph.all(at, UT + "data"):
            self.load(data.value, None)
        for data in graph.all(at, UT + "graphData"):
            self.load(graph.one(data, UT + "graph").value, graph.one(data, RDFS + "label").value)

    def same(self, ours: Answer, wanted: Answer, what: str) -> None:
        # SPARQL 1.1 defines no lexical forms of computed numbers, and the suites expect several for one value.
        if compare(ours, wanted) not in (EQUAL, LEXICAL):
            raise Failed(f"{what}: {ours} instead of {wanted}")

    def expected(self, url: str) -> Answer:
        formats = {"srx": "application/sparql-results+xml", "srj": "application/sparql-results+json", "tsv": "text/tab-separated-values"}
        kind = formats.get(url.rsplit(".", 1)[-1])
        if kind:
            return answer_of(kind, self.path(url).read_bytes())
        graph = self.graph(url)
        sets = graph.of_type(RS + "ResultSet")
        if not sets:
            return triples(self.path(url).read_bytes(), url)
        if (truth := graph.one(sets[0], RS + "boolean")) is not None:
            return ("boolean", truth.value == "true")
        rows = []
        for solution in graph.all(sets[0], RS + "solution"):
            bindings = graph.all(solution, RS + "binding")
            pairs = ((graph.one(b, RS + "variable").value, term_of_rdf(graph.one(b, RS + "value"))) for b in bindings)
            rows.append(tuple(sorted(pairs)))
        return ("rows", rows)


def triples(body: bytes, base: str) -> Answer:
    rdf_format = {"rdf": ox.RdfFormat.RDF_XML, "nt": ox.RdfFormat.N_TRIPLES}.get(base.rsplit(".", 1)[-1], ox.RdfFormat.TURTLE)
    quads = ox.parse(body, format=rdf_format, base_iri=base)
    return ("rows", list({tuple((n, term_of_rdf(t)) for n, t in zip("ops", (q.object, q.predicate, q.subject), strict=True)) for q in quads}))


def answer_of(content_type: str, body: bytes) -> Answer:
    if content_type in ("application/n-triples", "text/turtle"):
        return triples(body, "http://none.test/x.ttl")
    if content_type.endswith("json"):
        return answer_of_json(body)
    results = ox.parse_query_results(body, format=ox.QueryResultsFormat.from_media_type(content_type))
    if isinstance(results, ox.QueryBoolean):
        return ("boolean", bool(results))
    names = [variable.value for variable in results.variables]
    rows = [[(name, solution[name]) for name in names if solution[name] is not None] for solution in results]
    return ("rows", [tuple(sorted((name, term_of_rdf(term)) for name, term in row)) for row in rows])


def misses() -> list[str]:
    """Returns the ends of the names of tests that are expected to fail."""
    text = MISSES.read_text()
    ends = re.findall(r'"(sparql1\d/[^"]+)",\n', text)
    lists = text.split("const NOT_INFERRED")[1].split("];\n")[0]
    return ends + [f"/entailment/{name}" for name in re.findall(r'"([\w-]+)"', lists)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="copy of github.com/w3c/rdf-tests")
    parser.add_argument("--only", default="", help="part of the names of the tests that are run")
    options = parser.parse_args()
    program = os.environ.get("ESKER_BIN") or str(Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "debug/esker")
    suites = Suites(options.folder.resolve(), program, options.only)
    try:
        for manifest in MANIFESTS:
            suites.manifest(suites.base + manifest)
    finally:
        suites.close()
    known = tuple(misses())
    counts = collections.defaultdict(collections.Counter)
    unexpected = 0
    for name, why in suites.outcomes.items():
        miss = name.endswith(known)
        group = "entailment" if "/entailment/" in name else name.split("/")[0]
        counts[group]["passed" if why is None else "missed"] += 1
        if (why is None) == miss:
            unexpected += 1
            print(f"{name}: {why or 'passes, and is listed as a miss'}"[:1500])
    for suite, count in counts.items():
        print(f"{suite}: {count['passed']} of {count.total()}")
    for why, count in suites.skipped.items():
        print(f"{count} tests not run of {why}")
    print(f"{unexpected} unexpected outcomes")
    return 1 if unexpected else 0


if __name__ == "__main__":
    # The servers end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
