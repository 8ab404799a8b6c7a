#!/usr/bin/env bash
# What is in packaging/: the unit by systemd, the recipe by Python, the batch script by its shell; and that the command asks no network.
set -euo pipefail
cd "$(dirname "$0")/.."
ESKER_BIN=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# systemd looks for the program where the unit says; elsewhere than on a machine that has it installed, that is a stand-in for its path alone.
sed "s|/usr/bin/esker|$ESKER_BIN|" packaging/systemd/esker@.service >"$work/esker@lab.service"
if command -v systemd-analyze >/dev/null; then
    said=$(systemd-analyze verify --man=no "$work/esker@lab.service" 2>&1 | grep -F esker@ || true)
    [ -z "$said" ] || { echo "$said" >&2; exit 1; }
    systemd-analyze security --offline=yes --threshold=20 --no-pager "$work/esker@lab.service" | tail -1
fi
python3 -m py_compile packaging/spack/packages/esker/package.py
rm -rf packaging/spack/packages/esker/__pycache__
bash -n packaging/slurm/esker.sbatch
grep -q '^%post' packaging/apptainer/esker.def

# Common commands, in a network namespace where even the loopback is down, with every socket that they make written down.
scripts/fetch-debian.sh target/strace strace strace
strace=$(realpath target/strace/strace/usr/bin/strace)
printf 'name,app,energy\na,vpic,1.5\nb,vpic,2.5\n' >"$work/objects.csv"
mkdir "$work/tree" && cp README.md "$work/tree/"
cat >"$work/commands.sh" <<END
set -eu
cd "$work"
e="$ESKER_BIN"
\$e init t.esker
\$e put t.esker file:/a size=1
\$e put t.esker job:1 name=one
\$e link t.esker job:1 write file:/a
\$e lineage t.esker file:/a
\$e travel t.esker 'v("job:1").e("write").v()'
\$e object import t.esker objects.csv --id name,app
\$e find t.esker "energy > 2"
\$e tag add t.esker --where "energy > 2" hot
\$e scan t.esker "$work/tree"
\$e du t.esker /
\$e run -d t.esker -- true || \$e run --help >/dev/null
\$e sparql t.esker 'SELECT * WHERE { ?s ?p ?o } LIMIT 1'
\$e harvest t.esker "$work/tree"
\$e stats t.esker
\$e check t.esker
\$e backup t.esker copy
\$e upgrade t.esker --check
END
unshare_net=(unshare --net)
[ "$(id -u)" = 0 ] || unshare_net=(unshare --user --map-root-user --net)
"${unshare_net[@]}" "$strace" -f -qq -e trace=socket -o "$work/sockets" bash "$work/commands.sh" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
others=$(grep -v -e AF_UNIX -e '+++' -e '---' "$work/sockets" || true)
[ -z "$others" ] || { echo "sockets other than Unix ones:" >&2; echo "$others" >&2; exit 1; }
echo "packaging: all well; $(grep -c AF_UNIX "$work/sockets" || true) sockets of this machine, and no other"
