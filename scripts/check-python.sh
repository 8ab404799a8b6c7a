#!/usr/bin/env bash
# Python's package: its wheel built, installed in an environment of its own, and tested there.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-python.txt
wanted=$(sha256sum <"$requirements")
venv=$(realpath -m "${ESKER_PYTHON_DIR:-target/python}")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$wanted" >"$venv/complete"
fi
"$venv/bin/ruff" check --quiet --no-cache python/src python/tests python/build
# What we build ourselves has no hash to compare with, and needs nothing from elsewhere.
# What `cargo test` has compiled is packed; only the extension and the command are linked anew.
export ESKER_WHEEL_PROFILE=${ESKER_WHEEL_PROFILE:-dev}
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall ./python
# Not in the repository's folder, so that what was installed is imported.
tests=$PWD/python
cd "$venv"
bin/python -m mypy.stubtest esker._esker --ignore-disjoint-bases
bin/python -m pytest -q -p no:cacheprovider -c "$tests/pyproject.toml" --rootdir "$tests" "$tests/tests"
# `esker://` for fsspec, with its own abstract tests.
bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall "$tests/esker-fsspec"
bin/python -m pytest -q -p no:cacheprovider --rootdir "$tests/esker-fsspec" "$tests/esker-fsspec/tests/test_database.py"
