#!/usr/bin/env bash
# Runs SPARQL queries and updates of Apache Jena, and of YASGUI in Chromium, against a server. The script installs Debian's Chromium, Java and Maven
# if they are missing, and downloads Jena's archives and YASGUI's package.
set -euo pipefail
cd "$(dirname "$0")/.."

jena=5.2.0
yasgui=4.6.2
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
clients=${ESKER_SPARQL_CLIENTS_DIR:-target/sparql-clients}-long
missing=()
command -v java >/dev/null || missing+=(default-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
command -v npm >/dev/null || missing+=(npm)
command -v chromedriver >/dev/null || missing+=(chromium chromium-driver)
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing ${missing[*]}" >&2
    run=()
    [ "$(id -u)" = 0 ] || run=(sudo)
    "${run[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
if [ "$(cat "$clients/complete" 2>/dev/null)" != "$jena $yasgui" ]; then
    rm -rf "$clients"
    mkdir -p "$clients"
    cat >"$clients/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>clients</groupId><artifactId>clients</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.jena</groupId><artifactId>jena-rdfconnection</artifactId><version>$jena</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.16</version></dependency>
  </dependencies>
</project>
XML
    mvn -q -B --strict-checksums -f "$clients/pom.xml" dependency:copy-dependencies -DoutputDirectory="$(realpath "$clients")/jars"
    (cd "$clients" && npm pack --silent "@zazuko/yasgui@$yasgui" >/dev/null && tar xzf zazuko-yasgui-*.tgz package/build)
    echo "$jena $yasgui" >"$clients/complete"
fi
clients=$(realpath "$clients")
scripts=$(realpath scripts)
scratch=$(mktemp -d)
cd "$scratch"
# YASGUI's page has another origin than the server, whose configuration must allow that origin.
page=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf '[sparql]\nread_origins = ["http://127.0.0.1:%s"]\n' "$page" >server.toml
"$esker" serve lab.esker --create --quiet --config server.toml --listen 127.0.0.1:0 --port-file port &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true; rm -rf "$scratch"' EXIT
until [ -s port ]; do kill -0 "$server"; sleep 0.1; done
java -cp "$clients/jars/*" "$scripts/SparqlClients.java" "http://$(cat port)"
python3 "$scripts/yasgui.py" "http://$(cat port)" "$clients/package/build" "$page"
