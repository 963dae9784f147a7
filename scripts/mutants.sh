#!/usr/bin/env bash
# Changes the code in one place after another (`<` to `<=`, a function's body to `Default::default()` ...) and runs the
# tests that concern it: a change that no test notices is a survivor, and a test is missing. Needs cargo-mutants, which
# is built into target/tools if it is not there. docs/mutants.md has the last results and says why survivors may stay.
# usage: scripts/mutants.sh [--sample COUNT] MODULE...   COUNT changes of each module, the same ones at the same commit
#        scripts/mutants.sh --list                       the modules
#
# Each change costs an incremental build and a run: some 2 to 30 s, one after another, so a module takes from minutes to
# hours. A run that was ended goes on where it was if the commit is the same; at another commit it goes on with the
# survivors if the module is the same, and begins again otherwise. The committed tree is looked at, in a copy below
# target/mutants; what is changed and not committed is left out.
#
# A change first meets the test programs named first for its module; the survivors of each group meet the next one. A
# change that makes the tests run five times longer than they do counts as noticed. One that takes memory without end is
# not held up: keep an eye on a machine that has little (a limit of the process would refuse the address space that
# buffers reserve).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$root/target/mutants
tools=$root/target/tools
tool=$tools/bin/cargo-mutants
record=docs/mutants.md

# MODULE | PACKAGE | test programs | others for the survivors | ...; `lib` is the module's own unit tests
modules() {
  cat <<'END'
heap|busyhour|heap|lib|hostile
run_queue|busyhour|run_queue|lib|hostile pool
buffer|busyhour|buffer_accounts buffer_addresses|lib|buffer_close buffer_threads|hostile runtime
serializer|busyhour|serializer serializer_corners|lib|serializer_executor serializer_stats pool_turns|hostile serializer_memory soak
timer|busyhour|timers|timer_queue|lib|timer_replace timer_async timer_memory|hostile runtime
pool|busyhour|pool pool_corners|lib|pool_turns inline_runner pool_options serializer|hostile runtime
bus|busyhour|bus bus_turns|lib|bus_attribute bus_remove bus_conflation bus_forward bus_in_hand bus_keys bus_origin bus_panic bus_record bus_waiting|bus_drops bus_memory bus_short_lives bus_threads|bus_sim hostile
sip|busyhour-sip|sip|lib|flow auth
stun|busyhour-sip|stun|lib
auth|busyhour-sip|auth|lib
registrar|busyhour-registrar|registrar|lib
watch|busyhour-registrar|watch|lib
frames|busyhour-iax2|frames|lib|calls
calls|busyhour-iax2|calls conversation|lib
transaction|busyhour-proxy|proxy|lib
routing|busyhour-proxy|proxy|lib
proxy|busyhour-proxy|proxy|lib
dialogs|busyhour-proxy|dialogs|lib|dialogs_with_proxy
END
}

# cargo starts each test program through this script: the library's own program runs only the module's tests.
run_program() { # PROGRAM ARGUMENTS...
  local name=${1##*/}
  case "$name" in
    busyhour-*|busyhour_*-*) exec "$@" "$MUTANTS_MODULE::" ;;
    # Hundreds of thousands of random inputs show little about a change, and take half a minute.
    sip-*) exec "$@" --skip the_shared_property_holds_for_any_bytes --skip the_shared_property_holds_for_every_changed_byte_of_a_seed ;;
    *) exec "$@" ;;
  esac
}

usage() { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }

install() {
  [ ! -x "$tool" ] || return 0
  echo "mutants: building cargo-mutants into ${tools#"$root"/}: some minutes, once"
  cargo install --locked cargo-mutants@27.1.0 --root "$tools" --target-dir "$tools/build"
}

# Every file gets a newer time than the programs built from it, since cargo compares times.
copy_tree() {
  rm -rf "$work/tree" && mkdir -p "$work/tree"
  git archive HEAD | tar --extract --touch --directory "$work/tree"
  [ -z "$(git status --porcelain crates)" ] || echo "mutants: crates/ has changes that are not committed; they are left out"
}

