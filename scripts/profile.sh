#!/usr/bin/env bash
# usage: scripts/profile.sh ROW [ENGINE...]
#
# What one operation of a row of the comparison costs, counted: instructions, accesses that miss the first cache and
# one of 2 MiB (valgrind's callgrind, which runs one thread at a time), system calls and those for locks and wake-ups
# (strace), context switches and processor time (perf, by the clock of the process). ROW is one of the library's
#   timers-N timers-cancel-N timers-expire-N timers-shared-THREADS pool-requeue-WORKERS pool-external-WORKERS
#   serializer-pingpong-WORKERS serializer-pair-WORKERS run-queue-RQ bus-cache-KEYS bus-lookup-KEYS
#   buffers-pin-LIVE buffers-find-LIVE
# or one of the server's, where an operation is a request: by thread, in memory or `durable` (scripts/profile-refresh.py)
#   refresh refresh-new refresh-challenged refresh-refused refresh-durable
# or by module of the server (scripts/profile-storm.sh)
#   storm storm-digest storm-iax2 calls
# ENGINE is a folder below bench/engines with its program's name behind a comma where it has several, as in
# std,swept-heap; busyhour unless told. Before and after: run it in both trees. What the engine does before the first
# operation counts too, so rows are long enough for that to be a few instructions; a row that goes by time goes on ten times
# as long under valgrind, and its waiting threads turn there. A turn takes so long there that a worker reads the clock after
# each, where it reads it after each 64th otherwise: compare run-queue and serializer rows with the same engine before and
# after.
# What stands for a lock that goes from one thread to another are the columns futex, a thread that sleeps or is woken, and
# switches: a lock that is got within a few turns of a loop makes neither, and takes instructions and a miss.
# An operation of timers-N is one life, cancelled or expired; one of buffers-pin or buffers-find is with its unpin.
# Of timers-cancel, timers-expire and buffers valgrind counts one function of bench/engines/kit alone, so only of engines in
# Rust, and nothing else is counted (-). For what one call takes without its surroundings, see scripts/count.sh.
# BUSYHOUR names the server's program, target/release/busyhour unless told. Unless it is set, the rows storm, storm-digest,
# storm-iax2 and calls first build that program with line tables, so that inlined code is counted in its own module.
# Needs valgrind, strace and perf (Debian: linux-perf), and the engines built (make peers).
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

main() {
  local row=${1:-}
  case "$row" in
    storm) exec scripts/profile-storm.sh ;;
    storm-digest) exec scripts/profile-storm.sh 600 20 digest ;;
    storm-iax2) exec scripts/profile-storm.sh 300 10 digest iax2 ;;
    calls) exec scripts/profile-storm.sh 400 20 open calls ;;
    refresh | refresh-new | refresh-challenged | refresh-refused | refresh-durable)
      exec scripts/profile-refresh.py 400 "${row#refresh-}" ;;
  esac
  words "$row"
  shift
  [ $# -gt 0 ] || set -- busyhour
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  printf '%-24s %10s %8s %8s %8s %8s %9s %8s %9s\n' "$row" operations instr. "miss D1" "miss 2M" syscalls futex switches "CPU ns"
  for engine in "$@"; do profile "$engine"; done
}

words() { # ROW: sets what the engine is told, the check that counts its operations, and the function to be counted alone
  local size=${1##*-}
  part=
  case "$1" in
    timers-shared-*) scenario=(timers-shared n=100000 "threads=$size" seed=1) counted=cancelled ;;
    timers-cancel-*) scenario=(timers "n=$size" seed=1) counted=timers part='*kit::timers::*::cancel_all' ;;
    timers-expire-*) scenario=(timers "n=$size" seed=1) counted=timers part='*kit::timers::*::expire_all' ;;
    timers-*) scenario=(timers "n=$size" seed=1) counted=timers ;;
    pool-requeue-*) scenario=(pool-requeue "workers=$size" ms=300) counted=tasks ;;
    pool-external-*) scenario=(pool-external "workers=$size" n=200000) counted=counter ;;
    serializer-pingpong-*) scenario=(serializer-pingpong "workers=$size" ms=300) counted=tasks ;;
    serializer-pair-*) scenario=(serializer-pingpong "workers=$size" pairs=1 ms=300) counted=tasks ;;
    run-queue-*) scenario=(run-queue "rq=$size" pick=0 ms=300) counted=switches ;;
    # Valgrind has no room for the address space that busyhour's engine reserves otherwise.
    buffers-pin-*) buffers "$size" pin_pairs ;;
    buffers-find-*) buffers "$size" find_pairs ;;
    bus-cache-*) scenario=(bus-cache "keys=$size" updates=300000 seed=1) counted=received ;;
    bus-lookup-*) scenario=(bus-lookup "keys=$size" threads=1 writers=0 ms=300) counted=lookups ;;
    *) sed -n '2{s/^# //;p}' "$0" >&2; exit 2 ;;
  esac
}

