#!/bin/sh
# Brings servers and clients from PyPI that the tests of origins run: WsgiDAV (WebDAV), moto (S3) and python-irodsclient.
# Safe to run twice; does nothing when everything is there.
#
# usage: tests/fetch-servers.sh [FOLDER]   (default: $ESKER_ORIGIN_SERVERS_DIR, or <workspace>/target/origin-servers)
#   FOLDER/venv/     a virtual environment with them; a file `complete` in it says that it is whole
set -eu

versions="wsgidav==4.4.0 cheroot==11.1.2 moto[server]==5.2.5 python-irodsclient==3.3.0"
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${ESKER_ORIGIN_SERVERS_DIR:-$here/../../../target/origin-servers}}
python=${PYTHON:-python3}

fail() {
  echo "fetch-servers: $1" >&2
  exit 1
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if [ "$(cat "$folder/venv/complete" 2>/dev/null)" != "$versions" ]; then
  rm -rf "$folder/venv"
  "$python" -m venv "$folder/venv" || fail "$python cannot make a virtual environment; PYTHON names another Python"
  # shellcheck disable=SC2086
  "$folder/venv/bin/pip" --quiet --disable-pip-version-check install $versions ||
    fail "cannot install $versions from PyPI; is there a network, and a wheel for $("$python" --version)?"
  echo "$versions" > "$folder/venv/complete"
  echo "fetch-servers: $versions in $folder/venv"
fi
