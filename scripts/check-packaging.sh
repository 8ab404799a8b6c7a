#!/usr/bin/env bash
# What is in packaging/: the unit by systemd, the recipe by Python, the batch script by its shell; what `make dist` writes; and that the command asks no network.
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

# What `make dist` writes beside the archive, here without crates in it: sums that hold, and a list of the crates that Cargo.lock names.
if git rev-parse --verify --quiet HEAD >/dev/null; then
    ESKER_DIST_DIR=$work/dist scripts/dist.sh --no-vendor >/dev/null
    (cd "$work/dist" && sha256sum --check --strict --quiet SHA256SUMS)
    # By CycloneDX's own schema, which a package has in it.
    venv=target/sbom-venv
    requirements=scripts/requirements/sbom.txt
    wanted=$(sha256sum <"$requirements")
    if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
        echo "$wanted" >"$venv/complete"
    fi
    "$venv/bin/python" - "$work"/dist/esker-*.cdx.json <<'PY'
import pathlib, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(pathlib.Path(sys.argv[1]).read_text())
assert wrong is None, wrong
PY
    git show HEAD:Cargo.lock >"$work/Cargo.lock"
    python3 - "$work" <<'PY'
import json, pathlib, sys, tomllib
work = pathlib.Path(sys.argv[1])
[bom] = (work / "dist").glob("esker-*.cdx.json")
assert f"  {bom.name}\n" in (work / "dist/SHA256SUMS").read_text(), "SHA256SUMS does not name the SBOM"
bom = json.loads(bom.read_text())
assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.5"), bom["specVersion"]
lock = {}
for package in tomllib.loads((work / "Cargo.lock").read_text())["package"]:
    lock.setdefault(package["name"], {})[package["version"]] = package.get("checksum")
told = {}
for part in bom["components"]:
    told.setdefault(part["name"], set()).add(part["version"])
    assert part["version"] in lock[part["name"]], f"{part['purl']} is not in Cargo.lock"
    hashes = [h["content"] for h in part.get("hashes", [])]
    assert hashes == [c for c in [lock[part["name"]][part["version"]]] if c], f"{part['purl']}: another hash than in Cargo.lock"
for name in ("tokio", "fjall"):
    assert told.get(name) == set(lock[name]), f"{name}: {told.get(name)} in the SBOM, {set(lock[name])} in Cargo.lock"
for name in ("proptest", "rsa"):
    assert name not in told, f"the SBOM names {name}, which the program does not link"
refs = [bom["metadata"]["component"]["bom-ref"], *(part["bom-ref"] for part in bom["components"])]
assert len(refs) == len(set(refs)), "a bom-ref twice"
assert {ref for d in bom["dependencies"] for ref in [d["ref"], *d["dependsOn"]]} == set(refs), "the graph has other parts than the list"
PY
fi

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
