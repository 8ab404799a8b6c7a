"""Answers the competency questions of Workflow Run RO-Crate for a provenance run crate, with SPARQL queries over its metadata."""

from __future__ import annotations

import json
import sys
from importlib import resources

from rdflib import Graph

folder = sys.argv[1]
document = json.load(open(f"{folder}/ro-crate-metadata.json"))
standard, own = document["@context"]
assert standard == "https://w3id.org/ro/crate/1.1/context", standard
document["@context"] = [json.loads((resources.files("rocrate") / "data" / "ro-crate.jsonld").read_text())["@context"], own]
graph = Graph().parse(data=json.dumps(document), format="json-ld", publicID="http://crate.example/")
PREFIXES = """PREFIX s: <http://schema.org/> PREFIX b: <https://bioschemas.org/> PREFIX dct: <http://purl.org/dc/terms/>
PREFIX w: <https://w3id.org/ro/terms/workflow-run#>
"""


def check_answer(question: str, query: str, expected: list[tuple[str, ...]]) -> None:
    rows = sorted(tuple(str(term).rsplit("/", 1)[-1] for term in row) for row in graph.query(PREFIXES + query))
    assert rows == sorted(expected), f"{question}: {rows}, expected {expected}"
    print(f"  {question} {', '.join(' '.join(row) for row in rows)}")


RUN = "?root s:mainEntity ?flow . ?run s:instrument ?flow"
check_answer("Which workflow was run?", f"SELECT DISTINCT ?flow {{ {RUN} }}", [("flow.sh",)])
check_answer("Which language is it written in?", f"SELECT ?name {{ {RUN} . ?flow s:programmingLanguage/s:name ?name }}", [("Shell script",)])
check_answer("Which files did it read?", f"SELECT ?in {{ {RUN} . ?run s:object ?in . ?in a s:MediaObject }}", [("in.txt",)])
check_answer("Which files did it write?", f"SELECT ?out {{ {RUN} . ?run s:result ?out }}", [("upper.txt",)])
check_answer("Which tools did it run?", f"SELECT ?tool {{ {RUN} . ?flow s:hasPart ?tool }}", [("dash",), ("sort",)])
check_answer(
    "Which files did each step read and write?",
    f"SELECT ?tool ?in ?out {{ {RUN} . ?flow s:hasPart ?tool . ?step s:instrument ?tool ; s:object ?in ; s:result ?out }}",
    [("dash", "sorted.txt", "upper.txt"), ("sort", "in.txt", "sorted.txt")],
)
check_answer("How did steps end?", "SELECT DISTINCT ?how { ?step a s:CreateAction ; s:actionStatus ?how }", [("CompletedActionStatus",)])
check_answer("How many runs have start and end times?", "SELECT (COUNT(*) AS ?n) { ?r s:startTime ?from ; s:endTime ?to FILTER(?from <= ?to) }", [("3",)])
check_answer("Who ran them?", "SELECT DISTINCT ?who { ?r a s:CreateAction ; s:agent ?a . ?a s:identifier ?who }", [(sys.argv[2],)])
check_answer(
    "Which settings did it have?",
    f"SELECT ?name ?value {{ {RUN} . ?run s:object ?o . ?o a s:PropertyValue ; s:name ?name ; s:value ?value }}",
    [("case", "upper")],
)
check_answer("How many threads did it use?", f"SELECT ?v {{ {RUN} . ?run w:environment ?e . ?e s:name 'OMP_NUM_THREADS' ; s:value ?v }}", [("3",)])
