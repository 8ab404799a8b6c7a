"""The file system."""

from __future__ import annotations

import datetime
import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

from .tier import Tier

# What stands before a path: as sftp://ann@host:22, or file:// with nothing after it.
ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
NUMBERS = ("uid", "gid", "links")

Info = dict[str, Any]


class EskerSiteFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Metadata of one origin's files, as a tier of Esker's site cache tells it.

    Parameters
    ----------
    via: address of the tier; else the environment's ESKER_VIA, else http://127.0.0.1:7500
    origin: SCHEME://[USER@]HOST[:PORT], as sftp://data.example.org
    max_age: how old answers may be, in seconds; None leaves it to the tier
    stale_if_error: whether an old answer is taken where there is no other
    timeout: seconds that an answer may take
    """

    protocol = "esker-site"
    root_marker = "/"

    def __init__(
        self,
        via: str | None = None,
        origin: str | None = None,
        max_age: float | None = None,
        stale_if_error: bool = False,
        timeout: float = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not origin:
            raise ValueError(
                "which origin? fsspec.filesystem('esker-site', origin='sftp://HOST'), or the URL esker-site://sftp://HOST/PATH"
            )
        found = ORIGIN.match(origin)
        if not found or origin[found.end() :].strip("/"):
            raise ValueError(f"`{origin}` is not an origin: expected SCHEME://[USER@]HOST[:PORT], without a path")
        self.origin = found.group()
        if max_age is not None and not 0 <= max_age < float("inf"):
            raise ValueError(f"max_age={max_age}: expected seconds, as in 2.5")
        self.max_age = max_age
        self.stale_if_error = stale_if_error
        url = via or os.environ.get("ESKER_VIA") or "http://127.0.0.1:7500"
        self.tier = Tier(url, timeout)
        self._wish: dict[str, str] = {}
        if max_age is not None:
            self._wish["max_age"] = format(max_age, "f")
        if stale_if_error:
            self._wish["stale_if_error"] = "true"

    # Names.

    @classmethod
    def _split(cls, path: str) -> tuple[str | None, str]:
        """The origin if the path names one, and what stands behind it."""
        text = str(path)
        if text.startswith("esker-site://"):
            text = text[len("esker-site://") :]
        found = ORIGIN.match(text)
        origin = found.group() if found else None
        below = text[found.end() :] if found else text
        return origin, "/" + "/".join(name for name in below.split("/") if name)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return cls._split(os.fspath(path))[1]

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        origin, _ = EskerSiteFileSystem._split(path)
        return {"origin": origin} if origin else {}

    def unstrip_protocol(self, name: str) -> str:
        return f"esker-site://{self.origin}{self._strip_protocol(name)}"

    def _path(self, path: Any) -> str:
        origin, below = self._split(os.fspath(path))
        if origin is not None and origin != self.origin:
            raise ValueError(f"`{path}` is of {origin}, and this file system of {self.origin}")
        return below

    # Asking.

    def _ask(self, what: str, path: str, method: str = "GET", wish: dict[str, str] | None = None) -> dict[str, Any]:
        return self.tier.ask(method, what, self.origin, path, self._wish if wish is None else wish)

    def _info(self, name: str, said: dict[str, Any], answer: dict[str, Any]) -> Info:
        more = said.get("more", {})
        modified = said.get("modified_ns")
        mode = said.get("mode")
        info: Info = {
            "name": name,
            "type": said.get("kind", "unknown"),
            "size": said.get("size"),
            "islink": said.get("kind") == "link",
            "mtime": None if modified is None else modified / 1e9,
            "modified_ns": modified,
            "mode": mode,
            "age": answer["age"],
            "told": answer["told"],
            "hit": answer["hit"],
        }
        for field, value in more.items():
            # What is above is not another's to say.
            number = field in NUMBERS and value.isdecimal()
            info.setdefault(field, int(value) if number else value)
        if "target" in info:
            info["destination"] = info["target"]
        return info

    def info(self, path: str, **kwargs: Any) -> Info:
        """Attributes of a path; of a link itself."""
        path = self._path(path)
        answer = self._ask("stat", path)
        return self._info(path, answer, answer)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """What stands in a directory, or what is no directory itself, in the order of names."""
        path = self._path(path)
        answer = self._ask("list", path)
        if "children" not in answer:
            listed = [self._info(path, answer, answer)]
        else:
            above = "" if path == "/" else path
            listed = [self._info(f"{above}/{_name(child)}", child, answer) for child in answer["children"]]
        return listed if detail else [info["name"] for info in listed]

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: str | Callable[[OSError], Any] = "omit",
        **kwargs: Any,
    ) -> Iterator[tuple[str, Any, Any]]:
        """As fsspec's, but `omit` passes over what is gone, and over what is not shown below the path: whoever cannot be asked, or
        lets nobody in, is an error."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        detail = kwargs.pop("detail", False)
        waiting = [(self._path(path), 1)]
        below: list[tuple[str, Any, Any]] = []
        while waiting:
            here, depth = waiting.pop()
            try:
                listing = self.ls(here, detail=True)
            except OSError as error:
                passed = isinstance(error, FileNotFoundError) or (isinstance(error, PermissionError) and depth > 1)
                if on_error == "raise" or (on_error == "omit" and not passed):
                    raise
                if callable(on_error):
                    on_error(error)
                continue
            infos = {info["name"].rsplit("/", 1)[-1] if info["name"] != here else "": info for info in listing}
            found = {name: info for name, info in infos.items() if info["type"] == "directory" and name}
            others = {name: info for name, info in infos.items() if name not in found}
            dirs: Any = found if detail else list(found)
            files: Any = others if detail else list(others)
            if topdown:
                yield here, dirs, files
            else:
                below.append((here, dirs, files))
            if maxdepth is None or depth < maxdepth:
                # What the caller took out of `dirs` is not gone into.
                into = [found[name]["name"] for name in dirs if name in found]
                waiting.extend((one, depth + 1) for one in reversed(into))
        yield from reversed(below)

    def du(
        self, path: str, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **kwargs: Any
    ) -> int | dict[str, int]:
        """Bytes of files below a path, from listings alone. A size that the origin does not tell counts as 0."""
        path = self._path(path)
        sizes: dict[str, int] = {}
        own = self.info(path)
        if withdirs and own["type"] == "directory":
            sizes[path] = own["size"] or 0
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        sizes.update((name, info["size"] or 0) for name, info in found.items())
        return sum(sizes.values()) if total else sizes

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether there is something. A tier that cannot tell raises."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def lexists(self, path: str, **kwargs: Any) -> bool:
        return self.exists(path)

    def _is(self, path: str, kind: str) -> bool:
        try:
            return bool(self.info(path)["type"] == kind)
        except FileNotFoundError:
            return False

    def isdir(self, path: str) -> bool:
        return self._is(path, "directory")

    def isfile(self, path: str) -> bool:
        return self._is(path, "file")

    def modified(self, path: str) -> datetime.datetime:
        """When its content changed last."""
        nanoseconds = self.info(path)["modified_ns"]
        if nanoseconds is None:
            raise NotImplementedError(f"{self.origin} does not tell when {self._path(path)} was changed")
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return epoch + datetime.timedelta(microseconds=nanoseconds // 1000)

    def ukey(self, path: str) -> str:
        """The same as long as the file seems the same."""
        info = self.info(path)
        seems = (self.origin, info["name"], info["type"], info["size"], info["modified_ns"])
        return hashlib.sha256(repr(seems).encode("utf-8", "surrogateescape")).hexdigest()

    def checksum(self, path: str) -> int:
        return int(self.ukey(path), 16)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Lets the tier, and those around it, forget a path. There is no cache in this process, so without a path nothing is done."""
        if path is not None:
            self._ask("invalidate", self._path(path), method="POST", wish={})

    def explain(self, path: str) -> dict[str, Any]:
        """What the tier keeps of a path, and why."""
        return self._ask("explain", self._path(path), wish={})

    # What cannot be done.

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"a site cache has no contents of files: open {self.origin}{self._path(path)} with its own protocol"
        )

    def open(self, path: str, mode: str = "rb", **kwargs: Any) -> NoReturn:
        self._open(path, mode)

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> NoReturn:
        self._open(path)

    def get_file(self, rpath: str, *args: Any, **kwargs: Any) -> NoReturn:
        self._open(rpath)

    def created(self, path: str) -> NoReturn:
        raise NotImplementedError("origins do not tell when files were made; modified() is when they were changed")

    def sign(self, path: str, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("a site cache provides no links to contents")

    def _read_only(self, path: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
        name = path if isinstance(path, str) else None
        raise OSError(errno.EROFS, "a site cache is read only: change files with the origin's own protocol", name)

    mkdir = makedirs = rmdir = rm = rm_file = _rm = delete = touch = _read_only
    cp_file = copy = mv = move = rename = put = put_file = upload = pipe = pipe_file = write_text = write_bytes = _read_only
    mkdirs = makedir = cp = start_transaction = _read_only


def _name(child: dict[str, Any]) -> str:
    """A name, of whatever bytes."""
    if "name_url" in child:
        return unquote_to_bytes(child["name_url"]).decode("utf-8", "surrogateescape")
    return str(child["name"])
