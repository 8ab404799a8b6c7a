#!/bin/sh
# Unpacks servers from Debian for the tests of origins and site caches: vsftpd, ProFTPD, globus-gridftp-server and etcd, each into a folder of its own.
# The script does not install them, because the packages of vsftpd and ProFTPD conflict, and installed servers would start.
#
# usage: tests/fetch-ftp-servers.sh [FOLDER]   (default: $ESKER_FTP_SERVERS_DIR, or <workspace>/target/ftp-servers)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${ESKER_FTP_SERVERS_DIR:-$here/../../../target/ftp-servers}}
for package in vsftpd proftpd-core globus-gridftp-server-progs etcd-server; do
  "$here/../../../scripts/fetch-debian.sh" "$folder" "$package" "$package"
done
