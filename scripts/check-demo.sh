#!/usr/bin/env bash
# Compares the lineage of file C in the six example logs, as `esker lineage` prints it, with PyDarshan's figures of the logs.
set -euo pipefail
cd "$(dirname "$0")/.."

esker=${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}
wheel=${ESKER_DARSHAN_DIR:-target/darshan}/logs/darshan
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$esker" import darshan "$scratch/lab.esker" "$wheel/examples/darshan-graph" >"$scratch/first"
"$esker" import darshan "$scratch/lab.esker" "$wheel/examples/darshan-graph" >"$scratch/second"
data=/home/pq/p/software/darshan-pydarshan/darshan-util/pydarshan/examples/darshan-graph
"$esker" lineage "$scratch/lab.esker" "file:$data/C" --format json >"$scratch/lineage.json"
# The package has 18 logs, two of them copies of others.
"$esker" import darshan "$scratch/all.esker" "$wheel" >"$scratch/all"
"$esker" check "$scratch/all.esker" >"$scratch/check"

python3 - "$scratch" "$data" <<'EOF'
import json, pathlib, sys

scratch, data = pathlib.Path(sys.argv[1]), sys.argv[2]
answer = json.loads((scratch / "lineage.json").read_text())
names = {v["id"]: v["attributes"].get("name", v["id"]) for v in answer["vertices"]}
files = {e["dst"] for e in answer["edges"] if e["type"] == "read"} | {answer["target"]}

def short(vertex):
    return vertex.removeprefix(f"file:{data}/") if vertex in files else names[vertex]

got = sorted(
    (short(e["src"]), e["type"], short(e["dst"]), e["properties"].get("bytes_written", e["properties"].get("bytes_read")))
    for e in answer["edges"]
    if e["type"] in ("wasWrittenBy", "read")
)
expected = sorted([
    ("C", "wasWrittenBy", "app_readAB_writeC", 8000),
    ("app_readAB_writeC", "read", "A", 10000),
    ("app_readAB_writeC", "read", "B", 10000),
    ("A", "wasWrittenBy", "app_write", 10000),
    ("B", "wasWrittenBy", "app_write", 10000),
])
assert got == expected, f"the provenance of C is {got}, expected {expected}"
assert answer["complete"] is True, answer["stopped"]
assert "6 of 6" in (scratch / "first").read_text(), (scratch / "first").read_text()
assert "18" in (scratch / "all").read_text(), (scratch / "all").read_text()
print("demo: C <- app_readAB_writeC <- {A <- app_write, B <- app_write}, with the bytes of the logs; 18 logs imported; check is clean")
EOF
