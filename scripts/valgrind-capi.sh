#!/usr/bin/env bash
# usage: scripts/valgrind-capi.sh [TEST...]
#
# Runs the tests of the C ABI with each C program under valgrind's memory checker, which sees every access of the library too.
# Exit code 0 means that it found no invalid read or write, no use of undefined bytes and nothing lost. `make test` runs the same
# programs with AddressSanitizer instead: valgrind takes thirty times as long, most of it for the matrix of hostile callbacks.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo "valgrind is missing: scripts/install-deps.sh test" >&2; exit 2; }
BUSYHOUR_TEST_VALGRIND=1 cargo test --package busyhour-capi --test abi -- "$@"
