#!/usr/bin/env bash
# Headers of real files: those that astropy and h5py test themselves with, and files made to be difficult. All tags are compared with what the
# libraries read; a second harvest opens nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-harvest.txt
wanted=$(sha256sum <"$requirements")
ESKER_BIN=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
export ESKER_BIN
venv=${ESKER_HARVEST_DIR:-target/harvest}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$wanted" >"$venv/complete"
fi
"$venv/bin/ruff" check --quiet --no-cache --isolated --line-length 150 --select E,F,W,I,B \
    crates/cli/src/commands/harvest/worker.py scripts/harvest
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" scripts/harvest/make.py "$work/files"
"$venv/bin/python" scripts/harvest/check.py "$work"
