"""Imports and exports documents of the package `prov`. A document must be unchanged by the package's own `==`.

Usage: round_trip.py ESKER FOLDER

The documents are the package's examples and the files of its tests, in all encodings that the package and Esker read.
"""

from __future__ import annotations

import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import prov
import prov.model as pm
from prov.tests import examples

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
esker, scratch = sys.argv[1], pathlib.Path(sys.argv[2])
tests = pathlib.Path(prov.__file__).parent / "tests"
FORMATS = {".json": ("json", {}), ".provn": ("provn", {}), ".xml": ("xml", {}), ".ttl": ("rdf", {"rdf_format": "turtle"}), ".trig": ("rdf", {"rdf_format": "trig"})}


def load(path: pathlib.Path) -> pm.ProvDocument:
    format_, settings = FORMATS[path.suffix]
    return pm.ProvDocument.deserialize(str(path), format=format_, **settings)


def equivalent(one: pm.ProvDocument, other: pm.ProvDocument) -> bool:
    """Whether two documents are equal, directly or after all statements on each element are merged."""
    if one == other:
        return True
    try:
        return one.unified() == other.unified()
    except pm.ProvException:
        return False


def run(*words: str | os.PathLike[str]) -> str:
    done = subprocess.run([esker, *words, "--quiet"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def round_trip(job: tuple[pathlib.Path, pm.ProvDocument, str, str]) -> str:
    source, document, about, kind = job
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        compare(source, document, about, pathlib.Path(folder))
    return kind


def compare(source: pathlib.Path, document: pm.ProvDocument, about: str, folder: pathlib.Path) -> None:
    database, out = folder / "round.esker", folder / "out"
    run("import", "prov", database, source)
    for suffix in (".json", ".provn"):
        run("export", "prov", database, out.with_suffix(suffix), "--force")
        assert equivalent(document, load(out.with_suffix(suffix))), f"{about}: the export as {suffix} differs"
    repeated = run("import", "prov", database, source, "--format", "json")
    assert '"edges_created":0' in repeated and '"vertices_created":0' in repeated, f"{about}: {repeated}"
    run("export", "prov", database, out.with_suffix(".repeated.json"), "--force")
    assert out.with_suffix(".repeated.json").read_text() == out.with_suffix(".json").read_text(), about


jobs = []
for number, (name, make) in enumerate(examples.tests):
    document = make()
    for suffix, (format_, settings) in FORMATS.items():
        source = scratch / f"in{number}{suffix}"
        if suffix == ".ttl" and document.has_bundles():
            continue
        document.serialize(str(source), format=format_, **settings)
        # The package cannot read some of its own output without changes; such documents are skipped.
        if not equivalent(document, load(source)):
            continue
        jobs.append((source, document, f"{name}{suffix}", f"examples, {suffix}"))
for folder, step in (("json", 6), ("provn/provtoolbox", 1), ("provn/spec/prov-n", 1), ("provn/spec/prov-dm", 1), ("xml", 2), ("rdf", 10)):
    for source in sorted((tests / folder).iterdir())[::step]:
        if source.suffix not in FORMATS:
            continue
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                document = load(source)
            # The package warns of statements that it omits, such as those with undeclared prefixes.
            if caught and source.suffix == ".provn":
                continue
            if source.suffix in (".ttl", ".trig"):
                # Some RDF files have fewer statements than the JSON file of the same document.
                plain = load(tests / "json" / f"{source.stem}.json")
                if not equivalent(document, plain):
                    continue
        except Exception:  # the package refuses the file, or has no JSON file of this name
            continue
        # The package reads only the first member of this file's collection.
        if source.name != "example_33.xml":
            jobs.append((source, document, str(source), folder))
with ThreadPoolExecutor(3) as pool:
    count = Counter(pool.map(round_trip, jobs))
for source in sorted((tests / "malformed").iterdir()):
    if source.suffix in FORMATS:
        done = subprocess.run([esker, "import", "prov", scratch / "bad.esker", source], capture_output=True, text=True)
        assert done.returncode == 1 and source.name in done.stderr and "panic" not in done.stderr, (source, done)
        count["refused"] += 1
for kind, number in count.items():
    print(f"  {kind}: {number}")
assert count["examples, .json"] >= 8 and count["examples, .xml"] >= 5 and count["examples, .trig"] >= 5, count
assert count["json"] >= 60 and count["rdf"] >= 30 and count["xml"] >= 12 and count["refused"] >= 12, count
print(f"prov {prov.__version__}: all documents are unchanged after an import and an export")
