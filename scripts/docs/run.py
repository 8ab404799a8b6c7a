"""Runs the commands of pages, in their order, and compares what they print with what the page shows.

run.py FOLDER PAGE…: each `sh` block is run by bash in one scratch folder a page; a `text` block behind it is what must come out, `…` for anything.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile


def blocks(text: str) -> list[tuple[int, str, str]]:
    """Line, language and contents of each block."""
    out = []
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        found = re.match(r"^```(\w+)\s*$", lines[i])
        if not found:
            i += 2 if lines[i].startswith("```") else 1
            continue
        start = i + 1
        while i + 1 < len(lines) and lines[i + 1] != "```":
            i += 1
        out.append((start + 1, found.group(1), "\n".join(lines[start : i + 1])))
        i += 2
    return out


def matches(shown: str, printed: str) -> bool:
    """Whether it is what was shown: blanks at ends of lines aside, `…` for anything in a line, a line of it for lines."""
    pattern = ""
    for line in shown.strip().split("\n"):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            words = (".*?".join(re.escape(part) for part in word.split("…")) for word in line.split())
            pattern += r"[ \t]*" + r"[ \t]*".join(words) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed.strip() + "\n") is not None


def run(page: pathlib.Path, environment: dict[str, str]) -> int:
    count = 0
    with tempfile.TemporaryDirectory() as scratch:
        printed, said = None, 0
        for line, language, text in blocks(page.read_text()):
            place = f"{page}:{line}"
            if language == "sh":
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", text], cwd=scratch, env=environment, capture_output=True, text=True, timeout=300
                )
                if done.returncode:
                    sys.exit(f"{place}: exit code {done.returncode}\n{text}\n{done.stdout}{done.stderr}")
                printed, said = done.stdout, line
                count += 1
            elif language == "text" and printed is not None:
                if not matches(text, printed):
                    sys.exit(f"{place}: the block at line {said} prints\n{printed}\nand the page shows\n{text}")
                printed = None
            else:
                printed = None
    return count


environment = {"PATH": f"{sys.argv[1]}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/tmp"), "LANG": "C.UTF-8"}
for name in sys.argv[2:]:
    page = pathlib.Path(name)
    count = run(page, environment)
    assert count, f"{page}: there is nothing to run"
    print(f"{page}: {count} blocks run, and print what the page shows")
