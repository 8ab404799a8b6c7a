#!/usr/bin/env bash
# The source archive: what the last commit holds, with all crates that it needs, so that it builds without a network:
#     tar -xzf esker-VERSION.tar.gz && cd esker-VERSION && cargo build --release --offline --locked --bin esker
# Beside it: what the program is made of (CycloneDX: esker-VERSION.cdx.json), and the sums of both (SHA256SUMS).
# With `--no-vendor` the archive is without crates: scripts/check-packaging.sh has no time for them.
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
# All crates are in vendor/: nothing is fetched.
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"

[net]
offline = true
END
    # It resolves from what is in it, and nothing else.
    cargo metadata --offline --locked --format-version 1 >/dev/null
fi
# The same commit gives the same archive and the same list of crates.
when=$(git -C "$root" show -s --format=%ct HEAD)
scripts/sbom.py "$(git -C "$root" rev-parse HEAD)" "$when" >"$stage/$name.cdx.json"
cd "$stage"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$when" -c "$name" | gzip -n >"$out/$name.tar.gz"
mv "$name.cdx.json" "$out/"
cd "$out"
sha256sum "$name.tar.gz" "$name.cdx.json" | tee SHA256SUMS
