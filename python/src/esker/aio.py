"""The calls of :mod:`esker` for ``asyncio``: each runs in a thread, so that the event loop continues meanwhile.

>>> async with await esker.aio.open("lab.esker") as db:
...     found = await db.find("variable = 'tas'")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from . import Database as _Sync
from . import open as _open
from ._database import Change

__all__ = ["Database", "open"]


class Database:
    """A :class:`esker.Database` whose methods are awaited."""

    def __init__(self, db: _Sync) -> None:
        self._db = db

    @property
    def sync(self) -> _Sync:
        """The synchronous database."""
        return self._db

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(_Sync, name, None)
        if name.startswith("_") or not callable(method):
            raise AttributeError(f"esker.aio.Database has no method {name!r}")

        async def call(*args: Any, **named: Any) -> Any:
            return await asyncio.to_thread(method, self._db, *args, **named)

        return call

    async def watch(self, *, period: float = 0.2, timeout: float | None = None) -> AsyncIterator[Change]:
        """Iterates over changes like :meth:`esker.Database.watch`."""
        changes = await asyncio.to_thread(self._db.watch, period=period, timeout=timeout)
        while (change := await asyncio.to_thread(next, changes, None)) is not None:
            yield change

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._db.close)


async def open(target: str, **options: Any) -> Database:
    """Opens a database like :func:`esker.open`."""
    return Database(await asyncio.to_thread(lambda: _open(target, **options)))
