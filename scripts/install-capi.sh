#!/usr/bin/env bash
# Installs the library for C and C++: the header, the shared and the static library, the files for pkg-config and CMake.
# usage: [PREFIX=/usr/local] [LIBDIR=PREFIX/lib] [DESTDIR=] scripts/install-capi.sh [ARCHIVE]
#
# ARCHIVE is a libbusyhour_capi.a that was built before; without it, cargo builds one with the profile `release`. DESTDIR is
# put before every path that is written, for packages; nothing that is written contains it.
set -euo pipefail
cd "$(dirname "$0")/.."
PREFIX=${PREFIX:-/usr/local} DESTDIR=${DESTDIR:-}
LIBDIR=${LIBDIR:-$PREFIX/lib}
crate=crates/busyhour-capi
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)

case "$PREFIX$LIBDIR" in /*) ;; *) echo "install-capi: PREFIX and LIBDIR must be absolute, got $PREFIX" >&2; exit 2 ;; esac

archive=${1:-}
if [ -z "$archive" ]; then
  cargo rustc --release --package busyhour-capi --lib --crate-type staticlib
  archive=${CARGO_TARGET_DIR:-target}/release/libbusyhour_capi.a
fi
[ -f "$archive" ] || { echo "install-capi: there is no $archive" >&2; exit 1; }

filled() { # TEMPLATE: with the version and the paths
  sed -e "s|@VERSION@|$version|g" -e "s|@PREFIX@|$PREFIX|g" -e "s|@LIBDIR@|$LIBDIR|g" "$1"
}

lib=$DESTDIR$LIBDIR include=$DESTDIR$PREFIX/include
mkdir -p "$lib/pkgconfig" "$lib/cmake/busyhour" "$include"
scripts/link-capi.sh "$archive" "$lib"
install -m 644 "$archive" "$lib/libbusyhour.a"
strip --strip-unneeded "$lib/libbusyhour.so.$version"
strip --strip-debug "$lib/libbusyhour.a"
install -m 644 $crate/include/busyhour.h $crate/include/busyhour.hpp "$include/"
filled $crate/install/busyhour.pc.in >"$lib/pkgconfig/busyhour.pc"
filled $crate/install/busyhour-config.cmake.in >"$lib/cmake/busyhour/busyhour-config.cmake"
filled $crate/install/busyhour-config-version.cmake.in >"$lib/cmake/busyhour/busyhour-config-version.cmake"
echo "install-capi: busyhour $version for C and C++ is in $DESTDIR$PREFIX"
echo "install-capi: if programs do not find libbusyhour.so.0, run ldconfig, or link them with -Wl,-rpath,$LIBDIR"
