#!/usr/bin/env bash
# Writes what the `digest` scenario renders, the same data each time: the archive bench/data/digest.{0,index,meta} with
# 1,688 metric-instances and 6 h of samples, about 51 MB; and the folder bench/data/archives with 200 archives of 100
# metric-instances and 6 h, about 110 MB. Does nothing when they are there already.
# usage: scripts/make-archive.sh
set -euo pipefail
cd "$(dirname "$0")/.."

[ ! -s data/archives/0199.0 ] || [ scripts/make-archive.cpp -nt data/archives/0199.0 ] || exit 0
mkdir -p data
# Two engines may run this at the same time: each writes into its own folder, and the last one replaces the other's equal files.
work=$(mktemp -d data/making.XXXXXX)
trap 'rm -rf "$work"' EXIT
"${CXX:-g++}" -O2 -std=c++17 -Wall -Wextra -I engines/kit-cpp -o "$work/make-archive" scripts/make-archive.cpp -lpcp_import -lpcp
"$work/make-archive" "$work/digest"
mkdir "$work/archives"
"$work/make-archive" "$work/archives" 200
for part in meta index 0; do mv "$work/digest.$part" "data/digest.$part"; done
mkdir -p data/archives
mv "$work"/archives/* data/archives/
