#!/usr/bin/env bash
# usage: scripts/features.sh [--time [PART...]]
#
# Checks that each part of the library compiles alone, without a warning, and counts the crates that it brings: at most 8, and with
# `tracing` or `metrics` at most 12. With --time, a program that has nothing but the part is built from nothing by `cargo build`, and the
# seconds of the clock and of the processor are printed, of the parts that are named or of all. The profile is cargo's own, with all debug
# information. Nothing is compiled incrementally: cargo compiles a crate of the registry so, and one in a folder otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=(heap run-queue buffer pool serializer timer keyed bus runtime pool,tracing runtime,tracing metrics)
folder=target/features
case ${1-} in
  "" | --time) ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
[ $# -le 1 ] || parts=("${@:2}")
mkdir -p target

program() { # PART
  rm -rf "$folder/program"
  mkdir -p "$folder/program/src"
  cp Cargo.lock "$folder/program/"
  echo "fn main() {}" > "$folder/program/src/main.rs"
  cat > "$folder/program/Cargo.toml" <<MANIFEST
[package]
name = "program"
edition = "2024"
[workspace]
[dependencies]
busyhour = { path = "$PWD/crates/busyhour", default-features = false, features = ["${1//,/\", \"}"] }
MANIFEST
  (cd "$folder/program" && { cargo fetch --quiet --offline 2> /dev/null || cargo fetch --quiet; })
}

printf '%-16s %6s' part crates
[ -z "${1-}" ] || printf ' %8s %10s' seconds processor
printf '\n'
for part in "${parts[@]}"; do
  chosen=(--package busyhour --no-default-features --features "$part")
  crates=$(cargo tree "${chosen[@]}" --edges normal --prefix none --no-dedupe | sort -u | grep -vc '^busyhour ' || true)
  printf '%-16s %6s' "$part" "$crates"
  TIMEFORMAT='%R %U'
  # What a build finds that a check does not takes six times as long, and the tests build all parts together.
  compile() { RUSTFLAGS="--deny warnings" cargo check --quiet --lib --target-dir "$folder" "${chosen[@]}"; }
  if [ -n "${1-}" ]; then
    program "$part"
    { time (cd "$folder/program" && CARGO_INCREMENTAL=0 cargo build --quiet --target-dir target); } 2> target/features.txt || { printf '\n'; cat target/features.txt; exit 1; }
    read -r clock processor < <(tail -1 target/features.txt)
    printf ' %8s %10s' "$clock" "$processor"
  else
    compile
  fi
  printf '\n'
  crates_max=8
  case $part in *tracing | metrics) crates_max=12 ;; esac
  if [ "$crates" -gt $crates_max ]; then
    echo "features: $part brings $crates crates, more than $crates_max: cargo tree ${chosen[*]} --edges normal"
    exit 1
  fi
done
