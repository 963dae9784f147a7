#!/usr/bin/env bash
# What `make test` runs; the steps that find mistakes fastest come first.
# Each step prints how long it took. The first step that fails ends the run.
#
# Much of the time the tests wait for sockets, clocks and other programs, and the compiler for its slowest crate. So steps
# that measure no time run in parallel, one after another, in their own target folders, on the processors that are left.
# Their output is in target/beside/, and is shown if they fail.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/goes-on.sh
logs=target/beside
# In a fresh clone everything is built once: what is kept for later changes and for debuggers would cost a quarter of that.
[ -d target/debug/incremental ] || export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0

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
  beside format formats || return 1
  beside "lock files" scripts/locks.sh || return 1
  beside publishing scripts/publish-check.sh || return 1
  beside "parts of the library" scripts/features.sh || return 1
  beside models models || return 1
  beside schedules schedules || return 1
  beside benchmarks benchmarks || return 1
  beside packages scripts/fresh.sh --packages
}

models() { # every loom model, in its own target folder because the whole tree is built differently
  RUSTFLAGS="--cfg loom" cargo test --package busyhour --lib --profile models --target-dir target/loom -- loom_
}

schedules() { # random orders of a whole runtime's steps, built differently as well
  RUSTFLAGS="--cfg shuttle" cargo test --package busyhour --lib --profile models --target-dir target/shuttle -- shuttle_
}

benchmarks() { # the harness, and the engines that need no peer, at a tiny size
  (cd bench && cargo test)
}

formats() {
  local folder
  for folder in . bench fuzz bench/engines/*/; do
    # Not --all: an engine depends on the library by its path, and --all looks at that as well. Members of a workspace are looked at.
    [ ! -f "$folder/Cargo.toml" ] || (cd "$folder" && cargo fmt --check) || return 1
  done
}

# Builds what cargo builds with clippy's compiler, which is rustc that also has clippy's lints: in this workspace each warning is an
# error. `cargo clippy` would have all dependencies read once more.
linting() { # COMMAND...
  RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ "$@"
}

# If a step fails, ends the parallel steps and everything that they started.
end_side_steps() {
  [ -z "${side:-}" ] || kill -- -"$side" 2>/dev/null || true
}

mkdir -p "$logs"
set -m # the side steps become a process group, so that they can be ended as one
side_steps &
side=$!
set +m
trap end_side_steps EXIT
trap 'exit 130' INT TERM

step "building the tests, with lints" linting cargo test --workspace --no-run
step tests linting scripts/tests.sh
step "tests with tracing and metrics" linting cargo test --workspace --features busyhour/metrics,busyhour/tracing \
  --test stats_recorded --test trace
step histories python3 scripts/cluster-history.py --self-test
step "documentation and its examples" linting env RUSTDOC="$PWD/scripts/rustdoc-and-tests.sh" cargo test --workspace --doc
step monitoring scripts/monitoring.sh
step book scripts/book.py check target/debug/busyhour
step "commands of the book" scripts/book-commands.py target/debug/busyhour
step "list of parts" scripts/dist-check.py
step interface scripts/api.sh target/debug/busyhour 2
step dashboard scripts/dashboard.py --short
step valgrind scripts/valgrind-buffers.sh
printf '\n== waiting for the steps beside\n'
# Not `goes_on ... wait`: bash then says that it knows no such process, if the steps have ended before.
goes_on "== waiting for the steps beside" tail --pid="$side" --follow /dev/null
wait "$side" || exit 1
side=""
printf '\nall steps passed in %s s\n' "$SECONDS"
