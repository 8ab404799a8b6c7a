#!/usr/bin/env bash
# Runs the tests of the package esker-fsspec, with a real tier of a site cache over this machine's files and a real sshd.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-fsspec.txt
checksum=$(sha256sum <"$requirements")
ESKER_BIN=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
export ESKER_BIN
venv=${ESKER_FSSPEC_DIR:-target/fsspec}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
# fsspec finds the package by its entry point, so it must be installed. A package built here has no published hash, hence no --require-hashes.
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall python/esker-fsspec
"$venv/bin/mypy" --strict --cache-dir "$venv/mypy" python/esker-fsspec/src
"$venv/bin/python" -m pytest -q -p no:cacheprovider python/esker-fsspec/tests
