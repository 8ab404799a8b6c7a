#!/usr/bin/env bash
# Tests the comparison of answers, then compares Esker with Oxigraph on random requests; with Apache Jena as well, if the options say so.
#
#     scripts/check-sparql.sh [OPTIONS OF scripts/sparql-check.py]
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-sparql.txt
checksum=$(sha256sum <"$requirements")
venv=${ESKER_SPARQL_DIR:-target/sparql}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
PYTHONPATH=scripts "$venv/bin/python" -m unittest --quiet sparql_check.test_compare
"$venv/bin/python" scripts/sparql-check.py "$@"
