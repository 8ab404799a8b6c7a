#!/usr/bin/env bash
# Imports the six logs of the `darshan` package's provenance example, and shows the lineage of file C.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-demo-data}
esker=${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/demo/esker}
logs=${ESKER_DARSHAN_DIR:-target/darshan}/logs/darshan/examples/darshan-graph
run() { printf '\n$ esker %s\n' "$*"; "$esker" "$@"; }

rm -rf "$folder"
mkdir -p "$folder"
db=$folder/lab.esker
data=/home/pq/p/software/darshan-pydarshan/darshan-util/pydarshan/examples/darshan-graph

echo "Six Darshan logs of a small workflow, recorded by the Darshan developers in July 2020:"
run import darshan "$db" "$logs"
echo; echo "What is the lineage of C?"
run lineage "$db" "file:$data/C"
echo; echo "What was derived from A, and by which users?"
run impact "$db" "file:$data/A"
echo; echo "The lineage of C as a traversal, with complete paths:"
run travel "$db" "v(\"file:$data/C\").e(\"wasWrittenBy\").v().e(\"read\").repeat().return_fp()"
echo; echo "The record of the job that wrote C:"
job=$("$esker" scan "$db" "file:$data/C" wasWrittenBy --format ndjson | python3 -c 'import json,sys; print(json.loads(sys.stdin.readline())["dst"])')
run get "$db" "$job"
echo; echo "An object with tags for the energies inside C, written by that job:"
run object create "$db" --name energy --app darshan-graph --owner 1001 --step 7 --location "$data/C" --tag Conf=0 | tee "$folder/object"
object=$(tail -1 "$folder/object")
run tag add "$db" --where "Name = 'energy' AND step BETWEEN 5 AND 10" Conf_0 peak=2.5
run find "$db" "EXISTS Conf_0 AND peak > 2 AND location LIKE '%/C'"
run link "$db" "$job" write "object:$object"
run lineage "$db" "object:$object"
run stats "$db"
run check "$db"
echo; echo "The database is $db; try: $esker shell $db"
