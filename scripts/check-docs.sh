#!/usr/bin/env bash
# The documentation site, built into target/docs: every link leads somewhere, nothing is loaded from another host, and what pages
# show runs and prints what they say (scripts/docs/run.py tells how). With `build` it is only built.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-docs.txt
wanted=$(sha256sum <"$requirements")
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
venv=$(realpath -m "${ESKER_DOCS_DIR:-target/docs-venv}")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$wanted" >"$venv/complete"
fi
if [ "${1:-}" != build ]; then
    # What pages read, beside what they make: real logs, headers' libraries, etcd. `make test` has brought them.
    ESKER_LOGS=$(realpath "${ESKER_DARSHAN_DIR:-target/darshan}")/logs/darshan
    ESKER_HARVEST=$(realpath "${ESKER_HARVEST_DIR:-target/harvest}")/bin/python
    ESKER_ETCD=${ESKER_ETCD:-$(realpath "${ESKER_FTP_SERVERS_DIR:-target/ftp-servers}")/etcd-server/usr/bin/etcd}
    export ESKER_LOGS ESKER_HARVEST ESKER_ETCD
    [ -d "$ESKER_LOGS" ] || { echo "docs: no logs of Darshan at $ESKER_LOGS: make darshan-logs" >&2; exit 1; }
    [ -x "$ESKER_HARVEST" ] || { echo "docs: no $ESKER_HARVEST: scripts/check-harvest.sh makes it" >&2; exit 1; }
    [ -x "$ESKER_ETCD" ] || { echo "docs: no etcd at $ESKER_ETCD: make origin-servers" >&2; exit 1; }
    python3 scripts/docs/run.py "$(dirname "$esker")" README.md docs/book/*.md docs/papers/graphmeta.md
fi
python3 scripts/docs/site.py "$esker" target/docs-src
rm -rf target/docs
"$venv/bin/sphinx-build" -q -W --keep-going -b html target/docs-src target/docs
# A link may lead elsewhere; whatever a page loads may not.
loaded=$(grep -rnoE '<(script|img|iframe|source)[^>]* src="(https?:)?//[^"]*"|<link[^>]* rel="(stylesheet|preload|icon|preconnect)"[^>]* href="(https?:)?//[^"]*"' target/docs --include='*.html' || true)
loaded+=$(grep -rnoE "url\\([\"']?(https?:)?//[^)]*\\)|@import +[\"'(]" target/docs --include='*.css' || true)
[ -z "$loaded" ] || { echo "loaded from elsewhere:" >&2; echo "$loaded" >&2; exit 1; }
for file in index.html searchindex.js llms.txt llms-full.txt reference/options.html reference/http.html reference/python.html; do
    [ -s "target/docs/$file" ] || { echo "target/docs/$file is missing" >&2; exit 1; }
done
echo "docs: $(find target/docs -name '*.html' | wc -l) pages in target/docs; nothing in them is loaded from elsewhere"
