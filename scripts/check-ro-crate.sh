#!/usr/bin/env bash
# Validates crates of `esker export ro-crate` with roc-validator, without a network, in the three profiles of Workflow Run RO-Crate 0.5. No required check
# may fail, and SPARQL queries must answer the profiles' competency questions.
set -euo pipefail
cd "$(dirname "$0")/.."

# The package rocrate 0.13 contains the context of RO-Crate 1.1.
requirements=scripts/requirements/check-ro-crate.txt
checksum=$(sha256sum <"$requirements")
ESKER=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
export ESKER
venv=$(realpath -m "${ESKER_RO_CRATE_DIR:-target/ro-crate}")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
here=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$venv/bin/python" scripts/ro-crate/fill_cache.py "$scratch/cache"
cd "$scratch"
export LAB=$scratch/lab.esker
"$ESKER" init "$LAB" --quiet
cp "$here/scripts/ro-crate/flow.sh" .
printf 'b\na\n' >in.txt
OMP_NUM_THREADS=3 "$ESKER" run --target "$LAB" --quiet --param case=upper -- ./flow.sh
for profile in process workflow provenance; do
    for files in --files ''; do
        # shellcheck disable=SC2086
        "$ESKER" export ro-crate "$LAB" "file:$scratch/upper.txt" "crate-$profile$files" --profile "$profile" $files --quiet --environment \
            --license https://spdx.org/licenses/CC-BY-4.0
        # The workflow profiles require the workflow's file in the crate, so a crate without files is valid only in the process profile.
        [ -n "$files" ] || [ "$profile" = process ] || continue
        "$venv/bin/rocrate-validator" validate --no-paging --offline --cache-path "$scratch/cache" --profile-identifier "$profile-run-crate-0.5" \
            --requirement-severity required --output-format json --output-file "$profile$files.json" "crate-$profile$files" >log 2>&1 || true
        "$venv/bin/python" - "$profile$files.json" "$profile$files" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
for issue in report["issues"]:
    print(sys.argv[2], issue["severity"], issue["message"], issue.get("violatingEntity"))
assert report["passed"] is True and not report["issues"], sys.argv[2]
print(f"roc-validator, offline: {sys.argv[2]}: 0 required checks failed")
PY
    done
done
# The six Darshan logs record no workflow, so an export in the workflow profile must fail.
logs=$here/${ESKER_DARSHAN_DIR:-target/darshan}/logs/darshan/examples/darshan-graph
"$ESKER" import darshan "$scratch/darshan.esker" "$logs" --quiet
data=/home/pq/p/software/darshan-pydarshan/darshan-util/pydarshan/examples/darshan-graph
"$ESKER" export ro-crate "$scratch/darshan.esker" "file:$data/C" crate-darshan --quiet
"$venv/bin/rocrate-validator" validate --no-paging --offline --cache-path "$scratch/cache" --profile-identifier process-run-crate-0.5 crate-darshan >log 2>&1 ||
    { cat log; exit 1; }
if "$ESKER" export ro-crate "$scratch/darshan.esker" "file:$data/C" more --profile workflow 2>refused; then exit 1; fi
grep -q 'needs more than is known' refused
"$venv/bin/python" "$here/scripts/ro-crate/competency_questions.py" crate-provenance--files "$(id -u)"
