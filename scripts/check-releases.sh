#!/usr/bin/env bash
# Runs the commands of one release against a server of another, in both directions: writes, reads, searches, traversals, a lineage.
#
#   ESKER_OLD=PROGRAM scripts/check-releases.sh    PROGRAM is the command `esker` of an earlier release
#   ESKER_BIN                                      the command of this release (target/debug/esker)
set -euo pipefail
cd "$(dirname "$0")/.."

new=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
old=$(realpath "${ESKER_OLD:?is the command esker of an earlier release}")
scratch=$(mktemp -d)
server=
stop() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" || true
        server=
    fi
}
trap 'stop; rm -rf "$scratch"' EXIT
cd "$scratch"

# Prints the answers of client $2 to the same commands against a server of $1; $3 names the folder.
answers() {
    local target
    "$1" init "$3" --quiet
    rm -f port
    "$1" serve "$3" --listen 127.0.0.1:0 --port-file port --quiet 2>"$3.log" &
    server=$!
    until [ -s port ]; do
        kill -0 "$server" || {
            cat "$3.log" >&2
            exit 1
        }
        sleep 0.1
    done
    target=esker://$(cat port)
    "$2" put "$target" file:/scratch/out size=7 --at 2026-03-01 --quiet
    "$2" link "$target" job:1 write file:/scratch/out --at 2026-03-01 --create --quiet
    "$2" link "$target" user:7 run job:1 --at 2026-03-01 --create --quiet
    for step in 1 2 3; do
        "$2" object create "$target" --name energy --app vpic --owner 7 --step "$step" --tag "energy=$step.5" --quiet >/dev/null
    done
    "$2" get "$target" file:/scratch/out --format json
    "$2" edges "$target" job:1 --format csv
    "$2" history "$target" file:/scratch/out --format csv
    "$2" lineage "$target" file:/scratch/out
    "$2" impact "$target" user:7
    "$2" find "$target" 'energy > 2' --select name,step --format csv | cut -d, -f2-
    "$2" tag set "$target" --where 'step = 2' hot --quiet
    "$2" find "$target" 'EXISTS hot' --count
    "$2" travel "$target" 'v("user:7").e(run).v().e(write).v()' --format csv 2>&1
    "$2" mkdir "$target" /dir
    "$2" ls "$target" /
    stop
}

answers "$new" "$new" db-same >same
failed=
for direction in 'new server, old client' 'old server, new client'; do
    case $direction in
    new*) servers=$new clients=$old ;;
    *) servers=$old clients=$new ;;
    esac
    if answers "$servers" "$clients" "db-${direction//[ ,]/-}" >mixed && diff same mixed; then
        echo "releases: $direction: $(wc -l <mixed) lines of answers, all equal"
    else
        echo "releases: $direction: FAILED" >&2
        failed=1
    fi
    stop
done
exit "${failed:-0}"
