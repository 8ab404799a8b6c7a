#!/usr/bin/env bash
# Prints the figures of docs/book/bench.md, each with the raw key-value store's figure from the same run.
set -euo pipefail
cd "$(dirname "$0")/.."

esker=${CARGO_TARGET_DIR:-target}/release/esker
scratch=${1:-$(mktemp -d)}
for workload in ingest hot-vertex read scan travel open; do
    echo "== $workload"
    "$esker" bench "$workload" "$scratch"
done
