#!/usr/bin/env bash
# usage: scripts/count-timers.sh
#
# Instructions of one use of the timer service, for each way that
# examples/timer_cost.rs knows: the difference of two runs divided by that of
# their counts, less the loop around it. `add-run` is 64 timers. It is the same
# however busy the machine is. Needs valgrind.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 1; }
cargo build --quiet --release --package busyhour --example timer_cost
program=target/release/examples/timer_cost

count() { # WAY COUNT: the instructions of one run
  local out
  out=$(mktemp)
  valgrind --tool=callgrind --callgrind-out-file="$out" "$program" "$@" >/dev/null 2>&1 ||
    { echo "valgrind $program $* failed" >&2; exit 1; }
  awk '/^(summary|totals):/ { total = $2 } END { print total }' "$out"
  rm -f "$out"
}

each() { # WAY: the instructions of one use
  local few many
  few=$(count "$1" 1000)
  many=$(count "$1" 11000)
  echo $(((many - few) / 10000))
}

loop=$(each nothing)
printf '%-20s %s\n' "way" "instructions of one use"
for way in add-cancel add-run run-again sleep-wake; do
  printf '%-20s %s\n' "$way" "$(($(each "$way") - loop))"
done
