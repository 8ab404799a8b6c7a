"""Runs what pages show, in its order, and compares what comes out with what the page says.

run.py FOLDER PAGE…: FOLDER has the program `esker`. Each page has a machine of its own, by `unshare` and an overlay: it writes
anywhere, its servers have their ports, its mounts their places, and all of it is gone with the page. Variables and the folder
go on from block to block. What is done with a block depends on its label:

sh          bash runs it. A `text` block directly behind it is what must come out on standard output
console     lines `$ COMMAND`; between them what each prints on standard output and error. A line that ends in `\\` goes on, and
            so does one before `> `
json, toml, python
            is parsed, and left as `block.toml` or so for the next commands. python/tests/test_docs.py runs examples of Python
any other   is shown. A block without a label is a mistake

In what is to come out, `…` is anything in a line and a line of it any lines. Comments, which readers do not see, say more about
the block behind them:

<!-- docs: run COMMANDS -->         bash runs them, over several lines if need be. $ESKER_REPO is the repository
<!-- docs: exit N -->               the block ends with that exit code, and its `text` has standard error, too
<!-- docs: skip because REASON -->  it is not run here; `--help` behind its lines tells that there are such commands and options
"""

from __future__ import annotations

import ast
import fcntl
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path("/home/me/here")
LIMIT = 600
"""Seconds that a block may take."""
PARSERS: dict[str, Callable[[str], object]] = {"json": json.loads, "toml": tomllib.loads, "python": ast.parse}
GIVEN = ("ESKER_LOGS", "ESKER_HARVEST", "ESKER_ETCD")
"""What pages are told of: Darshan's logs, a Python with the libraries of `esker harvest`, etcd."""
MARK = "\x1e"


def pieces(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, label and contents of each block; of a comment to us the label is `!` and its first word, of output `>`."""
    lines = text.split("\n")
    i, end, before = 0, 0, ""
    while i < len(lines):
        start = i + 1
        if lines[i].startswith("<!-- docs: "):
            while "-->" not in lines[i]:
                i += 1
            found = re.fullmatch(r"<!-- docs: (\w+) ?(.*?)\s*-->", "\n".join(lines[start - 1 : i + 1]), re.S)
            yield start, "!" + (found.group(1) if found else ""), found.group(2) if found else ""
        elif fence := re.match(r"( *)```(.*)", lines[i]):
            blanks = len(fence.group(1))
            while lines[i + 1].strip() != "```":
                i += 1
            label = fence.group(2).strip()
            output = label == "text" and before == "sh" and not "".join(lines[end : start - 1]).strip()
            yield start, ">" if output else label, "\n".join(line[blanks:] for line in lines[start : i + 1])
            i += 1
            end, before = i + 1, label
        i += 1


def matches(shown: str, printed: str) -> bool:
    """Whether it is what was shown: blanks aside, `…` for anything in a line, a line of it for lines."""
    pattern = ""
    for line in shown.strip().split("\n"):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            words = (".*?".join(re.escape(part) for part in word.split("…")) for word in line.split())
            pattern += r"[ \t]*" + r"[ \t]*".join(words) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed.strip() + "\n") is not None


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a `console` block, each with what it is said to print."""
    out: list[tuple[str, str]] = []
    goes_on = False
    for line in text.split("\n"):
        if goes_on or (out and not out[-1][1] and line.startswith("> ")):
            out[-1] = (out[-1][0] + "\n" + line.removeprefix("> "), "")
        elif line.startswith("$ "):
            out.append((line[2:], ""))
        else:
            out[-1] = (out[-1][0], out[-1][1] + line + "\n")
        goes_on = out[-1][1] == "" and line.endswith("\\")
    return out


START = """
[ ! -e {folder}/state ] || . {folder}/state
trap 'export -p > {folder}/state; printf "cd %q\\n" "$PWD" >> {folder}/state' EXIT
there() {{ {{ ss -Hltn; cat /proc/mounts; }} | wc -l; }}
before=$(there)
settled() {{
    for _ in {{1..300}}; do
        if ! kill -0 $1 2>/dev/null || [ "$(there)" -gt "$before" ]; then break; fi
        sleep 0.1
    done
    before=$(there)
}}
"""


def waiting(script: str) -> str:
    """The script, which waits for what it puts into the background until somebody listens or has mounted, or it has ended.

    Readers are slower than bash.
    """
    return re.sub(r"^([^&#\n]*[^&\n]&)(\s*#.*)?$", r"\1 settled $!", script, flags=re.M)


class Page:
    """A page while it is run."""

    def __init__(self, path: str, folder: pathlib.Path) -> None:
        self.path, self.folder = path, folder
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.line = 0

    def fail(self, what: str) -> None:
        self.wrong.append(f"{self.path}:{self.line}: {what.rstrip()}")

    def bash(self, script: str, both: bool) -> tuple[int, str, str]:
        """Exit code and output. New files take it: servers of earlier blocks may still write to theirs."""
        kept = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(HERE.parent), "USER": "me"}
        kept |= {"ESKER_REPO": str(ROOT)} | {name: os.environ.get(name, "") for name in GIVEN}
        script = START.format(folder=self.folder) + waiting(script)
        for name in ("out", "err"):
            (self.folder / name).unlink(missing_ok=True)
        with (self.folder / "out").open("w+") as out, (self.folder / "err").open("w+") as err:
            try:
                words = ["bash", "-euo", "pipefail", "-c", script]
                into = subprocess.STDOUT if both else err
                silent = subprocess.DEVNULL
                done = subprocess.run(words, cwd=HERE, env=kept, stdin=silent, stdout=out, stderr=into, timeout=LIMIT)
                code = done.returncode
            except subprocess.TimeoutExpired:
                code = -1
            return code, (self.folder / "out").read_text(errors="replace"), (self.folder / "err").read_text(errors="replace")

    def sh(self, text: str, code: int, shown: str | None) -> None:
        got, out, err = self.bash(text, both=code != 0)
        if got != code:
            self.fail(f"exit code {got}\n{text}\n{out}{err}")
        elif shown is not None and not matches(shown, out):
            self.fail(f"it prints\n{out}\nand the page shows\n{shown}")

    def console(self, text: str, code: int) -> None:
        if not text.startswith("$ "):
            self.fail("a console block begins with `$ COMMAND`")
            return
        steps = commands(text)
        script = "".join(f"{command}\nprintf '\\n{MARK}\\n'\n" for command, _ in steps)
        got, out, _ = self.bash(script, both=True)
        printed = out.split(f"\n{MARK}\n")
        for (command, shown), what in zip(steps, printed, strict=False):
            if not matches(shown, what):
                self.fail(f"$ {command}\nprints\n{what}\nand the page shows\n{shown}")
        if got != code or len(printed) + (code == 0) < len(steps):
            self.fail(f"exit code {got} behind\n{printed[-1]}")

    def go(self) -> None:
        skip, code = "", 0
        found = list(pieces(pathlib.Path(self.path).read_text()))
        for (self.line, label, text), (_, after, what) in zip(found, [*found[1:], (0, "", "")], strict=False):
            if label == "!skip" and text.startswith("because "):
                skip = " ".join(text.removeprefix("because ").split())
            elif label == "!exit":
                code = int(text)
            elif label == "!run":
                self.sh(text, 0, None)
            elif label.startswith("!"):
                self.fail("no such comment")
            elif label != ">":
                kind = self.one(label, text, skip, code, what if after == ">" else None)
                self.counts[kind] += 1
                skip, code = "", 0

    def one(self, label: str, text: str, skip: str, code: int, shown: str | None) -> str:
        if not label:
            self.fail("the block has no label")
            return "without a label"
        if skip:
            for line in text.split("\n") if label == "sh" else []:
                if line.startswith("esker "):
                    self.sh(re.sub(r" +#.*| -- .*", "", line) + " --help > /dev/null", 0, None)
            return f"not run: {skip}"
        if label in ("sh", "console"):
            if label == "sh":
                self.sh(text, code, shown)
            else:
                self.console(text, code)
            return "run"
        if label in PARSERS:
            (HERE / f"block.{label}").write_text(text)
            try:
                PARSERS[label](text)
            except (ValueError, SyntaxError) as error:
                self.fail(f"no {label}: {error}")
            return "parsed"
        return "shown"


