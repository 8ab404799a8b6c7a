"""Recording of runs of Python programs, like ``esker run`` for commands."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar, Token, copy_context
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import _observe
from ._arguments import settings_of, signature_of
from ._database import Database
from ._esker import Recording
from ._observe import Observer, observing
from ._stepped import stepped, stepped_async
from .errors import InvalidError

__all__ = ["Run", "run"]

F = TypeVar("F", bound=Callable[..., Any])

_current: ContextVar[str | None] = ContextVar("esker_run", default=None)


def _pairs(values: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return [(str(name), text(value)) for name, value in (values or {}).items()]


def _program() -> dict[str, str]:
    """Describes this program: the interpreter's version, and the script or notebook."""
    about = {"python": ".".join(map(str, sys.version_info[:3]))}
    main = sys.modules.get("__main__")
    script = getattr(main, "__file__", None)
    notebook = os.environ.get("JPY_SESSION_NAME")
    if notebook and "ipykernel" in sys.modules:
        about["notebook"] = os.path.abspath(notebook)
    elif script:
        about["script"] = os.path.realpath(script)
    return about


class Run:
    """A run that is being recorded; see :func:`esker.run`."""

    def __init__(
        self,
        name: str,
        db: Database | str | None,
        params: Mapping[str, Any] | None,
        tags: Mapping[str, Any] | None,
        keep: Sequence[str],
        spool: str | os.PathLike[str] | None,
        arguments: bool = True,
        observe: bool = False,
        ignore: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        target = db.target if isinstance(db, Database) else db or os.environ.get("ESKER_TARGET")
        if not target:
            raise InvalidError("no database is named: give db= (an open one, a folder, esker://host:port), or set ESKER_TARGET")
        self._db = db if isinstance(db, Database) else None
        self._target = os.fspath(target)
        self._name, self._params, self._tags, self._keep, self._spool = name, params, tags, list(keep), spool
        self._arguments, self._observe, self._ignore = arguments, observe, [ignore] if isinstance(ignore, str) else list(ignore)
        self._recording: Recording | None = None
        self._observer: Observer | None = None
        self._declared: tuple[dict[str, None], dict[str, None]] = ({}, {})
        self._tokens: list[tuple[ContextVar[Any], Token[Any]]] = []

    @property
    def id(self) -> str:
        """Name of the run, ``execution:…``, once it has begun."""
        return self._active().id

    @property
    def inputs(self) -> list[str]:
        """Files that the run has read so far, declared or observed, by their absolute paths."""
        observed = self._observer.inputs() if self._observer else []
        return list(self._declared[0] | dict.fromkeys(observed))

    @property
    def outputs(self) -> list[str]:
        """Files that the run has written so far, declared or observed, by their absolute paths."""
        observed = self._observer.outputs() if self._observer else []
        return list(self._declared[1] | dict.fromkeys(observed))

    def _active(self) -> Recording:
        if self._recording is None:
            raise InvalidError("this run has not begun: use it in a `with` block")
        return self._recording

    def read(self, path: str | os.PathLike[str], *, tags: Mapping[str, Any] | None = None) -> str:
        """Records a file that the run reads, with its current size and time; returns its path."""
        self._active().read(os.fspath(path), _pairs(tags))
        self._declared[0][os.path.realpath(path)] = None
        return os.fspath(path)

    def write(self, path: str | os.PathLike[str], *, tags: Mapping[str, Any] | None = None) -> str:
        """Records a file that the run writes, with its size and time at the end of the run; returns its path."""
        self._active().write(os.fspath(path), _pairs(tags))
        self._declared[1][os.path.realpath(path)] = None
        return os.fspath(path)

    def note(self, params: Mapping[str, Any] | None = None, **tags: Any) -> None:
        """Records further settings and tags."""
        self._active().note(_pairs(params), _pairs(tags))

    def __enter__(self) -> Run:
        if self._recording is not None:
            raise InvalidError("a run is recorded once: call esker.run again")
        parent = _current.get()
        self._recording, problem = Recording.begin(
            self._target,
            self._name,
            list(sys.orig_argv),
            _pairs(self._params),
            _pairs({**_program(), **(self._tags or {})}),
            self._keep,
            parent and parent.partition(":")[2],
            None if self._spool is None else os.fspath(self._spool),
        )
        if problem:
            _warn(f"this run cannot be recorded before it ends: {problem}")
        self._set(_current, self.id)
        outer = observing.get()
        if self._observe:
            self._begin_observation(self._recording, outer)
        self._set(observing, self._observer or outer or False)
        return self

    def _set(self, variable: ContextVar[Any], value: Any) -> None:
        self._tokens.append((variable, variable.set(value)))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._tokens:
            variable, token = self._tokens.pop()
            variable.reset(token)
        if self._observer is not None:
            self._end_observation(self._observer)
        exit, reason = _outcome(kind, error)
        core = None if self._db is None or self._db.closed else self._db._core
        problem = self._active().end(exit, reason, core)
        if problem:
            _warn(problem)

    def _begin_observation(self, recording: Recording, outer: Observer | Literal[False] | None) -> None:
        try:
            observer = Observer(recording, self._declared, self._ignore, outer)
            observer.begin()
            self._observer = observer
        except Exception as e:
            _warn(f"the files of this run are not observed: {type(e).__name__}: {e}")

    def _end_observation(self, observer: Observer) -> None:
        try:
            observer.finish()
        except Exception as e:
            _warn(f"the files that this run wrote are not recorded: {type(e).__name__}: {e}")
        if observer.left_out:
            _warn(f"this run opened {observer.left_out:,} files beyond the first {_observe.FILES_MAX:,}; they are not recorded")
            self._active().note([], [("trace_left_out", str(observer.left_out))])
        if observer.unassigned:
            _warn(
                f"threads opened files {observer.unassigned:,} times while several runs were observed; "
                "they are not recorded: use the run in the thread, or start the thread in contextvars.copy_context().run"
            )
            self._active().note([], [("trace_unassigned", str(observer.unassigned))])

    def __call__(self, function: F) -> F:
        """Decorates a function: each call is a run of its own. The run of a generator lasts until the generator ends."""
        signature = signature_of(function) if self._arguments else None

        def run_of(args: tuple[Any, ...], named: dict[str, Any]) -> Run:
            params = {**settings_of(signature, args, named), **(self._params or {})}
            return Run(
                self._name,
                self._db or self._target,
                params,
                self._tags,
                self._keep,
                self._spool,
                observe=self._observe,
                ignore=self._ignore,
            )

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **named: Any) -> Any:
                with run_of(args, named):
                    return await function(*args, **named)

            return awaited  # type: ignore[return-value]

        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generated(*args: Any, **named: Any) -> Any:
                def body() -> Generator[Any, Any, Any]:
                    with run_of(args, named):
                        return (yield from function(*args, **named))

                return stepped(body(), copy_context())

            return generated  # type: ignore[return-value]

        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            def generated_async(*args: Any, **named: Any) -> Any:
                async def body() -> AsyncGenerator[Any, None]:
                    with run_of(args, named):
                        async with aclosing(function(*args, **named)) as items:
                            async for item in items:
                                yield item

                return stepped_async(body(), copy_context())

            return generated_async  # type: ignore[return-value]

        @functools.wraps(function)
        def recorded(*args: Any, **named: Any) -> Any:
            with run_of(args, named):
                return function(*args, **named)

        return recorded  # type: ignore[return-value]

    def __repr__(self) -> str:
        state = "not begun" if self._recording is None else self.id
        return f"<esker.Run {self._name!r}, {state}>"


