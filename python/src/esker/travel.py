"""Traversals composed in Python, and their results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ._names import Name, name_of
from ._times import Time, text_of
from .errors import InvalidError

if TYPE_CHECKING:
    from ._database import Database
    from ._esker import Travelled

__all__ = ["Found", "Travel"]


def _argument(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, datetime):
        return json.dumps(text_of(value))
    raise InvalidError(f"a {type(value).__name__} is not allowed as an argument of a chain")


class Found:
    """Result of a traversal. Iteration yields the names of the last working set, or with ``return_fp()`` the paths."""

    def __init__(self, found: Travelled) -> None:
        self._found = found

    @property
    def complete(self) -> bool:
        """Whether the result is complete."""
        return self._found.complete

    @property
    def stopped(self) -> list[tuple[str, int, int]]:
        """Steps that stopped early: reason, step, number of vertices that were not followed."""
        return self._found.stopped

    @property
    def sets(self) -> list[list[str]]:
        """Names of the working sets, one list for each ``rtn()``, or of the last one."""
        return [names for _, names in self._found.sets()]

    @property
    def names(self) -> list[str]:
        """Names of the last working set."""
        sets = self.sets
        return sets[-1] if sets else []

    def paths(self, limit: int = 10_000) -> list[list[str]]:
        """Returns at most ``limit`` complete paths, as names and edge types alternately; needs ``return_fp()``."""
        if not self._found.has_paths:
            raise InvalidError("the traversal has no paths: end the chain with return_fp()")
        return self._found.paths(limit)

    def profile(self) -> list[dict[str, Any]]:
        """Returns the profile of each hop; times in microseconds."""
        return self._found.profile()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.paths() if self._found.has_paths else self.names)

    def __len__(self) -> int:
        return len(self.paths() if self._found.has_paths else self.names)

    def __repr__(self) -> str:
        what = "paths" if self._found.has_paths else "vertices"
        return f"<esker.Found: {len(self)} {what}{'' if self.complete else ', not complete'}>"


class Travel:
    """A traversal that is extended by calls and runs at :meth:`run`, or when it is iterated.

    The calls are those of a traversal's text (see ``docs/book``); each returns a new traversal.

    >>> db.travel().v("file:/C").e("wasWrittenBy").v().e("read").repeat().return_fp()
    """

    def __init__(self, db: Database, text: str = "", *, on_edges: bool = False) -> None:
        self._db = db
        self._text = text
        self._on_edges = on_edges

    def _call(self, name: str, *args: Any, **named: Any) -> Travel:
        parts = [_argument(a) for a in args]
        parts += [f"{k}={_argument(v)}" for k, v in named.items() if v is not None]
        return self._append(name, f"{name}({', '.join(parts)})")

    def _append(self, name: str, call: str) -> Travel:
        on_edges = {"e": True, "v": False}.get(name, self._on_edges)
        text = f"{self._text}.{call}" if self._text else call
        return Travel(self._db, text, on_edges=on_edges)

    def v(self, *names: Name, type: str | None = None) -> Travel:
        """Starts from vertices, or from all of a type; after :meth:`e`, selects the vertices that the edges lead to."""
        return self._call("v", *(name_of(self._db._core, name) for name in names), type=type)

    def e(self, *types: str) -> Travel:
        """Follows edges of these types, or of all types."""
        return self._call("e", *types)

    def where(self, condition: str) -> Travel:
        """Keeps vertices (after :meth:`v`) or edges (after :meth:`e`) that match a filter, as in
        ``where("energy > 3 AND note LIKE 'run%'")``."""
        return self._call("ea" if self._on_edges else "va", condition)

    def va(self, *args: Any) -> Travel:
        """Keeps vertices that meet a condition: a filter, or ``va("size", "RANGE", 1, None)`` with EQ, IN or RANGE."""
        return self._filter("va", args)

    def ea(self, *args: Any) -> Travel:
        """Keeps edges that meet a condition, given as for :meth:`va`."""
        return self._filter("ea", args)

    def _filter(self, name: str, args: tuple[Any, ...]) -> Travel:
        if len(args) > 1 and str(args[1]).upper() in ("EQ", "IN", "RANGE"):
            rest = ", ".join(_argument(a) for a in args[2:])
            call = f"{name}({_argument(args[0])}, {str(args[1]).upper()}, {rest})"
            return self._append(name, call)
        return self._call(name, *args)

    def rtn(self) -> Travel:
        """Returns this working set."""
        return self._call("rtn")

    def repeat(self, max: int | None = None) -> Travel:
        """Repeats the hops so far until nothing new is reached, at most ``max`` times in all."""
        return self._call("repeat", max=max)

    def return_fp(self) -> Travel:
        """Returns complete paths."""
        return self._call("return_fp")

    def as_of(self, when: Time) -> Travel:
        """Traverses the graph as of a time."""
        return self._call("as_of", text_of(when))

    def limit(self, n: int) -> Travel:
        """Stops once the last working set has ``n`` vertices."""
        return self._call("limit", n)

    def run(
        self,
        *,
        steps: int | None = None,
        edges: int | None = None,
        memory: int | None = None,
        millis: int | None = None,
    ) -> Found:
        """Runs the traversal in the process that has the data.

        Args:
            steps: maximum number of hops, including repeats.
            edges: maximum number of edges examined.
            memory: maximum size of working sets and paths in bytes.
            millis: maximum time in milliseconds.

        Raises:
            InvalidError: the traversal is malformed; the message has a caret under the position.
        """
        return Found(self._db._core.travel(self._text, steps, edges, memory, millis))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.run())

    def paths(self, limit: int = 10_000) -> list[list[str]]:
        """Runs the traversal; returns at most ``limit`` complete paths."""
        return self.run().paths(limit)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Travel({self._text!r})"
