#!/bin/sh
# Brings Slurm from Debian for the tests of clusters in jobs: its controller, node daemon and commands, unpacked. Nothing is installed.
#
# usage: tests/fetch-slurm.sh [FOLDER]   (default: $ESKER_SLURM_DIR, or <workspace>/target/slurm)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${ESKER_SLURM_DIR:-$here/../../../target/slurm}}
"$here/../../../scripts/fetch-debian.sh" "$folder" slurm slurmctld slurmd slurm-client slurm-wlm-basic-plugins
# What sends jobs that ended to an HTTP server: a tree of its own, for there may be a Slurm already.
"$here/../../../scripts/fetch-debian.sh" "$folder" slurm-elasticsearch slurm-wlm-elasticsearch-plugin
