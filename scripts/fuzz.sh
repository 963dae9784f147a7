#!/usr/bin/env bash
# usage: scripts/fuzz.sh TARGET|all [SECONDS] [-- libFuzzer options]
#
# Builds the fuzz targets with the stable toolchain (the coverage passes are
# those of LLVM, so no nightly and no cargo-fuzz is needed; libFuzzer itself
# needs g++ or clang++) and runs one for SECONDS, 60 unless told, or all of them
# one after another. Exit code 0 means that nothing was found; a crash is kept in
# fuzz/artifacts/TARGET and replays with the same command and
# `-- fuzz/artifacts/TARGET/FILE`.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:?"usage: scripts/fuzz.sh TARGET|all [SECONDS] [-- libFuzzer options]"}
seconds=${2:-60}
shift; [ $# -gt 0 ] && shift; [ "${1:-}" = -- ] && shift
triple=$(rustc -vV | sed -n 's/^host: //p')
targets=("$target") binaries=(--bin "$target")
if [ "$target" = all ]; then
    binaries=(--bins) targets=()
    for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

passes="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
passes+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
passes+=" -Cllvm-args=-sanitizer-coverage-pc-table"
passes+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
# `--target` is given, so build scripts and macros get no coverage counters.
RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 $passes" \
    cargo build --release --manifest-path fuzz/Cargo.toml --target "$triple" "${binaries[@]}"

fuzz() { # TARGET [libFuzzer options]
    local name=$1 artifacts=fuzz/artifacts/$1/ folders=("fuzz/corpus/$1") option
    shift
    mkdir -p "${folders[0]}" "$artifacts"
    local options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4096
        -artifact_prefix="$artifacts" -print_final_stats=1)
    [ ! -f "fuzz/$name.dict" ] || options+=(-dict="fuzz/$name.dict")
    [ ! -d "fuzz/seeds/$name" ] || folders+=("fuzz/seeds/$name")
    # A file among the options is a crash to replay, not a folder of inputs.
    for option in "$@"; do [ ! -f "$option" ] || folders=(); done
    echo "fuzz: $name for $seconds s"
    "fuzz/target/$triple/release/$name" "${options[@]}" "$@" "${folders[@]}"
}

for name in "${targets[@]}"; do fuzz "$name" "$@"; done
