#!/usr/bin/env bash
# SPARQL as programs speak it: SPARQLWrapper and rdflib's stores against a server.
set -euo pipefail
cd "$(dirname "$0")/.."

versions='rdflib==7.1.4 SPARQLWrapper==2.0.0'
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
venv=${ESKER_SPARQL_CLIENTS_DIR:-target/sparql-clients}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$versions" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet --disable-pip-version-check $versions
    echo "$versions" >"$venv/complete"
fi
python=$(realpath "$venv")/bin/python
script=$(realpath scripts/sparql_clients.py)
scratch=$(mktemp -d)
cd "$scratch"
"$esker" serve lab.esker --create --quiet --listen 127.0.0.1:0 --port-file port &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true; rm -rf "$scratch"' EXIT
for _ in $(seq 200); do
    [ -f port ] && break
    sleep 0.05
done
"$python" "$script" "http://$(cat port)"
