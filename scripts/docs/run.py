"""Runs the code blocks of pages in order, and compares their output with the output on the page.

Usage: run.py FOLDER PAGE…

FOLDER has the program `esker`. Each page runs in namespaces of its own (`unshare`) on an overlay file system, so that its files, ports
and mounts are separate from other pages and disappear at the end of the page. Variables and the working directory are kept from one
block to the next. The label of a block determines its treatment:

sh          bash runs the block. If a `text` block follows directly, standard output must equal it.
console     Lines `$ COMMAND` are run; the lines between them are the expected standard output and error. A command continues after a
            line that ends in `\\`, and on lines that begin with `> `.
json, toml, python
            The block must be well-formed. The next commands find it in the file `block.LABEL`. python/tests/test_docs.py runs Python.
others      The block is not checked. A block without a label is an error.

In expected output, `…` matches any part of a line, and a line `…` matches any lines. Hidden comments change the treatment of the block
after them:

<!-- docs: run COMMANDS -->         bash runs the commands, which may have several lines. $ESKER_REPO is the repository.
<!-- docs: exit N -->               The block must end with exit code N, and its output includes standard error.
<!-- docs: skip because REASON -->  The block is not run. Its commands are run with `--help`, which checks that commands and options exist.
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
"""Time limit of a block in seconds."""
PARSERS: dict[str, Callable[[str], object]] = {"json": json.loads, "toml": tomllib.loads, "python": ast.parse}
PAGE_VARIABLES = ("ESKER_LOGS", "ESKER_HARVEST", "ESKER_ETCD")
"""Environment variables for pages: Darshan logs, a Python with the libraries of `esker harvest`, etcd."""
MARK = "\x1e"


def blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields line, label and content of each block. The label of a hidden comment is `!` and its first word; that of expected output is `>`."""
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


def matches(expected: str, printed: str) -> bool:
    """Whether output matches the expected output; differences in blanks are ignored."""
    pattern = ""
    for line in expected.strip().split("\n"):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            words = (".*?".join(re.escape(part) for part in word.split("…")) for word in line.split())
            pattern += r"[ \t]*" + r"[ \t]*".join(words) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed.strip() + "\n") is not None


def commands(text: str) -> list[tuple[str, str]]:
    """Returns the commands of a `console` block with their expected output."""
    out: list[tuple[str, str]] = []
    continues = False
    for line in text.split("\n"):
        if continues or (out and not out[-1][1] and line.startswith("> ")):
            out[-1] = (out[-1][0] + "\n" + line.removeprefix("> "), "")
        elif line.startswith("$ "):
            out.append((line[2:], ""))
        else:
            out[-1] = (out[-1][0], out[-1][1] + line + "\n")
        continues = out[-1][1] == "" and line.endswith("\\")
    return out


START = """
[ ! -e {folder}/state ] || . {folder}/state
trap 'export -p > {folder}/state; printf "cd %q\\n" "$PWD" >> {folder}/state' EXIT
count_ports_and_mounts() {{ {{ ss -Hltn; cat /proc/mounts; }} | wc -l; }}
ports_and_mounts=$(count_ports_and_mounts)
wait_until_ready() {{
    for _ in {{1..300}}; do
        if ! kill -0 $1 2>/dev/null || [ "$(count_ports_and_mounts)" -gt "$ports_and_mounts" ]; then break; fi
        sleep 0.1
    done
    ports_and_mounts=$(count_ports_and_mounts)
}}
"""


def with_waits(script: str) -> str:
    """Adds a wait after each background command, until the process listens, has mounted, or has ended.

    A person types the next command later than bash runs it.
    """
    return re.sub(r"^([^&#\n]*[^&\n]&)(\s*#.*)?$", r"\1 wait_until_ready $!", script, flags=re.M)


