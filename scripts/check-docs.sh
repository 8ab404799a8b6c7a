#!/usr/bin/env bash
# Builds the documentation site into target/docs. Every link must have a target, no page may load anything from another host, and the commands on
# the pages must print the output shown there (scripts/docs/run.py), and pictures of a terminal must show what the program prints
# (scripts/docs/recordings.py). With the argument `build`, the script does not run the commands.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-docs.txt
checksum=$(sha256sum <"$requirements")
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
venv=$(realpath -m "${ESKER_DOCS_DIR:-target/docs-venv}")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
if [ "${1:-}" != build ]; then
    # Pages use real Darshan logs, the libraries of `esker harvest` and etcd, which `make test` installs.
    ESKER_LOGS=$(realpath "${ESKER_DARSHAN_DIR:-target/darshan}")/logs/darshan
    ESKER_HARVEST=$(realpath "${ESKER_HARVEST_DIR:-target/harvest}")/bin/python
    ESKER_ETCD=${ESKER_ETCD:-$(realpath "${ESKER_FTP_SERVERS_DIR:-target/ftp-servers}")/etcd-server/usr/bin/etcd}
    export ESKER_LOGS ESKER_HARVEST ESKER_ETCD
    [ -d "$ESKER_LOGS" ] || { echo "docs: $ESKER_LOGS does not exist: run \`make darshan-logs\`" >&2; exit 1; }
    [ -x "$ESKER_HARVEST" ] || { echo "docs: $ESKER_HARVEST does not exist: run scripts/check-harvest.sh" >&2; exit 1; }
    [ -x "$ESKER_ETCD" ] || { echo "docs: $ESKER_ETCD does not exist: run \`make origin-servers\`" >&2; exit 1; }
    # scripts/check-workflows.sh runs pages that use large packages of others.
    mapfile -t pages < <(ls docs/book/*.md | grep -vE '/(comparison|with-(dask|parsl|snakemake))\.md$')
    python3 scripts/docs/run.py "$(dirname "$esker")" README.md "${pages[@]}" docs/papers/graphmeta.md
    "$venv/bin/python" scripts/docs/recordings.py "$(dirname "$esker")"
fi
python3 scripts/docs/site.py "$esker" target/docs-src
rm -rf target/docs
"$venv/bin/sphinx-build" -q -W --keep-going -b html target/docs-src target/docs
# A page may link to other hosts, but must not load anything from them.
loaded=$(grep -rnoE '<(script|img|iframe|source)[^>]* src="(https?:)?//[^"]*"|<link[^>]* rel="(stylesheet|preload|icon|preconnect)"[^>]* href="(https?:)?//[^"]*"' target/docs --include='*.html' || true)
loaded+=$(grep -rnoE "url\\([\"']?(https?:)?//[^)]*\\)|@import +[\"'(]" target/docs --include='*.css' || true)
[ -z "$loaded" ] || { echo "docs: pages load these from other hosts:" >&2; echo "$loaded" >&2; exit 1; }
for file in index.html searchindex.js llms.txt llms-full.txt reference/options.html reference/http.html reference/python.html; do
    [ -s "target/docs/$file" ] || { echo "target/docs/$file is missing" >&2; exit 1; }
done
# check-web.sh installs the packages that drive a browser, and a newer Node.js where the machine's is too old.
[ ! -d target/node-venv/bin ] || PATH=$PWD/target/node-venv/bin:$PATH
if [ -d web/node_modules/playwright-core ]; then
    node web/e2e/docs-site.mjs target/docs
else
    echo "skipped: the buttons of the documentation site: web/node_modules is missing; run scripts/check-web.sh" >&2
fi
echo "docs: $(find target/docs -name '*.html' | wc -l) pages in target/docs; they load nothing from other hosts"
