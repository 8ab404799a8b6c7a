#!/usr/bin/env bash
# Builds the library without its features and runs a program that expects errors that name the missing feature.
# `scripts/features.sh --all` compiles each combination of the features, too; `scripts/features.sh --times` measures each build from
# an empty folder instead: the table in docs/book/embedding.md.
set -euo pipefail
cd "$(dirname "$0")/.."
features=(archive rdf remote)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/features
program=(--manifest-path scripts/features/Cargo.toml --target-dir "$target")
# The program has the versions of the workspace.
cp Cargo.lock scripts/features/Cargo.lock

if [ "${1:-}" = --times ]; then
    for chosen in "" remote rdf archive archive,rdf,remote; do
        for profile in dev release; do
            rm -rf "$target"
            SECONDS=0
            cargo build --quiet "${program[@]}" --profile "$profile" --features "$chosen"
            echo "${chosen:-none}, $profile: $SECONDS s"
        done
    done
    exit
fi

combination() {
    echo "features: ${1:-none}"
    RUSTFLAGS="${RUSTFLAGS:-} -D warnings" cargo check --quiet --locked --lib -p esker-database --target-dir "$target" \
        --no-default-features --features "$1"
}

if [ "${1:-}" = --all ]; then
    for ((set = 0; set < 1 << ${#features[@]}; set++)); do
        chosen=()
        for i in "${!features[@]}"; do
            ((set >> i & 1)) && chosen+=("${features[i]}")
        done
        combination "${chosen[*]}"
    done
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cargo run --quiet "${program[@]}" -- "$folder"
