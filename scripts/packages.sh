#!/usr/bin/env bash
# Builds the packages for installation, in target/packages, with their checksums in SHA256SUMS:
#     esker-VERSION-linux-ARCH.tar.gz    the static program, with completions, manual pages and the unit for systemd
#     esker_VERSION_ARCH.deb             the same for Debian and Ubuntu
#     esker-VERSION-1.ARCH.rpm           the same for Fedora, RHEL, SUSE and others
#     esker-VERSION-container-ARCH.tar   a container image for podman, docker and others
#     esker-VERSION-cp310-abi3-….whl     the Python package with the command, for glibc 2.28 or newer
# The program is linked with musl, and needs no library of the machine that runs it.
#
#     scripts/packages.sh [--profile PROFILE] [ARCH…]    ARCH is x86_64 (the default) or aarch64
# The default profile is `dist`: it takes 45 minutes on 2 cores for each ARCH. The profile `demo` takes 5 and makes a slow program, for tests.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=dist
if [ "${1:-}" = --profile ]; then
    profile=$2
    shift 2
fi
[ $# -gt 0 ] || set -- x86_64
for arch in "$@"; do
    case $arch in
    x86_64 | aarch64) ;;
    *)
        echo "packages: \`$arch\` is not an architecture that packages are built for: expected x86_64 or aarch64" >&2
        exit 2
        ;;
    esac
done

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
out=${ESKER_PACKAGES_DIR:-target/packages}
mkdir -p "$out"
out=$(realpath "$out")
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# The program prints the commit, and the packages have its time, so that one commit gives the same packages again.
if commit=$(git rev-parse --verify --quiet HEAD); then
    [ -z "$(git status --porcelain --untracked-files=no)" ] || commit=$commit-modified
    SOURCE_DATE_EPOCH=$(git show -s --format=%ct HEAD)
    export ESKER_COMMIT=${ESKER_COMMIT:-$commit}
fi
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y Cargo.lock)}

# cargo-zigbuild compiles and links the C code with Zig, which has musl and all versions of glibc for all architectures.
venv=target/packages-venv
requirements=scripts/requirements/packages.txt
checksum=$(sha256sum <"$requirements")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
export PATH=$PWD/$venv/bin:$PATH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Writes the files of a package below a folder: stage FOLDER PROGRAM
stage() {
    local root=$1 program=$2
    install -D -m 755 "$program" "$root/usr/bin/esker"
    install -D -m 644 "packaging/systemd/esker@.service" "$root/usr/lib/systemd/system/esker@.service"
    install -D -m 644 LICENSE "$root/usr/share/doc/esker/copyright"
    install -m 644 README.md CHANGELOG.md "$root/usr/share/doc/esker/"
    install -d -m 755 "$root/etc/esker" "$root/usr/share/man/man1"
    "$native" man --dir "$root/usr/share/man/man1" >/dev/null
    gzip -9n "$root"/usr/share/man/man1/*.1
    completions bash "$root/usr/share/bash-completion/completions/esker"
    completions zsh "$root/usr/share/zsh/site-functions/_esker"
    completions fish "$root/usr/share/fish/vendor_completions.d/esker.fish"
    find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}
completions() {
    install -d -m 755 "$(dirname "$2")"
    "$native" completions "$1" >"$2"
    chmod 644 "$2"
}

for arch in "$@"; do
    triple=$arch-unknown-linux-musl
    rustup target add --toolchain "$(rustup show active-toolchain | cut -d' ' -f1)" "$triple" >&2 2>/dev/null ||
        rustc --print target-libdir --target "$triple" | xargs ls >/dev/null 2>&1 ||
        { echo "packages: Rust's library for $triple is missing: rustup target add $triple" >&2; exit 1; }
    cargo zigbuild --locked --profile "$profile" --target "$triple" -p esker --bin esker
    program=$work/esker-$arch
    cp "$target/$triple/$profile/esker" "$program"
    objcopy=objcopy
    [ "$arch" = "$(uname -m)" ] || objcopy=llvm-objcopy
    command -v "$objcopy" >/dev/null && "$objcopy" --strip-all "$program"
    # Manual pages and completions are written by a program that runs here.
    native=$program
    if [ "$arch" != "$(uname -m)" ]; then
        native=$work/esker-$(uname -m)
        [ -x "$native" ] || { echo "packages: build for $(uname -m) first: scripts/packages.sh $(uname -m) $arch" >&2; exit 1; }
    fi
    stage "$work/$arch" "$program"
    scripts/packages/archive.sh "$work/$arch" "$out/esker-$version-linux-$arch.tar.gz"
    scripts/packages/deb.sh "$work/$arch" "$version" "$arch" "$out"
    scripts/packages/rpm.sh "$work/$arch" "$version" "$arch" "$out"
    scripts/packages/container.py "$program" "$version" "$arch" "$out/esker-$version-container-$arch.tar"
done
if [[ " $* " == *" x86_64 "* ]]; then
    ESKER_WHEEL_COMMAND=$work/esker-x86_64 ESKER_WHEEL_TARGET=x86_64-unknown-linux-gnu.2.28 \
        ESKER_WHEEL_PROFILE=$([ "$profile" = dist ] && echo wheel || echo "$profile") \
        python3 -c 'import sys; sys.path.insert(0, "python/build"); import esker_build; print(esker_build.build_wheel(sys.argv[1]))' "$out"
fi
cd "$out"
sha256sum -- esker[-_]*"$version"* | tee SHA256SUMS
