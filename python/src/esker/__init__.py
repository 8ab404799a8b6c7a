"""Esker: a versioned property graph for the metadata of scientific computing.

>>> import esker
>>> with esker.open("lab.esker", create=True) as db:
...     db.link("job:1", "write", "file:/data/clean.nc", bytes=4096)
...     print(db.lineage("file:/data/clean.nc"))
"""

from __future__ import annotations

from typing import Any

from ._database import (
    Batch,
    Change,
    Commit,
    Database,
    Event,
    Inserted,
    Lineage,
    UserImpact,
    Vertex,
)
from ._esker import VERSION as __version__
from ._esker import Core as _Core
from ._run import Run, run
from ._table import Table
from ._times import Version
from .errors import (
    BusyError,
    CorruptError,
    EskerError,
    InUseError,
    InvalidError,
    MissingError,
    StorageError,
    UnavailableError,
    UndecidedError,
)

__all__ = [
    "Batch",
    "BusyError",
    "Change",
    "Commit",
    "CorruptError",
    "Database",
    "EskerError",
    "Event",
    "InUseError",
    "Inserted",
    "InvalidError",
    "Lineage",
    "MissingError",
    "Run",
    "StorageError",
    "Table",
    "UnavailableError",
    "UndecidedError",
    "UserImpact",
    "Version",
    "Vertex",
    "__version__",
    "open",
    "run",
]


def load_ipython_extension(shell: Any) -> None:
    """Implements ``%load_ext esker``; see :mod:`esker.magics`."""
    from .magics import EskerMagics

    shell.register_magics(EskerMagics(shell))


def open(target: str, *, create: bool = False, durability: str = "relaxed", memory: int | None = None) -> Database:
    """Opens a database.

    Args:
        target: a folder, or ``esker://host:port``. If another process has the folder open, this one attaches to it.
        create: whether to create the folder if it does not exist.
        durability: ``relaxed`` (a commit survives the end of the process, and is on disk within 100 ms, as for the command
            ``esker``) or ``sync`` (it is on disk when the call returns, and so survives a power failure).
        memory: maximum size of the caches in bytes.

    Raises:
        InvalidError: there is no database, or this version cannot open it.
        UnavailableError: the server or the owner does not answer.
    """
    import os

    return Database(_Core.open(os.fspath(target), create, durability, memory))
