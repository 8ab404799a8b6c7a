"""Traversals: chains put together in Python, and what they find."""

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
    raise InvalidError(f"a {type(value).__name__} is no argument of a chain")


class Found:
    """What a traversal found. Iterating gives the names of the last working set, or with ``return_fp()`` the paths."""

    def __init__(self, found: Travelled) -> None:
        self._found = found

    @property
    def complete(self) -> bool:
        """Whether everything was followed to its end."""
        return self._found.complete

    @property
    def stopped(self) -> list[tuple[str, int, int]]:
        """Where not: reason, step, vertices that were not followed."""
        return self._found.stopped

    @property
    def sets(self) -> list[list[str]]:
        """Names, one list for each ``rtn()``, or the last working set."""
        return [names for _, names in self._found.sets()]

    @property
    def names(self) -> list[str]:
        """The last working set."""
        sets = self.sets
        return sets[-1] if sets else []

    def paths(self, limit: int = 10_000) -> list[list[str]]:
        """Whole paths as names and edge types in turns, at most ``limit``; needs ``return_fp()``."""
        if not self._found.has_paths:
            raise InvalidError("no paths were asked for: end the chain with return_fp()")
        return self._found.paths(limit)

    def profile(self) -> list[dict[str, Any]]:
        """What each hop did; times in microseconds."""
        return self._found.profile()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.paths() if self._found.has_paths else self.names)

    def __len__(self) -> int:
        return len(self.paths() if self._found.has_paths else self.names)

    def __repr__(self) -> str:
        what = "paths" if self._found.has_paths else "vertices"
        return f"<esker.Found: {len(self)} {what}{'' if self.complete else ', not complete'}>"


class Travel:
    """A chain that grows by calls and runs at :meth:`run`, or when it is iterated.

    The calls are those of the chain's text (``docs/book`` has them all); each gives a new chain.

    >>> db.travel().v("file:/C").e("wasWrittenBy").v().e("read").repeat().return_fp()
    """

    def __init__(self, db: Database, text: str = "", *, on_edges: bool = False) -> None:
        self._db = db
        self._text = text
        self._on_edges = on_edges

    def _call(self, name: str, *args: Any, **named: Any) -> Travel:
        parts = [_argument(a) for a in args]
        parts += [f"{k}={_argument(v)}" for k, v in named.items() if v is not None]
        return self._and(name, f"{name}({', '.join(parts)})")

    def _and(self, name: str, call: str) -> Travel:
        on_edges = {"e": True, "v": False}.get(name, self._on_edges)
        text = f"{self._text}.{call}" if self._text else call
        return Travel(self._db, text, on_edges=on_edges)

    def v(self, *names: Name, type: str | None = None) -> Travel:
        """Starts from vertices, or from all of a type; behind :meth:`e`, the vertices that it leads to."""
        return self._call("v", *(name_of(self._db._core, name) for name in names), type=type)

    def e(self, *types: str) -> Travel:
        """Follows edges of these types; of all types if none is given."""
        return self._call("e", *types)

    def where(self, condition: str) -> Travel:
        """Keeps vertices (behind :meth:`v`) or edges (behind :meth:`e`) that fulfil a filter, as in
        ``where("energy > 3 AND note LIKE 'run%'")``."""
        return self._call("ea" if self._on_edges else "va", condition)

    def va(self, *args: Any) -> Travel:
        """A condition on vertices: a filter, or ``va("size", "RANGE", 1, None)`` with EQ, IN or RANGE."""
        return self._filter("va", args)

    def ea(self, *args: Any) -> Travel:
        """The same on edges."""
        return self._filter("ea", args)

    def _filter(self, name: str, args: tuple[Any, ...]) -> Travel:
        if len(args) > 1 and str(args[1]).upper() in ("EQ", "IN", "RANGE"):
            rest = ", ".join(_argument(a) for a in args[2:])
            call = f"{name}({_argument(args[0])}, {str(args[1]).upper()}, {rest})"
            return self._and(name, call)
        return self._call(name, *args)

    def rtn(self) -> Travel:
        """This working set is returned."""
        return self._call("rtn")

    def repeat(self, max: int | None = None) -> Travel:
        """Goes through the hops so far again until nothing new is reached, ``max`` times in all."""
        return self._call("repeat", max=max)

    def return_fp(self) -> Travel:
        """Whole paths are returned."""
        return self._call("return_fp")

    def as_of(self, when: Time) -> Travel:
        """Sees the graph as it was then."""
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
        """Runs the chain where the data is.

        Args:
            steps: hops at most, counted through repeats.
            edges: edges to look at, at most.
            memory: bytes of working sets and paths, at most.
            millis: milliseconds, at most.

        Raises:
            InvalidError: the chain is malformed; the message has a caret under the place.
        """
        return Found(self._db._core.travel(self._text, steps, edges, memory, millis))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.run())

    def paths(self, limit: int = 10_000) -> list[list[str]]:
        """Runs the chain; whole paths."""
        return self.run().paths(limit)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Travel({self._text!r})"
