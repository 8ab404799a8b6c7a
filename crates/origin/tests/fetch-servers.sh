#!/bin/sh
# Brings servers and clients from PyPI that the tests of origins run: WsgiDAV (WebDAV), moto (S3) and python-irodsclient.
# Safe to run twice; does nothing when everything is there.
#
# usage: tests/fetch-servers.sh [FOLDER]   (default: $ESKER_ORIGIN_SERVERS_DIR, or <workspace>/target/origin-servers)
#   FOLDER/venv/     a virtual environment with them; a file `complete` in it says that it is whole
set -eu

here=$(cd "$(dirname "$0")" && pwd)
requirements=$here/../../../scripts/requirements/origin-servers.txt
build=$here/../../../scripts/requirements/build.txt
folder=${1:-${ESKER_ORIGIN_SERVERS_DIR:-$here/../../../target/origin-servers}}
python=${PYTHON:-python3}

fail() {
  echo "fetch-servers: $1" >&2
  exit 1
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
wanted=$(cat "$requirements" "$build" | sha256sum)
if [ "$(cat "$folder/venv/complete" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$folder/venv"
  "$python" -m venv "$folder/venv" || fail "$python cannot make a virtual environment; PYTHON names another Python"
  # PyPI has WsgiDAV as a source archive alone: what builds it is pinned, too.
  pip="$folder/venv/bin/pip --quiet --disable-pip-version-check install --require-hashes"
  { $pip -r "$build" && $pip --no-build-isolation -r "$requirements"; } ||
    fail "cannot install $requirements from PyPI; is there a network, and a wheel for $("$python" --version)?"
  echo "$wanted" > "$folder/venv/complete"
  echo "fetch-servers: what $requirements lists in $folder/venv"
fi