buffers() { # LIVE PART
  scenario=(buffers "live=$1" threads=1 pairs=300000 seed=1 budget_bytes=$((1 << 28)))
  counted=pairs part="*kit::buffers::$2*"
}

profile() { # ENGINE[,WORD]
  local folder=bench/engines/${1%%,*} command instructions first second calls futex switches cpu operations
  command=("$folder/target/release/engine-${1%%,*}")
  [ -x "${command[0]}" ] || command=("$folder/build/engine")
  [ -x "${command[0]}" ] || { echo "profile: build $folder first: $(grep '^build' "$folder/engine.toml")" >&2; exit 1; }
  [ "${1#*,}" = "$1" ] || command+=("${1#*,}")
  command+=("${scenario[@]}")

  if [ -n "$part" ]; then calls=- futex=- switches=- cpu=-; else count_system; fi
  operations=$(counted_by valgrind --tool=callgrind --cache-sim=yes --LL=2097152,16,64 ${part:+"--toggle-collect=$part"} \
    --callgrind-out-file="$scratch/callgrind" --log-file="$scratch/log" "${command[@]/ms=300/ms=3000}")
  [ "$(event Ir)" -gt 0 ] || { echo "profile: $1 has no function $part" >&2; exit 1; }
  instructions=$(per "$operations" "$(event Ir)")
  first=$(per "$operations" "$(($(event D1mr) + $(event D1mw)))")
  second=$(per "$operations" "$(($(event DLmr) + $(event DLmw)))")
  printf '%-24s %10s %8s %8s %8s %8s %9s %8s %9s\n' "$1" "$operations" "$instructions" "$first" "$second" "$calls" "$futex" \
    "$switches" "$cpu"
}

count_system() { # sets calls, futex, switches and cpu of the command that `profile` has made
  operations=$(counted_by perf stat -x, -e context-switches,task-clock -o "$scratch/perf" "${command[@]}")
  switches=$(per "$operations" "$(awk -F, '$3 ~ /^context-switches/ { print $1 }' "$scratch/perf")")
  cpu=$(per "$operations" "$(awk -F, '$3 ~ /^task-clock/ { print $1 * 1e6 }' "$scratch/perf")")
  operations=$(counted_by strace -f -c -o "$scratch/strace" "${command[@]}")
  calls=$(per "$operations" "$(awk '$NF == "total" { print $4 }' "$scratch/strace")")
  futex=$(per "$operations" "$(awk '$NF == "futex" { print $4 }' "$scratch/strace")")
}

counted_by() { # COMMAND...: the operations of that run
  local checks
  checks=$("$@" 2>/dev/null | grep '"checks"') || { echo "profile: failed: $*" >&2; exit 1; }
  if [ "$counted" = timers ]; then # as many repeats as kit::timers makes, the first of which it does not time, of two lives
    local n=${scenario[1]#n=} lives=2
    [ -z "$part" ] || lives=1
    echo $((lives * n * (100000 / n > 1 ? 100000 / n + 1 : 1)))
  else
    grep -o "\"$counted\":[0-9]*" <<<"$checks" | cut -d: -f2
  fi
}

per() { # OPERATIONS COUNT
  awk -v count="${2:-0}" -v operations="$1" 'BEGIN { each = count / operations; printf each < 10 ? "%.2f" : "%.0f", each }'
}

event() { # NAME: its total in the run that callgrind has counted
  awk -v event="$1" '
    /^events:/ { for (i = 2; i <= NF; i++) if ($i == event) column = i }
    /^(summary|totals):/ { total = $column }
    END { print total + 0 }' "$scratch/callgrind"
}

main "$@"
