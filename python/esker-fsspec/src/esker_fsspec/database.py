"""The namespace of a database as a file system, with names and attributes but without contents of files."""

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

# Separates a database's folder from a path in its namespace.
WITHIN = "!/"


def _raise_as_os_error(error: Exception, path: str) -> NoReturn:
    """Raises an error of the engine as the exception that Python's file functions raise."""
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
def _os_errors(path: str) -> Iterator[None]:
    from esker import EskerError

    try:
        yield
    except EskerError as e:
        _raise_as_os_error(e, path)


class EskerFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files of a database's namespace.

    URLs are ``esker://HOST:PORT/dir/file`` of a server, and ``esker:///scratch/lab.esker!/dir/file`` of a folder.

    The file system has names and attributes only. Programs read and write contents of files through a mount (``esker mount``), which has the data
    folders. Empty files can be created, copied, read and written.

    Parameters
    ----------
    target: a folder, or ``esker://HOST:PORT``; default: the variable ESKER_TARGET
    create: whether to create the folder if it does not exist
    db: an open ``esker.Database``, instead of a target
    auto_mkdir: whether to create the directories above a new file
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

            with _os_errors(where):
                db = esker.open(where, create=create)
        self.db = db

    # -- names

    @classmethod
    def _split(cls, url: str) -> tuple[str | None, str]:
        """Splits a URL into the database, ``None`` if it names none, and the path in its namespace."""
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

    # -- reading

    def _entry(self, path: str) -> Info:
        with _os_errors(path):
            stat = self.db.stat(path)
        is_dir = stat["is_dir"]
        kind = "directory" if is_dir else "link" if modes.S_ISLNK(stat["mode"]) else "file"
        return {
            "name": path,
            "type": kind,
            "size": 0 if is_dir else stat["size"],
            "mode": stat["mode"],
            "uid": stat["uid"],
            "gid": stat["gid"],
            "nlink": stat["links"],
            "mtime": stat["mtime_ns"] / 1e9,
            "atime": stat["atime_ns"] / 1e9,
            "version": stat["version"],
        }

    def info(self, path: str, **_: Any) -> Info:
        return self._entry(self._strip_protocol(path))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        entry = self._entry(path)
        if entry["type"] != "directory":
            return [entry] if detail else [path]
        with _os_errors(path):
            names = self.db.listdir(path)
        paths = [f"{path.rstrip('/')}/{name}" for name in names]
        if not detail:
            return paths
        entries = []
        for below in paths:
            # A file may be removed after the directory was listed.
            with contextlib.suppress(FileNotFoundError):
                entries.append(self._entry(below))
        return entries

    def modified(self, path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    # -- changes

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if create_parents:
            self.makedirs(self._parent(path), exist_ok=True)
        with _os_errors(path):
            self.db.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if self.isdir(path):
            if not exist_ok:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            return
        self.makedirs(self._parent(path), exist_ok=True)
        try:
            with _os_errors(path):
                self.db.mkdir(path)
        except FileExistsError:
            # Another process may have created the directory.
            if not self.isdir(path):
                raise

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if not self.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        with _os_errors(path):
            self.db.remove(path)

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        with _os_errors(path):
            self.db.remove(path)

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for one in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            self.rm_file(one)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **_: Any) -> None:
        """Renames a file or directory, which keeps its vertex, its tags and its lineage."""
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(new):
            new = f"{new.rstrip('/')}/{old.rsplit('/', 1)[-1]}"
        with _os_errors(old):
            self.db.rename(old, new)

    mv_file = mv

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if not self.exists(path):
            parent = self._parent(path)
            if self.auto_mkdir and not self.isdir(parent):
                self.makedirs(parent, exist_ok=True)
            with _os_errors(path):
                self.db.create(path)
        elif truncate and self.info(path)["size"]:
            self._no_contents(path)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(old):
            self.makedirs(new, exist_ok=True)
        else:
            self._create_empty(new, self._size(old))

    def put_file(self, lpath: str, rpath: str, callback: Any = None, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.makedirs(path, exist_ok=True)
        else:
            self._create_empty(path, os.path.getsize(lpath))

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
        self._create_empty(path, len(value))

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        if mode == "rb":
            return io.BytesIO(self.cat_file(path))
        if mode in ("wb", "xb"):
            return _EmptyFile(self, path, exclusive=mode == "xb")
        raise ValueError(f"mode={mode!r}: expected rb, wb or xb")

    def _size(self, path: str) -> int:
        entry = self._entry(path)
        if entry["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return int(entry["size"])

    def _create_empty(self, path: str, size: int) -> None:
        """Creates a file if its size is 0; raises ``NotImplementedError`` for other sizes."""
        if size:
            self._no_contents(path)
        self.touch(path)

    def _no_contents(self, path: str) -> NoReturn:
        raise NotImplementedError(
            f"{path}: this file system has names and attributes only; read and write contents below a mount (`esker mount {self.db.target} DIRECTORY --data DIR`)"
        )


class _EmptyFile(io.BytesIO):
    """A file open for writing, which is created when it is closed; written bytes are an error."""

    def __init__(self, fs: EskerFileSystem, path: str, exclusive: bool) -> None:
        super().__init__()
        self._fs, self._path = fs, path
        if exclusive and fs.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def close(self) -> None:
        if not self.closed:
            size = len(self.getvalue())
            super().close()
            self._fs._create_empty(self._path, size)
