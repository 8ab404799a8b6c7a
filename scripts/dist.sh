#!/usr/bin/env bash
# Writes the source archive of the last commit, with all crates that it needs, so that it builds without a network:
#     tar -xzf esker-VERSION.tar.gz && cd esker-VERSION && cargo build --release --offline --locked --bin esker
# Next to the archive are a list of the program's components (CycloneDX: esker-VERSION.cdx.json) and the checksums of both files (SHA256SUMS).
# With `--no-vendor` the archive has no crates, which saves time in scripts/check-packaging.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
name=esker-$version
out=${ESKER_DIST_DIR:-target/dist}
mkdir -p "$out"
out=$(realpath "$out")
stage=$(mktemp -d "$out/stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
git archive --format=tar --prefix="$name/" HEAD | tar -x -C "$stage"
cd "$stage/$name"
if [ "${1:-}" != --no-vendor ]; then
    cargo vendor --quiet --locked --versioned-dirs vendor >/dev/null
    mkdir -p .cargo
    cat >.cargo/config.toml <<'END'
# All crates are in vendor/, so that cargo fetches none.
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"

[net]
offline = true
END
    # Cargo must resolve all dependencies from the archive alone.
    cargo metadata --offline --locked --format-version 1 >/dev/null
fi
# The time of the commit makes the archive and the list of crates reproducible.
commit_time=$(git -C "$root" show -s --format=%ct HEAD)
scripts/sbom.py "$(git -C "$root" rev-parse HEAD)" "$commit_time" >"$stage/$name.cdx.json"
cd "$stage"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$commit_time" -c "$name" | gzip -n >"$out/$name.tar.gz"
mv "$name.cdx.json" "$out/"
cd "$out"
sha256sum "$name.tar.gz" "$name.cdx.json" | tee SHA256SUMS
