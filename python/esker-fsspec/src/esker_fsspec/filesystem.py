"""Remote files as a file system, through a tier of the site cache."""

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

# The part of a URL before the path, such as sftp://ann@host:22 or file://.
ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
NUMBERS = ("uid", "gid", "links")

Info = dict[str, Any]


class EskerSiteFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Metadata of one origin's files, read through a tier of Esker's site cache.

    Parameters
    ----------
    via: address of the tier; default: the variable ESKER_VIA, then http://127.0.0.1:7500
    origin: SCHEME://[USER@]HOST[:PORT], such as sftp://data.example.org
    max_age: greatest age of an answer in seconds; None for the tier's own limit
    stale_if_error: whether to accept an old answer if there is no other
    timeout: longest time for an answer in seconds
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
        self._parameters: dict[str, str] = {}
        if max_age is not None:
            self._parameters["max_age"] = format(max_age, "f")
        if stale_if_error:
            self._parameters["stale_if_error"] = "true"

    # -- names

    @classmethod
    def _split(cls, path: str) -> tuple[str | None, str]:
        """Splits a path into the origin, ``None`` if it names none, and the path on the origin."""
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
            raise ValueError(f"`{path}` belongs to {origin}, but this file system to {self.origin}")
        return below

    # -- reading

    def _request(self, what: str, path: str, method: str = "GET", parameters: dict[str, str] | None = None) -> dict[str, Any]:
        return self.tier.request(method, what, self.origin, path, self._parameters if parameters is None else parameters)

    def _info(self, name: str, entry: dict[str, Any], answer: dict[str, Any]) -> Info:
        more = entry.get("more", {})
        modified = entry.get("modified_ns")
        mode = entry.get("mode")
        info: Info = {
            "name": name,
            "type": entry.get("kind", "unknown"),
            "size": entry.get("size"),
            "islink": entry.get("kind") == "link",
            "mtime": None if modified is None else modified / 1e9,
            "modified_ns": modified,
            "mode": mode,
            "age": answer["age"],
            "subscribed": answer["subscribed"],
            "hit": answer["hit"],
        }
        for field, value in more.items():
            # Further attributes of an origin must not replace those above.
            number = field in NUMBERS and value.isdecimal()
            info.setdefault(field, int(value) if number else value)
        if "target" in info:
            info["destination"] = info["target"]
        return info

    def info(self, path: str, **kwargs: Any) -> Info:
        """Returns the attributes of a path. A link is not followed."""
        path = self._path(path)
        answer = self._request("stat", path)
        return self._info(path, answer, answer)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """Lists a directory in the order of names, or a path that is not a directory."""
        path = self._path(path)
        answer = self._request("list", path)
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
        """Walks like fsspec's ``walk``, but ``omit`` skips only removed directories and, below the start path, directories that the
        origin does not show. An unreachable tier or origin is an error."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        detail = kwargs.pop("detail", False)
        queue = [(self._path(path), 1)]
        below: list[tuple[str, Any, Any]] = []
        while queue:
            here, depth = queue.pop()
            try:
                listing = self.ls(here, detail=True)
            except OSError as error:
                skippable = isinstance(error, FileNotFoundError) or (isinstance(error, PermissionError) and depth > 1)
                if on_error == "raise" or (on_error == "omit" and not skippable):
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
                # The caller may remove directories from `dirs`, which are then not walked.
                into = [found[name]["name"] for name in dirs if name in found]
                queue.extend((one, depth + 1) for one in reversed(into))
        yield from reversed(below)

    def du(
        self, path: str, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **kwargs: Any
    ) -> int | dict[str, int]:
        """Returns the bytes of files below a path, from listings alone. An unknown size counts as 0."""
        path = self._path(path)
        sizes: dict[str, int] = {}
        own = self.info(path)
        if withdirs and own["type"] == "directory":
            sizes[path] = own["size"] or 0
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        sizes.update((name, info["size"] or 0) for name, info in found.items())
        return sum(sizes.values()) if total else sizes

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether the path exists. An unreachable tier or origin raises ``OSError``."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def lexists(self, path: str, **kwargs: Any) -> bool:
        return self.exists(path)

    def _has_type(self, path: str, kind: str) -> bool:
        try:
            return bool(self.info(path)["type"] == kind)
        except FileNotFoundError:
            return False

    def isdir(self, path: str) -> bool:
        return self._has_type(path, "directory")

    def isfile(self, path: str) -> bool:
        return self._has_type(path, "file")

    def modified(self, path: str) -> datetime.datetime:
        """Returns the time of the last change of the content."""
        nanoseconds = self.info(path)["modified_ns"]
        if nanoseconds is None:
            raise NotImplementedError(f"{self.origin} has no modification time of {self._path(path)}")
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return epoch + datetime.timedelta(microseconds=nanoseconds // 1000)

    def ukey(self, path: str) -> str:
        """Returns a digest of type, size and modification time of a file, which is equal as long as these are."""
        info = self.info(path)
        identity = (self.origin, info["name"], info["type"], info["size"], info["modified_ns"])
        return hashlib.sha256(repr(identity).encode("utf-8", "surrogateescape")).hexdigest()

    def checksum(self, path: str) -> int:
        return int(self.ukey(path), 16)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Invalidates a path in the tier and its neighbours. Without a path, the call does nothing, because this process has no cache."""
        if path is not None:
            self._request("invalidate", self._path(path), method="POST", parameters={})

    def explain(self, path: str) -> dict[str, Any]:
        """Returns the cached data of a path in the tier, with the reason."""
        return self._request("explain", self._path(path), parameters={})

    # -- operations that raise errors

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
        raise NotImplementedError("origins have no creation times of files; use modified()")

    def sign(self, path: str, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("a site cache provides no links to contents")

    def _read_only(self, path: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
        name = path if isinstance(path, str) else None
        raise OSError(errno.EROFS, "a site cache is read only: change files with the origin's own protocol", name)

    mkdir = makedirs = rmdir = rm = rm_file = _rm = delete = touch = _read_only
    cp_file = copy = mv = move = rename = put = put_file = upload = pipe = pipe_file = write_text = write_bytes = _read_only
    mkdirs = makedir = cp = start_transaction = _read_only


def _name(child: dict[str, Any]) -> str:
    """Decodes the name of a child, which may have bytes that are not UTF-8."""
    if "name_url" in child:
        return unquote_to_bytes(child["name_url"]).decode("utf-8", "surrogateescape")
    return str(child["name"])
