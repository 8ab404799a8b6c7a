#!/usr/bin/env bash
# Builds the programs for installation: optimised across crates and without symbols. The symbols of `esker` are in `esker.debug` next to it,
# where debuggers and backtraces look for them, and those of the other programs likewise. The build takes 45 minutes on 2 cores; `make build` is faster and suffices for other purposes.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=(esker esker-bench esker-workers)
cargo build --profile dist --locked "${programs[@]/#/--bin=}"
cd "${CARGO_TARGET_DIR:-target}/dist"
for program in "${programs[@]}"; do
    objcopy --only-keep-debug --compress-debug-sections=zlib "$program" "$program.debug"
    chmod -x "$program.debug"
    objcopy --strip-all --remove-section=.gnu_debuglink --add-gnu-debuglink="$program.debug" "$program" "$program.stripped"
    mv "$program.stripped" "$program"
    ls -l "$PWD/$program" "$PWD/$program.debug"
done
