#!/usr/bin/env bash
# Crates by `esker export ro-crate` against roc-validator, without a network, in the three profiles of Workflow Run RO-Crate 0.5: no required check may
# fail; and what the profiles say that one must be able to ask of a crate.
set -euo pipefail
cd "$(dirname "$0")/.."

# rocrate 0.13 has the context of RO-Crate 1.1 in it.
requirements=scripts/requirements/check-ro-crate.txt
wanted=$(sha256sum <"$requirements")
ESKER=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
export ESKER
venv=$(realpath -m "${ESKER_RO_CRATE_DIR:-target/ro-crate}")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$wanted" >"$venv/complete"
fi
here=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$venv/bin/python" scripts/ro-crate/warm.py "$scratch/cache"
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
        # Without its files a crate is not attached: a workflow's own file is what an attached one must have.
        [ -n "$files" ] || [ "$profile" = process ] || continue
        "$venv/bin/rocrate-validator" validate --no-paging --offline --cache-path "$scratch/cache" --profile-identifier "$profile-run-crate-0.5" \
            --requirement-severity required --output-format json --output-file "$profile$files.json" "crate-$profile$files" >log 2>&1 || true
        "$venv/bin/python" - "$profile$files.json" "$profile$files" <<'PY'
import json, sys
told = json.load(open(sys.argv[1]))
for issue in told["issues"]:
    print(sys.argv[2], issue["severity"], issue["message"], issue.get("violatingEntity"))
assert told["passed"] is True and not told["issues"], sys.argv[2]
print(f"roc-validator, offline: {sys.argv[2]}: 0 required checks failed")
PY
    done
done
# The six Darshan logs have no workflow: the process profile is what is known, and more is refused.
logs=$here/${ESKER_DARSHAN_DIR:-target/darshan}/logs/darshan/examples/darshan-graph
"$ESKER" import darshan "$scratch/darshan.esker" "$logs" --quiet
data=/home/pq/p/software/darshan-pydarshan/darshan-util/pydarshan/examples/darshan-graph
"$ESKER" export ro-crate "$scratch/darshan.esker" "file:$data/C" crate-darshan --quiet
"$venv/bin/rocrate-validator" validate --no-paging --offline --cache-path "$scratch/cache" --profile-identifier process-run-crate-0.5 crate-darshan >log 2>&1 ||
    { cat log; exit 1; }
if "$ESKER" export ro-crate "$scratch/darshan.esker" "file:$data/C" more --profile workflow 2>refused; then exit 1; fi
grep -q 'needs more than is known' refused
"$venv/bin/python" "$here/scripts/ro-crate/ask.py" crate-provenance--files "$(id -u)"
