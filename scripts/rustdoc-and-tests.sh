#!/usr/bin/env bash
# Stands for rustdoc while cargo tests the examples in the documentation: makes the documentation of the crate first, in
# target/doc, where each warning is an error, and then does what cargo asks for.
# usage: RUSTDOC=scripts/rustdoc-and-tests.sh cargo test --workspace --doc
#
# So the documentation is made from the libraries that the tests are linked with; `cargo doc` would have all dependencies
# compiled once more.
set -euo pipefail
asked=("$@") documenting=() is_test=""
while [ $# -gt 0 ]; do
  case $1 in
    --test) is_test=yes ;;
    --test-run-directory) shift ;;
    *) documenting+=("$1") ;;
  esac
  shift
done
[ -z "$is_test" ] || rustdoc "${documenting[@]}" --deny warnings --out-dir "${CARGO_TARGET_DIR:-target}/doc"
# All examples of a crate are one program, and one unit of it takes the compiler less than sixteen, which have copies of the same
# functions.
exec rustdoc "${asked[@]}" ${is_test:+--codegen codegen-units=1}
