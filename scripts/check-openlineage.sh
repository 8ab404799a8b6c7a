#!/usr/bin/env bash
# Sends OpenLineage events from unmodified openlineage-python and dbt-ol to a server. With the argument `spark`, the sender is the listener of Apache
# Spark (some 400 MB from PyPI, and a jar by Maven; needs Java 8 to 17).
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-openlineage${1:+-$1}.txt
build=scripts/requirements/build.txt
listener=1.53.0
checksum=$listener:$(sha256sum "$requirements" "$build")
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
venv=$(realpath -m "${ESKER_OPENLINEAGE_DIR:-target/openlineage}")${1:+-$1}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    # PyPI has pyspark only as a source archive, so the packages that build it are pinned, too.
    isolation=()
    if [ "${1:-}" = spark ]; then
        "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$build"
        isolation=(--no-build-isolation)
    fi
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${isolation[@]}" --require-hashes -r "$requirements"
    if [ "${1:-}" = spark ]; then
        cat >"$venv/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>listener</groupId><artifactId>listener</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.openlineage</groupId><artifactId>openlineage-spark_2.12</artifactId><version>$listener</version></dependency>
  </dependencies>
</project>
XML
        mvn -q -B --strict-checksums -f "$venv/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$venv/jars"
    fi
    echo "$checksum" >"$venv/complete"
fi
scratch=$(mktemp -d)
trap 'kill "${server:-0}" 2>/dev/null || true; rm -rf "$scratch"' EXIT
"$esker" init "$scratch/lab.esker" --quiet
"$esker" serve "$scratch/lab.esker" --listen 127.0.0.1:0 --port-file "$scratch/port" 2>"$scratch/log" &
server=$!
until [ -s "$scratch/port" ]; do kill -0 "$server"; sleep 0.1; done
url=http://$(cat "$scratch/port")

if [ "${1:-}" = spark ]; then
    "$venv/bin/python" scripts/openlineage/spark.py "$url" "$venv/jars/openlineage-spark_2.12-$listener.jar" "$scratch" >"$scratch/spark" 2>&1 ||
        { tail -40 "$scratch/spark"; exit 1; }
    "$esker" lineage "$scratch/lab.esker" "file:$scratch/out.parquet" | tee "$scratch/lineage"
    grep -q "read file:$scratch/in.csv" "$scratch/lineage"
    echo "openlineage-spark: the lineage of Spark's output contains its input"
    exit
fi
"$venv/bin/python" scripts/openlineage/emit.py "$url"
cp -r scripts/openlineage "$scratch/dbt"
(
    cd "$scratch/dbt"
    export OPENLINEAGE_URL=$url OPENLINEAGE_NAMESPACE=dbt-lab DBT_SEND_ANONYMOUS_USAGE_STATS=false PATH=$venv/bin:$PATH
    dbt-ol build --profiles-dir . >"$scratch/dbt.log" 2>&1 || { tail -40 "$scratch/dbt.log"; exit 1; }
)
"$venv/bin/python" scripts/openlineage/dbt.py "$url"
"$esker" check "$scratch/lab.esker" >/dev/null
