"""Documents of the package `prov` through Esker: what comes out is what went in, by the package's own `==`.

round.py ESKER FOLDER: its examples and the documents that it is tested with, in all encodings that both read, into a database and out of it again.
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


def same(one: pm.ProvDocument, other: pm.ProvDocument) -> bool:
    """As they are; where the one says something of a thing in several places, when that has been put together."""
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


def through(job: tuple[pathlib.Path, pm.ProvDocument, str, str]) -> str:
    source, document, about, what = job
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        compare(source, document, about, pathlib.Path(folder))
    return what


def compare(source: pathlib.Path, document: pm.ProvDocument, about: str, folder: pathlib.Path) -> None:
    database, out = folder / "round.esker", folder / "out"
    run("import", "prov", database, source)
    for suffix in (".json", ".provn"):
        run("export", "prov", database, out.with_suffix(suffix), "--force")
        assert same(document, load(out.with_suffix(suffix))), f"{about}: what came out as {suffix} is something else"
    again = run("import", "prov", database, source, "--format", "json")
    assert '"edges_created":0' in again and '"vertices_created":0' in again, f"{about}: {again}"
    run("export", "prov", database, out.with_suffix(".again.json"), "--force")
    assert out.with_suffix(".again.json").read_text() == out.with_suffix(".json").read_text(), about


jobs = []
for number, (name, make) in enumerate(examples.tests):
    document = make()
    for suffix, (format_, settings) in FORMATS.items():
        source = scratch / f"in{number}{suffix}"
        if suffix == ".ttl" and document.has_bundles():
            continue
        document.serialize(str(source), format=format_, **settings)
        # What the package does not read again itself says something else.
        if not same(document, load(source)):
            continue
        jobs.append((source, document, f"{name}{suffix}", f"examples, {suffix}"))
for folder, step in (("json", 6), ("provn/provtoolbox", 1), ("provn/spec/prov-n", 1), ("provn/spec/prov-dm", 1), ("xml", 2), ("rdf", 10)):
    for source in sorted((tests / folder).iterdir())[::step]:
        if source.suffix not in FORMATS:
            continue
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                document = load(source)
            # What it warns of it leaves out, as names whose prefix nobody declares.
            if told and source.suffix == ".provn":
                continue
            if source.suffix in (".ttl", ".trig"):
                # Some of these say less than the document that they were made of.
                plain = load(tests / "json" / f"{source.stem}.json")
                if not same(document, plain):
                    continue
        except Exception:  # The package refuses it, or has no such document.
            continue
        # The package forgets all members of a collection but the first.
        if source.name != "example_33.xml":
            jobs.append((source, document, str(source), folder))
with ThreadPoolExecutor(3) as several:
    count = Counter(several.map(through, jobs))
for source in sorted((tests / "malformed").iterdir()):
    if source.suffix in FORMATS:
        done = subprocess.run([esker, "import", "prov", scratch / "bad.esker", source], capture_output=True, text=True)
        assert done.returncode == 1 and source.name in done.stderr and "panic" not in done.stderr, (source, done)
        count["refused"] += 1
for what, number in count.items():
    print(f"  {what}: {number}")
assert count["examples, .json"] >= 8 and count["examples, .xml"] >= 5 and count["examples, .trig"] >= 5, count
assert count["json"] >= 60 and count["rdf"] >= 30 and count["xml"] >= 12 and count["refused"] >= 12, count
print(f"prov {prov.__version__}: what came out is what went in")
