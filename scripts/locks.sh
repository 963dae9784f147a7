#!/usr/bin/env bash
# Fails if a Cargo.lock does not fit its manifest: a --locked build would fail there, which nobody may notice for long.
# usage: scripts/locks.sh
set -euo pipefail
cd "$(dirname "$0")/.."

stale=()
for lock in $(git ls-files '*Cargo.lock'); do
  folder=$(dirname "$lock")
  # Only the crates of this platform are downloaded; the lock is checked for all platforms.
  platform=$(rustc -vV | sed -n 's/^host: //p')
  (cd "$folder" && cargo metadata --locked --quiet --format-version 1 --filter-platform "$platform" >/dev/null) ||
    stale+=("$folder")
done
[ ${#stale[@]} = 0 ] || {
  echo "locks: not up to date in: ${stale[*]}; run 'cargo metadata >/dev/null' there and commit its Cargo.lock" >&2
  exit 1
}
