#!/usr/bin/env bash
# usage: scripts/apps.sh [ROUNDS] [PROGRAM...]
#
# Measures the programs of examples/apps, each beside its version with tokio alone, in so many rounds (5 by default) in turns: the
# medians of both, and the ratios of the rounds with the least and the greatest. On two cores a round takes some 3 s (deduplicator),
# 12 s (jobs) and 15 s (chat). examples/apps/README.md has the last results.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- deduplicator jobs chat
cargo build --quiet --release --package busyhour-apps
for program; do
  echo "== $program"
  "target/release/$program" measure "$rounds"
done
