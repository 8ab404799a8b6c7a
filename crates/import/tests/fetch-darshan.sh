#!/bin/sh
# Downloads the wheel of darshan 3.5.0 from PyPI. Tests and the demo import its example logs, and tests compare Esker's results with PyDarshan's.
# The script does nothing if everything is complete.
#
# usage: tests/fetch-darshan.sh [--logs-only] [FOLDER]   (default: $ESKER_DARSHAN_DIR, or <workspace>/target/darshan)
#   FOLDER/logs/     the 18 logs of the wheel, under logs/darshan/
#   FOLDER/venv/     a virtual environment with PyDarshan; not made with --logs-only
# The file `complete` marks a complete folder.
set -eu

version=3.5.0
logs_only=no
if [ "${1:-}" = "--logs-only" ]; then
  logs_only=yes
  shift
fi
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${ESKER_DARSHAN_DIR:-$here/../../../target/darshan}}
python=${PYTHON:-python3}
pinned=$here/../../../scripts/requirements
logs_checksum=$(sha256sum < "$pinned/darshan.txt")
venv_checksum=$(cat "$pinned/darshan.txt" "$pinned/darshan-needs.txt" | sha256sum)

fail() {
  echo "fetch-darshan: $1" >&2
  exit 1
}
is_complete() {
  [ "$(cat "$folder/$1/complete" 2>/dev/null)" = "$2" ]
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

if ! is_complete logs "$logs_checksum"; then
  rm -rf "$folder/logs"
  mkdir "$folder/logs"
  # All wheels have the same logs, so the wheel need not fit this machine's Python.
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
    --platform manylinux_2_17_x86_64 --dest "$folder/logs" --require-hashes -r "$pinned/darshan.txt" ||
    fail "cannot download darshan $version from PyPI; is there a network, and pip for $python? (PYTHON names another)"
  "$python" - "$folder/logs" <<'EOF'
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
for wheel in folder.glob("*.whl"):
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            if name.endswith(".darshan"):
                files.extract(name, folder)
    wheel.unlink()
EOF
  echo "$logs_checksum" > "$folder/logs/complete"
  echo "fetch-darshan: $(find "$folder/logs" -name '*.darshan' | wc -l) logs in $folder/logs"
fi

if [ "$logs_only" = no ] && ! is_complete venv "$venv_checksum"; then
  rm -rf "$folder/venv"
  "$python" -m venv "$folder/venv" || fail "$python cannot make a virtual environment; PYTHON names another Python"
  pip="$folder/venv/bin/pip --quiet --disable-pip-version-check"
  # These packages suffice for reading logs; PyDarshan's plots need more.
  $pip install --require-hashes -r "$pinned/darshan-needs.txt" &&
    $pip install --no-deps --require-hashes -r "$pinned/darshan.txt" ||
    fail "cannot install darshan $version from PyPI; is there a network, and a wheel for $("$python" --version)?"
  echo "$venv_checksum" > "$folder/venv/complete"
  echo "fetch-darshan: PyDarshan $version in $folder/venv"
fi