class Page:
    """A page that is being run."""

    def __init__(self, path: str, folder: pathlib.Path) -> None:
        self.path, self.folder = path, folder
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.line = 0

    def fail(self, message: str) -> None:
        self.failures.append(f"{self.path}:{self.line}: {message.rstrip()}")

    def bash(self, script: str, both: bool) -> tuple[int, str, str]:
        """Runs a script; returns exit code, standard output and standard error.

        Each script gets new output files, because servers of earlier blocks may still write to the old ones.
        """
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(HERE.parent), "USER": "me"}
        environment |= {"ESKER_REPO": str(ROOT)} | {name: os.environ.get(name, "") for name in PAGE_VARIABLES}
        script = START.format(folder=self.folder) + with_waits(script)
        for name in ("out", "err"):
            (self.folder / name).unlink(missing_ok=True)
        with (self.folder / "out").open("w+") as out, (self.folder / "err").open("w+") as err:
            try:
                words = ["bash", "-euo", "pipefail", "-c", script]
                into = subprocess.STDOUT if both else err
                silent = subprocess.DEVNULL
                done = subprocess.run(words, cwd=HERE, env=environment, stdin=silent, stdout=out, stderr=into, timeout=LIMIT)
                code = done.returncode
            except subprocess.TimeoutExpired:
                code = -1
            return code, (self.folder / "out").read_text(errors="replace"), (self.folder / "err").read_text(errors="replace")

    def sh(self, text: str, code: int, expected: str | None) -> None:
        got, out, err = self.bash(text, both=code != 0)
        if got != code:
            self.fail(f"exit code {got}\n{text}\n{out}{err}")
        elif expected is not None and not matches(expected, out):
            self.fail(f"the block prints\n{out}\nand the page shows\n{expected}")

    def console(self, text: str, code: int) -> None:
        if not text.startswith("$ "):
            self.fail("a console block begins with `$ COMMAND`")
            return
        steps = commands(text)
        script = "".join(f"{command}\nprintf '\\n{MARK}\\n'\n" for command, _ in steps)
        got, out, _ = self.bash(script, both=True)
        printed = out.split(f"\n{MARK}\n")
        for (command, expected), output in zip(steps, printed, strict=False):
            if not matches(expected, output):
                self.fail(f"$ {command}\nprints\n{output}\nand the page shows\n{expected}")
        if got != code or len(printed) + (code == 0) < len(steps):
            self.fail(f"exit code {got} after\n{printed[-1]}")

    def run(self) -> None:
        skip, code = "", 0
        found = list(blocks(pathlib.Path(self.path).read_text()))
        for (self.line, label, text), (_, next_label, next_text) in zip(found, [*found[1:], (0, "", "")], strict=False):
            if label == "!skip" and text.startswith("because "):
                skip = " ".join(text.removeprefix("because ").split())
            elif label == "!exit":
                code = int(text)
            elif label == "!run":
                self.sh(text, 0, None)
            elif label.startswith("!"):
                self.fail("the hidden comment is unknown: expected run, exit or skip")
            elif label != ">":
                kind = self.run_block(label, text, skip, code, next_text if next_label == ">" else None)
                self.counts[kind] += 1
                skip, code = "", 0

    def run_block(self, label: str, text: str, skip: str, code: int, expected: str | None) -> str:
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
                self.sh(text, code, expected)
            else:
                self.console(text, code)
            return "run"
        if label in PARSERS:
            (HERE / f"block.{label}").write_text(text)
            try:
                PARSERS[label](text)
            except (ValueError, SyntaxError) as error:
                self.fail(f"the block is not valid {label}: {error}")
            return "parsed"
        return "not checked"


def isolate(folder: pathlib.Path) -> None:
    """Changes the root directory to a temporary copy (an overlay) of the machine's files, and starts the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lo:
        fcntl.ioctl(lo, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    for name in ("upper", "work", "root"):
        (folder / name).mkdir()
    root = folder / "root"
    options = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, root], check=True)
    for place in ("/proc", "/sys", "/dev", str(ROOT), *os.environ["PATH"].split(":")[:1]):
        copy = root / place.lstrip("/")
        if place in ("/proc", "/sys", "/dev") or place and not (copy.is_dir() and any(copy.iterdir())):
            copy.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--rbind", place, copy], check=True)
    os.chroot(root)
    os.chdir(ROOT)
    folder.mkdir(exist_ok=True)
    HERE.mkdir(parents=True)


def run_page(path: str, folder: pathlib.Path) -> None:
    isolate(folder)
    page = Page(path, folder)
    page.run()
    print(f"{path}: " + ("; ".join(f"{n} {what}" for what, n in page.counts.items()) or "no blocks"))
    for failure in page.failures:
        print(failure, file=sys.stderr)
    sys.exit(bool(page.failures))


def separate(programs: str, words: list[str]) -> subprocess.CompletedProcess[str] | None:
    """Runs a Python program with namespaces of its own, `--inside` and a temporary folder as arguments; None if the machine does not allow that."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    if os.getuid() != 0 and shutil.which("sudo"):  # users may not mount an overlay over `/`, even in a namespace of their own
        command = ["sudo", "-n", "env", *(f"{name}={environment.get(name, '')}" for name in ("PATH", *PAGE_VARIABLES)), *command]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        return None
    program, *arguments = words
    with tempfile.TemporaryDirectory() as folder:
        # Bash is process 1 of the namespace, and reaps orphaned processes.
        all_words = [*command, "bash", "-c", '"$@"; exit $?', "bash", sys.executable, program, "--inside", folder, *arguments]
        return subprocess.run(all_words, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def main(words: list[str]) -> int:
    if words[0] == "--inside":
        run_page(words[2], pathlib.Path(words[1]))
    programs, *pages = words

    bad, counts = 0, Counter[str]()
    # Pages mostly wait for servers, so that several can run at the same time.
    with ThreadPoolExecutor(4) as pool:
        for done in pool.map(lambda page: separate(programs, [__file__, page]), pages):
            if done is None:
                print("docs: NO PAGE WAS RUN: this machine does not allow namespaces (unshare)", file=sys.stderr)
                return 0
            print(done.stdout, end="", flush=True)
            bad += done.returncode != 0
            for number, kind in re.findall(r"[:;] (\d+) ([^;\n]+)", done.stdout):
                counts[kind] += int(number)
    print(f"{len(pages)} pages, {bad} with failures: " + "; ".join(f"{n} {what}" for what, n in counts.most_common()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
