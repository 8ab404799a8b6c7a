"""Names of vertices as users write them."""

from __future__ import annotations

import os
import re
from typing import Protocol

__all__ = ["Name", "name_of"]

Name = str | os.PathLike[str]
"""A name ``type:key``, or the path of a file."""

_TYPED = re.compile(r"[A-Za-z_][\w.-]*:")


class _Reader(Protocol):
    def get(self, name: str, when: str | None = None) -> object: ...


def name_of(core: _Reader, name: Name) -> str:
    """Returns a vertex's full name.

    A path denotes the file with that absolute path; so does ``file:PATH`` if no vertex has that name.
    """
    if isinstance(name, str) and _TYPED.match(name):
        if not name.startswith("file:") or name.startswith("file:/") or core.get(name) is not None:
            return name
        return "file:" + os.path.realpath(name[5:])
    return "file:" + os.path.realpath(os.fspath(name))
