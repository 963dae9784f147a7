#!/usr/bin/env bash
# usage: scripts/valgrind-buffers.sh
#
# Runs the tests of the pinned buffers, those with racing threads among them,
# under valgrind's memory checker. Exit code 0 means that it found no invalid
# read or write, no use of undefined bytes and nothing lost.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo "valgrind is missing: scripts/install-deps.sh test" >&2; exit 2; }

# Fewer rounds than natively: it runs thirty times slower.
export BUSYHOUR_TEST_DIVISOR=${BUSYHOUR_TEST_DIVISOR:-40}
for test in buffer_addresses buffer_threads buffer_accounts; do
    program=$(cargo test --workspace --test "$test" --no-run --message-format=json |
        sed -n "s/.*\"executable\":\"\([^\"]*$test-[^\"]*\)\".*/\1/p")
    echo "valgrind: $test"
    valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        "$program" --test-threads 1
done
