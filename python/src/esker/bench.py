"""Benchmark ``python -m esker.bench``: the overhead of the bindings, each figure with its baseline."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import esker
from esker._esker import insert_baseline

__all__ = ["main"]

JOBS_A_LEVEL = 25
LEVELS = 10
ROWS = 10_000


def _timed(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _median(rounds: int, call: Callable[[], Any]) -> float:
    return statistics.median(_timed(call) for _ in range(rounds))


def _edges(jobs: int, files: int) -> Any:
    """Returns the baseline's edges as a table."""
    import pyarrow

    names = [(f"job:{job}", f"file:/bench/{job}/{file}", file) for job in range(jobs) for file in range(files)]
    source, destination, size = zip(*names, strict=True)
    return pyarrow.table({"source": source, "destination": destination, "type": ["write"] * len(names), "bytes": size})


def insert(folder: Path, edges: int, rounds: int) -> dict[str, Any]:
    """Measures edges from an Arrow table; the baseline puts the same edges into batches in Rust."""
    files = 100
    jobs = max(edges // files, 1)
    table = _edges(jobs, files)
    tables, batches = [], []
    for n in range(rounds):
        with esker.open(str(folder / f"a{n}"), create=True, durability="relaxed") as db:
            batches.append(insert_baseline(db._core, jobs, files, ROWS))
        with esker.open(str(folder / f"b{n}"), create=True, durability="relaxed") as db:
            tables.append(_timed(lambda db=db: db.insert_many(edges=table, rows=ROWS)))  # type: ignore[misc]
    count = jobs * files
    bindings, baseline = count / statistics.median(tables), count / statistics.median(batches)
    return {
        "case": f"insert_many of {count:,} edges",
        "unit": "edges/s", "esker": bindings, "baseline": baseline, "note": "batches in Rust", "at_least_ratio": 0.6,
    }  # fmt: skip


def find(folder: Path, objects: int, rounds: int) -> dict[str, Any]:
    """Measures the conversion of objects to polars."""
    import pyarrow

    with esker.open(str(folder / "objects"), create=True, durability="relaxed") as db:
        made = 0
        while made < objects:
            rows = min(50_000, objects - made)
            ops = [("object", f"o{made + n}", "bench", 0, n % 7, {"level": n % 19, "energy": n / 3}) for n in range(rows)]
            db._apply(ops)
            made += rows
        frame = db.find("level >= 0", select=["step", "level", "energy"]).to_polars()
        seconds = _median(rounds, lambda: db.find("level >= 0", select=["step", "level", "energy"]).to_polars())
        plain = pyarrow.table({name: frame[name].to_arrow() for name in frame.columns})
        import polars

        copied = _median(rounds, lambda: polars.from_arrow(plain).clone())
    values = frame.height * frame.width
    return {
        "case": f"find(…).to_polars() of {frame.height:,} objects, {frame.width} columns",
        "unit": "values/s", "esker": values / seconds, "baseline": values / copied, "note": "polars from an Arrow table",
        "at_least": 5e6,
    }  # fmt: skip


def lineage(folder: Path, rounds: int) -> dict[str, Any]:
    """Measures a lineage ten executions deep, with some thousand vertices."""
    with esker.open(str(folder / "lineage"), create=True, durability="relaxed") as db:
        with db.batch() as batch:
            for level in range(LEVELS):
                for job in range(JOBS_A_LEVEL):
                    name = f"job:{level}.{job}"
                    for read in range(3):
                        batch.link(name, "read", f"file:/l/{level}/{(3 * job + read) % (3 * JOBS_A_LEVEL)}")
                    for written in range(3):
                        batch.link(name, "write", f"file:/l/{level + 1}/{3 * job + written}")
        for job in range(JOBS_A_LEVEL):
            db.link("job:last", "read", f"file:/l/{LEVELS}/{3 * job}")
        db.link("job:last", "write", "file:/l/result")
        found = db.lineage("file:/l/result")
        seconds = _median(max(rounds, 5), lambda: db.lineage("file:/l/result"))
        chain = 'v("file:/l/result").e("wasWrittenBy").v().e("read").v().repeat()'
        baseline = _median(max(rounds, 5), lambda: db.travel(chain))
    return {
        "case": f"lineage through {LEVELS + 1} executions, {len(found):,} vertices",
        "unit": "ms", "esker": seconds * 1e3, "baseline": baseline * 1e3, "note": "the same traversal", "at_most": 10.0,
    }  # fmt: skip


def opening(folder: Path, files: int, rounds: int) -> list[dict[str, Any]]:
    """Measures the opening of files while no run observes, and in a run that observes; the baseline is a plain ``open``."""
    target = str(folder / "observed")
    paths = [folder / f"{n}.txt" for n in range(files)]
    for path in paths:
        path.touch()

    def opened() -> None:
        for path in paths:
            open(path).close()

    def observed() -> float:
        with esker.run("opening", db=target, spool=folder / "spool", observe=True):
            return _timed(opened)

    # The first observed run installs a hook that stays.
    plain = _median(max(rounds, 5), opened)
    during = statistics.median(observed() for _ in range(max(rounds, 5)))
    after = _median(max(rounds, 5), opened)
    shape = {"unit": "files/s", "baseline": files / plain, "note": "open without Esker"}
    return [
        {"case": f"open of {files:,} files after an observed run", "esker": files / after, "at_least_ratio": 0.8, **shape},
        {"case": f"open of {files:,} files in an observed run", "esker": files / during, "at_least_ratio": 0.1, **shape},
    ]


def importing(rounds: int) -> dict[str, Any]:
    """Measures ``import esker``; the baseline is a Python that imports nothing."""

    def start(code: str) -> float:
        return _median(max(rounds, 7), lambda: subprocess.run([sys.executable, "-c", code], check=True))

    with_import, without = start("import esker"), start("pass")
    return {
        "case": "import esker",
        "unit": "ms", "esker": (with_import - without) * 1e3, "baseline": without * 1e3, "note": "start of Python",
        "at_most": 100.0,
    }  # fmt: skip


def _met(row: dict[str, Any]) -> str:
    if "at_least_ratio" in row:
        reached = row["esker"] >= row["at_least_ratio"] * row["baseline"]
        return f"ratio >= {row['at_least_ratio']}: " + ("met" if reached else "missed")
    if "at_least" in row:
        return f">= {row['at_least']:,.0f}: " + ("met" if row["esker"] >= row["at_least"] else "missed")
    return f"< {row['at_most']:,.0f}: " + ("met" if row["esker"] < row["at_most"] else "missed")


def main() -> None:
    """Runs all measurements and prints them."""
    about = "Measures the overhead of the Python bindings; each figure has a baseline from the same run."
    parser = argparse.ArgumentParser(prog="python -m esker.bench", description=about)
    parser.add_argument("--edges", type=int, default=300_000, help="edges to insert (default: %(default)s)")
    parser.add_argument("--objects", type=int, default=1_000_000, help="objects to find (default: %(default)s)")
    rounds = "number of measurements of each figure, whose median is printed (default: %(default)s)"
    parser.add_argument("--rounds", type=int, default=3, help=rounds)
    parser.add_argument("--directory", help="folder for the scratch folder")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=args.directory, prefix="esker-bench-") as scratch:
        folder = Path(scratch)
        measures: list[Callable[[], list[dict[str, Any]]]] = [
            lambda: [importing(args.rounds)],
            lambda: [insert(folder, args.edges, args.rounds)],
            lambda: [lineage(folder, args.rounds)],
            lambda: [find(folder, args.objects, args.rounds)],
            lambda: opening(folder, 1_000, args.rounds),
        ]
        for row in (row for measure in measures for row in measure()):
            row["ratio"], row["met"] = row["esker"] / row["baseline"], _met(row)
            rows.append(row)
            if args.format == "table":
                figures = f"{row['esker']:>14,.1f} {row['unit']:9} baseline {row['baseline']:>14,.1f} ({row['note']})"
                print(f"{row['case']:58} {figures}  {row['met']}", flush=True)
    if args.format == "json":
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
