#!/usr/bin/env python3
"""Checks a cluster from outside: clients write and read over HTTP alone while faults happen, and the history is judged.

    scripts/cluster-check.py --seconds 60 --faults none
    scripts/cluster-check.py --seconds 1200 --seed 7 --faults kill,pause,cut,etcd,clock

Starts an etcd and members of one cluster whose servers move, with the command $ESKER_BIN and the etcd of `make setup` ($ESKER_ETCD). Six writers
append edges to lists, write registers and tags, and create, rename and delete names; four readers read all of it. Each client is a session over all
members. The guarantees are those of docs/internals/consistency.md.

The exit code is 1 if a guarantee is violated, if a member is not ready 90 s after a fault, or if a writer waits for two leases or longer
(--wait-limit) when a single member is killed. The seed determines the faults, not the history. As root, the processes run in a network namespace of
their own. Faults that this machine cannot make are skipped with the reason.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster_check import clients, faults
from cluster_check.cluster import Cluster, faketime
from cluster_check.history import INFO, History
from cluster_check.judge import judge

ROOT = Path(__file__).resolve().parent.parent
INSIDE = "ESKER_CLUSTER_CHECK_INSIDE"
"""Environment variable of a process that is in the network namespace already."""
WRITERS, READERS = 6, 4
WRITES = ["append", "append", "append", "write", "write", "tag", "claim", "name_file"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="time for which faults happen [60]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the faults and of the clients' choices [1]")
    parser.add_argument("--faults", default=",".join(faults.KINDS), help=f"kinds of faults, or none [{','.join(faults.KINDS)}]")
    parser.add_argument("--members", type=int, default=4, help="members of the cluster, at least 3 [4]")
    parser.add_argument("--stores", type=int, default=8, help="servers that move between the members [8]")
    parser.add_argument("--lease", type=int, default=5, help="lease of a member in etcd, in seconds [5]")
    parser.add_argument("--rest", type=float, default=0.02, help="mean pause of a client between two operations, in seconds [0.02]")
    parser.add_argument("--wait-limit", type=float, help="seconds that a writer may wait at the kill of one member; 0 for no limit [two leases]")
    parser.add_argument("--folder", type=Path, help="folder for data, logs and history; kept. Default: a temporary one, kept only after a failure")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="form of the report [text]")
    options = parser.parse_args()
    if options.members < 3:
        parser.error("--members: expected at least 3, because servers of a killed member move to others")
    kinds = [] if options.faults in ("", "none") else options.faults.split(",")
    unknown = [kind for kind in kinds if kind not in faults.KINDS]
    if unknown:
        parser.error(f"--faults: {unknown[0]!r} is not a kind of fault: expected some of {', '.join(faults.KINDS)}, or none")
    options.kinds = kinds
    options.wait_limit = 2 * options.lease if options.wait_limit is None else options.wait_limit or float("inf")
    return options


def isolate() -> None:
    """Continues in a network namespace of its own, if this process may create one."""
    if os.environ.get(INSIDE):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    elif os.geteuid() == 0 and shutil.which("unshare"):
        tried = subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL, check=False)
        if tried.returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


def programs() -> tuple[str, str]:
    """Returns the paths of esker and etcd."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    esker = os.environ.get("ESKER_BIN") or str(target / "debug/esker")
    servers = Path(os.environ.get("ESKER_FTP_SERVERS_DIR") or ROOT / "target/ftp-servers")
    etcd = os.environ.get("ESKER_ETCD") or str(servers / "etcd-server/usr/bin/etcd")
    remedies = {esker: "build it with `cargo build --bin esker`, or set ESKER_BIN", etcd: "run `make origin-servers`, or set ESKER_ETCD"}
    for program, remedy in remedies.items():
        if not Path(program).is_file():
            sys.exit(f"cluster-check: `{program}` does not exist: {remedy}")
    return esker, etcd


