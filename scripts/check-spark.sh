#!/usr/bin/env bash
# Spark, from PyPI (some 400 MB; Java 17 or newer must be there), reads a graph that was exported in GraphAr's layout, and counts what Esker counts.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v java >/dev/null || { echo "Spark needs Java 17 or newer: apt-get install default-jre-headless" >&2; exit 1; }
venv=$(realpath -m "${ESKER_SPARK_DIR:-target/spark}")
requirements=scripts/requirements/check-spark.txt
wanted=$(sha256sum "$requirements" scripts/requirements/build.txt)
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    # PyPI has pyspark as a source archive alone: what builds it is pinned, too.
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r scripts/requirements/build.txt
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-build-isolation --require-hashes -r "$requirements"
    echo "$wanted" >"$venv/complete"
fi
esker=${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
logs=${ESKER_DARSHAN_DIR:-target/darshan}/logs
"$esker" import darshan "$scratch/lab.esker" "$logs" --quiet || [ $? -eq 1 ]   # some logs are broken on purpose
"$esker" export graphar "$scratch/lab.esker" "$scratch/graphar" --chunk-size 500 --quiet
"$esker" stats "$scratch/lab.esker" --format json >"$scratch/stats"
"$venv/bin/python" scripts/check_spark.py "$scratch/graphar" "$scratch/stats"
