#!/usr/bin/env bash
# usage: scripts/fuzz.sh TARGET [SECONDS] [-- libFuzzer options]
#
# Builds one fuzz target with the stable toolchain (the coverage passes are
# those of LLVM, so no nightly and no cargo-fuzz is needed; libFuzzer itself
# needs g++ or clang++) and runs it for SECONDS, 60 unless told. Exit code 0
# means that nothing was found; a crash is kept in fuzz/artifacts/TARGET and
# replays with the same command and `-- fuzz/artifacts/TARGET/FILE`.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:?"usage: scripts/fuzz.sh TARGET [SECONDS] [-- libFuzzer options]"}
seconds=${2:-60}
shift; [ $# -gt 0 ] && shift; [ "${1:-}" = -- ] && shift
triple=$(rustc -vV | sed -n 's/^host: //p')
corpus=fuzz/corpus/$target
artifacts=fuzz/artifacts/$target/
mkdir -p "$corpus" "$artifacts"

passes="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
passes+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
passes+=" -Cllvm-args=-sanitizer-coverage-pc-table"
passes+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
# With a target named, build scripts and macros stay without counters.
RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 $passes" \
    cargo build --quiet --release --manifest-path fuzz/Cargo.toml --target "$triple" --bin "$target"

options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4096
    -artifact_prefix="$artifacts" -print_final_stats=1)
[ -f "fuzz/$target.dict" ] && options+=(-dict="fuzz/$target.dict")
folders=("$corpus")
[ -d "fuzz/seeds/$target" ] && folders+=("fuzz/seeds/$target")
# A file among the options is a crash to replay, not a folder to learn from.
for option in "$@"; do [ -f "$option" ] && folders=(); done
exec "fuzz/target/$triple/release/$target" "${options[@]}" "$@" "${folders[@]}"
