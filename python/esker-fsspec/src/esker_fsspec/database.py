"""The namespace of a database as a file system: names and attributes, and files without contents."""

from __future__ import annotations

import contextlib
import datetime
import errno
import io
import os
import stat as modes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import esker  # type: ignore[import-not-found]

Info = dict[str, Any]

# What parts a database's folder from a path in it.
WITHIN = "!/"


def _raised(error: Exception, path: str) -> NoReturn:
    """The engine's errors as those that programs expect of files."""
    from esker import InvalidError, MissingError, StorageError, UnavailableError

    text = str(error)
    if isinstance(error, MissingError):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    if isinstance(error, InvalidError):
        for words, kind in [
            (("exists",), FileExistsError),
            (("is not empty", "not empty"), OSError),
            (("no directory", "is not a directory", "not a directory"), NotADirectoryError),
            (("is a directory",), IsADirectoryError),
        ]:
            if any(word in text for word in words):
                raise kind(text) from error
        raise ValueError(text) from error
    if isinstance(error, (UnavailableError, StorageError)):
        raise OSError(errno.EIO, text, path) from error
    raise error


@contextlib.contextmanager
def _asked(path: str) -> Iterator[None]:
    from esker import EskerError

    try:
        yield
    except EskerError as e:
        _raised(e, path)


class EskerFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files of a database's namespace.

    URLs are ``esker://HOST:PORT/dir/file`` of a server, and ``esker:///scratch/lab.esker!/dir/file`` of a folder.

    Names and attributes are all there is here: contents of files are read and written by a mount (``esker mount``), which has the data folders. Files
    that are empty can be made, copied, read and written.

    Parameters
    ----------
    target: a folder, or ``esker://HOST:PORT``; else the environment's ESKER_TARGET
    create: makes the folder if it is not there
    db: an ``esker.Database`` that is open already, in the place of a target
    auto_mkdir: whether directories above a new file are made, too
    """

    protocol = "esker"
    root_marker = "/"

    def __init__(
        self,
        target: str | None = None,
        create: bool = False,
        db: esker.Database | None = None,
        auto_mkdir: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.auto_mkdir = auto_mkdir
        if db is None:
            where = target or os.environ.get("ESKER_TARGET")
            if not where:
                raise ValueError(
                    "which database? fsspec.filesystem('esker', target='lab.esker'), or the URL esker://HOST:PORT/PATH"
                )
            import esker

            with _asked(where):
                db = esker.open(where, create=create)
        self.db = db

    # Names.

    @classmethod
    def _split(cls, url: str) -> tuple[str | None, str]:
        """The database, if the URL names one, and the path in it."""
        text = os.fspath(url)
        if not text.startswith("esker://"):
            return None, text
        rest = text[len("esker://") :]
        if rest.startswith("/"):
            folder, found, path = rest.partition(WITHIN)
            if not found:
                folder = folder[:-1] if folder.endswith("!") else folder
            return folder, path
        host, _, path = rest.partition("/")
        return (f"esker://{host}" if host else None), path

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        _, text = cls._split(path)
        parts = [part for part in text.split("/") if part not in ("", ".")]
        return "/" + "/".join(parts)

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, Any]:
        target, _ = cls._split(path)
        return {"target": target} if target else {}

    def unstrip_protocol(self, name: str) -> str:
        path, target = self._strip_protocol(name), self.db.target
        return f"{target}{path}" if target.startswith("esker://") else f"esker://{os.path.abspath(target)}{WITHIN}{path[1:]}"

    # Reading.

    def _entry(self, path: str) -> Info:
        with _asked(path):
            told = self.db.stat(path)
        is_dir = told["is_dir"]
        kind = "directory" if is_dir else "link" if modes.S_ISLNK(told["mode"]) else "file"
        return {
            "name": path,
            "type": kind,
            "size": 0 if is_dir else told["size"],
            "mode": told["mode"],
            "uid": told["uid"],
            "gid": told["gid"],
            "nlink": told["links"],
            "mtime": told["mtime_ns"] / 1e9,
            "atime": told["atime_ns"] / 1e9,
            "version": told["version"],
        }

    def info(self, path: str, **_: Any) -> Info:
        return self._entry(self._strip_protocol(path))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        entry = self._entry(path)
        if entry["type"] != "directory":
            return [entry] if detail else [path]
        with _asked(path):
            names = self.db.listdir(path)
        paths = [f"{path.rstrip('/')}/{name}" for name in names]
        if not detail:
            return paths
        entries = []
        for below in paths:
            # What goes away meanwhile is not there.
            with contextlib.suppress(FileNotFoundError):
                entries.append(self._entry(below))
        return entries

    def modified(self, path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    # Changing.

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if create_parents:
            self.makedirs(self._parent(path), exist_ok=True)
        with _asked(path):
            self.db.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if self.isdir(path):
            if not exist_ok:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            return
        self.makedirs(self._parent(path), exist_ok=True)
        try:
            with _asked(path):
                self.db.mkdir(path)
        except FileExistsError:
            # Somebody else may have made it.
            if not self.isdir(path):
                raise

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if not self.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        with _asked(path):
            self.db.remove(path)

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        with _asked(path):
            self.db.remove(path)

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for one in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            self.rm_file(one)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **_: Any) -> None:
        """Renames: the file keeps its vertex, its tags and its lineage."""
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(new):
            new = f"{new.rstrip('/')}/{old.rsplit('/', 1)[-1]}"
        with _asked(old):
            self.db.rename(old, new)

    mv_file = mv

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if not self.exists(path):
            parent = self._parent(path)
            if self.auto_mkdir and not self.isdir(parent):
                self.makedirs(parent, exist_ok=True)
            with _asked(path):
                self.db.create(path)
        elif truncate and self.info(path)["size"]:
            self._no_contents(path)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(old):
            self.makedirs(new, exist_ok=True)
        else:
            self._made(new, self._size(old))

    def put_file(self, lpath: str, rpath: str, callback: Any = None, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.makedirs(path, exist_ok=True)
        else:
            self._made(path, os.path.getsize(lpath))

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, outfile: Any = None, **_: Any) -> None:
        path = self._strip_protocol(rpath)
        if self.isdir(path):
            os.makedirs(lpath, exist_ok=True)
        elif self._size(path):
            self._no_contents(path)
        elif outfile is None and not hasattr(lpath, "write"):
            os.makedirs(os.path.dirname(lpath) or ".", exist_ok=True)
            open(lpath, "wb").close()

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        if self._size(path):
            self._no_contents(path)
        return b""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        if mode == "create" and self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._made(path, len(value))

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        if mode == "rb":
            return io.BytesIO(self.cat_file(path))
        if mode in ("wb", "xb"):
            return _Empty(self, path, exclusive=mode == "xb")
        raise ValueError(f"mode={mode!r}: expected rb, wb or xb")

    def _size(self, path: str) -> int:
        entry = self._entry(path)
        if entry["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return int(entry["size"])

    def _made(self, path: str, size: int) -> None:
        """A file of that size, which is none but for an empty one."""
        if size:
            self._no_contents(path)
        self.touch(path)

    def _no_contents(self, path: str) -> NoReturn:
        raise NotImplementedError(
            f"{path}: only names and attributes are here; contents are read and written below a mount (`esker mount {self.db.target} DIRECTORY --data DIR`)"
        )


class _Empty(io.BytesIO):
    """A file that is made when it is closed, if nothing was written."""

    def __init__(self, fs: EskerFileSystem, path: str, exclusive: bool) -> None:
        super().__init__()
        self._fs, self._path = fs, path
        if exclusive and fs.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def close(self) -> None:
        if not self.closed:
            size = len(self.getvalue())
            super().close()
            self._fs._made(self._path, size)
