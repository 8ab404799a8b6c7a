"""Files that this process opens during a run: the basis of ``esker.run(…, observe=True)``.

Python reports each ``open`` to an audit hook, before the file is opened. Libraries that open files in C report nothing;
``_libraries`` wraps their calls. What is an input and an output follows the rules of ``esker run --trace`` (docs/book/runs.md).
"""

from __future__ import annotations

import functools
import os
import stat
import sys
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from ._esker import Recording

__all__ = ["FILES_MAX", "Observer", "is_observing", "observing", "opened", "safely"]

T = TypeVar("T")

FILES_MAX = 100_000
"""Maximum number of files that a run keeps; others are only counted."""

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/dev", "/run", "/var/cache")
"""Folders of system files, as in ``esker run --trace``."""

_CACHES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "IPYTHONDIR")
"""Variables with folders for caches and settings of libraries."""

_PARTS_OF_PROGRAMS = (".py", ".pyi", ".ttf", ".ttc", ".otf", ".afm", ".pfb")
"""Endings of files that programs read and that are no data: source of modules, fonts."""

_TICK = 20_000_000
"""Resolution of the kernel's clock for file times, in nanoseconds."""

_READ, _WRITTEN, _MADE = 1, 2, 4
"""States of a file: it is recorded as an input; the run wrote it; all its content is from the run."""

observing: ContextVar[Observer | Literal[False] | None] = ContextVar("esker_observing", default=None)
"""The observer of this context; ``False`` in a run that is not observed, ``None`` outside of runs."""
_active: tuple[Observer, ...] = ()
_lock = threading.RLock()
_hooked = False


def _absolute(folders: Iterable[str]) -> set[str]:
    """Returns the absolute paths of folders, with and without symbolic links."""
    return {path for folder in folders for path in (os.path.abspath(folder), os.path.realpath(folder))}


