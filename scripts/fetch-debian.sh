#!/bin/sh
# Unpacks packages from Debian into a tree, with the libraries that this machine lacks. The script installs nothing and starts nothing.
# It does nothing if the tree is complete, and several processes may run it at once.
#
# usage: scripts/fetch-debian.sh FOLDER TREE PACKAGE…
#   FOLDER/TREE/       the files of all packages (usr/sbin/…); the file `complete` marks a complete tree
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 3 ] || { echo "usage: fetch-debian.sh FOLDER TREE PACKAGE…" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
tree=$2
[ -e "$folder/$tree/complete" ] && exit 0

# Several tests may run this script at the same time, so it takes a lock.
if command -v flock >/dev/null 2>&1 && [ "${FETCHING:-}" != yes ]; then
  FETCHING=yes exec flock "$folder" "$here/$(basename "$0")" "$@"
fi
shift 2

fail() {
  echo "fetch-debian: $1" >&2
  exit 1
}

debs=$folder/debs/$tree
fetch() {
  rm -rf "$debs"
  mkdir -p "$debs/partial"
  cd "$debs"
  # `install` downloads the missing libraries; `download` gets the packages even if they are installed already.
  apt-get install -y -qq --no-install-recommends --download-only -o Debug::NoLocking=1 \
    -o Dir::Cache::archives="$debs" -o APT::Sandbox::User=root "$@" >log 2>&1 &&
    apt-get download -qq -o APT::Sandbox::User=root "$@" >>log 2>&1
}

command -v apt-get >/dev/null 2>&1 || fail "needs apt-get, or $* unpacked in $folder/$tree by hand"
if ! fetch "$@"; then
  # A new machine has no package lists yet.
  run=""
  [ "$(id -u)" = 0 ] || run=sudo
  $run apt-get update -qq || fail "apt-get update failed"
  fetch "$@" || fail "cannot download $*: $(cat "$debs/log")"
fi
rm -rf "${folder:?}/$tree"
mkdir -p "$folder/$tree"
for file in "$debs"/*.deb; do
  dpkg-deb -x "$file" "$folder/$tree"
done
touch "$folder/$tree/complete"
rm -rf "$debs"
rmdir "$folder/debs" 2>/dev/null || true
echo "fetch-debian: $* in $folder/$tree"
