"""Runs notebooks, and compares their stored outputs with the new ones. `UPDATE_EXPECT=1` stores the new outputs.

Ids of runs, times, durations, temporary folders, users and machines are stored as fixed ones, so that a new run gives the same outputs.
"""

from __future__ import annotations

import datetime
import difflib
import json
import os
import pathlib
import re
import sys

import nbformat
from nbclient import NotebookClient

KINDS = ("text/plain", "text/html", "image/svg+xml")


class Fixed:
    """Replaces values that differ from run to run, equal ones by equal ones."""

    def __init__(self) -> None:
        self.runs: dict[str, str] = {}
        today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        self.words = [
            (re.escape(os.environ["LOGS"]), "/home/ada/logs"),
            (re.escape(os.environ["TMPDIR"]) + r"/tmp\w{8}", "/home/ada/work"),
            (re.escape(sys.prefix), "/home/ada/venv"),
            (re.escape(os.path.realpath(sys.executable)), "/usr/bin/python3"),
            (rf"{today}[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+]00:00|(?= UTC))?(~\d+)?", "2026-03-01T10:00:00.000Z"),
            (r"\b\d+(\.\d+)? (ms|µs|s)\b", "10 ms"),
            (r"\b[\d,]+(?= logs/s)", "100"),
            (rf"\buser:{os.getuid()}\b", "user:1000"),
        ]

    def text(self, text: str) -> str:
        for pattern, word in self.words:
            text = re.sub(pattern, word, text)
        # The drawing of a lineage has the key alone.
        keys = r"(?<=execution:)[0-9a-z]{17}\b|(?<=>)[0-9a-z]{17}(?=<)"
        return re.sub(keys, lambda found: self.runs.setdefault(found.group(), f"1m8ggc5yyd26taz{len(self.runs):02}"), text)


def in_order(text: str) -> str:
    """Sorts lists of files, which a program writes in any order."""
    return re.sub(r"(?:^  .*\n?){2,}", lambda found: "\n".join(sorted(found.group().rstrip("\n").split("\n"))) + "\n", text, flags=re.M)


def stored(cell: nbformat.NotebookNode, fixed: Fixed) -> list[dict]:
    """Returns the outputs of a cell as they are stored."""
    out = []
    # A program's output comes in parts that differ from run to run.
    for name in ("stdout", "stderr"):
        if text := "".join(output.text for output in cell.outputs if output.output_type == "stream" and output.name == name):
            out.append({"output_type": "stream", "name": name, "text": in_order(fixed.text(text))})
    for output in cell.outputs:
        if output.output_type != "stream":
            data = {kind: fixed.text("".join(output.data[kind])) for kind in KINDS if kind in output.data}
            count = {"execution_count": cell.execution_count} if output.output_type == "execute_result" else {}
            out.append({"output_type": output.output_type, "metadata": {}, "data": data} | count)
    return out


def squeezed(text: str) -> str:
    """Returns a text with short blanks and lines, because the columns of a table are as wide as the values before they were replaced."""
    return re.sub(r"[ ─═-]{2,}", "  ", text)


def main(paths: list[str]) -> int:
    bad = 0
    for path in paths:
        book = nbformat.read(path, 4)
        nbformat.validate(book)
        code = [cell for cell in book.cells if cell.cell_type == "code"]
        before = [json.dumps(stored(cell, Fixed()), indent=1, ensure_ascii=False) for cell in code]
        NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": os.environ["TMPDIR"]}}).execute()
        fixed = Fixed()
        for cell in code:
            cell.outputs = [nbformat.from_dict(output) for output in stored(cell, fixed)]
            cell.metadata.pop("execution", None)
        if os.environ.get("UPDATE_EXPECT") == "1":
            book.metadata.language_info = {"name": "python"}
            nbformat.validate(book)
            pathlib.Path(path).write_text(json.dumps(json.loads(nbformat.writes(book)), indent=1, ensure_ascii=False) + "\n")
        else:
            for number, (old, cell) in enumerate(zip(before, code, strict=True), 1):
                new = json.dumps(cell.outputs, indent=1, ensure_ascii=False)
                if squeezed(old) != squeezed(new):
                    bad += 1
                    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "stored", "new", lineterm="", n=1)
                    print(f"{path}: code cell {number} has other outputs than those stored:\n" + "\n".join(line[:400] for line in lines), file=sys.stderr)
        print(f"{path}: {len(code)} cells run")
    if bad:
        print("notebooks: `UPDATE_EXPECT=1 scripts/check-notebooks.sh` stores the new outputs", file=sys.stderr)
    return 1 if bad else 0


sys.exit(main(sys.argv[1:]))
