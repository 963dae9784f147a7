#!/usr/bin/env bash
# Runs the concurrent tests of pool and serializers under ThreadSanitizer.
# usage: scripts/races.sh [TEST...]     needs a nightly toolchain with its library's sources:
#        rustup toolchain install nightly --component rust-src
#
# What the sanitizer cannot know: the asymmetric fences of the gate (a compiler fence on one side, membarrier on the
# other). It sees the acquire and release on the same words, which is what orders the data; that nobody enters twice is
# what the loom models are for. Fences are not understood by it at all, so a report that names only relaxed counters or
# `fences` is to be read with pool/README.md at hand.
set -euo pipefail
cd "$(dirname "$0")/.."

sysroot=$(rustc +nightly --print sysroot 2>/dev/null) || {
  echo "races: no nightly toolchain; install it with: rustup toolchain install nightly --component rust-src" >&2
  exit 1
}
[ -d "$sysroot/lib/rustlib/src/rust/library" ] || {
  echo "races: the sources of the standard library are missing; rustup component add rust-src --toolchain nightly" >&2
  exit 1
}
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(soak pool_corners serializer_corners pool serializer)
arguments=()
for name in "${tests[@]}"; do arguments+=(--test "$name"); done

export RUSTFLAGS="-Zsanitizer=thread" TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1}"
cargo +nightly test -Zbuild-std --target "$host" --target-dir target/races --package busyhour "${arguments[@]}"
