"""SPARQL over HTTP, for databases that another process has open."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ._esker import Core, ask
from .errors import InvalidError

__all__ = ["remote_load", "remote_query", "remote_update"]

_XSD = "http://www.w3.org/2001/XMLSchema#"
_WHOLE = {"integer", "int", "long", "short", "byte", "nonNegativeInteger", "unsignedInt", "unsignedLong"}
_REAL = {"double", "float", "decimal"}
_TRIPLE = re.compile(r"(\S+) (\S+) (.*) \.\s*$")
_TYPES = {
    ".ttl": "text/turtle",
    ".nt": "application/n-triples",
    ".rdf": "application/rdf+xml",
    ".jsonld": "application/ld+json",
}

Rows = tuple[list[str], list[tuple[Any, ...]]]


def _value(term: dict[str, str]) -> Any:
    """Converts a term: numbers and booleans as such, all others as text."""
    text = term["value"]
    kind = term.get("datatype", "").removeprefix(_XSD)
    try:
        if kind in _WHOLE:
            return int(text)
        if kind in _REAL:
            return float(text)
    except ValueError:
        return text
    if kind == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(text, text)
    return f"_:{text}" if term["type"] == "bnode" else text


def remote_query(core: Core, query: str) -> bool | Rows | None:
    """Runs a query; returns columns and rows, or a boolean; ``None`` if this process has the database open."""
    accept = "application/sparql-results+json, application/n-triples;q=0.9"
    headers = [("content-type", "application/sparql-query"), ("accept", accept)]
    try:
        answer = ask(core, "POST", "/sparql", headers, query.encode())
    except InvalidError as error:
        raise InvalidError(_message_of(str(error), "sparql_update")) from None
    if answer is None:
        return None
    kind, text = answer
    if kind.startswith("application/n-triples"):
        triples = [m.groups() for m in map(_TRIPLE.match, text.splitlines()) if m]
        return ["subject", "predicate", "object"], triples
    found = json.loads(text)
    if "boolean" in found:
        return bool(found["boolean"])
    names = found["head"]["vars"]
    return names, [tuple(_value(row[n]) if n in row else None for n in names) for row in found["results"]["bindings"]]


def remote_update(core: Core, update: str) -> tuple[int, int] | None:
    """Runs an update; returns the numbers of quads added and removed; ``None`` if this process has the database open."""
    try:
        answer = ask(core, "POST", "/sparql", [("content-type", "application/sparql-update")], update.encode())
    except InvalidError as error:
        raise InvalidError(_message_of(str(error), "sparql")) from None
    if answer is None:
        return None
    done = json.loads(answer[1])
    return done["added"], done["removed"]


def remote_load(core: Core, path: str | os.PathLike[str], graph: str | None) -> bool:
    """Adds a file to a graph; returns ``False`` if this process has the database open."""
    path = Path(path)
    packed = path.suffix == ".gz"
    kind = _TYPES.get(Path(path.stem if packed else path.name).suffix)
    if kind is None:
        raise InvalidError(f"`{path}`: expected one of {', '.join(_TYPES)}, perhaps followed by .gz")
    data = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    where = "default" if graph is None else f"graph={quote(graph, safe='')}"
    return ask(core, "POST", f"/rdf-graphs?{where}", [("content-type", kind)], data) is not None


def _message_of(text: str, other: str) -> str:
    """Returns the server's message, with a hint for this interface."""
    try:
        text = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        pass
    wrong_call = text.startswith(("this is an update", "this is a query"))
    return f"{text.split(',')[0]}: call {other}" if wrong_call else text

