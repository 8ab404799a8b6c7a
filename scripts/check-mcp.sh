#!/usr/bin/env bash
# Calls `esker mcp` with the official client of the Model Context Protocol (PyPI). The data are the Darshan logs, in a folder and on a server.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-mcp.txt
checksum=$(sha256sum <"$requirements")
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
venv=$(realpath -m "${ESKER_MCP_DIR:-target/mcp}")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
scratch=$(mktemp -d)
trap 'kill "${server:-0}" 2>/dev/null || true; rm -rf "$scratch"' EXIT
logs=${ESKER_DARSHAN_DIR:-target/darshan}/logs/darshan/examples/darshan-graph
"$esker" import darshan "$scratch/lab.esker" "$logs" --quiet
"$esker" object create "$scratch/lab.esker" --name energy --owner 1001 --tag peak=2.5 --quiet >/dev/null
echo '<http://example.org/answer> <http://example.org/is> 42 .' >"$scratch/data.ttl"
"$esker" rdf load "$scratch/lab.esker" "$scratch/data.ttl" --quiet
cp -r "$scratch/lab.esker" "$scratch/served.esker"
"$esker" serve "$scratch/served.esker" --listen 127.0.0.1:0 --port-file "$scratch/port" 2>"$scratch/log" &
server=$!
until [ -s "$scratch/port" ]; do kill -0 "$server"; sleep 0.1; done
timeout 900 "$venv/bin/python" scripts/mcp/call_tools.py "$esker" "$scratch/lab.esker" "esker://$(cat "$scratch/port")"