def _outcome(kind: type[BaseException] | None, error: BaseException | None) -> tuple[int | None, str | None]:
    """Returns the exit code, and the reason of a failure."""
    # A consumer that takes no more items closes the generator, which is no failure.
    if kind is None or kind is GeneratorExit:
        return 0, None
    if isinstance(error, SystemExit):
        code = error.code
        if code is None or isinstance(code, int):
            return (code or 0), None
        return 1, str(code)
    text = str(error)
    return 1, f"{kind.__qualname__}: {text}" if text else kind.__qualname__


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def run(
    name: str,
    *,
    db: Database | str | None = None,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, Any] | None = None,
    keep: Sequence[str] = (),
    spool: str | os.PathLike[str] | None = None,
    arguments: bool = True,
    observe: bool = False,
    ignore: Sequence[str | os.PathLike[str]] = (),
) -> Run:
    """Records a run of this program, or of a part of it: a ``with`` block, or each call of a function.

    >>> with esker.run("preprocess", db=db, params={"k": 3}) as r:
    ...     r.read("raw.nc")
    ...     r.write("clean.nc", tags={"variable": "tas"})

    >>> @esker.run("regrid", db=db, observe=True)
    ... def regrid(source, target, *, grid="r360x180"): ...

    The record is that of ``esker run``: command, times, host, user, environment (without secrets), modules, git commit,
    Slurm job, files read and written; and in addition the version of Python, the script or notebook, and an exception
    that ends it. A run within a run (or below ``esker run``) ``belongs`` to that one.

    Recording never makes the program fail. A run is written to a spool first. If the database does not accept the run
    at its end, the run remains in the spool, and a ``RuntimeWarning`` says where.

    Args:
        name: name of the run.
        db: an open database, a folder, or ``esker://host:port``; ``ESKER_TARGET`` if omitted.
        params: settings; values of those with a secret's name are not kept.
        tags: attributes of the run.
        keep: names of further environment variables to keep.
        spool: the spool folder; that of ``esker run`` if omitted.
        arguments: whether the arguments of a decorated function are settings, too; ``params`` take precedence.
        observe: whether the files that this process opens are recorded, as ``esker run --trace`` does. Files of child
            processes are not observed.
        ignore: folders whose files are not observed.

    Raises:
        InvalidError: no database is named.
    """
    return Run(name, db, params, tags, keep, spool, arguments, observe, ignore)
