#!/usr/bin/env bash
# Builds the library for C and C++ as it is installed: the shared one, stripped, and the static one.
# usage: scripts/build-capi.sh [FOLDER [ARCHIVE]]     FOLDER: where it goes, by default target/capi
#
# ARCHIVE is a libbusyhour_capi.a that was built before; without it, cargo builds one with the profile `release`.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
folder=${1:-$target/capi} archive=${2:-}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)

if [ -z "$archive" ]; then
  cargo rustc --release --package busyhour-capi --lib --crate-type staticlib
  archive=$target/release/libbusyhour_capi.a
fi
[ -f "$archive" ] || { echo "build-capi: there is no $archive" >&2; exit 1; }

# What is there becomes complete or goes, so that no half of it is installed.
mkdir -p "$folder"
new=$(mktemp -d "$folder/new.XXXXXX")
trap 'rm -rf "$new"' EXIT
scripts/link-capi.sh "$archive" "$new"
install -m 644 "$archive" "$new/libbusyhour.a"
strip --strip-unneeded "$new/libbusyhour.so.$version"
strip --strip-debug "$new/libbusyhour.a"
rm -f "$folder"/libbusyhour.*
mv "$new"/libbusyhour.* "$folder/"
echo "build-capi: busyhour $version for C and C++ is built in $folder; make install installs it"