mutate() { # OPTIONS...
  (cd "$work/tree" && "$tool" mutants --dir "$work/tree" --package "$package" "${not_built[@]}" "$@")
}

# The test programs do not contain the models for loom and shuttle.
not_built=(--exclude '**/model.rs' --exclude '**/models.rs' --exclude '**/schedules.rs' --exclude-re '(\b|_)models?::' --exclude-re 'impl Debug'
  --exclude-re '<impl fmt::Debug')

pattern() { sed 's/[][\.|$(){}?+*^/]/\\&/g; s/.*/^&$/'; } # an expression that matches the line alone

# The results of the last run. An interrupted run has its files, too.
harvest() { # FOLDER
  local kind
  for kind in caught missed timeout unviable; do
    [ ! -f "$1/mutants.out/$kind.txt" ] || sed "s/^/$kind\t/" "$1/mutants.out/$kind.txt" >>"$1/tried"
  done
  rm -rf "$1/mutants.out"
}

left() { # FOLDER: names that were chosen and not tried
  touch "$1/tried"
  grep --invert-match --line-regexp --fixed-strings --file <(cut -f2 "$1/tried") "$1/chosen" || true
}

try() { # FOLDER TEST...: every mutant left of the folder
  local folder=$1 options=() name status=0
  shift
  left "$folder" | pattern >"$folder/patterns"
  [ -s "$folder/patterns" ] || return 0
  while read -r name; do options+=(--re "$name"); done <"$folder/patterns"
  # Regular expressions do not exclude deleted fields, so deleted fields in other files are excluded by file.
  while read -r name; do options+=(--file "$name"); done < <(left "$folder" | cut --delimiter : --fields 1 | sort --unique)
  for name in "$@"; do
    case "$name" in
      lib) options+=(--cargo-arg=--lib) ;;
      *) options+=("--cargo-arg=--test=$name") ;;
    esac
  done
  mutate --in-place --cap-lints true --output "$folder" --shuffle --timeout-multiplier 5 --minimum-test-timeout 30 \
    --build-timeout 300 --colors never "${options[@]}" || status=$?
  harvest "$folder"
  # 2 and 3: some were not noticed, or ran too long. Others: the tests fail as they are, or it was ended.
  case "$status" in 0 | 2 | 3) ;; *) return 1 ;; esac
}

code() { # COMMIT: the module's, without its own tests
  local file
  git ls-tree -r --name-only "$1" -- "crates/$package/src/$MUTANTS_MODULE"{,.rs} | while read -r file; do
    echo "$file" && git show "$1:$file" | sed --null-data 's/\n*#\[cfg([^]]*test[^]]*)\]\nmod tests {.*/\n/'
  done
}

# Changes that were tried at another commit. If the module is unchanged, only tests were added, so only the survivors
# are tried again.
forget() { # FOLDER
  local before tried
  before=$(cat "$1/commit" 2>/dev/null) || before=
  if [ -n "$before" ] && [ "$(code "$before")" = "$(code "$commit")" ]; then
    find "$1" -name tried -exec cat {} + >"$1/before"
    sed --quiet '/^missed/!s/^[a-z]*\t//p' "$1/before" | sort --unique >"$1/noticed"
    cut -f2 "$1/before" | sort --unique | comm -23 - "$1/noticed" >"$1/again"
    find "$1" -name tried | while read -r tried; do
      awk -F '\t' 'FILENAME == ARGV[1] { again[$0]; next } !($2 in again)' "$1/again" "$tried" >"$tried.kept"
      mv "$tried.kept" "$tried"
    done
  else
    rm -rf "$1"
  fi
  mkdir -p "$1"
}

count() { grep --count "^$2" "$1" || true; }

