#!/usr/bin/env bash
# Compares what a server shows to users with what their processes may see of real trees: 20 small trees, of which each user asks a part of the interfaces.
# `make test-long` runs many more, and a large one.
set -euo pipefail
cd "$(dirname "$0")/.."

timeout 3600 scripts/visibility-check.py --seed "${ESKER_VISIBILITY_SEED:-1}" --seeds 20 --entries 400 --users 8 --share 0.2