@functools.cache
def _fixed() -> set[str]:
    """Returns the folders of the system, of Python and of installed packages.

    The folder of a virtual environment may be that of the project, so only these folders inside it are Python's.
    """
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    inside = ("lib", "lib64", "bin", "include", "share", "etc", "fonts", "conda-meta")
    folders = {os.path.join(prefix, name) for prefix in prefixes for name in inside}
    paths = sysconfig.get_paths()
    return _absolute({*_SYSTEM, *folders, *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts"))})


class _Ignored:
    """The files that are no data of a run."""

    def __init__(self, more: Iterable[str | os.PathLike[str]]) -> None:
        caches = [os.environ[name] for name in _CACHES if os.environ.get(name)]
        folders = _fixed() | _absolute([*caches, *(os.fspath(folder) for folder in more)])
        self._folders = tuple(f"{folder}/" for folder in folders if folder != "/")
        home = os.path.realpath(os.path.expanduser("~"))
        hidden = f"{home}/." if os.path.isabs(home) and home != "/" else None
        # A run that was started below such a folder has its data there.
        self._hidden = None if hidden and os.path.realpath(os.getcwd()).startswith(hidden) else hidden

    def has(self, path: str, writes: bool) -> bool:
        """Whether a file is left out."""
        if path.endswith(".pyc") or "/__pycache__/" in path or (path.endswith(_PARTS_OF_PROGRAMS) and not writes):
            return True
        return path.startswith(self._folders) or (self._hidden is not None and path.startswith(self._hidden))


def _state(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _in_folder(path: str, fd: int) -> str:
    """Returns a path that is relative to an open folder; -1 stands for the current one."""
    return path if fd == -1 or os.path.isabs(path) else os.path.join(os.readlink(f"/proc/self/fd/{fd}"), path)


class Observer:
    """The files of one run."""

    def __init__(
        self,
        recording: Recording,
        declared: tuple[Container[str], Container[str]],
        ignore: Iterable[str | os.PathLike[str]],
        outer: Observer | Literal[False] | None,
    ) -> None:
        self.outer = outer
        self.ended = False
        self.left_out = 0
        self.unassigned = 0
        self.thread = threading.get_ident()
        self._declared_inputs, self._declared_outputs = declared
        self._recording = recording
        self._ignored = _Ignored(ignore)
        self._start = time.time_ns() - _TICK
        self._files: dict[str, int] = {}
        # The audit hook learns of a rename before it happens.
        self._renames: deque[tuple[str, str, tuple[int, int]]] = deque(maxlen=16)

    # -- the run

    def begin(self) -> None:
        """Adds the observer to the active ones."""
        global _active, _hooked
        from . import _libraries

        with _lock:
            if not _hooked:
                _hooked = True
                sys.addaudithook(_hook)
                _libraries.install()
            _active = (*_active, self)

    def finish(self) -> None:
        """Ends the observation, and records the written files that exist."""
        global _active
        with _lock:
            _active = tuple(one for one in _active if one is not self)
            self.ended = True
            self._settle()
            for path in self._written():
                self._recording.write(path, [], True)

    def inputs(self) -> list[str]:
        """Returns the observed files that were read."""
        with _lock:
            return [path for path, state in self._files.items() if state & _READ]

    def outputs(self) -> list[str]:
        """Returns the observed files that were written and exist."""
        with _lock:
            self._settle()
            return self._written()

    def _written(self) -> list[str]:
        candidates = [path for path, state in self._files.items() if state & _WRITTEN and path not in self._declared_outputs]
        return [path for path in candidates if self._is_changed(path)]

    def _is_changed(self, path: str) -> bool:
        found = _state(path)
        return found is not None and stat.S_ISREG(found.st_mode) and found.st_ctime_ns >= self._start

    # -- events

    def absolute(self, path: Any, writes: bool) -> str | None:
        """Returns the absolute path of a file without symbolic links; ``None`` if the file is left out."""
        text = os.fsdecode(path)
        if not text or "\0" in text or (text.startswith("/") and ".." not in text and self._ignored.has(text, writes)):
            return None
        whole = os.path.realpath(text)
        return None if self._ignored.has(whole, writes) else whole

    def opened(self, path: Any, flags: int) -> None:
        """Records that a file is about to be opened with these flags of ``os.open``."""
        if flags & (os.O_PATH | os.O_DIRECTORY):
            return
        access = flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
        writes, reads = access != os.O_RDONLY, access != os.O_WRONLY and not flags & os.O_TRUNC
        whole = self.absolute(path, writes)
        if whole is None:
            return
        known = self._files.get(whole, 0)
        if (not writes or known & _WRITTEN) and (not reads or known & (_READ | _MADE)):
            return
        found = _state(whole)
        made = False
        if found is None:
            if not (writes and flags & os.O_CREAT):
                return
            made = True
        else:
            needed = (0 if access == os.O_WRONLY else os.R_OK) | (os.W_OK if writes else 0)
            if not stat.S_ISREG(found.st_mode) or not os.access(whole, needed, effective_ids=True):
                return
            made = writes and bool(flags & os.O_TRUNC)
        if not self._has_room(whole):
            return
        if reads and not made:
            self._read(whole)
        self._add(whole, (_WRITTEN if writes else 0) | (_MADE if made else 0))

    def wrote(self, path: Any) -> None:
        """Records that a file is about to be changed by its name."""
        whole = self.absolute(path, True)
        if whole is not None and self._has_room(whole):
            self._add(whole, _WRITTEN)

    def renamed(self, source: Any, target: Any) -> None:
        """Records that a file or a folder is about to be renamed."""
        old, new = (self._name(path) for path in (source, target))
        found = _state(old)
        if found is None:
            return
        if stat.S_ISREG(found.st_mode) and old not in self._files and not self._ignored.has(old, True) and self._has_room(old):
            self._read(old)
        self._renames.append((old, new, (found.st_dev, found.st_ino)))

    def linked(self, source: Any, target: Any) -> None:
        """Records that a file is about to get a second name."""
        old, new = (self._name(path) for path in (source, target))
        found = _state(old)
        if found is not None and stat.S_ISREG(found.st_mode):
            if not self._ignored.has(old, False) and self._has_room(old):
                self._read(old)
            if not self._ignored.has(new, True) and self._has_room(new):
                self._add(new, _WRITTEN | _MADE)

    @staticmethod
    def _name(path: Any) -> str:
        """Returns the absolute path of a name that is itself not resolved, because a call changes the name."""
        folder, name = os.path.split(os.path.join(os.getcwd(), os.fsdecode(path).rstrip("/")))
        return os.path.join(os.path.realpath(folder), name)

    def _settle(self) -> None:
        """Applies the renames that have happened since they were announced."""
        for _ in range(len(self._renames)):
            old, new, inode = self._renames.popleft()
            there, here = _state(new), _state(old)
            if here is not None and (here.st_dev, here.st_ino) == inode:
                self._renames.append((old, new, inode))
            elif there is not None and (there.st_dev, there.st_ino) == inode:
                self._moved(old, new, stat.S_ISREG(there.st_mode))

    def _moved(self, old: str, new: str, is_file: bool) -> None:
        below = [old] if is_file else [path for path in self._files if path.startswith(f"{old}/")]
        for path in below:
            state = self._files.pop(path, 0)
            # An input is recorded under its name at the time of reading.
            if state & _READ:
                self._files[path] = _READ
            name = new + path[len(old) :]
            if (state & _WRITTEN or is_file) and not self._ignored.has(name, True) and self._has_room(name):
                self._files[name] = self._files.get(name, 0) & _READ | _WRITTEN | (state & _MADE or _MADE * is_file)

    def _has_room(self, path: str) -> bool:
        if path in self._files or len(self._files) < FILES_MAX:
            return True
        self.left_out += 1
        return False

    def _read(self, path: str) -> None:
        """Records an input in its state before the run changes it."""
        if not self._files.get(path, 0) & (_READ | _MADE):
            if path not in self._declared_inputs:
                self._recording.read(path, [], True)
            self._add(path, _READ)

    def _add(self, path: str, state: int) -> None:
        self._files[path] = self._files.get(path, 0) | state


def current() -> Observer | None:
    """Returns the observer of the innermost observed run of this context.

    A thread that was started in a run has no context of it. If exactly one run of other threads observes, the thread's
    files are of that run.
    """
    own = observing.get()
    while own and own.ended:
        own = own.outer
    if own is not None:
        return own or None
    elsewhere = _of_other_threads()
    return elsewhere[0] if len(elsewhere) == 1 else None


def _of_other_threads() -> list[Observer]:
    """Returns the observers that began in other threads.

    Code outside of a run in the same thread is the consumer of a generator.
    """
    return [observer for observer in _active if observer.thread != threading.get_ident()]


def _observe(path: Any, event: Callable[[Observer], None]) -> None:
    """Calls the observer of this context. If several runs may be meant, it counts the files."""
    with _lock:
        observer = current()
        if observer is not None:
            observer._settle()
            event(observer)
        elif observing.get() is None:
            for one in _of_other_threads():
                if one.absolute(path, False) is not None:
                    one.unassigned += 1


def safely(event: Callable[[], T]) -> T | None:
    """Returns the result of a call, or ``None`` if it fails: a failure here would be one of the program's ``open``."""
    try:
        return event()
    except Exception:
        return None


def is_observing() -> bool:
    """Whether any run observes files."""
    return bool(_active)


def opened(path: Any, flags: int) -> None:
    """Records that a library is about to open a file; flags are those of ``os.open``. Addresses are no files."""
    if _active and isinstance(path, (str, bytes, os.PathLike)):
        text = os.fsdecode(path)
        local = text.removeprefix("file://")
        if "://" not in local:
            safely(lambda: _observe(local, lambda observer: observer.opened(local, flags)))


def _on_open(path: Any, mode: Any, flags: int) -> None:
    # A number is a descriptor whose opening was seen before.
    if isinstance(path, (str, bytes, os.PathLike)):
        _observe(path, lambda observer: observer.opened(path, flags))


def _on_rename(source: Any, target: Any, source_fd: int, target_fd: int) -> None:
    old, new = _in_folder(os.fsdecode(source), source_fd), _in_folder(os.fsdecode(target), target_fd)
    _observe(old, lambda observer: observer.renamed(old, new))


def _on_link(source: Any, target: Any, source_fd: int, target_fd: int) -> None:
    old, new = _in_folder(os.fsdecode(source), source_fd), _in_folder(os.fsdecode(target), target_fd)
    _observe(old, lambda observer: observer.linked(old, new))


def _on_truncate(path: Any, length: int) -> None:
    if isinstance(path, (str, bytes, os.PathLike)):
        _observe(path, lambda observer: observer.wrote(path))


def _on_sqlite(database: Any) -> None:
    text = os.fsdecode(database)
    if text.startswith("file:"):
        text = text.removeprefix("file:").partition("?")[0]
    if text and not text.startswith(":"):
        _observe(text, lambda observer: observer.opened(text, os.O_RDWR | os.O_CREAT))


_EVENTS: dict[str, Callable[..., None]] = {
    "open": _on_open,
    "os.link": _on_link,
    "os.rename": _on_rename,
    "os.truncate": _on_truncate,
    "sqlite3.connect": _on_sqlite,
}


def _hook(event: str, args: tuple[Any, ...]) -> None:
    """Receives each event of the interpreter; a hook cannot be removed."""
    if _active and event in _EVENTS:
        safely(lambda: _EVENTS[event](*args))


def _forget() -> None:
    """Ends all observation in a forked process, whose lock another thread may have held."""
    global _active, _lock
    _lock = threading.RLock()
    _active = ()
    observing.set(None)


os.register_at_fork(after_in_child=_forget)
