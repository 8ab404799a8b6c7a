#!/usr/bin/env bash
# Imports the six logs of the `darshan` package's provenance example, and shows how file C came to be.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-demo-data}
esker=${CARGO_TARGET_DIR:-target}/release/esker
logs=${ESKER_DARSHAN_DIR:-target/darshan}/logs/darshan/examples/darshan-graph
run() { printf '\n$ esker %s\n' "$*"; "$esker" "$@"; }

rm -rf "$folder"
mkdir -p "$folder"
db=$folder/lab.esker
data=/home/pq/p/software/darshan-pydarshan/darshan-util/pydarshan/examples/darshan-graph

echo "Six Darshan logs of a small workflow, recorded by the Darshan developers in July 2020:"
run import darshan "$db" "$logs"
echo; echo "How did C come to be?"
run lineage "$db" "file:$data/C"
echo; echo "What was made from A, and by whom?"
run impact "$db" "file:$data/A"
echo; echo "The same question as a traversal, whole paths:"
run travel "$db" "v(\"file:$data/C\").e(\"wasWrittenBy\").v().e(\"read\").repeat().return_fp()"
echo; echo "What the job that wrote C is known to have done:"
job=$("$esker" scan "$db" "file:$data/C" wasWrittenBy --format ndjson | python3 -c 'import json,sys; print(json.loads(sys.stdin.readline())["dst"])')
run get "$db" "$job"
run stats "$db"
run check "$db"
echo; echo "The database is $db; try: $esker shell $db"