def run(options: argparse.Namespace, folder: Path, say) -> dict:
    """Runs clients and faults, and judges the history."""
    kinds = []
    for kind in options.kinds:
        why = faults.missing(kind) or ("cuts need a network namespace" if kind == "cut" and not os.environ.get(INSIDE) else None)
        if why:
            say(f"skipped: faults of kind {kind}: {why}")
        else:
            kinds.append(kind)
    history = History(folder / "history.jsonl")
    preload = faketime() if "clock" in kinds else None
    cluster = Cluster(folder, *programs(), options.members, options.stores, options.lease, preload, "cut" in kinds)
    nemesis = faults.Nemesis(cluster, history, kinds, options.seed)
    problems: list[str] = []
    shared = clients.Shared(history, cluster, options.seed)
    threads = []
    try:
        cluster.start()
        clients.prepare(shared)
        say(f"seed {options.seed}; ready: {', '.join(member.address for member in cluster.members)}; {folder}")
        threads = [clients.Client(shared, f"writer-{n}", WRITES + (["mark"] if n == 0 else []), options.rest) for n in range(WRITERS)]
        threads += [clients.Client(shared, f"reader-{n}", ["read"], options.rest) for n in range(READERS)]
        for thread in threads:
            thread.start()
        until = history.now() + options.seconds
        nemesis.rest(min(3.0, options.seconds))
        while (now := history.now()) < until and not any(thread.error for thread in threads):
            if not kinds:
                nemesis.rest(min(5.0, until - now))
            else:
                why = nemesis.one(until)
                if why:
                    problems.append(f"not ready 90 s after a fault: {why}")
                    break
            shown = f": {nemesis.faults[-1].kind} {nemesis.faults[-1].what}" if kinds else ""
            say(f"{history.now():6.0f} s, {len(history.operations)} operations{shown}")
        shared.stop.set()
        for thread in threads:
            thread.join()
        problems += [f"{thread.name}: {type(thread.error).__name__}: {thread.error}" for thread in threads if thread.error]
        clients.read_everything(shared, max(thread.session.seen for thread in threads))
    finally:
        shared.stop.set()
        cluster.stop()
        history.close()
    common_clock = "clock" not in kinds
    violations = judge(history.operations, common_clock)
    waits(nemesis.faults, history)
    for fault in nemesis.faults:
        if fault.kind == "kill" and fault.single and fault.longest >= options.wait_limit:
            where = f"at the kill of {fault.what} at {fault.begin:.1f} s"
            problems.append(f"a writer waited for {fault.longest:.1f} s {where}: expected less than {options.wait_limit:g} s")
    outcomes = collections.Counter(f"{o.f} {o.outcome}" for o in history.operations)
    return {
        "seconds": round(history.now(), 1),
        "seed": options.seed,
        "common_clock": common_clock,
        "operations": len(history.operations),
        "outcomes": dict(sorted(outcomes.items())),
        "faults": [fault.__dict__ for fault in nemesis.faults],
        "problems": problems,
        "violations": violations,
    }


def waits(all_faults: list[faults.Fault], history: History) -> None:
    """Finds for each fault the longest wait of a writer for an operation that was in progress during the fault."""
    for operation in history.operations:
        end = operation.end if operation.outcome != INFO else operation.begin + clients.PATIENCE
        if operation.process.startswith("writer"):
            for fault in all_faults:
                if operation.begin < fault.end and end > fault.begin:
                    fault.longest = max(fault.longest, end - operation.begin)


def print_text(report: dict) -> None:
    """Prints the report for people."""
    print(f"{report['operations']} operations in {report['seconds']} s; " + ", ".join(f"{name}: {n}" for name, n in report["outcomes"].items()))
    by_kind = collections.defaultdict(list)
    for fault in report["faults"]:
        by_kind[fault["kind"] if fault["single"] else f"{fault['kind']} with another"].append(fault["longest"])
    for kind, longest in sorted(by_kind.items()):
        longest.sort()
        print(f"{kind}: {len(longest)} faults; longest wait of a writer: median {longest[len(longest) // 2]:.1f} s, maximum {longest[-1]:.1f} s")
    for text in report["problems"] + report["violations"][:20]:
        print(f"FAILED: {text}")
    if not report["problems"] and not report["violations"]:
        print("no violation" + ("" if report["common_clock"] else " (with clock jumps, only sessions have an order)"))


def main() -> int:
    options = arguments()
    isolate()
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    if options.folder:
        options.folder.mkdir(parents=True)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="esker-cluster-check-"))

    def say(text: str) -> None:
        print(text, file=sys.stderr if options.format == "json" else sys.stdout, flush=True)

    failed = True
    try:
        report = run(options, folder, say)
        failed = bool(report["problems"] or report["violations"])
        if options.format == "json":
            print(json.dumps(report, indent=1, default=str))
        else:
            print_text(report)
    except KeyboardInterrupt:
        say("interrupted")
        failed = False
        return 130
    finally:
        if failed:
            say(f"data, logs and history are in {folder}")
        elif not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
