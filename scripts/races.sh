#!/usr/bin/env bash
# Runs the concurrent tests of pool and serializers under ThreadSanitizer.
# usage: scripts/races.sh [TEST...]     needs a nightly toolchain:
#        rustup toolchain install nightly [--component rust-src]
#
# With the sources of the standard library (rust-src) that one is instrumented too, and every report counts. Without
# them the sanitizer does not see what the library's own locks, channels and reference counts order; scripts/races.supp
# leaves out the reports about those, by the functions they name. It cannot name every value that a test takes from a
# task through a condition variable, so only the soak, where tasks count and return nothing, is run then unless told.
#
# What the sanitizer cannot know: the asymmetric fences of the gate (a compiler fence on one side, membarrier on the
# other). It sees the acquire and release on the same words, which is what orders the data; that nobody enters twice is
# what the loom models are for.
set -euo pipefail
cd "$(dirname "$0")/.."

sysroot=$(rustc +nightly --print sysroot 2>/dev/null) || {
  echo "races: no nightly toolchain; install it with: rustup toolchain install nightly" >&2
  exit 1
}
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
tests=(soak)
arguments=()
export RUSTFLAGS="-Zsanitizer=thread"
options="halt_on_error=0"
if [ -d "$sysroot/lib/rustlib/src/rust/library" ]; then
  tests+=(pool_corners serializer_corners pool serializer)
  arguments+=(-Zbuild-std)
else
  echo "races: without rust-src, so the standard library is not instrumented: see scripts/races.supp"
  RUSTFLAGS+=" -Cunsafe-allow-abi-mismatch=sanitizer"
  options+=" suppressions=$PWD/scripts/races.supp"
fi
[ $# -eq 0 ] || tests=("$@")
for name in "${tests[@]}"; do arguments+=(--test "$name"); done
export TSAN_OPTIONS="${TSAN_OPTIONS:-$options}"
cargo +nightly test --target "$host" --target-dir target/races --package busyhour "${arguments[@]}"
