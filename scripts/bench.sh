#!/usr/bin/env bash
# The figures of docs/book/bench.md, each beside the raw engine's in the same run.
set -euo pipefail
cd "$(dirname "$0")/.."

esker=${CARGO_TARGET_DIR:-target}/release/esker
scratch=${1:-$(mktemp -d)}
for workload in ingest hot-vertex read scan travel open; do
    echo "== $workload"
    "$esker" bench "$workload" "$scratch"
done
