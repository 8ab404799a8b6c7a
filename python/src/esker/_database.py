"""Databases and their results."""

from __future__ import annotations

import html
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import _command
from ._esker import Core, Recording, Walk, ask, load_rdf
from ._names import Name, name_of
from ._picture import svg
from ._sparql import remote_load, remote_query, remote_update
from ._table import Table, to_igraph, to_networkx
from ._times import Time, Version, text_of
from .errors import InvalidError, MissingError, UnavailableError
from .travel import Found, Travel

if TYPE_CHECKING:
    import networkx

    from ._run import Run

__all__ = ["Batch", "Change", "Commit", "Database", "Event", "Inserted", "Lineage", "UserImpact", "Vertex"]


@dataclass(frozen=True)
class Vertex:
    """A vertex as of some time."""

    name: str
    type: str
    version: Version
    deleted: bool
    attributes: dict[str, Any]
    """Predefined attributes, which the schema declares for its type."""
    tags: dict[str, Any]
    """User-defined attributes."""

    def __getitem__(self, name: str) -> Any:
        """Returns an attribute or a tag; raises ``KeyError`` if the vertex has neither."""
        return self.attributes[name] if name in self.attributes else self.tags[name]


@dataclass(frozen=True)
class Event:
    """A change of a vertex or an edge."""

    version: Version
    what: str
    """``put``, ``set``, ``removed`` or ``deleted``."""
    value: Any
    """Inserted attributes, the ``(name, value)`` that was set, or the removed name; ``None`` for a deletion."""
    archived: bool


@dataclass(frozen=True)
class Commit:
    """Result of a commit."""

    version: Version
    vertices_created: int
    edges_created: int
    unchanged: int


@dataclass(frozen=True)
class Inserted:
    """Result of :meth:`Database.insert_many`."""

    vertices: int
    """Number of rows of the vertex table."""
    edges: int
    """Number of rows of the edge table."""
    vertices_created: int
    edges_created: int
    unchanged: int
    version: Version


@dataclass(frozen=True)
class UserImpact:
    """The part of an impact that belongs to one user."""

    user: str | None
    executions: list[str]
    files: list[str]
    bytes: int


@dataclass(frozen=True)
class Change:
    """Vertices and edges changed by commits."""

    vertices: list[str] = field(default_factory=list)
    edges: list[tuple[str, str, str]] = field(default_factory=list)
    missed: bool = False
    """Whether the feed no longer keeps some changes. A program that mirrors the database must then read it anew."""


class Lineage:
    """Lineage or impact of a vertex."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    @property
    def complete(self) -> bool:
        """Whether no limit stopped the traversal."""
        return self._walk.complete

    @property
    def stopped(self) -> list[tuple[str, int, list[str]]]:
        """Vertices at which it stopped: reason, level, names."""
        return self._walk.stopped

    @property
    def names(self) -> list[str]:
        """Names of the vertices found, the target first."""
        return self._walk.names()

    def paths(self, limit: int = 10_000) -> list[list[str]]:
        """Returns at most ``limit`` paths from the target to vertices without further lineage, as lists of names."""
        return self._walk.paths(limit)

    def by_user(self) -> list[UserImpact]:
        """Returns executions, files and bytes by the user who ran them, most files first."""
        return [UserImpact(*row) for row in self._walk.by_user()]

    def vertices(self) -> Table:
        """Returns the vertices: ``id type version deleted`` and a column for each attribute."""
        return Table(self._walk.vertices())

    def edges(self) -> Table:
        """Returns the edges: ``source type destination version concurrent properties`` (JSON)."""
        return Table(self._walk.edges())

    def to_networkx(self) -> networkx.MultiDiGraph:
        """Returns a networkx graph."""
        return to_networkx(self.edges(), self.vertices())

    def to_json(self) -> str:
        """Returns JSON, as ``esker lineage --format json`` prints it."""
        return self._walk.json()

    def to_dot(self) -> str:
        """Returns the graph in Graphviz's DOT language."""
        return self._walk.dot()

    def to_svg(self) -> str | None:
        """Returns a drawing with inputs on the left, or ``None`` if it would have more than 60 boxes."""
        return svg(self)

    def _repr_html_(self) -> str:
        tree = html.escape(str(self))
        return f'{self.to_svg() or ""}<pre style="line-height: 1.3">{tree}</pre>'

    def __len__(self) -> int:
        return len(self._walk)

    def __str__(self) -> str:
        return self._walk.tree()

    def __repr__(self) -> str:
        return self._walk.tree()


