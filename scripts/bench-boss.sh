#!/usr/bin/env bash
# Measures SoMeta's BOSS case (docs/papers/someta.md) with the same objects in Esker, SQLite, DuckDB and PostgreSQL, one after the other.
# Usage: bench-boss.sh [SCRATCH]; SCRATCH is a directory on the file system to measure.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
esker=$target/release/esker
scratch=$(mktemp -d -p "${1:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$scratch"' EXIT
# If this script runs as root, PostgreSQL runs as another user, who must be able to enter this folder.
chmod 711 "$scratch"

if ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
    echo "installing PostgreSQL (without creating or starting a server)" >&2
    run=()
    [ "$(id -u)" = 0 ] || run=(sudo)
    "${run[@]}" apt-get update -qq
    export DEBIAN_FRONTEND=noninteractive
    "${run[@]}" apt-get install -y -qq --no-install-recommends postgresql-common
    "${run[@]}" sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
    "${run[@]}" apt-get install -y -qq --no-install-recommends postgresql
fi
venv=$target/boss-peers
requirements=scripts/requirements/bench-boss.txt
checksum=$(sha256sum <"$requirements")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi

"$esker" bench boss --write-data "$scratch/boss.csv"
"$venv/bin/python" scripts/boss_peers.py "$scratch/boss.csv" --scratch "$scratch" >"$scratch/peers.json"
"$esker" bench boss "$scratch" --server --peers "$scratch/peers.json"
