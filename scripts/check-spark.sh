#!/usr/bin/env bash
# Apache Spark reads a graph that was exported in GraphAr's layout, and must count as many vertices and edges as Esker.
# The script installs Spark from PyPI (some 400 MB), and needs Java 17 or newer.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v java >/dev/null || { echo "Spark needs Java 17 or newer: apt-get install default-jre-headless" >&2; exit 1; }
venv=$(realpath -m "${ESKER_SPARK_DIR:-target/spark}")
requirements=scripts/requirements/check-spark.txt
checksum=$(sha256sum "$requirements" scripts/requirements/build.txt)
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    # PyPI has pyspark only as a source archive, so the packages that build it are pinned, too.
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r scripts/requirements/build.txt
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-build-isolation --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
esker=${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
logs=${ESKER_DARSHAN_DIR:-target/darshan}/logs
"$esker" import darshan "$scratch/lab.esker" "$logs" --quiet || [ $? -eq 1 ]   # some logs of the package are damaged on purpose
"$esker" export graphar "$scratch/lab.esker" "$scratch/graphar" --chunk-size 500 --quiet
"$esker" stats "$scratch/lab.esker" --format json >"$scratch/stats"
"$venv/bin/python" scripts/check_spark.py "$scratch/graphar" "$scratch/stats"
