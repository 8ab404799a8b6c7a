#!/usr/bin/env bash
# Runs SPARQL queries and updates of SPARQLWrapper and of rdflib's stores against a server.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-sparql-clients.txt
checksum=$(sha256sum <"$requirements")
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
venv=${ESKER_SPARQL_CLIENTS_DIR:-target/sparql-clients}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
python=$(realpath "$venv")/bin/python
script=$(realpath scripts/sparql_clients.py)
scratch=$(mktemp -d)
cd "$scratch"
"$esker" serve lab.esker --create --quiet --listen 127.0.0.1:0 --port-file port &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true; rm -rf "$scratch"' EXIT
until [ -s port ]; do kill -0 "$server"; sleep 0.1; done
"$python" "$script" "http://$(cat port)"
