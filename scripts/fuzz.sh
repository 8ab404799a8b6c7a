#!/usr/bin/env bash
# Builds all targets of fuzz/ with AddressSanitizer and libFuzzer, and runs each for some time. The corpus of each target is kept for the next run.
#
#   ESKER_FUZZ_SECONDS   run time of each target in seconds (600)
#   ESKER_FUZZ_JOBS      number of targets that run at the same time (the number of CPUs)
#   ESKER_FUZZ_TARGETS   names of the targets to run, separated by spaces (all)
#   ESKER_FUZZ_CORPUS    folder for inputs with new coverage (target/fuzz-corpus)
#
# An input that crashes a target is kept in the subfolder `crashes` of the corpus folder, and the script prints the command that replays the input.
# At the end, also after an interrupt, the script prints a table of the targets. The exit status is 1 if a target crashed.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${ESKER_FUZZ_SECONDS:-600}
jobs=${ESKER_FUZZ_JOBS:-$(nproc)}
base=${CARGO_TARGET_DIR:-target}
corpus=${ESKER_FUZZ_CORPUS:-$base/fuzz-corpus}
triple=$(rustc -vV | sed -n 's/^host: //p')
names=$(sed -n 's/^    ("\([a-z_]*\)", .*/\1/p' fuzz/src/lib.rs)
targets=${ESKER_FUZZ_TARGETS:-$names}
for target in $targets; do
    grep -qx "$target" <<<"$names" || {
        echo "fuzz: there is no target \`$target\`; expected one of" $names >&2
        exit 2
    }
done

# A separate target folder, because these flags would force a new build of everything else. RUSTC_BOOTSTRAP makes the stable compiler accept the
# unstable flags.
export RUSTC_BOOTSTRAP=1 RUSTC_WRAPPER="$PWD/scripts/fuzz-rustc.sh" RUSTFLAGS='-Zsanitizer=address' CARGO_INCREMENTAL=0
cargo build --locked --profile fuzz --target "$triple" --target-dir "$base/fuzz" -p esker-fuzz --features libfuzzer
program=$(realpath "$base/fuzz/$triple/fuzz/esker-fuzz")

mkdir -p "$corpus/crashes"
corpus=$(realpath "$corpus")
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Runs one target for $seconds seconds.
run_target() {
    local target=$1 options=()
    mkdir -p "$corpus/$target"
    [ ! -e "fuzz/dictionaries/$target.dict" ] || options+=("-dict=fuzz/dictionaries/$target.dict")
    # Recursive parsers need more stack in this build than in a release build, which is optimized more.
    ulimit -s 65536 2>/dev/null || true
    date +%s >"$logs/$target.begin"
    # This subshell ignores interrupts, so that it can record how libFuzzer, which handles them itself, ends.
    trap '' INT
    ESKER_FUZZ_TARGET=$target ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} nice -n 19 "$program" "$corpus/$target" "fuzz/seeds/$target" \
        -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 -artifact_prefix="$corpus/crashes/$target-" \
        "${options[@]}" >"$logs/$target.log" 2>&1 &
    echo $! >"$logs/$target.pid"
    local status=0
    wait $! || status=$?
    echo "$status" >"$logs/$target.status"
    date +%s >"$logs/$target.end"
}

interrupted=''
stop() {
    interrupted=1
    for pid in "$logs"/*.pid; do
        [ ! -e "$pid" ] || kill -INT "$(cat "$pid")" 2>/dev/null || true
    done
}
trap stop INT TERM

running=0
for target in $targets; do
    [ -z "$interrupted" ] || break
    if [ "$running" -ge "$jobs" ]; then
        wait -n || true
        running=$((running - 1))
    fi
    [ -z "$interrupted" ] || break
    run_target "$target" &
    running=$((running + 1))
done
# A signal with a trap ends a `wait` early.
while [ -n "$(jobs -rp)" ]; do wait || true; done

# Prints the last value of field $2 in the log of target $1, such as 456 for `cov` in `#123 DONE cov: 456 ft: 789 corp: …`.
last_value() { grep -oE "$2: [0-9]+" "$logs/$1.log" | tail -1 | grep -oE '[0-9]+' || echo -; }
failed=0
printf '%-20s %12s %8s %8s %8s %8s  %s\n' target runs seconds cov ft corpus crashes
for target in $targets; do
    [ -e "$logs/$target.log" ] || continue
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$target.log" | tail -1)
    took=$(($(cat "$logs/$target.end") - $(cat "$logs/$target.begin")))
    files=$(find "$corpus/$target" -type f | wc -l)
    crash=$(grep -oE 'Test unit written to .*' "$logs/$target.log" | sed 's/^Test unit written to //' || true)
    status=$(cat "$logs/$target.status")
    count=0
    # libFuzzer ends with status 72 after an interrupt.
    if [ -n "$crash" ] || { [ "$status" != 0 ] && [ "$status" != 72 ]; }; then
        count=1
        failed=1
    fi
    printf '%-20s %12s %8s %8s %8s %8s  %s\n' "$target" "${runs:--}" "$took" "$(last_value "$target" cov)" "$(last_value "$target" ft)" "$files" "$count"
done
for target in $targets; do
    [ -e "$logs/$target.log" ] || continue
    status=$(cat "$logs/$target.status")
    if [ "$status" = 0 ] || [ "$status" = 72 ]; then continue; fi
    echo
    echo "fuzz: $target ended with status $status:"
    grep -vE '^#[0-9]+' "$logs/$target.log" | grep -E 'panicked|ERROR|SUMMARY|^[a-z ]*(left|right):|assertion|expect|is no' | cut -c1-300 | head -8 | sed 's/^/    /' || true
    while read -r input; do
        echo "  replay it: cargo run -p esker-fuzz -- $target $input"
        echo "  or with the sanitizer: ESKER_FUZZ_TARGET=$target $program $input"
    done < <(grep -oE 'Test unit written to .*' "$logs/$target.log" | sed 's/^Test unit written to //')
done
exit "$failed"
