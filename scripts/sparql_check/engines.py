"""Engines that answer requests: Esker over HTTP, Oxigraph in this process, Apache Jena in a process of its own."""

from __future__ import annotations

import http.client
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pyoxigraph

from .generate import PREFIXES, Case

QUADS = "SELECT ?g ?s ?p ?o { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
Term = tuple
"""Kind of a term and its parts: `("literal", lexical form, datatype, language)`, `("uri", IRI)`, `("bnode", label)`, `("triple", s, p, o)`."""
Answer = tuple[str, Any]
"""`("rows", list of rows)`, each row a sorted tuple of pairs of name and term; `("boolean", truth)`; `("error", message)`."""

XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"


def literal(text: str, datatype: str, language: str | None, direction: str | None) -> Term:
    if not language:
        return ("literal", text, datatype, "")
    return ("literal", text, LANG_STRING, language.lower() + (f"--{direction}" if direction else ""))


def term_of_json(term: dict) -> Term:
    kind = term["type"]
    if kind in ("literal", "typed-literal"):
        return literal(term["value"], term.get("datatype", XSD_STRING), term.get("xml:lang"), term.get("its:dir"))
    if kind == "triple":
        value = term["value"]
        return ("triple", *(term_of_json(value[part]) for part in ("subject", "predicate", "object")))
    return (kind, term["value"])


def answer_of_json(text: bytes) -> Answer:
    document = json.loads(text)
    if "boolean" in document:
        return ("boolean", document["boolean"])
    rows = document["results"]["bindings"]
    return ("rows", [tuple(sorted((name, term_of_json(term)) for name, term in row.items())) for row in rows])


def term_of_rdf(term: Any) -> Term:
    if isinstance(term, pyoxigraph.NamedNode):
        return ("uri", term.value)
    if isinstance(term, pyoxigraph.BlankNode):
        return ("bnode", term.value)
    if isinstance(term, pyoxigraph.Triple):
        return ("triple", *(term_of_rdf(part) for part in (term.subject, term.predicate, term.object)))
    return literal(term.value, term.datatype.value, term.language, term.direction and term.direction.value)


def answer_of_triples(text: bytes) -> Answer:
    """Reads N-Triples as rows without duplicates."""
    quads = pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.N_TRIPLES)
    rows = {tuple((name, term_of_rdf(term)) for name, term in zip("ops", (q.object, q.predicate, q.subject), strict=True)) for q in quads}
    return ("rows", list(rows))


class Esker:
    """`esker serve`, with a folder of its own."""

    name = "Esker"

    def __init__(self, program: str, *options: str) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        folder = Path(self.scratch.name)
        port = folder / "port"
        self.log = (folder / "log").open("wb")
        command = [program, "serve", "lab.esker", "--create", "--quiet", "--listen", "127.0.0.1:0", "--port-file", "port", *options]
        self.server = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        while not (port.exists() and port.read_text()):
            if self.server.poll() is not None:
                raise RuntimeError((folder / "log").read_text())
            time.sleep(0.02)
        self.address = port.read_text().strip()
        self.connection = http.client.HTTPConnection(self.address, timeout=300)

    def close(self) -> None:
        self.connection.close()
        self.server.terminate()
        self.server.wait()
        self.log.close()
        self.scratch.cleanup()

    def send(self, content_type: str, accept: str, text: str, path: str = "/sparql") -> tuple[int, str, bytes]:
        headers = {"content-type": content_type, "accept": accept}
        try:
            self.connection.request("POST", path, text.encode(), headers)
            response = self.connection.getresponse()
        except (ConnectionError, http.client.BadStatusLine):
            # The server closes connections that were idle.
            self.connection.close()
            self.connection.request("POST", path, text.encode(), headers)
            response = self.connection.getresponse()
        return response.status, response.getheader("content-type", ""), response.read()

    def load(self, case: Case) -> None:
        text = f"{PREFIXES} CLEAR ALL ; INSERT DATA {{ {case.data()} }}"
        status, _, body = self.send("application/sparql-update", "*/*", text)
        if status != 200:
            raise RuntimeError(body.decode())

    def query(self, text: str) -> Answer:
        accept = "application/sparql-results+json, application/n-triples"
        status, content_type, body = self.send("application/sparql-query", accept, text)
        if status >= 500:
            raise RuntimeError(f"status {status}: {body.decode()}")
        if status != 200:
            return ("error", body.decode())
        return answer_of_triples(body) if "n-triples" in content_type else answer_of_json(body)

    def update(self, text: str) -> Answer:
        status, _, body = self.send("application/sparql-update", "*/*", text)
        if status >= 500:
            raise RuntimeError(f"status {status}: {body.decode()}")
        return self.query(QUADS) if status == 200 else ("error", body.decode())


class Oxigraph:
    """Oxigraph in memory."""

    name = "Oxigraph"
    reads_rdf_12 = True

    def load(self, case: Case) -> None:
        self.store = pyoxigraph.Store()
        self.store.load(case.trig().encode(), format=pyoxigraph.RdfFormat.TRIG)

    def query(self, text: str) -> Answer:
        try:
            answer = self.store.query(text)
            if isinstance(answer, pyoxigraph.QueryTriples):
                return answer_of_triples(answer.serialize(format=pyoxigraph.RdfFormat.N_TRIPLES))
            return answer_of_json(answer.serialize(format=pyoxigraph.QueryResultsFormat.JSON))
        except (SyntaxError, ValueError, RuntimeError, OSError) as e:
            return ("error", str(e))

    def update(self, text: str) -> Answer:
        try:
            self.store.update(text)
        except (SyntaxError, ValueError, RuntimeError, OSError) as e:
            return ("error", str(e))
        return self.query(QUADS)

    def close(self) -> None:
        pass


class Jena:
    """Apache Jena's engine in memory, in a Java process that reads requests from its standard input."""

    name = "Jena"
    reads_rdf_12 = False
    """Jena 5.2 has triple terms of an earlier draft."""

    def __init__(self, jars: Path) -> None:
        program = Path(__file__).parent / "JenaCases.java"
        command = ["java", "-cp", f"{jars}/*", str(program)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def request(self, kind: str, text: str) -> tuple[str, bytes]:
        body = text.encode()
        self.process.stdin.write(f"{kind} {len(body)}\n".encode() + body)
        self.process.stdin.flush()
        head = self.process.stdout.readline().split()
        if len(head) != 2:
            raise RuntimeError("Jena's process ended")
        return head[0].decode(), self.process.stdout.read(int(head[1]))

    def load(self, case: Case) -> None:
        kind, body = self.request("load", case.trig())
        if kind == "error":
            raise RuntimeError(body.decode())

    def query(self, text: str) -> Answer:
        kind, body = self.request("query", text)
        if kind == "error":
            return ("error", body.decode())
        return answer_of_triples(body) if kind == "triples" else answer_of_json(body)

    def update(self, text: str) -> Answer:
        kind, body = self.request("update", text)
        return ("error", body.decode()) if kind == "error" else self.query(QUADS)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
