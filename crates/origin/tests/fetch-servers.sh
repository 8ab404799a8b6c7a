#!/bin/sh
# Installs servers and clients from PyPI for the tests of origins: WsgiDAV (WebDAV), moto (S3) and python-irodsclient.
# The script does nothing if the virtual environment is complete.
#
# usage: tests/fetch-servers.sh [FOLDER]   (default: $ESKER_ORIGIN_SERVERS_DIR, or <workspace>/target/origin-servers)
#   FOLDER/venv/     the virtual environment; the file `complete` marks a complete one
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
checksum=$(cat "$requirements" "$build" | sha256sum)
if [ "$(cat "$folder/venv/complete" 2>/dev/null)" != "$checksum" ]; then
  rm -rf "$folder/venv"
  "$python" -m venv "$folder/venv" || fail "$python cannot make a virtual environment; PYTHON names another Python"
  # PyPI has WsgiDAV only as a source archive, so the packages that build it are pinned, too.
  pip="$folder/venv/bin/pip --quiet --disable-pip-version-check install --require-hashes"
  { $pip -r "$build" && $pip --no-build-isolation -r "$requirements"; } ||
    fail "cannot install $requirements from PyPI; is there a network, and a wheel for $("$python" --version)?"
  echo "$checksum" > "$folder/venv/complete"
  echo "fetch-servers: installed $requirements in $folder/venv"
fi
