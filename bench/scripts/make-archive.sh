#!/usr/bin/env bash
# Writes the archive that the `digest` scenario renders, bench/data/digest.{0,index,meta}: 1,688 metric-instances, 6 h
# of samples, about 51 MB, the same data each time. Does nothing when it is there already.
# usage: scripts/make-archive.sh
set -euo pipefail
cd "$(dirname "$0")/.."

[ ! -s data/digest.0 ] || [ scripts/make-archive.cpp -nt data/digest.0 ] || exit 0
mkdir -p data
# Two engines may want it at once: each writes in a folder of its own, and the last to finish replaces the other's equal files.
work=$(mktemp -d data/making.XXXXXX)
trap 'rm -rf "$work"' EXIT
"${CXX:-g++}" -O2 -std=c++17 -Wall -Wextra -I engines/kit-cpp -o "$work/make-archive" scripts/make-archive.cpp -lpcp_import -lpcp
"$work/make-archive" "$work/digest"
for part in meta index 0; do mv "$work/digest.$part" "data/digest.$part"; done
