#!/usr/bin/env python3
"""Runs all tests except the long ones, two programs at a time, and prints the duration of each program.

One call of cargo builds all tests and the command, so that each dependency is compiled once. Then the script runs the test programs, the examples in
doc comments and the scripts `scripts/check-*.sh`. It prints the complete output of each program that fails, and the skipped tests of the others.
The file `target/test/NAME.log` has the output of program NAME. The exit code is 1 if a test failed.

With `--changed`, the script skips programs that passed before with the same inputs. The inputs are the test program, the command, the libraries, the
files of this checkout other than Rust sources, and the variables `ESKER_*` and `PROPTEST_*`. The folder `test-passed` in cargo's target folder
records the programs that passed.

    scripts/test.py [--jobs N] [--only TEXT]... [--no-scripts] [--changed]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "target" / "test"
# The scripts run in this order, one after the other, because some use packages that earlier ones install.
SCRIPTS = [
    "python",
    "notebooks",
    "web",
    "demo",
    "collective",
    "sparql-clients",
    "sparql",
    "fsspec",
    "openlineage",
    "harvest",
    "packaging",
    "monitoring",
    "tracing",
    "oidc",
    "prov",
    "ro-crate",
    "catalogues",
    "mcp",
    "cluster",
    "visibility",
    "workflows",
    "docs",
]
# These programs read Rust sources when they run, or build from them.
READ_SOURCES = {"testkit/tidy", "doc-tests", "check-python", "check-notebooks", "check-fsspec", "check-packaging", "check-workflows"}
PASSED = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "test-passed"
LIBTEST = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
PYTEST = re.compile(r"^(?:=+ )?((?:\d+ (?:passed|failed|skipped|xfailed|errors?|deselected|warnings?)(?:, )?)+) in [\d.]+s", re.MULTILINE)
SKIPPED = re.compile(r"^skipped: .*", re.MULTILINE)
FAILED = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. FAILED|^FAILED (\S+)", re.MULTILINE)


@dataclass
class Job:
    """A program to run, and its result."""

    name: str
    command: list[str]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    status: int | None = None
    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)
    failed_tests: list[str] = field(default_factory=list)
    """Names of failed tests, if the program prints them."""
    passed_before: bool = False
    """Whether the program was skipped because it passed before with the same inputs."""

    def run(self, inputs: Inputs | None, changed: bool) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        record = PASSED / f"{self.name.replace('/', '-')}.json"
        key = inputs.key(self) if inputs else None
        if key and changed and record.exists():
            earlier = json.loads(record.read_text())
            if earlier["key"] == key:
                self.status, self.passed, self.skipped, self.passed_before = 0, earlier["passed"], earlier["skipped"], True
                return
        self.execute()
        if key and self.status == 0:
            PASSED.mkdir(parents=True, exist_ok=True)
            record.write_text(json.dumps({"key": key, "passed": self.passed, "skipped": self.skipped}))
        elif record.exists():
            record.unlink()

    def execute(self) -> None:
        began = time.monotonic()
        path = LOGS / f"{self.name.replace('/', '-')}.log"
        with path.open("wb") as log:
            # In a process group of its own, the program gets the terminal's interrupts only from this script.
            child = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
            running[self.name] = child
            self.status = child.wait()
            running.pop(self.name, None)
        self.seconds = time.monotonic() - began
        self.count_results(path.read_text(errors="replace"))

    def count_results(self, text: str) -> None:
        """Counts passed, failed and skipped tests in the output of the program."""
        self.skipped = SKIPPED.findall(text)
        self.failed_tests = [rust or python for rust, python in FAILED.findall(text)] if self.status else []
        for passed, failed, ignored in LIBTEST.findall(text):
            self.passed += int(passed)
            self.failed += int(failed)
            if int(ignored):
                self.skipped += ["skipped: marked `#[ignore]`: a measurement, or a long run of make test-long"] * int(ignored)
        for summary in PYTEST.findall(text):
            counts = {kind: int(n) for n, kind in re.findall(r"(\d+) (\w+)", summary)}
            self.passed += counts.get("passed", 0) + counts.get("xfailed", 0)
            self.failed += counts.get("failed", 0)
            self.skipped += ["skipped: by pytest, for the reason in the log"] * counts.get("skipped", 0)
        if self.status and not self.failed:
            self.failed = 1
        elif not self.status and not self.passed and self.name.startswith("check-"):
            # A script that prints no counts is one check.
            self.passed = 1


class Inputs:
    """Digests of the files and variables that determine the outcome of tests."""

    def __init__(self, command: Path, libraries: list[Path]) -> None:
        self.command = digest(command)
        self.libraries = "".join(digest(library) for library in sorted(libraries))
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        sources, others = hashlib.sha256(), hashlib.sha256()
        for name in sorted(listed.stdout.split(b"\0")):
            path = ROOT / os.fsdecode(name)
            if path.is_file():
                kind = sources if path.suffix == ".rs" else others
                kind.update(name + b"\0" + digest(path).encode())
        # The digest of the command replaces ESKER_BIN, which only has its path.
        settings = {name: value for name, value in os.environ.items() if name.startswith(("ESKER_", "PROPTEST_")) and name != "ESKER_BIN"}
        others.update("\0".join(sorted(f"{name}={value}" for name, value in settings.items())).encode())
        self.sources, self.others = sources.hexdigest(), others.hexdigest()

    def key(self, job: Job) -> str:
        """Returns a digest of all inputs of a program."""
        parts = [self.others, *job.command[1:]]
        program = Path(job.command[0])
        content = program.read_bytes() if program.is_absolute() else b""
        parts.append(hashlib.sha256(content).hexdigest())
        if job.name in READ_SOURCES:
            parts.append(self.sources)
        # A program whose bytes include these names runs the command or loads the libraries.
        if job.name.startswith("check-") or b"ESKER_BIN" in content:
            parts.append(self.command)
        if b"libesker_" in content:
            parts.append(self.libraries)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


running: dict[str, subprocess.Popen[bytes]] = {}


def build() -> tuple[list[Job], Path, list[Path]]:
    """Compiles everything; returns the test programs, the command, and the libraries for programs in C."""
    call = ["cargo", "test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    built = subprocess.run(call, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if built.returncode:
        sys.exit(built.returncode)
    jobs, command, libraries = [], None, []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        program = message.get("executable")
        if message["reason"] == "compiler-artifact" and "cdylib" in message["target"]["kind"]:
            libraries += [Path(name) for name in message["filenames"] if name.endswith(".so")]
        if message["reason"] != "compiler-artifact" or not program:
            continue
        folder = Path(message["manifest_path"]).parent
        target = message["target"]
        if message["profile"]["test"]:
            kind = "unit" if target["kind"][0] != "test" else target["name"]
            environment = {"CARGO_MANIFEST_DIR": str(folder), "CARGO": os.environ.get("CARGO", "cargo")}
            jobs.append(Job(f"{folder.name}/{kind}", [program, "--show-output"], folder, environment))
        elif target["name"] == "esker":
            command = Path(program)
    if command is None:
        sys.exit("test: cargo has not built the command `esker`")
    return jobs, command, libraries


def run_queues(queues: list[list[Job]], done: list[Job], total: int, lock: threading.Lock, inputs: Inputs | None, changed: bool) -> None:
    """Runs the jobs of the first queue, then those of the next ones."""
    for queue in queues:
        while True:
            with lock:
                if not queue or interrupted.is_set():
                    break
                job = queue.pop(0)
            job.run(inputs, changed)
            with lock:
                done.append(job)
                report(job, len(done), total)


def report(job: Job, number: int, total: int) -> None:
    word = "skipped, passed before" if job.passed_before else "ok" if job.status == 0 else f"FAILED ({job.status})"
    print(f"[{number}/{total}] {job.name}: {job.passed} passed, {job.seconds:.0f} s: {word}", flush=True)
    if job.status:
        log = LOGS / f"{job.name.replace('/', '-')}.log"
        print(without_successes(log.read_text(errors="replace")), flush=True)


def without_successes(text: str) -> str:
    """Returns the output of a test program without the output of tests that passed."""
    out, inside = [], False
    for line in text.splitlines():
        if line == "successes:":
            inside = True
        elif line == "failures:" or line.startswith("test result:"):
            inside = False
        if not inside:
            out.append(line)
    return "\n".join(out)


def summary(done: list[Job]) -> int:
    print(f"\n{'seconds':>8}  program")
    for job in sorted(done, key=lambda job: -job.seconds):
        if job.seconds >= 2 or job.status:
            print(f"{job.seconds:8.0f}  {job.name}{'' if job.status == 0 else ': FAILED'}")
    for job in done:
        for name in job.failed_tests or ([""] if job.status else []):
            print(f"failed: {job.name} {name}".rstrip())
    reasons: dict[str, int] = {}
    for reason in (reason for job in done for reason in job.skipped):
        reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items()):
        print(f"{count} × {reason}")
    passed, failed = sum(job.passed for job in done), sum(job.failed for job in done)
    earlier = sum(job.passed for job in done if job.passed_before)
    note = f" ({earlier} of them in an earlier run with the same inputs)" if earlier else ""
    print(f"{passed} passed{note}, {failed} failed, {sum(reasons.values())} skipped")
    return 1 if failed else 0


interrupted = threading.Event()


def forward_signal(number: int, _frame: object) -> None:
    interrupted.set()
    for child in list(running.values()):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="number of programs that run at the same time [2]")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="run only programs with TEXT in their names")
    parser.add_argument("--no-scripts", action="store_true", help="run only the test programs, without the scripts check-*.sh")
    parser.add_argument("--changed", action="store_true", help="skip programs that passed before with the same inputs")
    options = parser.parse_args()
    began = time.monotonic()
    programs, command, libraries = build()
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    # Without a checkout (in a source archive) the inputs are unknown, and everything runs.
    inputs = Inputs(command, libraries) if (ROOT / ".git").exists() else None
    os.environ["ESKER_BIN"] = str(command)
    # Property tests draw the same cases in each run, so that a run depends on the code alone; `make test-long` draws others.
    os.environ.setdefault("PROPTEST_RNG_SEED", "1")
    programs.append(Job("doc-tests", ["cargo", "test", "--locked", "--quiet", "--doc"], ROOT))
    scripts = [] if options.no_scripts else [Job(f"check-{name}", [f"scripts/check-{name}.sh"], ROOT) for name in SCRIPTS]
    if options.only:
        programs, scripts = ([job for job in jobs if any(text in job.name for text in options.only)] for jobs in (programs, scripts))
    if not programs and not scripts:
        parser.error(f"no program has {' or '.join(options.only)} in its name")
    # The longest programs start first, because they would end last.
    programs.sort(key=lambda job: (job.name != "cli/it", job.name != "server/it"))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward_signal)
    done: list[Job] = []
    lock, total = threading.Lock(), len(programs) + len(scripts)
    orders = [[scripts, programs] if scripts and lane == 0 else [programs] for lane in range(options.jobs)]
    lanes = [threading.Thread(target=run_queues, args=(order, done, total, lock, inputs, options.changed)) for order in orders]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    status = summary(done)
    print(f"{time.monotonic() - began:.0f} s in all")
    return 130 if interrupted.is_set() else status


if __name__ == "__main__":
    sys.exit(main())
