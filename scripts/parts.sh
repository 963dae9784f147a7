#!/usr/bin/env bash
# usage: scripts/parts.sh
#
# What our own epochs, inject queue and histogram cost beside the libraries that one would take otherwise, in turn on one
# thread: medians of 15 rounds. async-task cannot be had without an executor: `versus run pool-requeue --engine
# busyhour,async-executor`, and the same with pool-external, have that row.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --quiet --release --package busyhour --lib -- --ignored --nocapture --test-threads 1 cost_of | grep -v '^$'
