#!/usr/bin/env bash
# What `make test` runs; the steps that find mistakes fastest come first.
# Each step prints how long it took. The first step that fails ends the run.
#
# Much of the time the tests wait for sockets, clocks and other programs, and the compiler for its slowest crate. So up to four
# lanes run at a time: the build of the tests, and then they; beside them what has target folders of its own; and when the build
# is done, what needs the same folder, and what needs the built program. None of the steps measures time. What runs beside prints
# to target/beside/, which is shown if it fails. The packages of Debian that only tests need are installed while those are built.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/goes-on.sh
logs=target/beside
# In a fresh clone everything is built once: what is kept for later changes and for debuggers would cost a quarter of that, and
# units that two processors have no use for some 5 %, since they have copies of the same functions.
[ -d target/debug/incremental ] || export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_CODEGEN_UNITS=4

# Functions return their failures explicitly: `set -e` has no effect inside a command whose status is checked.
step() { # NAME COMMAND...
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  told "$name" "$@" || { echo "== $name: FAILED (command: $*)" >&2; exit 1; }
  printf '== %s: ok in %s s\n' "$name" $((SECONDS - begin))
}

told() { # NAME COMMAND...
  case "${@: -1}" in
    scripts/tests.sh) "${@:2}" ;; # which says itself what it waits for
    *) goes_on "== $1" "${@:2}" ;;
  esac
}

beside() { # NAME COMMAND...: as `step`, for use in the background
  local name=$1 begin=$SECONDS
  shift
  printf '== %s: begins beside the rest; it prints to %s\n' "$name" "$logs/$name"
  "$@" >"$logs/$name" 2>&1 </dev/null || { echo "== $name: FAILED (command: $*)" >&2; cat "$logs/$name" >&2; return 1; }
  printf '== %s: ok in %s s, beside the rest\n' "$name" $((SECONDS - begin))
}

side_steps() {
  renice --priority 5 $BASHPID >/dev/null
  [ -z "$installs_beside" ] || beside "packages of Debian" install || return 1
  touch "$logs/installed"
  beside format formats || return 1
  beside "lock files" scripts/locks.sh || return 1
  beside publishing scripts/publish-check.sh || return 1
  beside "parts of the library" scripts/features.sh || return 1
  beside benchmarks benchmarks
}

# What needs a target folder that the build has left by now.
steps_after_the_build() {
  beside documentation documentation || return 1
  beside "tests with tracing and metrics" linting_all cargo test --workspace --features busyhour/metrics,busyhour/tracing \
    --test stats_recorded --test trace || return 1
  beside valgrind linting scripts/valgrind-buffers.sh
}

steps_with_the_program() {
  beside histories python3 scripts/cluster-history.py --self-test || return 1
  beside monitoring scripts/monitoring.sh || return 1
  beside book scripts/book.py check target/debug/busyhour || return 1
  beside "commands of the book" scripts/book-commands.py target/debug/busyhour || return 1
  beside "list of parts" scripts/dist-check.py || return 1
  beside interface scripts/api.sh target/debug/busyhour 2 || return 1
  beside dashboard scripts/dashboard.py --short
}

install() { scripts/install-deps.sh test; }

documentation() { # and its examples; the tests wait for clocks, so they go first
  linting nice --adjustment=5 env RUSTDOC="$PWD/scripts/rustdoc-and-tests.sh" cargo test --workspace --doc
}

benchmarks() { # the harness, and whether the engines that need no peer compile; docs/checks.md has the check that they do their work
  local engine
  (cd bench && cargo test --bins) || return 1
  for engine in busyhour seed-before seed-after std raw; do
    (cd "bench/engines/$engine" && cargo check --locked --quiet --target-dir ../../target/engines) || return 1
  done
}

formats() {
  local folder
  for folder in . bench fuzz bench/engines/*/; do
    # Not --all: an engine depends on the library by its path, and --all looks at that as well. Members of a workspace are looked at.
    [ ! -f "$folder/Cargo.toml" ] || (cd "$folder" && cargo fmt --check) || return 1
  done
}

# Each warning is an error. Cargo has to see it too: what clippy's compiler has made is out of date for a cargo with another value.
clippy_args=--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

# Builds the workspace's own crates with clippy's lints. `cargo clippy` would have all dependencies read once more.
linting() { # COMMAND...
  RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/lint-tests.sh CLIPPY_ARGS=$clippy_args "$@"
}

# The same where a library has no test of its own among what is built.
linting_all() { # COMMAND...
  RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=$clippy_args "$@"
}

# If a step fails, ends the parallel steps and everything that they started.
end_lanes() {
  local lane
  for lane in "${lanes[@]}"; do kill -- -"$lane" 2>/dev/null || true; done
}

lanes=()
lane() { # FUNCTION: in the background, as a process group, so that it can be ended as one
  set -m
  "$1" &
  set +m
  lanes+=($!)
}

wait_for() { # LANE
  # Not `goes_on ... wait`: bash then says that it knows no such process, if the steps have ended before.
  goes_on "== waiting for the steps beside" tail --pid="$1" --follow /dev/null
  wait "$1" || exit 1
}

installed() { # waits until what the tests need is installed, or its lane has ended
  until [ -e "$logs/installed" ]; do kill -0 "${lanes[0]}" 2>/dev/null || return 1; sleep 0.2; done
}

mkdir -p "$logs"
rm -f "$logs/installed"
# Where sudo asks for a password, it asks now, and not in the middle of something else.
installs_beside=yes
[ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || { installs_beside=""; install; }
trap end_lanes EXIT
trap 'exit 130' INT TERM
lane side_steps

step "building the tests, with lints" linting cargo test --workspace --no-run
step "packages of Debian" installed
lane steps_after_the_build
lane steps_with_the_program
step tests linting scripts/tests.sh
printf '\n== waiting for the steps beside\n'
for one in "${lanes[@]}"; do wait_for "$one"; done
lanes=()
printf '\nall steps passed in %s s\n' "$SECONDS"
