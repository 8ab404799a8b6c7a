"""Spans in a file of the collector: lines of OTLP in its JSON form."""

from __future__ import annotations

import json
import pathlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

INTERNAL, SERVER, CLIENT = 1, 2, 3
ERROR = 2
"""Status of a span whose operation failed."""


@dataclass(frozen=True)
class Span:
    """A span with the resource that sent it."""

    trace: str
    id: str
    parent: str
    """Id of the parent; empty for the root of a trace."""
    name: str
    kind: int
    start: int
    end: int
    """Nanoseconds since 1970."""
    status: int
    attributes: dict[str, object]
    resource: dict[str, object]
    more: str
    """The complete span as JSON, with events and links."""

    @property
    def instance(self) -> object:
        """The process that made the span."""
        return self.resource.get("service.instance.id")

    def __str__(self) -> str:
        kind = {INTERNAL: "internal", SERVER: "server", CLIENT: "client"}.get(self.kind, str(self.kind))
        return f"`{self.name}` ({kind}, {self.trace}/{self.id}, parent {self.parent or 'none'}, {self.attributes})"


def attributes_of(listed: list[dict]) -> dict[str, object]:
    """Converts OTLP's list of keys and typed values; 64-bit numbers are text there."""
    values = {}
    for entry in listed:
        ((kind, value),) = entry["value"].items() or [("stringValue", "")]
        values[entry["key"]] = int(value) if kind == "intValue" else value
    return values


def read(file: pathlib.Path) -> Iterator[Span]:
    """Reads all spans of a file. The collector may be writing the last line, which is then incomplete and left out."""
    text = file.read_text() if file.exists() else ""
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            return
        for sent in json.loads(line)["resourceSpans"]:
            resource = attributes_of(sent.get("resource", {}).get("attributes", []))
            for scope in sent["scopeSpans"]:
                for span in scope["spans"]:
                    yield Span(
                        trace=span["traceId"],
                        id=span["spanId"],
                        parent=span.get("parentSpanId", ""),
                        name=span["name"],
                        kind=span.get("kind", 0),
                        start=int(span["startTimeUnixNano"]),
                        end=int(span["endTimeUnixNano"]),
                        status=span.get("status", {}).get("code", 0),
                        attributes=attributes_of(span.get("attributes", [])),
                        resource=resource,
                        more=json.dumps(span),
                    )


class Traces:
    """The spans of a file, by trace, id and parent."""

    def __init__(self, file: pathlib.Path) -> None:
        self.file = file
        self.spans = list(read(file))
        self.by_id = {(span.trace, span.id): span for span in self.spans}
        self.by_parent: dict[tuple[str, str], list[Span]] = defaultdict(list)
        self.by_trace: dict[str, list[Span]] = defaultdict(list)
        for span in self.spans:
            self.by_parent[span.trace, span.parent].append(span)
            self.by_trace[span.trace].append(span)

    def children(self, span: Span) -> list[Span]:
        return self.by_parent[span.trace, span.id]

    def parent(self, span: Span) -> Span | None:
        return self.by_id.get((span.trace, span.parent))

    def ancestors(self, span: Span) -> list[Span]:
        """Returns the parent of a span, its parent and so on; a cycle ends the list."""
        found: list[Span] = []
        while (above := self.parent(span)) and above not in found:
            found.append(above)
            span = above
        return found
