#!/usr/bin/env bash
# usage: scripts/count-bus.sh
#
# Instructions of one use of a topic, for each way that examples/bus_cost.rs
# knows, and the accesses of a publish that miss a cache of 2 MiB at a million
# keys. Each figure is the difference of two runs divided by that of their
# counts, so that nothing but the use itself is in it; it is the same however
# busy the machine is. Needs valgrind.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 1; }
cargo build --quiet --release --package busyhour --example bus_cost
program=target/release/examples/bus_cost

count() { # TOOL-OPTIONS EVENT ARGUMENTS...: the event's total in one run
  local options=$1 event=$2 out
  shift 2
  out=$(mktemp)
  # shellcheck disable=SC2086
  valgrind $options --callgrind-out-file="$out" "$program" "$@" >/dev/null 2>&1 ||
    { echo "valgrind $options $program $* failed" >&2; exit 1; }
  awk -v event="$event" '
    /^events:/ { for (i = 2; i <= NF; i++) if ($i == event) column = i }
    /^(summary|totals):/ { total = $column }
    END { print total }' "$out"
  rm -f "$out"
}

each() { # OPTIONS EVENT WAY KEYS FEW MANY: of one use
  local few many
  few=$(count "$1" "$2" "$3" "$5" "$4")
  many=$(count "$1" "$2" "$3" "$6" "$4")
  awk -v few="$few" -v many="$many" -v uses=$(($6 - $5)) 'BEGIN { printf "%.2f", (many - few) / uses }'
}

printf '%-32s %s\n' "way" "instructions of one use"
for way in idle cached fold-one-node fold-two-nodes subscriber by-key-1 by-key-1000 lookup; do
  printf '%-32s %s\n' "$way" "$(each --tool=callgrind Ir "$way" 1000 1000 101000)"
done

cache="--tool=callgrind --cache-sim=yes --LL=2097152,16,64"
# A million uses: filling the table misses some thousands more or less from run to run.
read_misses=$(each "$cache" DLmr cached 1000000 1000 1001000)
write_misses=$(each "$cache" DLmw cached 1000000 1000 1001000)
printf '%-32s %s\n' "cached, a million keys" \
  "$(awk -v r="$read_misses" -v w="$write_misses" 'BEGIN { printf "%.2f", r + w }') memory accesses that miss 2 MiB"
