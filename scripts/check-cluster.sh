#!/usr/bin/env bash
# Tests the judge of cluster histories, then runs a cluster for a few faults and judges its history. It limits no times: this machine may be busy.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHONPATH=scripts python3 -m unittest --quiet cluster_check.test_judge
timeout 900 scripts/cluster-check.py --seconds 30 --seed 1 --faults kill,pause,etcd --lease 2 --wait-limit 0
