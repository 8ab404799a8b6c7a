#!/usr/bin/env bash
# The console's pages: checked, tested, built to the very files that are committed, and driven in a browser against real servers.
set -euo pipefail
cd "$(dirname "$0")/.."
esker=${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}
ESKER_BIN=$(realpath "$esker")
ESKER_DARSHAN_DIR=$(realpath -m "${ESKER_DARSHAN_DIR:-target/darshan}")
export ESKER_BIN ESKER_DARSHAN_DIR
cd web

# Debian's own may be too old for what builds the pages: then Node as a wheel, of this folder alone.
enough='const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
if ! node -e "$enough" 2>/dev/null; then
    venv=$PWD/../target/node-venv
    requirements=../scripts/requirements/check-web.txt
    wanted=$(sha256sum <"$requirements")
    if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
        echo "$wanted" >"$venv/complete"
    fi
    export PATH="$venv/bin:$PATH"
    node -e "$enough"
fi
# With the package that check-python.sh has installed, what pages copy for Python is run, too.
python=$(realpath -m "${ESKER_PYTHON_DIR:-../target/python}")/bin/python
if "$python" -c 'import esker' 2>/dev/null; then export ESKER_PYTHON=$python; fi

# What package-lock.json names, to the byte, those of other platforms among them: `npm ci` takes nothing else, and stops where package.json wants
# more. It empties the folder first, which takes its time: only when the lock has changed.
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
    echo "crates/console/dist is not what web/ builds: run \`npm run build\` in web/, and commit it" >&2
    exit 1
fi
# First load and all there is, as browsers get them.
total=$(find "$built" -type f -exec gzip -9c {} + | wc -c)
echo "web: $total bytes gzipped"
if [ "$total" -gt 600000 ]; then
    echo "the pages are larger than 600 kB" >&2
    exit 1
fi
npm run --silent e2e
