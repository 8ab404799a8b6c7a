#!/usr/bin/env bash
# Imports PROV documents of other programs. The six encodings of a cwltool run must give one graph, and the documents of the package `prov` must be equal
# after an import and an export.
set -euo pipefail
cd "$(dirname "$0")/.."

# cwltool needs an older version of prov than the tests, hence two virtual environments.
cwltool=scripts/requirements/check-prov-cwltool.txt
package=scripts/requirements/check-prov.txt
checksums=$(sha256sum "$cwltool" "$package")
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
venvs=$(realpath -m "${ESKER_PROV_DIR:-target/prov}")
if [ "$(cat "$venvs/complete" 2>/dev/null)" != "$checksums" ]; then
    rm -rf "$venvs"
    python3 -m venv "$venvs/cwltool"
    "$venvs/cwltool/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$cwltool"
    python3 -m venv "$venvs/prov"
    "$venvs/prov/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$package"
    echo "$checksums" >"$venvs/complete"
fi
here=$PWD
# The test creates many small databases, which is faster in memory.
scratch=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

printf 'b\na\n' >a.txt
printf 'd\nc\n' >b.txt
printf 'parts:\n- {class: File, path: a.txt}\n- {class: File, path: b.txt}\n' >job.yml
# cwltool's log is printed only if the run fails.
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
    repeated=$("$esker" import prov "$encoding.esker" bag --encoding "$encoding" --format json)
    grep -q '"edges_created":0' <<<"$repeated" && grep -q '"vertices_created":0' <<<"$repeated"
    "$esker" export vertices "$encoding.esker" repeated.ndjson --quiet --force
    cmp repeated.ndjson "provn.vertices.ndjson"
done
echo "cwltool: six encodings are one graph of $(wc -l <provn.vertices.ndjson) vertices and $(wc -l <provn.edges.ndjson) edges; a second import changes nothing"
# The output of the run must have both inputs in its lineage, through the intermediate step.
sorted=$(grep -o '"id":"dataobject:urn:uuid:[^"]*"[^}]*}[^}]*}*.*"cwlprov:basename":{"value":"sorted.txt"' provn.vertices.ndjson | head -1 | sed 's/^"id":"\([^"]*\)".*/\1/')
"$esker" lineage provn.esker "$sorted" >lineage
grep -q 'Run of workflow/packed.cwl#main/join' lineage && grep -q '3 executions' lineage
"$esker" export prov provn.esker only.provn "$sorted" --quiet
[ "$(grep -c 'cwlprov:basename="[ab].txt"' only.provn)" -ge 2 ]
"$esker" check provn.esker --quiet
"$esker" import prov verified.esker bag --verify --quiet
# The import must refuse a bag whose files were changed.
echo >>bag/metadata/provenance/primary.cwlprov.json
if "$esker" import prov changed.esker bag 2>refused; then exit 1; fi
grep -q 'changed or damaged' refused

"$venvs/prov/bin/python" "$here/scripts/prov/round_trip.py" "$esker" "$scratch"
