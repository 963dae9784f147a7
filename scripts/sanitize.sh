#!/usr/bin/env bash
# Runs the library's tests under AddressSanitizer (use after free, double free, out of bounds) or ThreadSanitizer (data
# races). docs/checks.md has the last results.
# usage: scripts/sanitize.sh address [TEST...]     all test programs unless told
#        scripts/sanitize.sh thread [TEST...]      the soak unless told
#
# The stable toolchain brings both run-time libraries; RUSTC_BOOTSTRAP=1 lets it take the flag, so no nightly is needed.
# The tests of buffers run a tenth of their repetitions (BUSYHOUR_TEST_DIVISOR changes that).
#
# The standard library is not instrumented. Therefore ThreadSanitizer does not see what the library's own locks, channels
# and reference counts order; scripts/sanitize-thread.supp leaves out reports about those, by the functions they name. It
# cannot name every value that a test takes from a task through a condition variable, hence the soak, where tasks count
# and return nothing. With a nightly toolchain and its rust-src (`rustup component add rust-src --toolchain nightly`) the
# standard library is instrumented too: every report counts, and the tests of pool and serializers run as well.
#
# What ThreadSanitizer cannot know: the asymmetric fences of the gate (a compiler fence on one side, membarrier on the
# other). It sees the acquire and release on the same words, which is what orders the data; that nobody enters twice is
# what the loom models are for.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: scripts/sanitize.sh address|thread [TEST...]" >&2; exit 2; }
sanitizer=${1:-}
[ $# -eq 0 ] || shift
tests=("$@")
toolchain=()
arguments=()
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer"
export BUSYHOUR_TEST_DIVISOR=${BUSYHOUR_TEST_DIVISOR:-10}
case "$sanitizer" in
  address)
    [ ${#tests[@]} -gt 0 ] || arguments+=(--lib --tests)
    # Leaks are not counted: in the hostile tests a user's hook keeps the service alive that holds the hook.
    export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=0:detect_stack_use_after_return=1}"
    ;;
  thread)
    options="halt_on_error=0"
    if [ -d "$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]; then
      toolchain=(+nightly)
      arguments+=(-Zbuild-std)
      RUSTFLAGS="-Zsanitizer=thread"
      [ ${#tests[@]} -gt 0 ] || tests=(soak pool_corners serializer_corners pool serializer)
    else
      echo "sanitize: without the sources of the standard library: see scripts/sanitize-thread.supp"
      options+=" suppressions=$PWD/scripts/sanitize-thread.supp"
      [ ${#tests[@]} -gt 0 ] || tests=(soak)
    fi
    export TSAN_OPTIONS="${TSAN_OPTIONS:-$options}"
    ;;
  *) usage ;;
esac
for name in "${tests[@]}"; do arguments+=(--test "$name"); done
host=$(rustc -vV | sed -n 's/^host: //p')
cargo "${toolchain[@]}" test --target "$host" --target-dir "target/sanitize-$sanitizer" --package busyhour "${arguments[@]}"
