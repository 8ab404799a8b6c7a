"""Calls of libraries that open files in C, where Python's audit hook does not see them.

A call is wrapped once its library is loaded; Esker itself imports none of them. The wrappers stay until the process ends.
While no run observes, they only call the original.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

from ._observe import is_observing, opened, safely

__all__ = ["install"]

Watch = Callable[[tuple[Any, ...], dict[str, Any]], Callable[[Any], None] | None]
"""Observes a call by its arguments; it may return a function that gets the call's result."""

_READ = os.O_RDONLY
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_CHANGE = os.O_RDWR
_UPDATE = os.O_RDWR | os.O_CREAT

_MODES = {"r": _READ, "rb": _READ, "w": _WRITE, "wb": _WRITE, "x": _WRITE, "w-": _WRITE, "r+": _CHANGE, "a": _UPDATE}


def _argument(args: Sequence[Any], named: dict[str, Any], at: int, names: Iterable[str]) -> Any:
    return args[at] if len(args) > at else next((named[name] for name in names if name in named), None)


def _paths(source: Any) -> list[Any]:
    """Returns the files of an argument: a path, a pattern, or a list of them."""
    if isinstance(source, (list, tuple)):
        return [path for one in source for path in _paths(one)]
    if isinstance(source, (str, os.PathLike)):
        text = os.fsdecode(source)
        if glob.has_magic(text) and not os.path.exists(text):
            return glob.glob(text, recursive=True)
    return [source]


def _reads(at: int, *names: str) -> Watch:
    """Observes a call that reads the files of an argument."""

    def watch(args: tuple[Any, ...], named: dict[str, Any]) -> None:
        for path in _paths(_argument(args, named, at, names)):
            opened(path, _READ)

    return watch


def _writes(at: int, *names: str) -> Watch:
    """Observes a call that writes the file of an argument."""
    return lambda args, named: opened(_argument(args, named, at, names), _WRITE)


def _opens(at: int, name: str) -> Watch:
    """Observes a call with a path, and with a mode as its next argument."""

    def watch(args: tuple[Any, ...], named: dict[str, Any]) -> None:
        mode = str(_argument(args, named, at + 1, ["mode"]) or "r")
        # Modes of netCDF may end in `s`: without buffers.
        flags = _MODES.get(mode.removesuffix("s") if len(mode) > 1 else mode, _CHANGE)
        opened(_argument(args, named, at, [name]), flags)

    return watch


