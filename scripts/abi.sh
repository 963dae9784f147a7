#!/usr/bin/env bash
# Fails if the C ABI is another than the committed one, crates/busyhour-capi/busyhour.abi.
# usage: scripts/abi.sh [--accept]      --accept writes the file: then the change is a decision
#
# It compares what the header says: functions with their arguments, structs with their fields. A library of functions that do
# nothing is compiled from the header, since Rust's own debug information does not describe the types as C sees them. The
# tests compare the names in the header with those in the real library.
set -euo pipefail
cd "$(dirname "$0")/.."
crate=crates/busyhour-capi
for program in abidw abidiff cc; do
  command -v $program >/dev/null || { echo "abi: $program is missing: scripts/install-deps.sh build test" >&2; exit 2; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# All functions come after the line that opens extern "C".
awk '/^extern "C" \{/ { functions = 1 } functions { sub(/\);$/, ") { __builtin_trap(); }") } { print }' \
  $crate/include/busyhour.h >"$folder/busyhour.c"
(cd "$folder" && cc -shared -fPIC -g -O0 -Wl,-soname,libbusyhour.so.0 -o libbusyhour.so busyhour.c)
abidw --no-architecture --no-corpus-path --no-show-locs --no-comp-dir-path --out-file "$folder/busyhour.abi" "$folder/libbusyhour.so"

if [ "${1:-}" = --accept ]; then
  cp "$folder/busyhour.abi" $crate/busyhour.abi
  echo "abi: $crate/busyhour.abi is what the header says"
  exit 0
fi
status=0
abidiff $crate/busyhour.abi "$folder/busyhour.abi" || status=$?
[ $status = 0 ] && exit 0
# Bit 8: incompatible, bit 4: changed, bits 1 and 2: it did not work.
[ $((status & 8)) = 0 ] || echo "abi: programs that were built with the committed header break: undo it, or raise the soname" >&2
echo "abi: the ABI has changed; if that is meant, run scripts/abi.sh --accept" >&2
exit 1
