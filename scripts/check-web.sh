#!/usr/bin/env bash
# Lints, type-checks and tests the console's pages, compares a build with the committed files, and runs the browser tests against real servers.
set -euo pipefail
cd "$(dirname "$0")/.."
esker=${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}
ESKER_BIN=$(realpath "$esker")
ESKER_DARSHAN_DIR=$(realpath -m "${ESKER_DARSHAN_DIR:-target/darshan}")
export ESKER_BIN ESKER_DARSHAN_DIR
cd web

# If the installed Node.js is too old for the build tools, a wheel from PyPI provides a newer one for this folder only.
new_enough='const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
if ! node -e "$new_enough" 2>/dev/null; then
    venv=$PWD/../target/node-venv
    requirements=../scripts/requirements/check-web.txt
    checksum=$(sha256sum <"$requirements")
    if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
        echo "$checksum" >"$venv/complete"
    fi
    export PATH="$venv/bin:$PATH"
    node -e "$new_enough"
fi
# If check-python.sh has installed the Python package, the tests also run the Python code that pages offer for copying.
python=$(realpath -m "${ESKER_PYTHON_DIR:-../target/python}")/bin/python
if "$python" -c 'import esker' 2>/dev/null; then export ESKER_PYTHON=$python; fi

# `npm ci` installs exactly the packages of package-lock.json, and fails if package.json requires others. It deletes node_modules first, so it runs
# only if the lock file has changed.
locked=$(sha256sum <package-lock.json)
if [ "$(cat node_modules/complete 2>/dev/null)" != "$locked" ]; then
    npm ci --no-audit --no-fund --loglevel=error
    echo "$locked" >node_modules/complete
fi
npm run --silent lint
npx --no-install openapi-typescript openapi.json -o src/api/schema.ts --check >/dev/null
npx --no-install tsc --noEmit
npm test --silent

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
npx --no-install vite build --outDir "$built" --logLevel warn
if ! diff -rq "$built" ../crates/console/dist; then
    echo "crates/console/dist differs from the build of web/: run \`npm run build\` in web/, and commit the result" >&2
    exit 1
fi
# The size limit is for all files of the console, compressed as browsers receive them.
total=$(find "$built" -type f -exec gzip -9c {} + | wc -c)
echo "web: $total bytes gzipped"
if [ "$total" -gt 600000 ]; then
    echo "the pages are larger than 600 kB" >&2
    exit 1
fi
npm run --silent e2e