def _netcdf(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    # With `memory` the name is only a label.
    if named.get("memory") is None:
        _opens(0, "filename")(args, named)


def _dataset(at: int, name: str, of: Callable[[Any, Any], Any]) -> Watch:
    """Observes a call that makes a dataset of pyarrow from paths on this machine.

    A dataset of open files has no file system: pyarrow 25 ends the process when it is asked for that. The parts of a dataset of
    datasets were observed before.
    """

    def watch(args: tuple[Any, ...], named: dict[str, Any]) -> Callable[[Any], None] | None:
        source = _argument(args, named, at, [name])
        paths = source if isinstance(source, (list, tuple)) else [source]
        if not all(isinstance(path, (str, os.PathLike)) for path in paths):
            return None

        def after(result: Any) -> None:
            data = of(args, result)
            if data.filesystem.type_name == "local":
                for path in data.files:
                    opened(path, _READ)

        return after

    return watch


def _write_dataset(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    visitor = named.get("file_visitor")

    def visit(file: Any) -> None:
        opened(file.path, _WRITE)
        if visitor is not None:
            visitor(file)

    named["file_visitor"] = visit


def _polars(module: ModuleType) -> dict[str, Watch]:
    """Returns the readers and writers of polars, whose names have common beginnings."""
    other = ("database", "delta", "clipboard", "iceberg", "dataset", "lance")
    calls = {name: _reads(0, "source") for name in dir(module) if name.startswith(("read_", "scan_"))}
    for kind, beginning in (("DataFrame", "write_"), ("LazyFrame", "sink_")):
        names = [name for name in dir(getattr(module, kind)) if name.startswith(beginning)]
        calls |= {f"{kind}.{name}": _writes(1, "file", "path", "workbook") for name in names}
    return {name: watch for name, watch in calls.items() if not name.endswith(other)}


_LIBRARIES: dict[str, dict[str, Watch] | Callable[[ModuleType], dict[str, Watch]]] = {
    "h5py": {"File.__init__": _opens(1, "name")},
    "netCDF4": {"Dataset": _netcdf, "MFDataset.__init__": _reads(1, "files")},
    "polars": _polars,
    "pyarrow": {
        "OSFile": _opens(0, "path"),
        "memory_map": _opens(0, "path"),
        "input_stream": _reads(0, "source"),
        "output_stream": _writes(0, "source"),
    },
    "pyarrow.csv": {
        "read_csv": _reads(0, "input_file"),
        "open_csv": _reads(0, "input_file"),
        "write_csv": _writes(1, "output_file"),
        "CSVWriter": _writes(0, "sink"),
    },
    "pyarrow.dataset": {"dataset": _dataset(0, "source", lambda args, result: result), "write_dataset": _write_dataset},
    "pyarrow.feather": {
        "read_table": _reads(0, "source"),
        "read_feather": _reads(0, "source"),
        "write_feather": _writes(1, "dest"),
    },
    "pyarrow.json": {"read_json": _reads(0, "input_file")},
    "pyarrow.orc": {
        "ORCFile.__init__": _reads(1, "source"),
        "ORCWriter.__init__": _writes(1, "where"),
        "read_table": _reads(0, "source"),
    },
    "pyarrow.parquet.core": {
        "ParquetFile.__init__": _reads(1, "source"),
        "ParquetWriter.__init__": _writes(1, "where"),
        "read_metadata": _reads(0, "where"),
        "read_schema": _reads(0, "where"),
        "ParquetDataset.__init__": _dataset(1, "path_or_paths", lambda args, result: args[0]._dataset),
    },
}
"""Functions, classes and methods by module, with what observes their calls."""


def _watched(call: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    """Wraps a function or a method."""

    @functools.wraps(call)
    def watched(*args: Any, **named: Any) -> Any:
        after = safely(lambda: watch(args, named)) if is_observing() else None
        result = call(*args, **named)
        if after is not None:
            safely(lambda: after(result))
        return result

    return watched


def _watched_class(original: type, watch: Watch) -> type:
    """Returns a class that stands for one whose methods cannot be replaced: a call makes an instance of the original."""

    class Meta(type(original)):  # type: ignore[misc]
        def __call__(cls, *args: Any, **named: Any) -> Any:
            return make(*args, **named) if cls is stand_in else super().__call__(*args, **named)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original) if cls is stand_in else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original) if cls is stand_in else super().__subclasscheck__(subclass)

    make = _watched(original, watch)
    about = {name: getattr(original, name) for name in ("__doc__", "__module__", "__qualname__")}
    stand_in: type = Meta(original.__name__, (original,), about)
    return stand_in


def _wrap(module: ModuleType) -> list[tuple[Any, Any]]:
    """Wraps the calls of a module. Returns its functions and classes with what is to stand for them."""
    library = _LIBRARIES[module.__name__]
    calls = library(module) if callable(library) else library
    pairs: list[tuple[Any, Any]] = []
    for name, watch in calls.items():
        kind, _, method = name.partition(".")
        found = getattr(module, kind, None)
        if method and hasattr(found, method):
            setattr(found, method, _watched(getattr(found, method), watch))
        elif isinstance(found, type):
            pairs.append((found, _watched_class(found, watch)))
        elif callable(found):
            pairs.append((found, _watched(found, watch)))
    return pairs


def _substitute(pairs: list[tuple[Any, Any]]) -> None:
    """Replaces functions and classes wherever a module has a global name for them, as after ``from netCDF4 import Dataset``."""
    stand_ins = {id(original): (original, stand_in) for original, stand_in in pairs}
    for module in list(sys.modules.values()):
        # A module that loads itself at the first use would be loaded by a plain access to its attributes.
        names = object.__getattribute__(module, "__dict__") if isinstance(module, ModuleType) else {}
        for name, value in list(names.items()):
            if id(value) in stand_ins:
                names[name] = stand_ins[id(value)][1]


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps the calls of libraries that are loaded later."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _LIBRARIES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target))), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                safely(lambda: _substitute(_wrap(module)))

            with contextlib.suppress(AttributeError):
                spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Wraps the calls of the libraries that are loaded, and of those that will be."""
    loaded = [module for name in _LIBRARIES if (module := sys.modules.get(name))]
    pairs: list[tuple[Any, Any]] = []
    for module in loaded:
        pairs += safely(lambda module=module: _wrap(module)) or []  # type: ignore[misc]
    _substitute(pairs)
    sys.meta_path.insert(0, _Finder())
