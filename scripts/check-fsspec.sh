#!/usr/bin/env bash
# Python's fsspec over a site cache: the package's tests, with a real tier over this machine's files and a real sshd.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-fsspec.txt
wanted=$(sha256sum <"$requirements")
ESKER_BIN=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
export ESKER_BIN
venv=${ESKER_FSSPEC_DIR:-target/fsspec}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$wanted" >"$venv/complete"
fi
# Built and installed as its users do, so that fsspec finds it by its entry point. What we build ourselves has no hash to compare with.
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall python/esker-fsspec
"$venv/bin/mypy" --strict --cache-dir "$venv/mypy" python/esker-fsspec/src
"$venv/bin/python" -m pytest -q -p no:cacheprovider python/esker-fsspec/tests
