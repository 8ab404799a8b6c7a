#!/usr/bin/env bash
# The notebooks of docs/notebooks, each run from its first cell to its last, in the environment that check-python.sh has made.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$(realpath -m "${ESKER_PYTHON_DIR:-target/python}")
[ -x "$venv/bin/esker" ] || { echo "check-notebooks: run scripts/check-python.sh first: it installs the package" >&2; exit 1; }
LOGS=$(realpath "${ESKER_DARSHAN_DIR:-target/darshan}/logs")
export LOGS PATH=$venv/bin:$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Notebooks make their folders there.
export TMPDIR=$scratch
"$venv/bin/python" scripts/docs/notebooks.py docs/notebooks/*.ipynb
