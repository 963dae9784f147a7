#!/usr/bin/env bash
# What a change has made faster or slower: builds the engine of the benchmarks (bench/engines/busyhour) at another commit
# and here, and runs both in turn. Prints the median of the ratios of neighbouring runs, with the least and the greatest;
# above 1.00 the newer one is better. Where the system allows it, both run ahead of all other programs (SCHED_FIFO), so
# that what else the machine does changes little.
# usage: scripts/before-after.sh COMMIT [ROUNDS]     9 rounds unless told: some four minutes
set -euo pipefail
cd "$(dirname "$0")/.."
what=library
[ "${1:-}" != --storm ] || { what=server; shift; }
commit=${1:?"usage: scripts/before-after.sh [--storm] COMMIT [ROUNDS]"}
rounds=${2:-9}
work=$PWD/target/before-after
ahead=()
! chrt --fifo 10 true 2>/dev/null || ahead=(chrt --fifo 10)

# SCENARIO PARAMETERS | METRIC | whether a higher or a lower figure is better
scenarios_of_the_library() {
  cat <<'END'
timers n=100 seed=1|cancelled_life_ns|lower
timers n=100000 seed=1|cancelled_life_ns|lower
timers n=100000 seed=1|expired_life_ns|lower
pool-requeue workers=2 ms=300|tasks_per_s|higher
pool-requeue workers=50 ms=300|tasks_per_s|higher
pool-external workers=2 n=1000000|tasks_per_s|higher
serializer-pingpong workers=5 ms=300|tasks_per_s|higher
serializer-pingpong workers=50 ms=300|tasks_per_s|higher
run-queue rq=2 ms=100|switch_ns|lower
run-queue rq=10000 ms=100|switch_ns|lower
bus-cache keys=100 updates=1000000 seed=1|messages_per_s|higher
bus-cache keys=12000 updates=1000000 seed=1|messages_per_s|higher
bus-lookup ms=100 writers=0 threads=1 keys=12000|lookup_ns|lower
bus-lookup ms=100 writers=0 threads=1 keys=100000|lookup_ns|lower
bus-fanout subscribers=1 updates=500000 seed=1|publish_ns|lower
bus-fanout subscribers=1000 updates=200000 seed=1|publish_ns|lower
buffers pairs=200000 threads=1 live=1000 seed=1|pin_unpin_ns|lower
buffers pairs=200000 threads=2 live=1000 seed=1|pin_unpin_ns|lower
buffers pairs=200000 threads=2 live=1000 seed=1|find_unpin_ns|lower
END
}

scenarios_of_the_server() {
  local store
  for store in busyhour busyhour-durable; do
    cat <<END
$store storm auth=1 kind=insert offered=500 seconds=10|cpu_us_per_register|lower
$store storm auth=1 kind=insert offered=2000 seconds=5|cpu_us_per_register|lower
$store storm-ceiling auth=1 kind=insert outstanding=64 seconds=3|register_per_s|higher
$store storm-ceiling auth=1 kind=refresh outstanding=64 seconds=3|register_per_s|higher
END
  done
}

build() { # FOLDER TARGET
  if [ "$what" = server ]; then
    (cd "$1" && cargo build --release --package busyhour-server --target-dir "$2")
  else
    (cd "$1/bench/engines/busyhour" && cargo build --release --target-dir "$2")
  fi
}

measure() { # BEFORE|AFTER PARAMETERS METRIC
  # shellcheck disable=SC2086
  case "$2" in
    *storm*) BUSYHOUR_DEFAULT_LIMITS=1 BUSYHOUR_SERVER=$work/$1/release/busyhour bench/engines/registrars/target/release/engine-registrars $2 ;;
    *workers=50*) "$work/$1/release/engine-busyhour" $2 ;; # ahead of all, the workers would keep the main thread from ending
    *) "${ahead[@]}" "$work/$1/release/engine-busyhour" $2 ;;
  esac | sed -n "s/^{\"metric\":\"$3\",\"value\":\([0-9.]*\)}$/\1/p"
}

[ -d "$work/tree" ] && git worktree remove --force "$work/tree"
git worktree add --quiet --detach "$work/tree" "$commit"
trap 'git worktree remove --force "$work/tree"' EXIT
build "$work/tree" "$work/before"
build "$PWD" "$work/after"
if [ "$what" = server ]; then # the load tool is this tree's
  mkdir -p target/release
  cp "$work/after/release/busyhour" target/release/busyhour
  (cd bench/engines/registrars && cargo build --release --locked)
fi
printf '%-72s %-18s %8s   %s\n' scenario metric ratio "(least to greatest of $rounds)"
# At a moderate rate a server waits most of the time, and what its processor time is then depends on what else the machine
# does. So both run at the same time, and take turns in starting first.
measure_both() { # ROUND PARAMETERS METRIC
  local first=before second=after
  [ $(($1 % 2)) = 0 ] || { first=after second=before; }
  measure "$first" "$2" "$3" >"$work/$first.figure" &
  measure "$second" "$2" "$3" >"$work/$second.figure"
  wait $!
}

while IFS='|' read -r scenario metric better; do
  for ((round = 0; round < rounds; round++)); do
    case "$scenario" in
      *"storm auth"*) measure_both "$round" "$scenario" "$metric" ;;
      *) for side in before after; do measure "$side" "$scenario" "$metric" >"$work/$side.figure"; done ;;
    esac
    awk -v a="$(<"$work/after.figure")" -v b="$(<"$work/before.figure")" -v better="$better" \
      'BEGIN { printf "%.3f\n", better == "higher" ? a / b : b / a }'
  done | sort --numeric-sort | awk -v name="$scenario" -v metric="$metric" '
    { ratio[NR] = $1 }
    END { printf "%-72s %-18s %8.2f   (%.2f to %.2f)\n", name, metric, ratio[int((NR + 1) / 2)], ratio[1], ratio[NR] }'
done < <("scenarios_of_the_$what")
