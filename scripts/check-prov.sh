#!/usr/bin/env bash
# Provenance of others: a run of cwltool, whose six encodings have to be one graph, and the documents of the package `prov`, which have to come out as they
# went in.
set -euo pipefail
cd "$(dirname "$0")/.."

# cwltool wants another version of prov than the one that is compared with.
cwltool=scripts/requirements/check-prov-cwltool.txt
package=scripts/requirements/check-prov.txt
wanted=$(sha256sum "$cwltool" "$package")
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
venvs=$(realpath -m "${ESKER_PROV_DIR:-target/prov}")
if [ "$(cat "$venvs/complete" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venvs"
    python3 -m venv "$venvs/cwltool"
    "$venvs/cwltool/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$cwltool"
    python3 -m venv "$venvs/prov"
    "$venvs/prov/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$package"
    echo "$wanted" >"$venvs/complete"
fi
here=$PWD
# Many small databases: in memory where there is some.
scratch=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

printf 'b\na\n' >a.txt
printf 'd\nc\n' >b.txt
printf 'parts:\n- {class: File, path: a.txt}\n- {class: File, path: b.txt}\n' >job.yml
# Workflows may be in any folder: the log goes aside.
if ! "$venvs/cwltool/bin/cwltool" --no-container --provenance bag --full-name 'Ada Lovelace' --orcid https://orcid.org/0000-0002-1825-0097 \
    "$here/scripts/prov/workflow.cwl" job.yml >log 2>&1; then
    cat log >&2
    exit 1
fi
for encoding in provn json xml turtle ntriples jsonld; do
    "$esker" import prov "$encoding.esker" bag --encoding "$encoding" --quiet
    for table in vertices edges; do
        "$esker" export "$table" "$encoding.esker" "$encoding.$table.ndjson" --quiet
        [ "$encoding" = provn ] || cmp "provn.$table.ndjson" "$encoding.$table.ndjson"
    done
    again=$("$esker" import prov "$encoding.esker" bag --encoding "$encoding" --format json)
    grep -q '"edges_created":0' <<<"$again" && grep -q '"vertices_created":0' <<<"$again"
    "$esker" export vertices "$encoding.esker" again.ndjson --quiet --force
    cmp again.ndjson "provn.vertices.ndjson"
done
echo "cwltool: six encodings are one graph of $(wc -l <provn.vertices.ndjson) vertices and $(wc -l <provn.edges.ndjson) edges; again: nothing new"
# What came of the run came from both inputs, through the step between.
sorted=$(grep -o '"id":"dataobject:urn:uuid:[^"]*"[^}]*}[^}]*}*.*"cwlprov:basename":{"value":"sorted.txt"' provn.vertices.ndjson | head -1 | sed 's/^"id":"\([^"]*\)".*/\1/')
"$esker" lineage provn.esker "$sorted" >lineage
grep -q 'Run of workflow/packed.cwl#main/join' lineage && grep -q '3 executions' lineage
"$esker" export prov provn.esker only.provn "$sorted" --quiet
[ "$(grep -c 'cwlprov:basename="[ab].txt"' only.provn)" -ge 2 ]
"$esker" check provn.esker --quiet
"$esker" import prov verified.esker bag --verify --quiet
# A bag that was changed is refused.
echo >>bag/metadata/provenance/primary.cwlprov.json
if "$esker" import prov changed.esker bag 2>refused; then exit 1; fi
grep -q 'changed or damaged' refused

"$venvs/prov/bin/python" "$here/scripts/prov/round.py" "$esker" "$scratch"
