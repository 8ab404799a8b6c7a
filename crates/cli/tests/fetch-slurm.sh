#!/bin/sh
# Unpacks Slurm from Debian for the tests of clusters in jobs: the controller, the node daemon and the commands. The script installs nothing.
#
# usage: tests/fetch-slurm.sh [FOLDER]   (default: $ESKER_SLURM_DIR, or <workspace>/target/slurm)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${ESKER_SLURM_DIR:-$here/../../../target/slurm}}
"$here/../../../scripts/fetch-debian.sh" "$folder" slurm slurmctld slurmd slurm-client slurm-wlm-basic-plugins
# The plugin that sends ended jobs to an HTTP server has a separate tree, because the tree `slurm` may be complete already.
"$here/../../../scripts/fetch-debian.sh" "$folder" slurm-elasticsearch slurm-wlm-elasticsearch-plugin