def alone(folder: pathlib.Path) -> None:
    """Makes this process see a copy of the machine's files that is gone when it ends, and a network of loopback alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lo:
        fcntl.ioctl(lo, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    for name in ("upper", "work", "root"):
        (folder / name).mkdir()
    root = folder / "root"
    options = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, root], check=True)
    for place in ("/proc", "/sys", "/dev", str(ROOT), *os.environ["PATH"].split(":")[:1]):
        there = root / place.lstrip("/")
        if place in ("/proc", "/sys", "/dev") or place and not (there.is_dir() and any(there.iterdir())):
            there.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--rbind", place, there], check=True)
    os.chroot(root)
    os.chdir(ROOT)
    folder.mkdir(exist_ok=True)
    HERE.mkdir(parents=True)


def inside(path: str, folder: pathlib.Path) -> None:
    alone(folder)
    page = Page(path, folder)
    page.go()
    print(f"{path}: " + ("; ".join(f"{n} {what}" for what, n in page.counts.items()) or "no blocks"))
    for what in page.wrong:
        print(what, file=sys.stderr)
    sys.exit(bool(page.wrong))


def main(words: list[str]) -> int:
    if words[0] == "--inside":
        inside(words[1], pathlib.Path(words[2]))
    programs, *pages = words
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    if os.getuid() != 0 and shutil.which("sudo"):  # users may not lay a file system over `/`, not even in a namespace of theirs
        command = ["sudo", "-n", "env", *(f"{name}={environment.get(name, '')}" for name in ("PATH", *GIVEN)), *command]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        print("docs: NO PAGE WAS RUN: this machine lets nobody make namespaces (unshare)", file=sys.stderr)
        return 0

    def run(name: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            # Bash is the first process there, and buries what others leave.
            words = [*command, "bash", "-c", '"$@"; exit $?', "bash", sys.executable, __file__, "--inside", name, folder]
            return subprocess.run(words, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    bad, counts = 0, Counter[str]()
    # Most of the time servers are waited for.
    with ThreadPoolExecutor(4) as several:
        for done in several.map(run, pages):
            print(done.stdout, end="", flush=True)
            bad += done.returncode != 0
            for number, kind in re.findall(r"[:;] (\d+) ([^;\n]+)", done.stdout):
                counts[kind] += int(number)
    print(f"{len(pages)} pages, {bad} wrong: " + "; ".join(f"{n} {what}" for what, n in counts.most_common()))
    return 1 if bad else 0


sys.exit(main(sys.argv[1:]))
