#!/usr/bin/env bash
# The command as it is installed: optimised across crates, without symbols; those lie beside it (`esker.debug`), where debuggers and backtraces look
# for them. Takes three quarters of an hour on 2 cores: `make build` is for everything else.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --profile dist --locked --bin esker
cd "${CARGO_TARGET_DIR:-target}/dist"
objcopy --only-keep-debug --compress-debug-sections=zlib esker esker.debug
chmod -x esker.debug
objcopy --strip-all --remove-section=.gnu_debuglink --add-gnu-debuglink=esker.debug esker esker.stripped
mv esker.stripped esker
ls -l "$PWD/esker" "$PWD/esker.debug"
