"""Names of vertices as people write them."""

from __future__ import annotations

import os
import re
from typing import Protocol

__all__ = ["Name", "name_of"]

Name = str | os.PathLike[str]
"""``type:key``, or a path: that file."""

_TYPED = re.compile(r"[A-Za-z_][\w.-]*:")


class _Asks(Protocol):
    def get(self, name: str, when: str | None = None) -> object: ...


def name_of(core: _Asks, name: Name) -> str:
    """A vertex's whole name. A path is a file, by its whole path; so is ``file:PATH`` where no vertex is called that."""
    if isinstance(name, str) and _TYPED.match(name):
        if not name.startswith("file:") or name.startswith("file:/") or core.get(name) is not None:
            return name
        return "file:" + os.path.realpath(name[5:])
    return "file:" + os.path.realpath(os.fspath(name))
