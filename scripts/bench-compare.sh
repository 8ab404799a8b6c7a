#!/usr/bin/env bash
# Compares the speed of two commits: builds `esker` and `esker-bench` of each, runs `esker-bench all --quick` of both in turn, and prints a table with
# the medians of each figure and their ratio. A ratio above 1 means that the second commit is faster.
#
#   scripts/bench-compare.sh COMMIT COMMIT [WORKLOAD...]     for example: scripts/bench-compare.sh HEAD~1 HEAD ingest serve
#   ESKER_COMPARE_ROUNDS   number of runs of each commit (3)
#   ESKER_COMPARE_FOLDER   folder for the working trees, builds and reports (target/bench-compare)
#   ESKER_COMPARE_SCRATCH  folder for the databases that are measured (/dev/shm)
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -ge 2 ] || {
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
rounds=${ESKER_COMPARE_ROUNDS:-3}
folder=$(realpath -m "${ESKER_COMPARE_FOLDER:-target/bench-compare}")
scratch=${ESKER_COMPARE_SCRATCH:-/dev/shm}
commits=("$(git rev-parse --verify "$1^{commit}")" "$(git rev-parse --verify "$2^{commit}")")
shift 2
only=()
[ $# = 0 ] || only=(--only "$(IFS=,; echo "$*")")
mkdir -p "$folder"

# Both commits share a folder of builds, so that what has not changed is compiled once.
for commit in "${commits[@]}"; do
    [ -x "$folder/$commit/esker-bench" ] && continue
    echo "bench-compare: building ${commit::12}"
    tree=$folder/tree
    git worktree remove --force "$tree" 2>/dev/null || true
    git worktree add --quiet --detach "$tree" "$commit"
    (cd "$tree" && CARGO_TARGET_DIR=$folder/target cargo build --release --locked --quiet --bin esker --bin esker-bench)
    mkdir -p "$folder/$commit"
    cp "$folder/target/release/esker" "$folder/target/release/esker-bench" "$folder/$commit"
    git worktree remove --force "$tree"
done

for round in $(seq "$rounds"); do
    # The second of a round finds another state of the machine, so the commits take turns.
    order=(0 1)
    [ $((round % 2)) = 1 ] || order=(1 0)
    for which in "${order[@]}"; do
        report=$folder/report-$which-$round.json
        echo "bench-compare: round $round of $rounds, ${commits[$which]::12}"
        # A workload that fails is named; the others are compared all the same.
        "$folder/${commits[$which]}/esker-bench" all --quick "$scratch" "${only[@]}" --json "$report" >/dev/null || echo "bench-compare: not all workloads were measured" >&2
    done
done

python3 - "$folder" "$rounds" <<'PYTHON'
import json, statistics, sys

folder, rounds = sys.argv[1], int(sys.argv[2])
HIGHER_IS_BETTER = ("/s", "/CPU s")


def figures(which):
    found = {}
    for number in range(1, rounds + 1):
        with open(f"{folder}/report-{which}-{number}.json") as file:
            for row in json.load(file)["results"]:
                if row["esker"] is not None:
                    key = (row["workload"], row["case"], row["unit"])
                    found.setdefault(key, []).append((row["esker"], row["ratio"]))
    return found


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def text_of(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


before, after = figures(0), figures(1)
rows = [("workload", "case", "unit", "before", "after", "faster", "ratio before", "ratio after")]
for key in before:
    if key not in after:
        continue
    (a, a_ratio), (b, b_ratio) = (
        (median([v for v, _ in side[key]]), median([r for _, r in side[key]])) for side in (before, after)
    )
    faster = None
    if a and b:
        faster = b / a if key[2].endswith(HIGHER_IS_BETTER) else a / b
    rows.append((*key, text_of(a), text_of(b), text_of(faster), text_of(a_ratio), text_of(b_ratio)))
widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
for row in rows:
    print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
PYTHON
