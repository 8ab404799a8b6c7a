"""Makes the pictures of a terminal in docs/book/figures, or compares them with the program's present output.

Usage: recordings.py FOLDER

FOLDER has the program `esker`. Commands run in a terminal of 80 columns, isolated as the pages of run.py. The pictures show their output as it was
printed, except that ids of runs, times and durations are replaced by fixed ones. `UPDATE_EXPECT=1` writes the pictures.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl

import run

COLUMNS = 80
FIGURES = run.ROOT / "docs/book/figures"
PREPARE = r"""
printf 'south 290.4\\nnorth 271.2\\nwest 284.9\\n' > raw.txt
mkdir -p /project/ocean/raw /project/ocean/figures /project/code
for n in 1 2 3; do head -c ${n}500000 /dev/zero > /project/ocean/raw/tas-$n.nc; done
head -c 300000 /dev/zero > /project/ocean/figures/tas.png
head -c 5000 /dev/zero > /project/code/plot.py
"""
RECORDINGS = {
    "first-steps": [
        "esker init lab.esker",
        "esker run --target lab.esker --trace -- sort raw.txt -o sorted.txt",
        'esker lineage lab.esker "file:$PWD/sorted.txt"',
    ],
    "disk-usage": [
        "esker import tree files.esker /project --quiet",
        "esker top files.esker --by dir --limit 4",
        "esker find files.esker /project \"name LIKE '%.nc' AND size > 3MB\"",
    ],
}


def record(command: str) -> str:
    """Returns what a command prints to a terminal."""
    controller, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {"PATH": os.environ["PATH"], "HOME": "/home/me", "USER": "me", "LANG": "C.UTF-8", "TERM": "xterm-256color", "PAGER": "cat"}
    words = ["bash", "-c", command]
    process = subprocess.Popen(words, cwd=run.HERE, env=environment, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    printed = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # Linux answers EIO after the last process has closed the terminal.
            break
        if not part:
            break
        printed += part
    if code := process.wait():
        sys.exit(f"recordings: {command}: exit code {code}\n{printed.decode(errors='replace')}")
    return printed.decode().replace("\r\n", "\n")


def inside(folder: str) -> None:
    """Runs all recordings in the isolated root directory, and prints them as JSON."""
    run.isolate(pathlib.Path(folder))
    subprocess.run(["bash", "-euc", PREPARE], cwd=run.HERE, check=True)
    print(json.dumps({name: [record(command) for command in commands] for name, commands in RECORDINGS.items()}))


def with_fixed_values(text: str, ids: dict[str, str], times: dict[str, str]) -> str:
    """Replaces ids of runs, times and durations, equal ones by equal ones."""

    def fixed_id(found: re.Match[str]) -> str:
        return ids.setdefault(found.group(), f"execution:1m8ggc5yyd26taz{len(ids) + 1:02}")

    def fixed_time(found: re.Match[str]) -> str:
        return times.setdefault(found.group(), f"2026-03-01T10:00:{len(times):02}.000Z")

    # The program cuts lines at the width of the terminal. The rest of such a line from a time on depends on the digits of the time, whose last zeros it omits.
    def fixed_rest(found: re.Match[str]) -> str:
        return f"{found.group(1)}2026-03-01T10:00:00.000000000Z to"[: COLUMNS - 1] + "…"

    text = re.sub(r"execution:[0-9a-z]{17}\b", fixed_id, text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z(?:~\d+)?", fixed_time, text)
    text = re.sub(r"^(.*?)\d{4}-\d\d-\d\dT.*…$", fixed_rest, text, flags=re.M)
    return re.sub(r"\b\d+\.\d\d (ms|s)\b", r"0.01 \1", text)


def picture(name: str, printed: list[str]) -> str:
    """Returns a terminal with the commands and their output as SVG."""
    # Namespaces have no rich, and record without it.
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    ids: dict[str, str] = {}
    times: dict[str, str] = {}
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False)
    for command, output in zip(RECORDINGS[name], printed, strict=True):
        lines = [Text.assemble(("$ ", "green"), (command, "bold"))]
        lines += Text.from_ansi(with_fixed_values(output, ids, times)).split("\n") if output else []
        for line in lines:
            # A terminal breaks a line after its last column, and not between words.
            for start in range(0, max(len(line), 1), COLUMNS):
                console.print(line[start : start + COLUMNS], no_wrap=True, highlight=False)
    # The fonts of rich come from another host.
    template = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.S).replace("Fira Code, monospace", "monospace")
    return re.sub(r"[ \t]+$", "", console.export_svg(title="", code_format=template, unique_id=name), flags=re.M)


def main(programs: str) -> int:
    done = run.separate(programs, [__file__])
    if done is None:
        print("docs: NOTHING WAS RECORDED: this machine does not allow namespaces (unshare)", file=sys.stderr)
        return 0
    if done.returncode:
        return done.returncode
    different = []
    for name, printed in json.loads(done.stdout).items():
        made, file = picture(name, printed), FIGURES / f"{name}.svg"
        if os.environ.get("UPDATE_EXPECT") == "1":
            file.write_text(made)
        elif not file.exists() or file.read_text() != made:
            different.append(file.relative_to(run.ROOT))
            print(f"docs: {different[-1]} does not show what the program prints now:\n{''.join(printed)}", file=sys.stderr)
    if different:
        print("docs: `UPDATE_EXPECT=1 scripts/check-docs.sh` makes the pictures anew", file=sys.stderr)
        return 1
    print(f"docs: {len(RECORDINGS)} pictures of a terminal show what the program prints")
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        inside(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1]))
