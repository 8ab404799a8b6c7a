"""Tables: results of searches, scans and queries."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx
    import pandas
    import polars
    import pyarrow

    from ._esker import Columns

__all__ = ["Table"]

_SHOWN = 20
_CHUNK = 4096


class Table:
    """Rows in Arrow columns. Iteration yields a dict for each row.

    Consumers of Arrow's PyCapsule interface read it without a copy: ``polars.DataFrame(t)``,
    ``pyarrow.table(t)``, ``duckdb.from_arrow(t.to_arrow())``.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._columns.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._columns.names

    @property
    def types(self) -> dict[str, str]:
        """Arrow types by column."""
        return dict(zip(self._columns.names, self._columns.types, strict=True))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self), len(self.columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self.columns
        for start in range(0, len(self), _CHUNK):
            for row in self._columns.rows(start, _CHUNK):
                yield dict(zip(names, row, strict=True))

    def __getitem__(self, name: str) -> list[Any]:
        """Returns the values of a column."""
        at = self.columns.index(name)
        return [row[at] for row in self._columns.rows(0, len(self))]

    def first(self) -> dict[str, Any] | None:
        """Returns the first row, or ``None``."""
        return next(iter(self), None)

    def to_polars(self) -> polars.DataFrame:
        """Returns a polars frame over the same memory (needs polars)."""
        import polars

        return polars.DataFrame(self)

    def to_arrow(self) -> pyarrow.Table:
        """Returns a pyarrow table over the same memory (needs pyarrow 14 or newer)."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a pandas frame (needs pandas and pyarrow)."""
        return self.to_arrow().to_pandas()

    def _text(self) -> list[list[str]]:
        rows = self._columns.rows(0, _SHOWN)
        return [["" if cell is None else str(cell) for cell in row] for row in rows]

    def __repr__(self) -> str:
        rows = [self.columns, *self._text()]
        widths = [min(40, max(len(row[i]) for row in rows)) for i in range(len(self.columns))]
        lines = [
            "  ".join(
                f"{cell[:width]:<{width}}" for cell, width in zip(row, widths, strict=True)
            ).rstrip()
            for row in rows
        ]
        count, columns = self.shape
        return "\n".join([*lines, f"({count} rows, {columns} columns)"])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._text()
        )
        count, columns = self.shape
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{count} rows, {columns} columns</p>"
        )


def to_networkx(edges: Table, vertices: Table | None = None) -> networkx.MultiDiGraph:
    """Returns a directed networkx graph of a table of edges, and optionally one of vertices."""
    import networkx

    graph = networkx.MultiDiGraph()
    for row in vertices or ():
        name = row.pop("id")
        graph.add_node(name, **{k: v for k, v in row.items() if v is not None})
    for row in edges:
        ends, kind = (row.pop("source"), row.pop("destination")), row.pop("type")
        present = {k: v for k, v in row.items() if v is not None}
        graph.add_edge(*ends, key=kind, type=kind, **present)
    return graph


def to_igraph(edges: Table, vertices: Table | None = None) -> Any:
    """Returns a directed igraph graph; names are in the vertex attribute ``name``."""
    import igraph

    rows = list(edges)
    attributes = {row["id"]: row for row in vertices or ()}
    for row in rows:
        attributes.setdefault(row["source"], {})
        attributes.setdefault(row["destination"], {})
    names = list(attributes)
    indexes = {name: i for i, name in enumerate(names)}
    graph = igraph.Graph(directed=True)
    graph.add_vertices(len(names), {"name": names, "type": [attributes[n].get("type") for n in names]})
    ends = [(indexes[r["source"]], indexes[r["destination"]]) for r in rows]
    graph.add_edges(ends, {"type": [r["type"] for r in rows]})
    return graph
