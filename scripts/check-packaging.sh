#!/usr/bin/env bash
# Checks the files of packaging/ (with systemd, Python, bash, ShellCheck and AppArmor's parser), the output of `make dist`, and that common commands
# open no network socket.
set -euo pipefail
cd "$(dirname "$0")/.."
ESKER_BIN=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT

# systemd-analyze looks for the program at the path in the unit, which exists only where Esker is installed.
sed "s|/usr/bin/esker|$ESKER_BIN|" packaging/systemd/esker@.service >"$work/esker@lab.service"
if command -v systemd-analyze >/dev/null; then
    output=$(systemd-analyze verify --man=no "$work/esker@lab.service" 2>&1 | grep -F esker@ || true)
    [ -z "$output" ] || { echo "$output" >&2; exit 1; }
    systemd-analyze security --offline=yes --threshold=20 --no-pager "$work/esker@lab.service" | tail -1
fi
python3 -m py_compile packaging/spack/packages/esker/package.py
rm -rf packaging/spack/packages/esker/__pycache__
bash -n packaging/slurm/esker.sbatch
grep -q '^%post' packaging/apptainer/esker.def
scripts/fetch-debian.sh target/shellcheck shellcheck shellcheck
target/shellcheck/shellcheck/usr/bin/shellcheck packaging/centre/install.sh

# The checksums that `make dist` writes must be right, and its list of components must agree with Cargo.lock. The archive here has no crates.
if git rev-parse --verify --quiet HEAD >/dev/null; then
    ESKER_DIST_DIR=$work/dist scripts/dist.sh --no-vendor >/dev/null
    (cd "$work/dist" && sha256sum --check --strict --quiet SHA256SUMS)
    # The package cyclonedx contains the official schema of CycloneDX.
    venv=target/sbom-venv
    requirements=scripts/requirements/sbom.txt
    checksum=$(sha256sum <"$requirements")
    if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
        echo "$checksum" >"$venv/complete"
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
named = {}
for part in bom["components"]:
    named.setdefault(part["name"], set()).add(part["version"])
    assert part["version"] in lock[part["name"]], f"{part['purl']} is not in Cargo.lock"
    hashes = [h["content"] for h in part.get("hashes", [])]
    assert hashes == [c for c in [lock[part["name"]][part["version"]]] if c], f"{part['purl']}: the hash differs from Cargo.lock"
for name in ("tokio", "fjall"):
    assert named.get(name) == set(lock[name]), f"{name}: {named.get(name)} in the SBOM, {set(lock[name])} in Cargo.lock"
for name in ("proptest", "rsa"):
    assert name not in named, f"the SBOM names {name}, which the program does not link"
refs = [bom["metadata"]["component"]["bom-ref"], *(part["bom-ref"] for part in bom["components"])]
assert len(refs) == len(set(refs)), "a bom-ref occurs twice"
assert {ref for d in bom["dependencies"] for ref in [d["ref"], *d["dependsOn"]]} == set(refs), "the dependency graph and the list have different components"
PY
fi

# Common commands run in a network namespace whose loopback interface is down, and strace records each socket that they open.
scripts/fetch-debian.sh target/strace strace strace
strace=$(realpath target/strace/strace/usr/bin/strace)
printf 'name,app,energy\na,vpic,1.5\nb,vpic,2.5\n' >"$work/objects.csv"
mkdir "$work/tree" && cp README.md "$work/tree/"
# The AppArmor profile compiles, and allows each file that a server uses. The kernel need not have AppArmor.
scripts/fetch-debian.sh target/apparmor apparmor apparmor
profiles=target/apparmor/apparmor/etc/apparmor.d
parser=(target/apparmor/apparmor/sbin/apparmor_parser --config-file /dev/null --base "$profiles" --Include "$profiles")
"${parser[@]}" --skip-kernel-load --skip-cache packaging/apparmor/esker-serve 2>"$work/apparmor.log" || { cat "$work/apparmor.log" >&2; exit 1; }
"${parser[@]}" --preprocess packaging/apparmor/esker-serve >"$work/profile" 2>"$work/apparmor.log"
mkdir "$work/state" "$work/etc"
echo 'listen = "127.0.0.1:0"' >"$work/etc/lab.toml"
"$strace" -f -y -qq -e trace=file,bind -o "$work/files" \
    "$ESKER_BIN" serve "$work/state/lab" --create --config "$work/etc/lab.toml" --port-file "$work/state/port" 2>"$work/serve.log" &
server=$!
until [ -s "$work/state/port" ]; do kill -0 "$server" || { cat "$work/serve.log" >&2; exit 1; }; sleep 0.1; done
"$ESKER_BIN" link "$work/state/lab" job:1 write file:/a --create --quiet
"$ESKER_BIN" grant "$work/state/lab" --token >/dev/null
curl -sS --fail "http://$(cat "$work/state/port")/metrics" >/dev/null
"$ESKER_BIN" compact "$work/state/lab" --quiet
kill -TERM "$(pgrep -P "$server")"
wait "$server"
server=
python3 scripts/packaging/apparmor.py "$work/profile" "$work/files" "$work/state=/var/lib/esker" "$work/etc=/etc/esker" "$ESKER_BIN=/usr/bin/esker"

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
"${unshare_net[@]}" "$strace" -f -qq -e trace=socket -o "$work/sockets" bash "$work/commands.sh" >"$work/output" 2>&1 || { cat "$work/output" >&2; exit 1; }
others=$(grep -v -e AF_UNIX -e '+++' -e '---' "$work/sockets" || true)
[ -z "$others" ] || { echo "packaging: commands opened sockets other than Unix sockets:" >&2; echo "$others" >&2; exit 1; }
echo "packaging: all checks passed; commands opened $(grep -c AF_UNIX "$work/sockets" || true) Unix sockets, and no other sockets"
