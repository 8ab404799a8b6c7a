#!/usr/bin/env bash
# Runs the commands of the pages about Snakemake, Parsl and Dask with these programs from PyPI. With the argument `comparison`, the script runs the
# conversions of docs/book/comparison.md with MLflow, DVC, DataLad and Oxigraph (some 450 MB from PyPI). scripts/check-docs.sh runs all other pages.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-workflows${1:+-$1}.txt
checksum=$(sha256sum <"$requirements")
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
venv=$(realpath -m "${ESKER_WORKFLOWS_DIR:-target/workflows}")${1:+-$1}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
export PATH=$venv/bin:$PATH
if [ "${1:-}" = comparison ]; then
    python3 scripts/docs/run.py "$(dirname "$esker")" docs/book/comparison.md
    exit
fi
# Workers of Parsl and Dask import the package that check-python.sh has built, beside the packages of this script.
package=$(realpath -m "${ESKER_PYTHON_DIR:-target/python}")
[ -x "$package/bin/esker" ] || { echo "check-workflows: $package has no package esker: run scripts/check-python.sh first" >&2; exit 1; }
"$package/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))' >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/esker.pth"
python3 scripts/docs/run.py "$(dirname "$esker")" docs/book/with-{dask,parsl,snakemake}.md
