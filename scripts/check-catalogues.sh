#!/usr/bin/env bash
# Exports objects, a directory, files and a run for catalogues, and validates each document with the validators of its standard: DataCite, schema.org,
# Croissant, DCAT-AP. Then clients of Signposting and OAI-PMH read a server. Nothing but the installation uses a network.
#
# If the folder ESKER_DCAT_AP_SHAPES has SHACL files (*.ttl) of another version of DCAT-AP, documents must also conform to these. No package has the
# shapes of version 3.0.1.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=scripts/requirements/check-catalogues.txt
data=scripts/requirements/check-catalogues-data.txt
checksums=$(sha256sum "$packages" "$data" scripts/catalogues/unpack.py)
ESKER=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
folder=$(realpath -m "${ESKER_CATALOGUES_DIR:-target/catalogues}")
ESKER_CATALOGUES_SCHEMAS=$folder/schemas
export ESKER ESKER_CATALOGUES_SCHEMAS
if [ "$(cat "$folder/complete" 2>/dev/null)" != "$checksums" ]; then
    rm -rf "$folder"
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$packages"
    # The wheel of pyoai lacks the schema that its source package has.
    "$folder/venv/bin/pip" download --quiet --disable-pip-version-check --require-hashes --no-deps --no-binary pyoai --dest "$folder/packages" -r "$data"
    "$folder/venv/bin/python" scripts/catalogues/unpack.py "$folder/packages" "$ESKER_CATALOGUES_SCHEMAS"
    rm -rf "$folder/packages"
    echo "$checksums" >"$folder/complete"
fi
python=$folder/venv/bin/python
"$folder/venv/bin/ruff" check --quiet --no-cache --config python/pyproject.toml scripts/catalogues

here=$PWD/scripts/catalogues
scratch=$(mktemp -d)
server=
stop() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" || true
    fi
    rm -rf "$scratch"
}
trap stop EXIT
cd "$scratch"
# Clients of this machine need no proxy.
export no_proxy=127.0.0.1 PYTHONDONTWRITEBYTECODE=1
"$python" "$here/lab.py" "$scratch"
# A failure in one part does not prevent the report of the others.
failed=
"$python" "$here/documents.py" "$scratch" || failed=1

"$ESKER" serve "$scratch/lab.esker" --quiet --listen 127.0.0.1:0 --port-file "$scratch/port" 2>"$scratch/serve.log" &
server=$!
until [ -s "$scratch/port" ]; do
    kill -0 "$server" || { cat "$scratch/serve.log" >&2; exit 1; }
    sleep 0.1
done
address=http://$(cat "$scratch/port")
"$python" "$here/landing_pages.py" "$scratch" "$address" || failed=1
"$python" "$here/provider.py" "$scratch" "$address" || failed=1
[ -z "$failed" ] || { cat "$scratch/serve.log" >&2; exit 1; }
echo "catalogues: all checks passed"
