#!/usr/bin/env python3
"""Runs every test that fits into minutes, two programs side by side, and says what took how long.

Builds all tests and the command in one call of cargo, so that each dependency is compiled once. Then it runs the test programs, the examples in
doc comments and the scripts `scripts/check-*.sh`. What a program that fails has printed is shown whole, of the others only what they skipped.
All output is kept in `target/test/NAME.log`. The exit code is 1 if anything failed.

    scripts/test.py [--jobs N] [--only TEXT]... [--no-scripts]
"""

from __future__ import annotations

import argparse
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
# In this order, one after the other: some use what one before has installed.
SCRIPTS = [
    "python",
    "notebooks",
    "web",
    "demo",
    "collective",
    "sparql-clients",
    "fsspec",
    "openlineage",
    "harvest",
    "packaging",
    "prov",
    "ro-crate",
    "mcp",
    "docs",
]
LIBTEST = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
PYTEST = re.compile(r"^(?:=+ )?((?:\d+ (?:passed|failed|skipped|xfailed|errors?|deselected|warnings?)(?:, )?)+) in [\d.]+s", re.MULTILINE)
SKIPPED = re.compile(r"^skipped: .*", re.MULTILINE)
FAILED = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. FAILED|^FAILED (\S+)", re.MULTILINE)


@dataclass
class Job:
    """A program to run, and what came of it."""

    name: str
    command: list[str]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    status: int | None = None
    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Of tests that failed, where the program tells them."""

    def run(self) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        path = LOGS / f"{self.name.replace('/', '-')}.log"
        with path.open("wb") as log:
            # A process group of its own: an interrupt of the terminal is this script's to hand on.
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
        self.read(path.read_text(errors="replace"))

    def read(self, text: str) -> None:
        """Counts what the program says that it did."""
        self.skipped = SKIPPED.findall(text)
        self.names = [one or other for one, other in FAILED.findall(text)] if self.status else []
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
            # A script without a count of its own is one check.
            self.passed = 1


running: dict[str, subprocess.Popen[bytes]] = {}


def build() -> tuple[list[Job], Path]:
    """Compiles everything; the test programs, and the command."""
    call = ["cargo", "test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    built = subprocess.run(call, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if built.returncode:
        sys.exit(built.returncode)
    jobs, command = [], None
    for line in built.stdout.splitlines():
        message = json.loads(line)
        program = message.get("executable")
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
    return jobs, command


def work(queues: list[list[Job]], done: list[Job], total: int, lock: threading.Lock) -> None:
    """Runs jobs of the first queue, then of the others."""
    for queue in queues:
        while True:
            with lock:
                if not queue or interrupted.is_set():
                    break
                job = queue.pop(0)
            job.run()
            with lock:
                done.append(job)
                report(job, len(done), total)


def report(job: Job, number: int, total: int) -> None:
    word = "ok" if job.status == 0 else f"FAILED ({job.status})"
    print(f"[{number}/{total}] {job.name}: {job.passed} passed, {job.seconds:.0f} s: {word}", flush=True)
    if job.status:
        log = LOGS / f"{job.name.replace('/', '-')}.log"
        print(without_successes(log.read_text(errors="replace")), flush=True)


def without_successes(text: str) -> str:
    """What a test program prints, less what tests have printed that passed."""
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
    print(f"\n{'seconds':>8}  what")
    for job in sorted(done, key=lambda job: -job.seconds):
        if job.seconds >= 2 or job.status:
            print(f"{job.seconds:8.0f}  {job.name}{'' if job.status == 0 else ': FAILED'}")
    for job in done:
        for name in job.names or ([""] if job.status else []):
            print(f"failed: {job.name} {name}".rstrip())
    reasons: dict[str, int] = {}
    for reason in (reason for job in done for reason in job.skipped):
        reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items()):
        print(f"{count} × {reason}")
    passed, failed = sum(job.passed for job in done), sum(job.failed for job in done)
    print(f"{passed} passed, {failed} failed, {sum(reasons.values())} skipped")
    return 1 if failed else 0


interrupted = threading.Event()


def stop(number: int, _frame: object) -> None:
    interrupted.set()
    for child in list(running.values()):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="programs that run side by side [2]")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="run what has this in its name")
    parser.add_argument("--no-scripts", action="store_true", help="run the test programs alone")
    options = parser.parse_args()
    began = time.monotonic()
    programs, command = build()
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    os.environ["ESKER_BIN"] = str(command)
    programs.append(Job("doc-tests", ["cargo", "test", "--locked", "--quiet", "--doc"], ROOT))
    scripts = [] if options.no_scripts else [Job(f"check-{name}", [f"scripts/check-{name}.sh"], ROOT) for name in SCRIPTS]
    if options.only:
        programs, scripts = ([job for job in jobs if any(text in job.name for text in options.only)] for jobs in (programs, scripts))
    if not programs and not scripts:
        parser.error(f"nothing has {' or '.join(options.only)} in its name")
    # The longest first: it would be the last to end.
    programs.sort(key=lambda job: (job.name != "cli/it", job.name != "server/it"))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    done: list[Job] = []
    lock, total = threading.Lock(), len(programs) + len(scripts)
    orders = [[scripts, programs] if scripts and lane == 0 else [programs] for lane in range(options.jobs)]
    lanes = [threading.Thread(target=work, args=(order, done, total, lock)) for order in orders]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    status = summary(done)
    print(f"{time.monotonic() - began:.0f} s in all")
    return 130 if interrupted.is_set() else status


if __name__ == "__main__":
    sys.exit(main())
