#!/usr/bin/env bash
# Cargo's RUSTC_WRAPPER for `make fuzz`: counts branches for libFuzzer in this workspace and in the parsers that it uses.
# Counters in other crates would only cost time, because libFuzzer reads all counters after each run.
set -euo pipefail

rustc=$1
shift
name='' target=''
args=("$@")
for i in "${!args[@]}"; do
    case ${args[i]} in
    --crate-name) name=${args[i + 1]:-} ;;
    --target) target=${args[i + 1]:-} ;;
    esac
done
# Build scripts and procedural macros are compiled without `--target`.
if [ -n "$target" ]; then
    case $name in
    esker* | sparesults | base64ct | json_event_parser | oxiri | oxjsonld | oxrdf | oxsdatatypes | oxttl | pem_rfc7468 | prost | quick_xml | \
        serde_json | spareval | spargebra | sparopt | ssh_encoding | ssh_key)
        args+=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
            -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares)
        ;;
    esac
fi
exec "$rustc" "${args[@]}"
