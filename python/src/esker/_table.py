"""Tables: results of searches, scans and queries."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, overload

if TYPE_CHECKING:
    import networkx
    import pandas
    import polars
    import pyarrow

__all__ = ["Columns", "Table"]

_SHOWN = 20
_CELL = 40
_CHUNK = 4096


class Columns(Protocol):
    """The columns of a table, whatever has their values."""

    @property
    def names(self) -> list[str]: ...
    @property
    def types(self) -> list[str]: ...
    def part(self, start: int, count: int, columns: Sequence[int]) -> Columns: ...
    def rows(self, start: int, count: int) -> list[tuple[Any, ...]]: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __len__(self) -> int: ...


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

    @overload
    def __getitem__(self, at: str) -> list[Any]: ...
    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice | tuple[str, ...] | list[str]) -> Table: ...
    def __getitem__(self, at: Any) -> Any:
        """Returns a part of the table.

        ``t["id"]`` is a column as a list. ``t["id", "size"]`` and ``t[2:10]`` are tables of some columns and rows over the
        same memory. ``t[0]`` and ``t[-1]`` are a row as a dict.

        Raises ``KeyError`` for a column and ``IndexError`` for a row that does not exist.
        """
        if isinstance(at, str):
            [number] = self._numbers([at])
            return [row[0] for row in self._columns.part(0, len(self), [number]).rows(0, len(self))]
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step != 1:
                raise ValueError("rows of a table are taken one after the other: for another step or order use .to_polars()")
            return Table(self._columns.part(start, max(0, stop - start), range(len(self.columns))))
        if isinstance(at, (tuple, list)):
            return Table(self._columns.part(0, len(self), self._numbers(at)))
        row = index(at)
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of a table with {len(self)} rows")
        [cells] = self._columns.rows(row % len(self), 1)
        return dict(zip(self.columns, cells, strict=True))

    def _numbers(self, names: Sequence[str]) -> list[int]:
        numbers = {name: number for number, name in enumerate(self.columns)}
        for name in names:
            if name not in numbers:
                raise KeyError(f"no column {name!r}; the table has {', '.join(self.columns)}")
        return [numbers[name] for name in names]

    def head(self, count: int = 5) -> Table:
        """Returns the first rows."""
        return self[: max(0, count)]

    def tail(self, count: int = 5) -> Table:
        """Returns the last rows."""
        return self[max(0, len(self) - count) :]

    def first(self) -> dict[str, Any] | None:
        """Returns the first row, or ``None``."""
        return next(iter(self), None)

    def sort_values(self, by: str | list[str], *, ascending: bool = True) -> Any:
        """Raises ``TypeError``: a table does not compute. Its message names the calls of polars and pandas that sort."""
        raise TypeError(
            f"a table does not sort: use t.to_polars().sort({by!r}, descending={not ascending}) or "
            f"t.to_pandas().sort_values({by!r}, ascending={ascending})"
        )

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
        widths = [min(_CELL, max(len(row[i]) for row in rows)) for i in range(len(self.columns))]
        lines = [
            "  ".join(
                f"{_cut(cell, width):<{width}}" for cell, width in zip(row, widths, strict=True)
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


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


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
