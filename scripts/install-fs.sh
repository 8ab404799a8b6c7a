#!/usr/bin/env bash
# Builds libesker_fs and libesker_preload, and installs them with the header and the pkg-config file below a prefix.
#
#   scripts/install-fs.sh PREFIX
#   DESTDIR   a folder that stands in for the root directory, as in other packages' `make install`
#   PROFILE   `debug` installs the libraries of a debug build without building them (release)
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${1:?"expected a prefix, such as /usr/local"}
profile=${PROFILE:-release}
to=${DESTDIR:-}$prefix
built=${CARGO_TARGET_DIR:-target}/$profile
if [[ $profile == release ]]; then
    cargo build --release --locked -p esker-fs -p esker-preload
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
install -d "$to/lib/pkgconfig" "$to/include"
install -m 755 "$built/libesker_fs.so" "$built/libesker_preload.so" "$to/lib/"
install -m 644 "$built/libesker_fs.a" "$to/lib/"
install -m 644 crates/fs/include/esker_fs.h "$to/include/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" crates/fs/esker_fs.pc.in > "$to/lib/pkgconfig/esker_fs.pc"
echo "installed libesker_fs $version below $to"
