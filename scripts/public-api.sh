#!/usr/bin/env bash
# usage: scripts/public-api.sh [CRATE...]     all crates of the workspace unless told
#
# The public items of each crate, one a line, into target/public-api/CRATE.txt; and those whose names nothing outside of
# the crate's own sources mentions: no other crate, no test, example, benchmark or fuzz target. docs/public-api.md says
# why these are public. Builds cargo-public-api first, some minutes, once; the stable compiler is asked for its JSON
# documentation, which only nightly ones give without being told twice.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
tools=$PWD/target/tools
folder=$PWD/target/public-api

main() {
  local crates=("$@") crate
  [ $# -gt 0 ] || mapfile -t crates < <(ls crates)
  [ -x "$tools/bin/cargo-public-api" ] || cargo install --locked cargo-public-api@0.52.0 --root "$tools" --target-dir "$tools/build"
  mkdir -p "$folder"
  for crate in "${crates[@]}"; do
    RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS="-Z unstable-options --output-format json" \
      cargo doc --quiet --lib --package "$crate" --no-deps --target-dir "$folder/build"
    "$tools/bin/cargo-public-api" public-api -sss --rustdoc-json "$folder/build/doc/${crate//-/_}.json" >"$folder/$crate.txt"
    printf '%-20s %5s items; named nowhere else:\n' "$crate" "$(wc -l <"$folder/$crate.txt")"
    comm -23 <(names "$folder/$crate.txt") <(words_outside "$crate") | sed 's/^/    /'
  done
}

# Counts functions, types, traits and constants; fields and variants belong to their type.
names() { # FILE
  sed -nE 's/^(#\[non_exhaustive\] )?pub (const |async |unsafe )*(fn|struct|enum|trait|type|const) ([^(<:]|<[^>]*>|::)*::([A-Za-z_0-9]+).*/\5/p' "$1" | sort -u
}

words_outside() { # CRATE
  git ls-files '*.rs' '*.md' | grep -v "^crates/$1/src/" | xargs grep -hoE '[A-Za-z_][A-Za-z_0-9]*' | sort -u
}

main "$@"
