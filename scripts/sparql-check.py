#!/usr/bin/env python3
"""Compares Esker with other SPARQL engines on random datasets, queries and updates.

    scripts/sparql-check.py --cases 2000
    scripts/sparql-check.py --cases 100000 --seed 7 --jena target/sparql-clients-long/jars

Starts the command $ESKER_BIN as a server and sends each request over HTTP. The same requests go to Oxigraph (`pyoxigraph`), and with --jena FOLDER to
Apache Jena, whose archives are in that folder. Answers are compared as multisets of rows with blank nodes of any labels; after an update the whole
dataset is compared. A difference is made smaller, and looked up among the listed reasons (scripts/sparql_check/reasons.py).

The exit code is 1 if a difference has no listed reason. A seed determines its cases. Each dataset has ten requests.
"""

from __future__ import annotations

import argparse
import collections
import os
import signal
import sys
import time
from pathlib import Path

from sparql_check.compare import EQUAL, LEXICAL, compare
from sparql_check.engines import Answer, Esker, Jena, Oxigraph
from sparql_check.generate import Case, Generator
from sparql_check.reasons import LEXICAL_FORMS, is_ordered, reason_of
from sparql_check.shrink import shrink

ROOT = Path(__file__).resolve().parent.parent
REQUESTS = 10
"""Requests for each dataset."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000, help="number of requests [2000]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first dataset; the others follow [1]")
    parser.add_argument("--jena", type=Path, help="folder with the archives of Apache Jena")
    parser.add_argument("--most", type=int, default=20, help="ends after this number of differences without a reason [20]")
    parser.add_argument("--show", action="store_true", help="print differences with a listed reason, too")
    return parser.parse_args()


def show(answer: Answer) -> str:
    kind, value = answer
    return f"{kind} {value if kind != 'rows' else sorted(map(str, value))}"[:1500]


class Check:
    """All engines, and the differences found."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        program = os.environ.get("ESKER_BIN") or str(Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "debug/esker")
        self.esker = Esker(program)
        self.others = [Oxigraph()] + ([Jena(options.jena)] if options.jena else [])
        self.reasons: collections.Counter[str] = collections.Counter()
        self.unexplained = 0

    def close(self) -> None:
        for engine in (self.esker, *self.others):
            engine.close()

    def answer(self, engine, case: Case, fresh: bool) -> Answer:
        if fresh or case.is_update:
            engine.load(case)
        return engine.update(case.text()) if case.is_update else engine.query(case.text())

    def report(self, engine, case: Case, seed: int, difference: str) -> None:
        small = shrink(case, lambda less: compare(self.answer(self.esker, less, True), self.answer(engine, less, True)) == difference)
        ours, theirs = self.answer(self.esker, small, True), self.answer(engine, small, True)
        reason = reason_of(engine.name, small, ours, theirs)
        for other in self.others:
            # An answer of two engines needs a reason that is listed for both.
            if other is not engine and (other.reads_rdf_12 or not case.is_rdf_12) and compare(theirs, self.answer(other, small, True)) == EQUAL and reason_of(other.name, small, ours, theirs) != reason:
                reason = None
        if reason:
            self.reasons[f"{engine.name}: {reason}"] += 1
            if not self.options.show:
                return
        else:
            self.unexplained += 1
        print(f"\nseed {seed}: Esker and {engine.name} differ ({compare(ours, theirs)}): {reason or 'no listed reason'}\n{small.show()}")
        print(f"Esker: {show(ours)}\n{engine.name}: {show(theirs)}", flush=True)

    def dataset(self, seed: int) -> None:
        generator = Generator(seed)
        quads = generator.dataset()
        changed = True
        for _ in range(REQUESTS):
            case = generator.case(quads)
            fresh, changed = changed or case.is_update, case.is_update
            ours = self.answer(self.esker, case, fresh)
            engines = [engine for engine in self.others if engine.reads_rdf_12 or not case.is_rdf_12]
            answers = [self.answer(engine, case, fresh) for engine in engines]
            if not is_ordered(case, ours):
                self.unexplained += 1
                print(f"\nseed {seed}: the order of Esker's rows\n{case.show()}\n{ours}")
            for engine, theirs in zip(engines, answers, strict=True):
                difference = compare(ours, theirs)
                if difference == LEXICAL and engine.name == "Oxigraph":
                    self.reasons[f"Oxigraph: {LEXICAL_FORMS}"] += 1
                elif difference != EQUAL:
                    self.report(engine, case, seed, difference)
                    changed = True


def main() -> int:
    options = arguments()
    check = Check(options)
    began = time.monotonic()
    cases = 0
    try:
        for seed in range(options.seed, options.seed + -(-options.cases // REQUESTS)):
            check.dataset(seed)
            cases += REQUESTS
            if check.unexplained >= options.most:
                break
    finally:
        check.close()
    engines = " and ".join(engine.name for engine in check.others)
    for reason, count in check.reasons.most_common():
        print(f"{count:6} {reason}")
    print(f"{cases} cases with {engines}, from seed {options.seed}, in {time.monotonic() - began:.0f} s")
    print(f"{sum(check.reasons.values())} differences have a listed reason, {check.unexplained} have none")
    return 1 if check.unexplained else 0


if __name__ == "__main__":
    # The servers end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
