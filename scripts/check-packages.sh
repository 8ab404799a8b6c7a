#!/usr/bin/env bash
# Builds the packages, installs each on a system that has nothing else, and runs the first commands of a new user there:
# the archive in an empty folder as root, the .deb in a bare Debian, the .rpm in a folder, the image with podman, the wheel in a new environment.
#     scripts/check-packages.sh [--built]    with `--built`, the packages of target/packages are checked as they are
# Needs root, and `scripts/setup.sh packages`. The profile `demo` makes a slow program in 5 minutes; ESKER_PACKAGES_PROFILE names another.
set -euo pipefail
cd "$(dirname "$0")/.."

[ "$(id -u)" = 0 ] || { echo "skipped: check-packages needs root"; exit 0; }
profile=${ESKER_PACKAGES_PROFILE:-demo}
export ESKER_PACKAGES_DIR=${ESKER_PACKAGES_DIR:-target/packages}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
[ "${1:-}" = --built ] || scripts/packages.sh --profile "$profile" >/dev/null
packages=$(realpath "$ESKER_PACKAGES_DIR")
work=$(mktemp -d)
container=esker-check-$$
clean() {
    podman rm --force --ignore "$container" >/dev/null 2>&1 || true
    umount "$work"/*/proc 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT
fail() {
    echo "packages: $1" >&2
    exit 1
}
# The first commands of a new user, which print the lineage of a figure: first_commands NAME COMMAND…
first_commands() {
    local name=$1 start
    shift
    start=$(date +%s%N)
    "$@" demo /tmp/first.esker >"$work/demo" || fail "$name: \`esker demo\` failed"
    grep -q 'written by job:4117' "$work/demo" || fail "$name: no lineage: $(cat "$work/demo")"
    "$@" init /tmp/lab.esker >/dev/null
    "$@" put /tmp/lab.esker job:1 name=first >/dev/null
    "$@" get /tmp/lab.esker job:1 | grep -q first || fail "$name: the vertex is missing"
    "$@" check /tmp/lab.esker >/dev/null 2>&1 || fail "$name: the database is inconsistent"
    "$@" --version >"$work/version"
    grep -q "^esker $version$" "$work/version" || fail "$name: $(cat "$work/version")"
    echo "packages: $name: the first answers after $((($(date +%s%N) - start) / 1000000)) ms"
}

(cd "$packages" && sha256sum --check --quiet --strict SHA256SUMS)

# The static program runs in a folder that has no other file.
mkdir -p "$work/empty/tmp" "$work/archive"
tar -xzf "$packages/esker-$version-linux-x86_64.tar.gz" -C "$work/archive" --strip-components=1
cp "$work/archive/usr/bin/esker" "$work/empty/esker"
! ldd "$work/empty/esker" >/dev/null 2>&1 || fail "the program is not static"
first_commands "static program in an empty root" chroot "$work/empty" /esker

# Debian without anything that is not essential.
root=target/packages-root.tar
if [ ! -f "$root" ]; then
    mmdebstrap --quiet --variant=essential bookworm "$root.new" >/dev/null 2>"$work/log" || { cat "$work/log" >&2; fail "no bare Debian"; }
    mv "$root.new" "$root"
fi
mkdir "$work/debian"
tar -xf "$root" -C "$work/debian"
cp "$packages/esker_${version}_amd64.deb" "$work/debian/tmp/"
chroot "$work/debian" dpkg -i "/tmp/esker_${version}_amd64.deb" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "dpkg failed"; }
first_commands ".deb in a bare Debian" chroot "$work/debian" esker
for file in /usr/lib/systemd/system/esker@.service /etc/esker /usr/share/bash-completion/completions/esker \
    /usr/share/zsh/vendor-completions/_esker /usr/share/fish/vendor_completions.d/esker.fish /usr/share/man/man1/esker-lineage.1.gz; do
    [ -e "$work/debian$file" ] || fail ".deb: $file is missing"
done
chroot "$work/debian" bash -c '. /usr/share/bash-completion/completions/esker && complete -p esker' >/dev/null || fail ".deb: the completion of bash is wrong"
chroot "$work/debian" dpkg --verify esker || fail ".deb: the checksums are wrong"
chroot "$work/debian" dpkg -r esker >/dev/null
[ ! -e "$work/debian/usr/bin/esker" ] || fail ".deb: the program stays when the package is removed"

mkdir -p "$work/fedora/tmp"
rpm --root "$work/fedora" --initdb
rpm --root "$work/fedora" --nodeps --noscripts --install "$packages/esker-$version-1.x86_64.rpm" 2>"$work/log" || { cat "$work/log" >&2; fail "rpm failed"; }
rpm --root "$work/fedora" --verify --nodeps esker || fail ".rpm: the files differ from the package"
first_commands ".rpm in an empty root" chroot "$work/fedora" /usr/bin/esker

# The image, with its server as another user than root. The default limits of podman are above those of some machines.
run=(podman --runtime runc run --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --network none)
image=$packages/esker-$version-container-x86_64.tar
size=$(stat -c %s "$image")
podman load --quiet --input "$image" >/dev/null
mkdir -m 777 "$work/shared"
first_commands "container" "${run[@]}" --rm --no-healthcheck --volume "$work/shared:/tmp" "localhost/esker:$version"
"${run[@]}" --detach --name "$container" "localhost/esker:$version" >/dev/null
for ((i = 0; ; i++)); do
    code=0
    podman --runtime runc healthcheck run "$container" >"$work/log" 2>&1 || code=$?
    [ $code != 0 ] || break
    [ $code = 1 ] || { cat "$work/log" >&2; fail "container: no health check"; }
    [ "$(podman inspect --format '{{.State.Running}}' "$container")" = true ] || { podman logs "$container" >&2; fail "container: the server has ended"; }
    [ $i -lt 600 ] || { cat "$work/log" >&2; fail "container: the server is not healthy"; }
    sleep 0.2
done
[ "$(podman inspect --format '{{.Config.User}}' "$container")" = 65532:65532 ] || fail "container: the server runs as root"
podman --runtime runc stop --time 60 "$container" >/dev/null
[ "$(podman inspect --format '{{.State.ExitCode}}' "$container")" = 0 ] || fail "container: the server did not stop well"
podman rm "$container" >/dev/null
podman rmi "localhost/esker:$version" >/dev/null
echo "packages: container: healthy, $((size / 1000000)) MB"

wheel=$(echo "$packages"/esker-"$version"-cp310-abi3-manylinux_*.whl)
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
mkdir "$work/home"
(cd "$work/home" && first_commands "wheel" "$work/venv/bin/esker")
(cd "$work/home" && "$work/venv/bin/python" - <<'PY'
import esker
with esker.open("/tmp/first.esker") as db:
    assert "file:/lab/input/topography.nc" in db.lineage("file:/lab/results/figure3.png").names
PY
)
rm -rf /tmp/first.esker /tmp/lab.esker
ls -l --block-size=1 "$packages" | awk 'NF > 8 { printf "packages: %s: %.1f MB\n", $9, $5 / 1e6 }'
