"""Magics for IPython and Jupyter.

::

    %load_ext esker
    %esker lab.esker
    %esker log --mine
    %lineage plot.png --depth 3
    %find variable = 'tas' AND level >= 2
    %%esker run clean
    table = pandas.read_csv("raw.csv").dropna()
    table.to_parquet("clean.parquet")
    %%sparql -o rows
    SELECT ?s WHERE { ?s a ?type }
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class

from . import _command
from ._run import Run
from .errors import EskerError

if TYPE_CHECKING:
    from ._database import Database

__all__ = ["EskerMagics"]


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, and does not end the kernel."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {self.format_usage().strip()}")


def _parser(name: str, what: str) -> _Parser:
    return _Parser(prog=name, description=what, add_help=False)


def _lineage_parser(name: str, what: str) -> _Parser:
    parser = _parser(name, what)
    parser.add_argument("name", help="TYPE:KEY, or the path of a file")
    parser.add_argument("--as-of", default=None, metavar="TIME", help="use the state of the database at TIME")
    parser.add_argument("--depth", type=int, default=None, metavar="N", help="maximum number of runs along a path")
    parser.add_argument("-o", dest="variable", default=None, metavar="VARIABLE", help="also assign the result to VARIABLE")
    return parser


_ESKER = _parser("%esker", "Opens a database for the other magics; without a target, shows the open database.")
_ESKER.add_argument("target", nargs="?", help="a folder, or esker://HOST:PORT")
_ESKER.add_argument("--create", action="store_true", help="create the folder if it does not exist")
_RUN = _parser("%%esker run", "Runs the cell, and records it as a run.")
_RUN.add_argument("name", help="name of the run")
_RUN.add_argument("--observe", action=argparse.BooleanOptionalAction, default=True, help="record the files that the cell opens")
_RUN.add_argument("--ignore", action="append", default=[], metavar="DIR", help="do not record files in this folder")
_RUN.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="record a setting")
_RUN.add_argument("--tag", action="append", default=[], metavar="NAME=VALUE", help="record an attribute of the run")
_RUN.add_argument("-o", dest="variable", default=None, metavar="VARIABLE", help="assign the run to VARIABLE")
_LINEAGE = _lineage_parser("%lineage", "Shows the lineage of a vertex.")
_IMPACT = _lineage_parser("%impact", "Shows the impact of a vertex.")


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as e:
        raise UsageError(f"{e}: {line}") from None


def _usage_errors(call: Callable[[], Any]) -> Any:
    """Reports errors of a call in one line, without a traceback."""
    try:
        return call()
    except EskerError as e:
        raise UsageError(str(e)) from None


@magics_class
class EskerMagics(Magics):
    """``%esker %%esker %lineage %impact %find %%travel %%sparql``."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell=shell)
        self._database: Database | None = None

    @property
    def database(self) -> Database:
        """The database of ``%esker``, of ``$ESKER_TARGET``, or of the notebook's variables if only one has an open database."""
        from ._database import Database

        if self._database is not None and not self._database.closed:
            return self._database
        target = os.environ.get("ESKER_TARGET")
        if target:
            self._open(target, create=False)
            return self.database
        variables: dict[str, Any] = self.shell.user_ns if self.shell is not None else {}
        databases = {id(v): v for v in variables.values() if isinstance(v, Database) and not v.closed}
        if len(databases) == 1:
            return next(iter(databases.values()))
        raise UsageError("no database is open: %esker TARGET")

    def _open(self, target: str, *, create: bool) -> None:
        import esker

        opened = _usage_errors(lambda: esker.open(target, create=create))
        if self._database is not None:
            self._database.close()
        self._database = opened

    def _assign(self, variable: str | None, answer: Any) -> Any:
        if variable is None:
            return answer
        if not variable.isidentifier():
            raise UsageError(f"-o: `{variable}` is not a variable name")
        if self.shell is not None:
            self.shell.user_ns[variable] = answer
        return answer

    @line_cell_magic
    def esker(self, line: str, cell: str | None = None) -> Any:
        """Opens a database, runs a command of the program ``esker``, or records a cell as a run.

        ``%esker lab.esker``, ``%esker esker://host:7400``: the database of the other magics.
        ``%esker log --mine``: prints the output of a command on that database; write ``./log`` for a database of that name.
        ``%%esker run NAME``: runs the cell, and records its source and the files that it opens.
        """
        words = _split(line)
        if cell is not None:
            if words[:1] != ["run"]:
                raise UsageError(f"expected `%%esker run NAME` above a cell, not `%%esker {line.strip()}`")
            return self._record(_RUN.parse_args(words[1:]), cell)
        if words and words[0] in _command.COMMANDS:
            return self._show(words)
        arguments = _ESKER.parse_args(words)
        if arguments.target:
            self._open(arguments.target, create=arguments.create)
        return self.database

    def _show(self, words: Sequence[str]) -> None:
        """Prints the output of a command, whose target is the open database unless it names another."""
        target: str | None = None
        try:
            opened = self.database.target
            target = opened if "://" in opened else os.path.abspath(opened)
        except UsageError:
            # Some commands need no database, and others create one.
            pass
        code = _usage_errors(lambda: _command.show(target, words))
        if code:
            raise UsageError(f"`esker {shlex.join(words)}` ended with code {code}")

    def _record(self, arguments: argparse.Namespace, cell: str) -> None:
        """Runs a cell as a run, and prints what was recorded."""
        shell: Any = self.shell
        if _is_in_loop() and _awaits(shell, cell):
            raise UsageError("a cell with `await` outside of functions is no run: use `with esker.run(…):` in the cell")
        params = {"cell": cell.strip(), **_values("--param", arguments.param)}
        tags = _values("--tag", arguments.tag)
        observe, ignore = arguments.observe, arguments.ignore
        run = Run(arguments.name, self.database, params, tags, (), None, observe=observe, ignore=ignore)
        self._assign(arguments.variable, run)
        with run:
            _execute(shell, cell)
        files = f": {len(run.inputs)} files read, {len(run.outputs)} written" if observe else ""
        print(f"recorded {run.id} {arguments.name}{files}")

    @line_magic
    def lineage(self, line: str) -> Any:
        """Shows a lineage: ``%lineage plot.png --depth 3 --as-of 2026-03-01``."""
        arguments = _LINEAGE.parse_args(_split(line))
        answer = _usage_errors(lambda: self.database.lineage(arguments.name, as_of=arguments.as_of, depth=arguments.depth))
        return self._assign(arguments.variable, answer)

    @line_magic
    def impact(self, line: str) -> Any:
        """Shows an impact: ``%impact raw.h5``."""
        arguments = _IMPACT.parse_args(_split(line))
        answer = _usage_errors(lambda: self.database.impact(arguments.name, as_of=arguments.as_of, depth=arguments.depth))
        return self._assign(arguments.variable, answer)

    @line_magic
    def find(self, line: str) -> Any:
        """Finds objects by a filter: ``%find peak > 2 AND app = 'vpic'``; ``-o VARIABLE`` before it assigns the result."""
        variable, filter = _option(line, "%find [-o VARIABLE] FILTER")
        return self._assign(variable, _usage_errors(lambda: self.database.find(filter)))

    @line_cell_magic
    def travel(self, line: str, cell: str | None = None) -> Any:
        """Runs a traversal: ``%%travel [-o VARIABLE]`` with its text in the cell, or ``%travel CHAIN``."""
        variable, chain = _text(line, cell, "%%travel [-o VARIABLE]")
        return self._assign(variable, _usage_errors(lambda: self.database.travel(chain)))

    @line_cell_magic
    def sparql(self, line: str, cell: str | None = None) -> Any:
        """Runs a query: ``%%sparql [-o VARIABLE]`` with the query in the cell, or ``%sparql QUERY``."""
        variable, query = _text(line, cell, "%%sparql [-o VARIABLE]")
        return self._assign(variable, _usage_errors(lambda: self.database.sparql(query)))


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _awaits(shell: Any, cell: str) -> bool:
    try:
        return bool(shell.should_run_async(cell, transformed_cell=shell.transform_cell(cell)))
    except SyntaxError:
        return False


