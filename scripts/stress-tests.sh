#!/usr/bin/env bash
# Runs all test programs several times under each of these conditions, which must not change a result:
#
#   quiet    without other load, as `make test` runs them
#   busy     with eight other processes that use all processors
#   pinned   on one processor
#   nice     at the lowest priority, with two other processes that use most of the time of two processors
#   tmpfs    with temporary files in memory (a tmpfs of its own, so it needs root)
#   disk     with temporary files on the disk of this folder
#
#   scripts/stress-tests.sh [CONDITION...]     the default is all conditions
#   ESKER_STRESS_ROUNDS   number of rounds for each condition (3)
#   ESKER_STRESS_ONLY     runs only programs with this text in their names, such as `server`
#
# The script shows a failure when it happens, and continues with the next round. At the end it prints a table of all rounds with their results,
# durations and failed tests. The exit status is 1 if a test failed.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ESKER_STRESS_ROUNDS:-3}
options=(--no-scripts)
[ -z "${ESKER_STRESS_ONLY:-}" ] || options+=(--only "$ESKER_STRESS_ONLY")
all_conditions=(quiet busy pinned nice tmpfs disk)
conditions=("$@")
[ $# -gt 0 ] || conditions=("${all_conditions[@]}")
for condition in "${conditions[@]}"; do
    [[ " ${all_conditions[*]} " = *" $condition "* ]] || {
        echo "stress-tests: there is no condition \`$condition\`; expected some of: ${all_conditions[*]}" >&2
        exit 2
    }
done

pids=()
scratch=''
clean_up() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
    pids=()
    if [ -n "$scratch" ]; then
        ! mountpoint -q "$scratch" || umount "$scratch"
        rm -rf "$scratch"
    fi
    scratch=''
}
trap clean_up EXIT

# Starts $1 busy processes with nice value $2.
start_busy_processes() {
    for _ in $(seq "$1"); do
        nice -n "$2" bash -c 'while :; do :; done' &
        pids+=($!)
    done
}

# Makes a folder in $1 that all users can write to, like /tmp.
make_temporary_folder() {
    scratch=$(mktemp -d "$1/esker-stress.XXXXXX")
    chmod 1777 "$scratch"
}

log=$(mktemp)
table=$(printf '%-10s %5s  %-6s  %7s  %s' condition round result seconds 'failed tests')
status=0
for condition in "${conditions[@]}"; do
    for round in $(seq "$rounds"); do
        echo "== $condition, round $round of $rounds"
        prefix=()
        case $condition in
        busy) start_busy_processes 8 0 ;;
        pinned) prefix=(taskset -c 0) ;;
        nice)
            # With nice value 0, the two processes would leave a seventieth of the time to the tests.
            start_busy_processes 2 10
            prefix=(nice -n 19)
            ;;
        tmpfs)
            make_temporary_folder "${TMPDIR:-/tmp}"
            # `esker run --trace` leaves out /dev with /dev/shm, so the tests need a tmpfs elsewhere.
            mount -t tmpfs -o mode=1777 esker-stress "$scratch"
            ;;
        disk)
            mkdir -p target
            make_temporary_folder "$PWD/target"
            ;;
        esac
        began=$SECONDS code=0
        TMPDIR=${scratch:-${TMPDIR:-/tmp}} "${prefix[@]}" scripts/test.py "${options[@]}" 2>&1 | tee -i "$log" || code=$?
        clean_up
        result=passed failed=''
        if [ "$code" != 0 ]; then
            result=FAILED status=1
            failed=$(sed -n 's/^failed: //p' "$log" | paste -sd ,)
            failed=${failed:-no test ran}
        fi
        table+=$(printf '\n%-10s %5s  %-6s  %7s  %s' "$condition" "$round" "$result" $((SECONDS - began)) "$failed")
        # The user interrupted the round.
        [ "$code" != 130 ] || break 2
    done
done
rm -f "$log"
printf '\n%s\n' "$table"
exit "$status"
