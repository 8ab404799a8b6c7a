#!/usr/bin/env bash
# Every test program under conditions that must not matter to it, several times each:
#
#   quiet    as `make test` runs them
#   busy     beside eight processes that take all the processors
#   pinned   all on one processor
#   nice     at the lowest priority, beside two busy processes
#   tmpfs    with temporary files in memory (/dev/shm)
#   disk     with temporary files on the disk that has this folder
#
#   scripts/stress-tests.sh [CONDITION...]     all conditions if none is named
#   ESKER_STRESS_ROUNDS   how often each (3)
#   ESKER_STRESS_ONLY     only programs that have this in their names, as in `server`
#
# The exit status is 1 if anything failed; what did is shown when it happens, and listed at the end.
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

busy() {
    for _ in $(seq "$1"); do
        (while :; do :; done) &
        pids+=($!)
    done
}

results=()
status=0
for condition in "${wanted[@]}"; do
    for round in $(seq "$rounds"); do
        echo "== $condition, round $round of $rounds"
        prefix=()
        case $condition in
        busy) busy 8 ;;
        pinned) prefix=(taskset -c 0) ;;
        nice)
            busy 2
            prefix=(nice -n 19)
            ;;
        tmpfs) scratch=$(mktemp -d /dev/shm/esker-stress.XXXXXX) ;;
        disk)
            mkdir -p target
            scratch=$(mktemp -d "$PWD/target/stress.XXXXXX")
            ;;
        esac
        began=$SECONDS result=passed
        TMPDIR=${scratch:-${TMPDIR:-/tmp}} "${prefix[@]}" scripts/test.py "${options[@]}" || result=FAILED status=1
        results+=("$condition, round $round: $result, $((SECONDS - began)) s")
        clean
    done
done
echo
printf '%s\n' "${results[@]}"
exit "$status"
