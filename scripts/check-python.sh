#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it in a virtual environment, and runs its tests.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-python.txt
checksum=$(sha256sum <"$requirements")
venv=$(realpath -m "${ESKER_PYTHON_DIR:-target/python}")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
"$venv/bin/ruff" check --quiet --no-cache python/src python/tests python/build
(cd python && "$venv/bin/python" -m mypy --cache-dir "$venv/mypy" --no-error-summary)
# A package built here has no published hash, hence no --require-hashes.
# The profile `dev` packs what `cargo test` has compiled; only the extension and the command are linked again.
export ESKER_WHEEL_PROFILE=${ESKER_WHEEL_PROFILE:-dev}
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall ./python
# The tests run outside the repository, so that Python imports the installed package.
tests=$PWD/python
cd "$venv"
bin/python -m mypy.stubtest esker._esker --ignore-disjoint-bases
bin/python -m pytest -q -p no:cacheprovider -c "$tests/pyproject.toml" --rootdir "$tests" "$tests/tests"
# Runs fsspec's abstract tests on `esker://`.
bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall "$tests/esker-fsspec"
bin/python -m pytest -q -p no:cacheprovider --rootdir "$tests/esker-fsspec" "$tests/esker-fsspec/tests/test_database.py"
