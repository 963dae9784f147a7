#!/usr/bin/env bash
# Makes the book with mdBook, which is installed below target/ the first time.
# usage: scripts/book.sh [PROGRAM]     PROGRAM: a built busyhour, which tells its reference; target/debug/busyhour unless told
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/debug/busyhour}
tools=target/tools
[ -n "${1:-}" ] || cargo build --quiet --package busyhour-server
[ -x "$tools/bin/mdbook" ] || scripts/goes-on.sh "building mdBook" \
  cargo install --quiet --locked --version 0.5.4 --no-default-features --root "$tools" --target-dir "$tools/build" mdbook
scripts/book.py check "$program"
scripts/book.py prepare "$program" target/book/source
"$tools/bin/mdbook" build --dest-dir "$PWD/target/book/html" target/book/source
echo "book: target/book/html/index.html"
