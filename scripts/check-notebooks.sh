#!/usr/bin/env bash
# Runs each notebook of docs/notebooks from its first cell to its last in the virtual environment of check-python.sh, and compares its stored outputs
# with the new ones (scripts/docs/notebooks.py).
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$(realpath -m "${ESKER_PYTHON_DIR:-target/python}")
[ -x "$venv/bin/esker" ] || { echo "check-notebooks: $venv has no package esker: run scripts/check-python.sh first" >&2; exit 1; }
LOGS=$(realpath "${ESKER_DARSHAN_DIR:-target/darshan}/logs")
export LOGS PATH=$venv/bin:$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Notebooks create their folders in TMPDIR.
export TMPDIR=$scratch
"$venv/bin/python" scripts/docs/notebooks.py docs/notebooks/*.ipynb
