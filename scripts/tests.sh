#!/usr/bin/env bash
# Runs every test of the workspace, and prints for each test program its result, how long it took and its processor time.
# usage: scripts/tests.sh [cargo's options, such as --package busyhour --test bus]
#        scripts/tests.sh --list     the programs of the last run, the slowest first
#
# As `cargo test --workspace`, which prints either nothing or a line for each of two thousand tests. What a program
# printed is shown if it failed, and is kept in target/tests/. Times are in seconds: elapsed time, and processor
# time (its own and that of the programs it started). Much of the elapsed time is waiting, so two programs run at a time:
# no test asserts how long something took, and tests of memory count what their own process allocates.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/goes-on.sh
TIMEFORMAT='%R %U %S'
folder=$PWD/target/tests
record=$folder/times
at_a_time=2
# Those that take longest begin first, so that none of them is left alone at the end.
first=" store shuttle abi sim telephones kamailio faults streams greedy iax2_server cluster xtask server program nat "
# Cases of each property test whose file does not say how many; docs/checks.md has the run with more of them.
export PROPTEST_CASES=${PROPTEST_CASES:-64}

if [ "${1:-}" = --list ]; then
  sort --reverse --numeric-sort "$record"
  exit 0
fi

# One line a program: its package's folder, and its path.
programs() {
  sed -n '/"profile":{[^}]*"test":true}/s/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"executable":"\([^"]*\)".*/\1 \2/p' "$folder/artifacts" |
    awk -v first="$first" '{
      name = $2; sub(/.*\//, "", name); sub(/-[0-9a-f]*$/, "", name)
      place = index(first, " " name " ")
      print (place ? place : length(first)), $0
    }' | sort --stable --numeric-sort | cut -d" " -f2-
}

run() { # FOLDER PROGRAM
  local name log times clock processor outcome=ok
  name=$(name_of "$1" "$2")
  log=$folder/${name//\//.}.log
  goes_on "   $name" timed "$1" "$2" "$log" || outcome=FAILED
  read -r clock processor < <(awk '{ print $1, $2 + $3 }' <<<"$times")
  # In one piece, since another may end at this moment.
  printf '%s\n' "$(printf '   %-40s%6s passed %8s s clock %8s s processor  %s' \
    "$name" "$(passed "$log")" "$clock" "$processor" "$outcome"
    [ "$outcome" = ok ] || { echo; cat "$log"; })"
  echo "$clock $processor $name" >>"$record"
  [ "$outcome" = ok ]
}

name_of() { # FOLDER PROGRAM
  echo "${1##*/}/$(basename "$2" | sed 's/-[0-9a-f]*$//')"
}

timed() { # FOLDER PROGRAM LOG
  times=$({ time in_package "$1" "$2" >"$3" 2>&1; } 2>&1)
}

in_package() { # FOLDER PROGRAM: in the folder where cargo would start it; called in a subshell
  cd "$1" && CARGO_MANIFEST_DIR=$1 "$2"
}

passed() { sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$1" | tail -1; }

mkdir -p "$folder"
: >"$record"
[ $# -gt 0 ] || set -- --workspace
cargo test "$@" --no-run --message-format=json-render-diagnostics >"$folder/artifacts"

# Each program is a process group, which can be ended as a whole, and to which signals mean what they mean elsewhere.
declare -A running=() # by process
failed=()

begin() { # FOLDER PROGRAM
  set -m
  run "$@" </dev/null &
  set +m
  running[$!]=$(name_of "$@")
}

end_one() {
  local process status=0
  wait -n -p process || status=$?
  [ "$status" = 0 ] || failed+=("${running[$process]}")
  unset "running[$process]"
}

# What is waited for: on a terminal by name, elsewhere by a line every 20 s.
show() { [ ! -t 1 ] || printf '   %-80s\r' "${running[*]}"; }

end_all() {
  local process
  for process in "${!running[@]}"; do kill -- -"$process" 2>/dev/null || true; done
}

# Again at the end, where people look first: the output of those that failed is far above.
reasons() {
  local name log
  for name in "${failed[@]}"; do
    echo "tests: FAILED: $name"
    log=$folder/${name//\//.}.log
    # The names are last; a program that was killed has neither them nor reasons.
    if grep --quiet '^failures:$' "$log"; then
      tac "$log" | sed '/^failures:$/q' | tac
      sed -n '/^failures:$/,$p' "$log" | cut -c 1-500 | sed -n 1,40p
    else
      tail -n 20 "$log" || true
    fi
  done
}

trap end_all EXIT
trap 'exit 130' INT TERM
while read -r package program; do
  [ ${#running[@]} -lt $at_a_time ] || end_one
  begin "$package" "$program"
  show
done <<<"$(programs)"
while [ ${#running[@]} -gt 0 ]; do
  end_one
  show
done
[ ${#failed[@]} = 0 ] || { reasons >&2; exit 1; }
