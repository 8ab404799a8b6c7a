#!/usr/bin/env bash
# Runs a collective search from the ranks of a Python program (mpi4py): the shares of all ranks must make up the complete result.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-collective.txt
checksum=$(sha256sum <"$requirements")
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
venv=${ESKER_MPI4PY_DIR:-target/mpi4py}
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
python=$(realpath "$venv")/bin/python
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

seq 0 4999 | awk 'BEGIN { print "name,step,Conf" } { print "energy," $1 "," $1 % 4 }' >objects.csv
"$esker" object import lab.esker objects.csv --id name=name,owner=:1001,step=step --quiet

cat >ranks.py <<'EOF'
import json, subprocess, sys
from mpi4py import MPI

world = MPI.COMM_WORLD
share = {"--share": [f"--share={world.rank}/{world.size}"], "--collective": ["--collective"]}


def find(*options):
    command = [sys.argv[1], "find", "lab.esker", "Conf != 2", "--format", "ndjson", "--quiet", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


for name, options in share.items():
    shares = world.gather(find(*options))
    if world.rank == 0:
        got = [o["id"] for s in shares for o in s]
        steps = sorted(o["attributes"]["step"] for s in shares for o in s)
        assert len(got) == len(set(got)), f"{name}: an object came twice"
        assert steps == [s for s in range(5000) if s % 4 != 2], f"{name}: {len(steps)} objects of 3750"
        assert all(len(s) > 500 for s in shares), f"{name}: {[len(s) for s in shares]}"
        print(f"collective search, {name}: {' + '.join(str(len(s)) for s in shares)} = {len(got)} objects, none twice")
EOF
# Test machines may have fewer cores than ranks, and may run tests as root. With `-m mpi4py`, a failing rank ends all ranks.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun -n 4 --oversubscribe "$python" -m mpi4py ranks.py "$esker"
