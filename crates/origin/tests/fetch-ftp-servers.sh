#!/bin/sh
# Brings servers from Debian for the tests of origins and site caches: vsftpd, ProFTPD, globus-gridftp-server and etcd, each unpacked into a
# folder of its own with the libraries that this machine lacks. Nothing is installed, and nothing is started: installed, the first
# two refuse each other, and each would begin to serve. Safe to run twice; does nothing when everything is there.
#
# usage: tests/fetch-ftp-servers.sh [FOLDER]   (default: $ESKER_FTP_SERVERS_DIR, or <workspace>/target/ftp-servers)
#   FOLDER/PACKAGE/    a tree with usr/sbin/…; a file `complete` in it says that it is whole
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${ESKER_FTP_SERVERS_DIR:-$here/../../../target/ftp-servers}}

fail() {
  echo "fetch-ftp-servers: $1" >&2
  exit 1
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
# One at a time: tests start this, too.
if command -v flock >/dev/null 2>&1 && [ "${FETCHING:-}" != yes ]; then
  FETCHING=yes exec flock "$folder" "$here/$(basename "$0")" "$folder"
fi

fetch() {
  rm -rf "$folder/debs/$1"
  mkdir -p "$folder/debs/$1/partial"
  cd "$folder/debs/$1"
  # The libraries that are missing, and the package itself, which may be installed already.
  apt-get install -y -qq --no-install-recommends --download-only -o Debug::NoLocking=1 \
    -o Dir::Cache::archives="$folder/debs/$1" -o APT::Sandbox::User=root "$1" >log 2>&1 &&
    apt-get download -qq -o APT::Sandbox::User=root "$1" >>log 2>&1
}

for package in vsftpd proftpd-core globus-gridftp-server-progs etcd-server; do
  [ -e "$folder/$package/complete" ] && continue
  command -v apt-get >/dev/null 2>&1 || fail "needs apt-get, or $package unpacked in $folder/$package by hand"
  if ! fetch "$package"; then
    # A fresh machine has no lists of packages.
    run=""
    [ "$(id -u)" = 0 ] || run=sudo
    $run apt-get update -qq || fail "apt-get update failed"
    fetch "$package" || fail "cannot download $package: $(cat "$folder/debs/$package/log")"
  fi
  rm -rf "${folder:?}/$package"
  mkdir -p "$folder/$package"
  for file in "$folder/debs/$package"/*.deb; do
    dpkg-deb -x "$file" "$folder/$package"
  done
  touch "$folder/$package/complete"
  rm -rf "$folder/debs/$package"
  echo "fetch-ftp-servers: $package in $folder/$package"
done
rm -rf "$folder/debs"
