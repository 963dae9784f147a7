#!/usr/bin/env bash
# Runs a command. Where no terminal shows cargo's progress, prints every 20 s that it still runs, and since when.
# usage: scripts/goes-on.sh WHAT COMMAND...      or, in a script: source scripts/goes-on.sh; goes_on WHAT COMMAND...

goes_on() { # WHAT COMMAND...
  local what=$1 ticker status=0
  shift
  if [ -t 1 ] && [ -t 2 ]; then "$@"; return; fi
  say_that_it_goes_on "$what" &
  ticker=$!
  "$@" || status=$?
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  return "$status"
}

say_that_it_goes_on() { # WHAT: until it is killed, or the script ends
  local begin=$SECONDS never
  # A pipe without a writer: `sleep` would be a process that outlives this one.
  exec {never}<> <(:)
  while ! read -r -t 20 -u "$never" && kill -0 $$ 2>/dev/null; do
    printf '%s: %s s so far\n' "$what" $((SECONDS - begin)) >&2
  done
}

if [ "$0" = "${BASH_SOURCE[0]}" ]; then
  set -euo pipefail
  goes_on "$@"
fi
