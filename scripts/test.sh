#!/usr/bin/env bash
# What `make test` runs, in the order in which a mistake is cheapest to learn of.
# Each step says how long it took; the first that fails ends the run.
set -euo pipefail
cd "$(dirname "$0")/.."

# A function says itself when it fails: `set -e` does not hold inside of what is looked at.
step() { # NAME COMMAND...
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@" || { echo "== $name: FAILED (command: $*)" >&2; exit 1; }
  printf '== %s: ok in %s s\n' "$name" $((SECONDS - begin))
}

models() { # every loom model, in its own target folder because the whole tree is built differently
  RUSTFLAGS="--cfg loom" cargo test --quiet --package busyhour --lib --release --target-dir target/loom -- loom_
}

fuzzing() { # every target for a short time; `scripts/fuzz.sh TARGET SECONDS` for a long one
  local target
  for target in fuzz/fuzz_targets/*.rs; do
    scripts/fuzz.sh "$(basename "$target" .rs)" 10 || return 1
  done
}

benchmarks() { # the harness, and the engines that need no peer, at a tiny size
  (cd bench && cargo test --quiet)
}

formats() {
  local folder
  for folder in . bench fuzz bench/engines/*/; do
    [ ! -f "$folder/Cargo.toml" ] || (cd "$folder" && cargo fmt --all --check) || return 1
  done
}

step format formats
step lints cargo clippy --workspace --all-targets --quiet -- --deny warnings
step documentation env RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --quiet
step tests cargo test --workspace --quiet
step models models
step fuzzing fuzzing
step valgrind scripts/valgrind-buffers.sh
step benchmarks benchmarks
printf '\nall steps passed in %s s\n' "$SECONDS"
