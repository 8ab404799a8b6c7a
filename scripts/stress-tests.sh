#!/usr/bin/env bash
# Every test program under conditions that must not matter to it, several times each:
#
#   quiet    as `make test` runs them
#   busy     beside eight processes that take all the processors
#   pinned   all on one processor
#   nice     at the lowest priority, beside two busy processes that get most of the time of two processors
#   tmpfs    with temporary files in memory (/dev/shm)
#   disk     with temporary files on the disk that has this folder
#
#   scripts/stress-tests.sh [CONDITION...]     all conditions if none is named
#   ESKER_STRESS_ROUNDS   how often each (3)
#   ESKER_STRESS_ONLY     only programs that have this in their names, as in `server`
#
# A failure is shown when it happens, and the next round goes on. At the end there is a table of all rounds: what came of each, how long it
# took, which tests failed. The exit status is 1 if any did.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ESKER_STRESS_ROUNDS:-3}
options=(--no-scripts)
[ -z "${ESKER_STRESS_ONLY:-}" ] || options+=(--only "$ESKER_STRESS_ONLY")
all=(quiet busy pinned nice tmpfs disk)
wanted=("$@")
[ $# -gt 0 ] || wanted=("${all[@]}")
for condition in "${wanted[@]}"; do
    [[ " ${all[*]} " = *" $condition "* ]] || {
        echo "stress-tests: there is no condition \`$condition\`; expected some of ${all[*]}" >&2
        exit 2
    }
done

pids=()
scratch=''
clean() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
    pids=()
    [ -z "$scratch" ] || rm -rf "$scratch"
    scratch=''
}
trap clean EXIT

# So many processes of that priority.
busy() {
    for _ in $(seq "$1"); do
        nice -n "$2" bash -c 'while :; do :; done' &
        pids+=($!)
    done
}

# A folder in that one, through which other users get as through /tmp.
temporary() {
    scratch=$(mktemp -d "$1/esker-stress.XXXXXX")
    chmod 1777 "$scratch"
}

log=$(mktemp)
table=$(printf '%-10s %5s  %-6s  %7s  %s' condition round result seconds 'failed tests')
status=0
for condition in "${wanted[@]}"; do
    for round in $(seq "$rounds"); do
        echo "== $condition, round $round of $rounds"
        prefix=()
        case $condition in
        busy) busy 8 0 ;;
        pinned) prefix=(taskset -c 0) ;;
        nice)
            # Beside two of priority 0 it would get a seventieth.
            busy 2 10
            prefix=(nice -n 19)
            ;;
        tmpfs) temporary /dev/shm ;;
        disk)
            mkdir -p target
            temporary "$PWD/target"
            ;;
        esac
        began=$SECONDS code=0
        TMPDIR=${scratch:-${TMPDIR:-/tmp}} "${prefix[@]}" scripts/test.py "${options[@]}" 2>&1 | tee -i "$log" || code=$?
        clean
        result=passed failed=''
        if [ "$code" != 0 ]; then
            result=FAILED status=1
            failed=$(sed -n 's/^failed: //p' "$log" | paste -sd ,)
            failed=${failed:-no test was run}
        fi
        table+=$(printf '\n%-10s %5s  %-6s  %7s  %s' "$condition" "$round" "$result" $((SECONDS - began)) "$failed")
        # Interrupted.
        [ "$code" != 130 ] || break 2
    done
done
rm -f "$log"
printf '\n%s\n' "$table"
exit "$status"
