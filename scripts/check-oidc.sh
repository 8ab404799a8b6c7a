#!/usr/bin/env bash
# Checks logins by OpenID Connect: scripts/oidc/provider.mjs runs node-oidc-provider, a certified implementation, on loopback, and
# scripts/oidc/check.py logs in at real servers as a browser and by the real command, and sends tokens that must be refused.
set -euo pipefail
cd "$(dirname "$0")/.."

esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
folder=$(realpath -m "${ESKER_OIDC_DIR:-target/oidc}")
# check-web.sh installs a newer Node.js for this folder if the machine's is too old for its tools; it serves here, too.
if [ -x target/node-venv/bin/node ]; then PATH="$PWD/target/node-venv/bin:$PATH"; fi
checksum=$(cat scripts/oidc/package{,-lock}.json | sha256sum)
if [ "$(cat "$folder/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    cp scripts/oidc/package{,-lock}.json "$folder"
    npm ci --prefix "$folder" --no-audit --no-fund --loglevel=error
    echo "$checksum" >"$folder/complete"
fi
# Node.js looks for packages beside the program.
cp scripts/oidc/provider.mjs "$folder"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PYTHONPATH=scripts/tracing timeout --kill-after=30 1800 python3 scripts/oidc/check.py "$esker" "$folder/provider.mjs" "$scratch"
