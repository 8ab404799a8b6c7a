#!/usr/bin/env bash
# Harvests the files of astropy's and h5py's own tests, and generated files with unusual headers. All tags must equal what the libraries read, and
# a second harvest must open no file.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-harvest.txt
checksum=$(sha256sum <"$requirements")
ESKER_BIN=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
export ESKER_BIN
venv=${ESKER_HARVEST_DIR:-target/harvest}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
"$venv/bin/ruff" check --quiet --no-cache --isolated --line-length 150 --select E,F,W,I,B \
    crates/cli/src/commands/harvest/worker.py scripts/harvest
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" scripts/harvest/make_files.py "$work/files"
"$venv/bin/python" scripts/harvest/check.py "$work"
