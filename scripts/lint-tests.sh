#!/usr/bin/env bash
# Stands for rustc while cargo builds the workspace's own crates for the tests: clippy's compiler, which is rustc with clippy's
# lints, reads what is no library, and each library as its own test, which has all of its code. The library that the others are
# linked with is the same code once more, so rustc alone compiles that. Each warning is an error.
# usage: RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/lint-tests.sh CLIPPY_ARGS=--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ cargo test --workspace
set -euo pipefail
: "${CLIPPY_ARGS:?is not set; the usage above has it}"
case " $* " in
  *" --test "*) ;;
  *" --crate-type lib "*) exec "$@" --deny warnings ;;
esac
exec clippy-driver "$@"
