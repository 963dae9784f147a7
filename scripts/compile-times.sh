#!/usr/bin/env bash
# usage: scripts/compile-times.sh [CRATE...]
#
# How long the server takes to build: from nothing, and after a change of one line in each crate of the workspace (or
# in those that are named). In seconds, as `cargo build` and `cargo check` need them for development, in a target folder
# of its own. Nothing else should run on the machine meanwhile.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=target/compile-times
TIMEFORMAT=%1R
line='// A line that nobody has seen yet.'

main() {
  local crates=("$@") crate
  [ $# -gt 0 ] || mapfile -t crates < <(ls crates)
  rm -rf "$CARGO_TARGET_DIR"
  printf '%-24s %8s %8s\n' "what changed" "build" "check"
  row "everything"
  for crate in "${crates[@]}"; do
    changed=crates/$crate/src/lib.rs
    trap 'undo' EXIT
    echo "$line" >>"$changed"
    row "a line of $crate"
    undo
    trap - EXIT
    cargo build --quiet --package busyhour-server
    cargo check --quiet --package busyhour-server
  done
}

row() { # WHAT
  printf '%-24s %8s %8s\n' "$1" "$(seconds build)" "$(seconds check)"
}

seconds() { # COMMAND
  { time cargo "$1" --quiet --package busyhour-server >&3 2>&3; } 3>&2 2>&1
}

undo() { sed -i '${/^'"${line//\//\\/}"'$/d}' "$changed"; }

main "$@"
