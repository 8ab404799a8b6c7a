#!/usr/bin/env bash
# Python's fsspec over a site cache: the package's tests, with a real tier over this machine's files and a real sshd.
set -euo pipefail
cd "$(dirname "$0")/.."

versions='fsspec==2026.9.0 pytest==9.2.0 hatchling==1.33.0 mypy==2.4.1'
ESKER_BIN=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
export ESKER_BIN
venv=${ESKER_FSSPEC_DIR:-target/fsspec}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$versions" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet --disable-pip-version-check $versions
    echo "$versions" >"$venv/complete"
fi
# Built and installed as its users do, so that fsspec finds it by its entry point.
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall python/esker-fsspec
"$venv/bin/mypy" --strict --cache-dir "$venv/mypy" python/esker-fsspec/src
"$venv/bin/python" -m pytest -q -p no:cacheprovider python/esker-fsspec/tests
