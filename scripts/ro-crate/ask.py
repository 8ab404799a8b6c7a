"""Asks a provenance run crate what Workflow Run RO-Crate says that one must be able to ask, by SPARQL over its metadata."""

from __future__ import annotations

import json
import sys
from importlib import resources

from rdflib import Graph

folder = sys.argv[1]
document = json.load(open(f"{folder}/ro-crate-metadata.json"))
known, own = document["@context"]
assert known == "https://w3id.org/ro/crate/1.1/context", known
document["@context"] = [json.loads((resources.files("rocrate") / "data" / "ro-crate.jsonld").read_text())["@context"], own]
graph = Graph().parse(data=json.dumps(document), format="json-ld", publicID="http://crate.example/")
PREFIXES = """PREFIX s: <http://schema.org/> PREFIX b: <https://bioschemas.org/> PREFIX dct: <http://purl.org/dc/terms/>
PREFIX w: <https://w3id.org/ro/terms/workflow-run#>
"""


def ask(what: str, query: str, expected: list[tuple[str, ...]]) -> None:
    rows = sorted(tuple(str(term).rsplit("/", 1)[-1] for term in row) for row in graph.query(PREFIXES + query))
    assert rows == sorted(expected), f"{what}: {rows}, expected {expected}"
    print(f"  {what} {', '.join(' '.join(row) for row in rows)}")


RUN = "?root s:mainEntity ?flow . ?run s:instrument ?flow"
ask("Which workflow was run?", f"SELECT DISTINCT ?flow {{ {RUN} }}", [("flow.sh",)])
ask("What is it written in?", f"SELECT ?name {{ {RUN} . ?flow s:programmingLanguage/s:name ?name }}", [("Shell script",)])
ask("What did it take?", f"SELECT ?in {{ {RUN} . ?run s:object ?in . ?in a s:MediaObject }}", [("in.txt",)])
ask("What did it make?", f"SELECT ?out {{ {RUN} . ?run s:result ?out }}", [("upper.txt",)])
ask("Which tools did it run?", f"SELECT ?tool {{ {RUN} . ?flow s:hasPart ?tool }}", [("dash",), ("sort",)])
ask(
    "Which step made what of what?",
    f"SELECT ?tool ?in ?out {{ {RUN} . ?flow s:hasPart ?tool . ?step s:instrument ?tool ; s:object ?in ; s:result ?out }}",
    [("dash", "sorted.txt", "upper.txt"), ("sort", "in.txt", "sorted.txt")],
)
ask("How did steps end?", "SELECT DISTINCT ?how { ?step a s:CreateAction ; s:actionStatus ?how }", [("CompletedActionStatus",)])
ask("How many began and ended when?", "SELECT (COUNT(*) AS ?n) { ?r s:startTime ?from ; s:endTime ?to FILTER(?from <= ?to) }", [("3",)])
ask("Who ran them?", "SELECT DISTINCT ?who { ?r a s:CreateAction ; s:agent ?a . ?a s:identifier ?who }", [(sys.argv[2],)])
ask(
    "With which settings?",
    f"SELECT ?name ?value {{ {RUN} . ?run s:object ?o . ?o a s:PropertyValue ; s:name ?name ; s:value ?value }}",
    [("case", "upper")],
)
ask("How many threads?", f"SELECT ?v {{ {RUN} . ?run w:environment ?e . ?e s:name 'OMP_NUM_THREADS' ; s:value ?v }}", [("3",)])
