#!/usr/bin/env bash
# usage: scripts/count.sh timer|buffer|bus|pool|c|c-shared [WAY...]
#
# Instructions of one use of the timer service and queue, of pinned buffers, of a topic or of a pool, for each way that
# examples/{timer,buffer,bus,pool}_cost.rs knows, or of calls from C to libbusyhour.a (c) or libbusyhour.so (c-shared), for each
# way that crates/busyhour-capi/tests/c/cost.c knows: the difference of two runs divided by that of their counts, so that
# nothing but the use itself (less the loop around it, where the program knows `nothing`) is in it. It is the same
# however busy the machine is. `add-run` is 64 timers, `queue-add-cancel` a queue with one timer, `queue-among-1000` a cancel of one of
# 1,000 and an add, a buffer has 1 KiB, a topic 1,000 keys, a pool one worker. For a
# topic also the accesses of a publish that miss a cache of 2 MiB at a million keys. In C, `version` is a call that does
# nothing, and `push` and `ping-pong` have some clock readings in them, a few instructions more or less. With
# FEATURES=tracing,metrics the library has these features too. Needs valgrind.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

main() {
  what=${1:-}
  case "$what" in
    timer) ways=(nothing add-cancel add-run run-again sleep-wake queue-add-cancel queue-among-1000) few=1000 many=11000 ;;
    buffer) ways=(nothing pin-unpin find-unpin alloc-clone-drop) few=1000 many=101000 ;;
    bus) ways=(idle cached if-changed if-same fold-one-node fold-two-nodes subscriber by-key-1 by-key-1000 lookup) few=1000 many=101000 keys=1000 ;;
    pool) ways=(push requeue push-outside yield-2 yield-4 ping-pong serializer-outside serializer-run keyed keyed-handle keyed-run) few=1000 many=101000 ;;
    c | c-shared)
      ways=(nothing version pin-unpin find-unpin queue-add-cancel queue-among-1000 timer-add-cancel publish-idle publish-cached lookup push ping-pong)
      few=1000 many=101000 ;;
    *) sed -n '2{s/^# //;p}' "$0" >&2; exit 2 ;;
  esac
  [ $# -le 1 ] || ways=("${@:2}")
  command -v valgrind >/dev/null || { echo "count: valgrind is missing: scripts/install-deps.sh test" >&2; exit 1; }
  case "$what" in
    c*) build_c ;;
    *) cargo build --quiet --release --package busyhour --features "${FEATURES:-}" --example "${what}_cost"
      program=target/release/examples/${what}_cost ;;
  esac
  instructions
  [ "$what" != bus ] || misses
}

# The library as it is installed, and a program as distributions build them.
build_c() {
  local target=bench/engines/busyhour-c/target folder=target/count
  local archive=$target/release/libbusyhour_capi.a
  local compile=(cc -O2 -D_GNU_SOURCE -Icrates/busyhour-capi/include crates/busyhour-capi/tests/c/cost.c -pthread)
  program=$folder/cost-$what
  cargo rustc --quiet --release --package busyhour-capi --lib --crate-type staticlib --target-dir "$target"
  mkdir -p "$folder"
  if [ "$what" = c ]; then
    "${compile[@]}" -o "$program" "$archive" -ldl -lm
  else
    scripts/link-capi.sh "$archive" "$folder"
    "${compile[@]}" -o "$program" -L"$folder" -Wl,-rpath,'$ORIGIN' -lbusyhour
  fi
}

instructions() {
  local way one loop=0
  printf '%-20s %s\n' "way" "instructions of one use"
  for way in "${ways[@]}"; do
    one=$(each --tool=callgrind Ir "$few" "$many" "$way" ${keys:-})
    if [ "$way" = nothing ]; then loop=$one; continue; fi
    awk -v way="$way" -v one="$one" -v loop="$loop" 'BEGIN { printf "%-20s %.0f\n", way, one - loop }'
  done
}

misses() {
  local cache="--tool=callgrind --cache-sim=yes --LL=2097152,16,64" reads writes
  # A million uses: filling the table misses some thousands more or less from run to run.
  reads=$(each "$cache" DLmr 1000 1001000 cached 1000000)
  writes=$(each "$cache" DLmw 1000 1001000 cached 1000000)
  awk -v reads="$reads" -v writes="$writes" \
    'BEGIN { printf "cached, a million keys: %.2f memory accesses that miss 2 MiB\n", reads + writes }'
}

each() { # OPTIONS EVENT FEW MANY WAY [KEYS]: of one use
  local options=$1 event=$2 few=$3 many=$4 way=$5 less more
  less=$(count "$options" "$event" "$way" "$few" ${6:-})
  more=$(count "$options" "$event" "$way" "$many" ${6:-})
  awk -v less="$less" -v more="$more" -v uses=$((many - few)) 'BEGIN { printf "%.3f", (more - less) / uses }'
}

count() { # OPTIONS EVENT ARGUMENTS...: the event's total in one run
  local options=$1 event=$2 out
  shift 2
  out=$(mktemp)
  # shellcheck disable=SC2086 # several options
  valgrind $options --callgrind-out-file="$out" "$program" "$@" >/dev/null 2>&1 ||
    { echo "count: valgrind $options $program $* failed" >&2; exit 1; }
  awk -v event="$event" '
    /^events:/ { for (i = 2; i <= NF; i++) if ($i == event) column = i }
    /^(summary|totals):/ { total = $column }
    END { print total }' "$out"
  rm -f "$out"
}

main "$@"