def _execute(shell: Any, cell: str) -> None:
    """Runs a cell as if it stood alone. Its exception becomes that of the cell with the magic, and is shown once."""
    shown: list[Any] = []
    shell._showtraceback = lambda kind, error, lines: shown.append(lines)
    shell.show_usage_error = lambda error: None
    try:
        result = shell.run_cell(cell)
    finally:
        del shell._showtraceback, shell.show_usage_error
    error = result.error_before_exec or result.error_in_exec
    if error is not None:
        if shown:
            # IPython asks an exception for the lines to show; these lack the frames of the magic.
            with contextlib.suppress(AttributeError):
                error._render_traceback_ = lambda: shown[0]
        raise error


def _values(option: str, pairs: Sequence[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"{option}: expected NAME=VALUE, not `{pair}`")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _option(line: str, usage: str) -> tuple[str | None, str]:
    """Splits off a leading ``-o VARIABLE``; the rest is not split, because it is in another language."""
    text = line.strip()
    if not text.startswith("-o"):
        return None, text
    words = text.split(None, 2)
    if words[0] != "-o" or len(words) < 2:
        raise UsageError(f"usage: {usage}")
    return words[1], words[2] if len(words) > 2 else ""


def _text(line: str, cell: str | None, usage: str) -> tuple[str | None, str]:
    variable, rest = _option(line, usage)
    if cell is None:
        if not rest:
            raise UsageError(f"usage: {usage}")
        return variable, rest
    if rest:
        raise UsageError(f"`{rest}` is not allowed on the line of the magic; usage: {usage}")
    return variable, cell.strip()