class Batch:
    """Changes that are collected and applied in one commit when the ``with`` block ends without an exception."""

    def __init__(self, apply: Callable[[list[tuple[Any, ...]]], Commit]) -> None:
        self._apply = apply
        self._ops: list[tuple[Any, ...]] = []
        self.commit: Commit | None = None
        """Result of the commit, after it."""

    def insert(self, name: str, attributes: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Adds a :meth:`Database.insert`."""
        self._ops.append(("put", name, {**(attributes or {}), **more}))

    def set(self, name: str, attributes: Mapping[str, Any] | None = None, /, *, remove: Sequence[str] = (), **more: Any) -> None:
        """Adds a :meth:`Database.set`."""
        self._ops.append(("set", name, {**(attributes or {}), **more}, list(remove)))

    def link(self, source: str, type: str, destination: str, properties: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Adds a :meth:`Database.link`."""
        self._ops.append(("link", source, type, destination, {**(properties or {}), **more}))

    def delete(self, name: str) -> None:
        """Adds a :meth:`Database.delete`."""
        self._ops.append(("delete", name))

    def unlink(self, source: str, type: str, destination: str) -> None:
        """Adds a :meth:`Database.unlink`."""
        self._ops.append(("unlink", source, type, destination))

    def __len__(self) -> int:
        return len(self._ops)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and self._ops:
            self.commit = self._apply(self._ops)


class Database:
    """An open database; see :func:`esker.open`. Close it with :meth:`close` or a ``with`` block.

    Methods may be called from several threads; each lets the others run while the engine works. Ctrl-C interrupts long calls.

    Vertices are named ``type:key``, as in ``file:/scratch/a.h5`` or ``job:4711``. A path (``"clean.nc"``, or a ``pathlib.Path``) as a
    name denotes the file with that absolute path, as runs record it. A time argument (``as_of=``) is a text
    (``"2026-03-01"``, ``"2026-03-01T12:00:00Z"``), a ``datetime`` with a time zone, a ``date`` (its end) or a
    :class:`Version`; the default is now.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    # -- the database itself

    @property
    def target(self) -> str:
        """The folder or address that was opened."""
        return self._core.target

    @property
    def role(self) -> str:
        """``owner``: this process has the folder open; ``attached``: it uses the owner's process; ``client``: it uses a server."""
        return self._core.role()

    def close(self) -> None:
        """Closes the database; further calls do nothing."""
        self._core.close()

    @property
    def closed(self) -> bool:
        """Whether the database was closed."""
        return self._core.closed

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.role
        return f"<esker.Database {self.target!r}, {state}>"

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"

    def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Returns exact counts of vertices and of edges by type; an inverse edge counts under its own type."""
        return self._core.counts()

    @property
    def vertex_types(self) -> dict[str, dict[str, str]]:
        """Vertex types with their declared attributes and kinds, without those of their parents."""
        return {name: dict(attributes) for name, _, attributes in self._core.schema()[0]}

    @property
    def edge_types(self) -> dict[str, tuple[str, str, str]]:
        """Edge types: inverse, type of the source, type of the destination."""
        return {name: (inverse, source, to) for name, inverse, source, to in self._core.schema()[1]}

    def define_vertex_type(self, name: str, *, parent: str | None = None, attributes: Mapping[str, str] | None = None) -> None:
        """Adds a vertex type. Kinds of attributes: bool, i64, f64, string, bytes, timestamp, list, any."""
        self._core.define_vertex_type(name, parent, list((attributes or {}).items()))

    def define_edge_type(self, name: str, *, inverse: str, source: str, destination: str) -> None:
        """Adds an edge type between two vertex types, with the name of its inverse."""
        self._core.define_edge_type(name, inverse, source, destination)

    # -- writing

    def _apply(self, ops: list[tuple[Any, ...]], when: Time = None) -> Commit:
        version, *rest = self._core.apply(ops, text_of(when))
        return Commit(Version(version), *rest)

    def insert(self, name: str, attributes: Mapping[str, Any] | None = None, /, *, at: Time = None, **more: Any) -> Commit:
        """Inserts a vertex, or a new version of it.

        Its predefined attributes (those that the schema declares for its type) become exactly these; others are set as
        tags, in addition to existing ones.

        Raises:
            InvalidError: an unknown type, a value of the wrong kind.
        """
        return self._apply([("put", name, {**(attributes or {}), **more})], at)

    def set(self, name: str, attributes: Mapping[str, Any] | None = None, /, *, remove: Sequence[str] = (), at: Time = None, **more: Any) -> Commit:
        """Sets and removes single attributes and tags of an existing vertex; the others are unchanged.

        Raises:
            MissingError: the vertex does not exist.
        """
        return self._apply([("set", name, {**(attributes or {}), **more}, list(remove))], at)

    def link(self, source: str, type: str, destination: str, properties: Mapping[str, Any] | None = None, /, *, at: Time = None, **more: Any) -> Commit:
        """Inserts an edge, or a new version of it, and its inverse; missing end vertices are created."""
        return self._apply([("link", source, type, destination, {**(properties or {}), **more})], at)

    def delete(self, name: str, *, at: Time = None) -> Commit:
        """Marks a vertex as deleted; its history and its edges remain."""
        return self._apply([("delete", name)], at)

    def unlink(self, source: str, type: str, destination: str, *, at: Time = None) -> Commit:
        """Marks an edge and its inverse as deleted."""
        return self._apply([("unlink", source, type, destination)], at)

    def batch(self, *, at: Time = None) -> Batch:
        """Returns a batch of changes that apply all or none.

        >>> with db.batch() as b:
        ...     b.insert("job:1"); b.link("job:1", "read", "file:/a")
        """
        return Batch(lambda ops: self._apply(ops, at))

    def insert_many(
        self,
        vertices: Any = None,
        edges: Any = None,
        *,
        edge_type: str | None = None,
        ensure: bool = True,
        rows: int = 10_000,
        progress: bool | Callable[[int, int], object] = False,
    ) -> Inserted:
        """Inserts tables of polars, pyarrow, pandas, DuckDB or any other source of Arrow data.

        Args:
            vertices: a column ``id`` (``type:key``), optionally ``version``; any other column is an attribute.
            edges: ``source``, ``destination`` (or ``src``, ``dst``), ``type``, optionally ``version``; any other column is a
                property. Null is no value.
            edge_type: the edge type for a table without a column ``type``.
            ensure: whether to create missing end vertices of edges.
            rows: rows per commit. After an error, the rows of earlier commits remain in the database.
            progress: called with (rows done, rows in all) after each commit; ``True`` prints a bar.

        Raises:
            InvalidError: a bad row or column; the message says which.
        """
        report = _print_progress if progress is True else (progress or None)
        done = self._core.insert_many(vertices, edges, rows, edge_type, ensure, report)
        return Inserted(*done[:5], Version(done[5]))

    # -- reading

    def get(self, name: Name, *, as_of: Time = None) -> Vertex | None:
        """Returns a vertex; ``None`` if it does not exist or is deleted."""
        found = self._core.get(name_of(self._core, name), text_of(as_of))
        if found is None or found[3]:
            return None
        whole, kind, version, deleted, attributes, tags = found
        return Vertex(whole, kind, Version(version), deleted, attributes, tags)

    def __contains__(self, name: Name) -> bool:
        return self.get(name) is not None

    def __getitem__(self, name: Name) -> Vertex:
        found = self.get(name)
        if found is None:
            raise MissingError(f"no vertex `{name}`")
        return found

    def edge(self, source: Name, type: str, destination: Name, *, as_of: Time = None) -> dict[str, Any] | None:
        """Returns the properties of an edge, or ``None``."""
        ends = name_of(self._core, source), name_of(self._core, destination)
        found = self._core.get_edge(ends[0], type, ends[1], text_of(as_of))
        return None if found is None else found[1]

    def scan(self, *names: Name, types: Sequence[str] = (), as_of: Time = None, limit: int | None = None) -> Table:
        """Returns the edges that leave vertices (inverse edges too), of these types or of all: ``source type destination version`` and
        a column for each property. Without names: all edges of the database, in the direction that the schema defines."""
        return Table(self._core.edges([name_of(self._core, n) for n in names] or None, list(types), text_of(as_of), limit))

    def vertices(self, type: str, *, where: str = "", as_of: Time = None, select: Sequence[str] | None = None, limit: int | None = None, deleted: bool = False) -> Table:
        """Returns the vertices of a type and its subtypes: ``id type version`` and a column for each attribute, or those of
        ``select``."""
        chosen = None if select is None else list(select)
        return Table(self._core.vertices(type, where, text_of(as_of), chosen, limit, deleted))

    def history(self, name: Name) -> list[Event]:
        """Returns all changes of a vertex, newest first.

        Raises:
            MissingError: the vertex never existed.
        """
        return [Event(Version(v), what, value, old) for v, what, value, old in self._core.history(name_of(self._core, name))]

    def edge_history(self, source: Name, type: str, destination: Name) -> list[Event]:
        """Returns all versions of an edge, newest first."""
        rows = self._core.edge_history(name_of(self._core, source), type, name_of(self._core, destination))
        return [Event(Version(v), "deleted" if deleted else "put", None if deleted else p, old) for v, deleted, p, old in rows]

    def find(self, filter: str = "", *, type: str = "Object", select: Sequence[str] | None = None, as_of: Time = None, limit: int | None = None, lenient: bool = False) -> Table:
        """Searches by attributes and tags.

        Args:
            filter: as in ``variable = 'tas' and level >= 2``; empty for all.
            type: type of the vertices; objects are found by their columns, other types by a scan.
            select: attributes to return; with it, a search of objects is about ten times as fast.
            as_of: time of their state (by a scan).
            limit: maximum number of rows.
            lenient: for objects, whether names that no object has and values of another kind than the attribute's are accepted.

        Raises:
            InvalidError: the filter is malformed (a caret shows where), names an attribute that no object has, or compares an attribute with a
                value of another kind.
        """
        chosen = None if select is None else list(select)
        if type.lower() == "object" and as_of is None:
            return Table(self._core.objects(filter, chosen, limit, lenient))
        return self.vertices(type, where=filter, as_of=as_of, select=select, limit=limit)

    def count(self, filter: str = "") -> int:
        """Returns the number of objects that match a filter."""
        return self._core.count_objects(filter)

    # -- queries

    def lineage(self, name: Name, *, as_of: Time = None, depth: int | None = None, max_vertices: int | None = None) -> Lineage:
        """Returns the lineage: the executions that wrote the vertex's version as of a time, the data that those read, and so on.

        Args:
            name: a data object or an execution; a path is a file.
            depth: maximum number of executions to go back.
            max_vertices: maximum number of vertices to find.

        Raises:
            MissingError: the vertex did not exist as of then.
        """
        return Lineage(self._core.walk(name_of(self._core, name), False, text_of(as_of), None, depth, max_vertices))

    def impact(self, name: Name, *, as_of: Time = None, since: Time = None, depth: int | None = None, max_vertices: int | None = None) -> Lineage:
        """Returns the impact of a data object, an execution, an executable or a user: the data derived from it, optionally since a time."""
        return Lineage(self._core.walk(name_of(self._core, name), True, text_of(as_of), text_of(since), depth, max_vertices))

    def diff(self, before: Time | Run, after: Time | Run = None, *, all: bool = False) -> Table:
        """Returns the differences between two times, or between two runs.

        Times: ``change kind id type destination before after``, the last two as JSON. Runs (:class:`~esker.Run`, ``"execution:…"``,
        the number of a job, ``"last"``, ``"last~1"``): ``part name change before after`` for settings, arguments, input files and
        their versions, modules, environment and so on, as ``esker diff`` prints; with ``all`` also equal rows, and those
        that differ between any two runs.

        Raises:
            InvalidError: a run does not exist.
        """
        sides: list[Any] = [getattr(side, "id", side) for side in (before, after)]
        first, second = sides
        if isinstance(first, str) and isinstance(second, str) and Recording.is_run(first) and Recording.is_run(second):
            rows = Recording.diff(self._core, first, second, all)[2]
            return Table(_Rows(["part", "name", "change", "before", "after"], rows))
        start = text_of(first)
        if start is None:
            raise InvalidError("expected a start time, or two runs")
        return Table(self._core.diff(start, text_of(second)))

    def travel(self, chain: str | None = None, **budget: int) -> Any:
        """Without an argument, returns a :class:`~esker.travel.Travel` to extend; with the text of a traversal
        (``'v("file:/C").e("wasWrittenBy").v()'``), its result. Budgets: see :meth:`~esker.travel.Travel.run`."""
        if chain is None:
            return Travel(self)
        return Found(self._core.travel(chain, **budget))

    def sparql(self, query: str) -> Any:
        """Runs a SPARQL query: returns a :class:`Table` for SELECT (numbers and booleans typed, all else text) and for CONSTRUCT and
        DESCRIBE (``subject predicate object``), a ``bool`` for ASK. A server evaluates queries of its data.

        Raises:
            InvalidError: the query is malformed, or is an update.
        """
        result = remote_query(self._core, query)
        if result is not None:
            return result if isinstance(result, bool) else Table(_Rows(*result))
        found = self._core.sparql(query)
        return found if isinstance(found, bool) else Table(found)

    def sparql_update(self, update: str) -> tuple[int, int]:
        """Runs a SPARQL update atomically; returns the numbers of quads added and removed."""
        return remote_update(self._core, update) or self._core.sparql_update(update)

    def load_rdf(self, path: str | os.PathLike[str], *, graph: str | None = None) -> None:
        """Adds the triples of a file, all or none: Turtle, N-Triples, RDF/XML or JSON-LD (``.ttl .nt .rdf .jsonld``), optionally compressed
        (``.gz``); a database in a folder also accepts N-Quads and TriG.

        Args:
            path: the file.
            graph: the IRI of the graph; the default graph if omitted.

        Raises:
            InvalidError: the file is malformed; the message has its line and column.
        """
        if not remote_load(self._core, path, graph):
            load_rdf(self._core, os.fspath(path), graph)

    # -- objects

    def create_object(self, name: str, *, app: str = "", owner: int | None = None, step: int = 0, tags: Mapping[str, Any] | None = None) -> str:
        """Creates an object with tags; returns its number as text.

        Raises:
            InvalidError: an object with the same name, app, owner and step exists.
        """
        uid = os.getuid() if owner is None else owner
        self._apply([("object", name, app, uid, step, dict(tags or {}))])
        found = self.find(
            f"name = {_quote(name)} and app = {_quote(app)} and owner = {uid} and step = {step}", select=["name"]
        )
        return str(found["id"][0])

    def tag(self, filter: str, tags: Mapping[str, Any] | None = None, *, remove: Sequence[str] = ()) -> int:
        """Tags all objects that match a filter; returns the number of changed objects."""
        return self._core.tag_where(filter, dict(tags or {}), list(remove))[1]

    # -- files

    def stat(self, path: str) -> dict[str, Any]:
        """Returns a file's attributes in the namespace: ``mode uid gid links size atime_ns mtime_ns version is_dir``; times in
        nanoseconds since 1970, sizes in bytes."""
        return self._core.stat(path)

    def listdir(self, path: str = "/") -> list[str]:
        """Returns the sorted names of a directory."""
        return self._core.listdir(path)

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        """Creates a directory."""
        self._core.make(path, True, mode)

    def create(self, path: str, mode: int = 0o644) -> None:
        """Creates an empty file."""
        self._core.make(path, False, mode)

    def remove(self, path: str) -> None:
        """Removes a file's name, or an empty directory."""
        self._core.remove(path)

    def rename(self, path: str, to: str) -> None:
        """Renames a file or directory; its vertex, tags and lineage are kept."""
        self._core.rename(path, to)

    # -- imports, exports and mounts: the command `esker`, whose options are keywords (`dry_run=True` is `--dry-run`)

    def import_darshan(self, *paths: str | os.PathLike[str], **options: Any) -> Any:
        """Imports Darshan logs, and folders of logs; a log that was imported before is skipped. Returns the report."""
        return _command.run(self, "import darshan", paths, options, report=True)

    def import_sacct(self, *files: str | os.PathLike[str], **options: Any) -> Any:
        """Imports Slurm's accounting, as ``sacct --json`` or ``sacct --parsable2`` prints it. Returns the report."""
        return _command.run(self, "import sacct", files, options, report=True)

    def import_openlineage(self, *files: str | os.PathLike[str], **options: Any) -> Any:
        """Imports OpenLineage events. Returns the report."""
        return _command.run(self, "import openlineage", files, options, report=True)

    def import_prov(self, *files: str | os.PathLike[str], **options: Any) -> Any:
        """Imports W3C PROV documents, or bags that have one. Returns the report."""
        return _command.run(self, "import prov", files, options, report=True)

    def import_tree(self, directory: str | os.PathLike[str], **options: Any) -> Any:
        """Imports the metadata of a directory tree of this machine into the namespace. Returns the report."""
        return _command.run(self, "import tree", [directory], options, report=True)

    def harvest(self, *paths: str | os.PathLike[str], **options: Any) -> Any:
        """Imports headers of FITS, HDF5, netCDF and Zarr files as tags. Returns the report."""
        return _command.run(self, "harvest", paths, options, report=True)

    def export_prov(self, file: str | os.PathLike[str], *names: Name, **options: Any) -> None:
        """Writes a W3C PROV document of some lineages, or of the whole graph; the file's ending chooses the encoding."""
        _command.run(self, "export prov", [file, *(name_of(self._core, name) for name in names)], options, report=False)

    def export_ro_crate(self, name: Name, folder: str | os.PathLike[str], **options: Any) -> None:
        """Writes the lineage of a file, an object or a run as a Workflow Run RO-Crate; ``files=True`` copies the files, too."""
        _command.run(self, "export ro-crate", [name_of(self._core, name), folder], options, report=False)

    def export_record(
        self,
        name: Name,
        file: str | os.PathLike[str] | None = None,
        *,
        standard: Literal["datacite", "schema-org", "croissant", "dcat"] = "datacite",
        fields: Mapping[str, str | Sequence[str]] | None = None,
        **options: Any,
    ) -> dict[str, Any] | None:
        """Describes an object, a file, a directory or the outputs of a run for a data catalogue; returns the record without a ``file``.

        ``fields`` give values instead of tags, such as ``{"title": "Run 7", "creator": ["Curie, Marie"]}``. ``checksums=True`` reads local
        files. A file that ends in ``.xml`` is DataCite's XML.
        """
        given = fields or {}
        pairs = [f"{field}={one}" for field, value in given.items() for one in ([value] if isinstance(value, str) else value)]
        operands = [name_of(self._core, name), "-" if file is None else file]
        record = _command.run(self, f"export {standard}", operands, {"set": pairs, **options}, report=False)
        return record if isinstance(record, dict) else None

    def mount(self, at: str | os.PathLike[str], **options: Any) -> AbstractContextManager[Path]:
        """Mounts the namespace as a file system for the time of a ``with`` block; ``data=`` is the folder of large files."""
        return _command.mounted(self, at, options)

    # -- graphs and changes

    def to_networkx(self, *, types: Sequence[str] = (), as_of: Time = None) -> networkx.MultiDiGraph:
        """Returns all edges (of these types) as a networkx graph."""
        return to_networkx(self.scan(types=types, as_of=as_of))

    def to_igraph(self, *, types: Sequence[str] = (), as_of: Time = None) -> Any:
        """Returns all edges (of these types) as an igraph graph."""
        return to_igraph(self.scan(types=types, as_of=as_of))

    def watch(self, *, period: float = 0.2, timeout: float | None = None) -> Iterator[Change]:
        """Iterates over the changes of commits from this call on; ends after ``timeout`` seconds without one.

        The owner of the folder or a server sends them; in a process attached to an owner that is no server, the call
        raises ``UnavailableError``. Commits within ``period`` seconds may be merged.
        """
        begun = self._news(None)
        if begun is None:
            raise UnavailableError("the change feed has stopped")
        return self._changes(begun[0], period, timeout)

    def _news(self, place: int | str | None) -> tuple[int | str, list[str], list[tuple[str, str, str]]] | None:
        """Returns the feed's position, and the changes since ``place``; ``None`` if they are no longer kept."""
        where = "" if place is None else f"?place={place}"
        response = ask(self._core, "GET", f"/api/v1/news{where}", [], b"")
        if response is None:
            return self._core.news(place if isinstance(place, int) else None)
        news = json.loads(response[1])
        return None if news["missed"] else (news["place"], news["vertices"], [tuple(edge) for edge in news["edges"]])

    def _changes(self, place: int | str, period: float, timeout: float | None) -> Iterator[Change]:
        last = time.monotonic()
        while True:
            news = self._news(place)
            if news is None:
                begun = self._news(None)
                place = begun[0] if begun else place
                yield Change(missed=True)
                last = time.monotonic()
            elif news[0] != place:
                place = news[0]
                if news[1] or news[2]:
                    yield Change(news[1], news[2])
                    last = time.monotonic()
            elif timeout is not None and time.monotonic() - last >= timeout:
                return
            else:
                time.sleep(period)


class _Rows:
    """Columns of rows of Python values."""

    def __init__(self, names: list[str], rows: Sequence[tuple[Any, ...]]) -> None:
        self.names = names
        self.types = [self._type({type(row[i]) for row in rows} - {type(None)}) for i in range(len(names))]
        self._rows = rows

    @staticmethod
    def _type(kinds: set[type]) -> str:
        if kinds == {int}:
            return "Int64"
        if kinds and kinds <= {int, float}:
            return "Float64"
        return "Boolean" if kinds == {bool} else "Utf8"

    def part(self, start: int, count: int, columns: Sequence[int]) -> _Rows:
        rows = [tuple(row[i] for i in columns) for row in self._rows[start : start + count]]
        part = _Rows([self.names[i] for i in columns], rows)
        # A part may lack the values that decide on the type.
        part.types = [self.types[i] for i in columns]
        return part

    def rows(self, start: int, count: int) -> list[tuple[Any, ...]]:
        return list(self._rows[start : start + count])

    def __len__(self) -> int:
        return len(self._rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import pyarrow

        arrow = {"Int64": pyarrow.int64(), "Float64": pyarrow.float64(), "Boolean": pyarrow.bool_(), "Utf8": pyarrow.string()}
        columns = {}
        for i, (name, kind) in enumerate(zip(self.names, self.types, strict=True)):
            values = [row[i] if kind != "Utf8" or row[i] is None else str(row[i]) for row in self._rows]
            columns[name] = pyarrow.array(values, arrow[kind])
        return pyarrow.table(columns).__arrow_c_stream__(requested_schema)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _print_progress(done: int, total: int) -> None:
    import sys

    width = 30
    full = width * done // max(total, 1)
    end = "\n" if done >= total else ""
    print(f"\r[{'#' * full}{' ' * (width - full)}] {done:,} of {total:,} rows", end=end, file=sys.stderr, flush=True)
