"""Parts of all scripts of check-catalogues.sh: calls of the command, findings and the table of verdicts."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

TITLE = "Temperature of the sea in May 2024"
HANG = 900
"""Seconds after which a call counts as a hang."""


def esker(*words: object, folder: Path | None = None, code: int = 0) -> str:
    """Returns the standard output of the command, which must end with the exit code `code`."""
    done = subprocess.run([os.environ["ESKER"], *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == code, (
        f"esker {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done.stdout


class Verdicts:
    """Collects one verdict for each pair of row and column, and the problems that explain it."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.cells: dict[str, dict[str, str]] = {}
        self.problems: list[str] = []
        self.count = 0

    def add(self, row: str, column: str, problems: list[str], note: str = "valid") -> None:
        self.count += 1
        self.problems += [f"{row}, {column}: {problem}" for problem in problems]
        self.cells.setdefault(row, {})[column] = "FAILED" if problems else note

    def check(self, row: str, check: Callable[..., None], *arguments: object) -> None:
        """Calls a function that adds verdicts of a row. Its exception is a problem of the row and does not end the script."""
        try:
            check(*arguments, self)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            last = f"{Path(place.filename).name}, line {place.lineno}"
            self.add(row, "complete", [f"{check.__name__} ended: {type(error).__name__}: {error} ({last})"])

    def show(self) -> None:
        columns = list(dict.fromkeys(column for row in self.cells.values() for column in row))
        if 2 * self.count > len(columns) * len(self.cells):
            rows = [[row, *(cells.get(column, "") for column in columns)] for row, cells in self.cells.items()]
            print_table([[self.title, *columns], *rows])
        else:
            print_table([[self.title, "", ""], *([row, *cell] for row, cells in self.cells.items() for cell in cells.items())])
        print(f"catalogues: {self.count} verdicts, {len(self.problems)} problems\n", flush=True)


def finish(*tables: Verdicts) -> None:
    """Prints all tables, then all problems; the script ends if there are any."""
    for table in tables:
        table.show()
    if problems := [problem for table in tables for problem in table.problems]:
        sys.exit("\n".join(problems))


def print_table(table: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