module() { # MODULE SAMPLE: all unless a number
  local sample=$2 groups group folder next
  export MUTANTS_MODULE=$1
  IFS='|' read -r _ package groups < <(modules | grep "^$1|") || usage
  folder=$work/$1
  mkdir -p "$folder"
  find "$folder" -name mutants.out | while read -r group; do harvest "${group%/*}"; done
  [ "$(cat "$folder/commit" 2>/dev/null)" = "$commit" ] || forget "$folder"
  echo "$commit" >"$folder/commit"
  mutate --file "crates/$package/src/$1/**" --file "crates/$package/src/$1.rs" --list >"$folder/all"
  # The order of the hashes is as good as random, and is the same each time.
  while read -r name; do echo "$(printf %s "$name" | cksum) $name"; done <"$folder/all" | sort --numeric-sort |
    cut --delimiter ' ' --fields 3- | awk -v sample="$sample" 'sample == "all" || NR <= sample' >"$folder/sample"
  touch "$folder/again" && sort --unique "$folder/sample" "$folder/again" >"$folder/chosen"
  : >"$folder/noticed"
  while read -r -u 3 group; do
    echo "mutants: $1: of $(wc -l <"$work/$1/all") $(left "$folder" | wc -l) are left for: $group"
    # shellcheck disable=SC2086
    try "$folder" $group
    grep -v "^missed" "$folder/tried" >>"$work/$1/noticed" || true
    next=$folder/survivors
    mkdir -p "$next"
    # Deleted fields are in each group; if an earlier group has noticed one, it is no survivor.
    sed -n 's/^missed\t//p' "$folder/tried" | sort --unique | comm -23 - <(cut -f2 "$work/$1/noticed" | sort --unique) >"$next/chosen"
    folder=$next
  done 3< <(tr "|" "\n" <<<"$groups")
  report "$1" "$work/$1" "$folder/chosen"
}

# Prints a row for the record, and the survivors that the record does not explain.
report() { # MODULE FOLDER SURVIVORS
  local folder=$2 tried unviable timeout survivors name short
  # Deleted fields are listed whether they were chosen or not, so some are listed twice.
  cat <(sed 's/^/missed\t/' "$3") "$folder/noticed" | sort --unique >"$folder/result"
  tried=$(wc -l <"$folder/result") unviable=$(count "$folder/result" unviable) timeout=$(count "$folder/result" timeout)
  survivors=$(count "$folder/result" missed)
  echo "| $1 | $(date --utc +%F), ${commit:0:7} | $(wc -l <"$folder/all") | $tried | $unviable |" \
    "$((tried - unviable - survivors)) | $timeout | $survivors |" >"$folder/row"
  echo "mutants: the row for $record (module, run, in all, tried, unviable, caught, of these by their time, survivors):"
  cat "$folder/row"
  sed -n 's/^missed\t//p' "$folder/result" | while read -r name; do
    short=$(sed 's/:[0-9]*:[0-9]*:/:/' <<<"$name")
    grep --quiet --fixed-strings "$short" "$record" && echo "mutants: has its reason: $name" || echo "mutants: SURVIVOR: $name"
  done
}

[ "${1:-}" != --program ] || { shift; run_program "$@"; }
sample=all
case "${1:-}" in
  --list) modules | cut -d'|' -f1; exit 0 ;;
  --sample) sample=${2:?} && shift 2 ;;
esac
[ $# -gt 0 ] || usage
install
commit=$(git rev-parse HEAD)
copy_tree
export CARGO_TARGET_DIR=$work/build CARGO_INCREMENTAL=1 CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0
export BUSYHOUR_TEST_DIVISOR=${BUSYHOUR_TEST_DIVISOR:-10} PROPTEST_CASES=${PROPTEST_CASES:-64}
export BUSYHOUR_SIM_SEEDS=${BUSYHOUR_SIM_SEEDS:-20}
# If a changed program fails, its smallest failing case is neither searched for nor stored.
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 PROPTEST_MAX_SHRINK_ITERS=0
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=$root/scripts/mutants.sh --program"
for name in "$@"; do module "$name" "$sample"; done
