"""Commands of the program ``esker`` on an open database: imports, exports and mounts, and any command in a notebook."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import CorruptError, EskerError, InvalidError

if TYPE_CHECKING:
    from ._database import Database

PathLike = str | os.PathLike[str]

COMMANDS = frozenset(
    """
    run log spool import harvest export
    lineage impact get edges history travel find diff changes top sparql
    put link set delete object tag rdf schema index
    ls stat mkdir touch mv rm ln chmod chown df du namespace mount umount
    init stats check compact backup restore upgrade doctor
    serve console mcp grant revoke audit share quota login logout cluster placement site
    demo shell bench completions man help
    """.split()
)
"""Names of the program's commands."""


def program() -> str:
    """Returns the path of the command that is installed with this package, else of the one on ``PATH``."""
    own = Path(sysconfig.get_path("scripts")) / "esker"
    found = str(own) if own.is_file() else shutil.which("esker")
    if found is None:
        raise EskerError(f"the command esker is neither at {own} nor on PATH: install the package again")
    return found


def _options(options: dict[str, Any]) -> list[str]:
    """Returns the options of a command: ``dry_run=True`` is ``--dry-run``, and a list gives an option several times."""
    words: list[str] = []
    for name, value in options.items():
        option = f"--{name.rstrip('_').replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            values = value if isinstance(value, (list, tuple)) else [value]
            words += [f"{option}={os.fspath(one) if isinstance(one, os.PathLike) else one}" for one in values]
    return words


def run(db: Database, command: str, arguments: Sequence[PathLike], options: dict[str, Any], *, report: bool) -> Any:
    """Runs a command, which attaches to this process or its server, and returns its report.

    Work that was done in part is a warning. Raises ``InvalidError`` with the command's message for bad usage or input.
    """
    rows = ["--format", "json"] if report else []
    words = [*command.split(), *rows, "--quiet", "--color=never", *_options(options)]
    operands = [db.target, *(os.fspath(argument) for argument in arguments)]
    done = subprocess.run(
        [program(), *words, "--", *operands], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    message = done.stderr.strip().removeprefix("error: ")
    if done.returncode not in (0, 1):
        kind = InvalidError if done.returncode == 2 else CorruptError if done.returncode == 3 else EskerError
        raise kind(message or f"esker {command} ended with code {done.returncode}")
    if done.returncode == 1:
        if not done.stdout.strip() and report:
            raise EskerError(message)
        warnings.warn(f"esker {command}: {message or 'a part was not done'}", stacklevel=3)
    elif message:
        warnings.warn(f"esker {command}: {message}", stacklevel=3)
    return json.loads(done.stdout) if done.stdout.strip() else None


def show(target: str | None, words: Sequence[str]) -> int:
    """Runs a command with a default target, and prints its output while it runs; returns the exit code.

    Ctrl-C reaches the command by itself, because it is of the same process group.
    """
    environment = os.environ if target is None else {**os.environ, "ESKER_TARGET": target}
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen([program(), *words], env=environment, text=True, errors="replace", **pipes) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="")
        except KeyboardInterrupt:
            for line in process.stdout:
                print(line, end="")
            raise
        finally:
            process.terminate()
    return process.returncode


@contextmanager
def mounted(db: Database, at: PathLike, options: dict[str, Any]) -> Iterator[Path]:
    """Mounts the namespace for the time of a ``with`` block."""
    run(db, "mount", [at], options | {"background": True}, report=False)
    try:
        yield Path(at)
    finally:
        subprocess.run([program(), "umount", os.fspath(at)], check=True, stdin=subprocess.DEVNULL)
