#!/usr/bin/env bash
# Installs the library for C and C++: the headers, the shared and the static library, the files for pkg-config and CMake, and
# the page with the conventions. It builds nothing, so that root runs no compiler.
# usage: [PREFIX=/usr/local] [LIBDIR=PREFIX/lib] [DOCDIR=PREFIX/share/doc/busyhour] [DESTDIR=] scripts/install-capi.sh [FOLDER]
#
# FOLDER has what scripts/build-capi.sh built, by default target/capi. DESTDIR is put before every path that is written, for
# packages; nothing that is written contains it.
set -euo pipefail
cd "$(dirname "$0")/.."
PREFIX=${PREFIX:-/usr/local} DESTDIR=${DESTDIR:-}
LIBDIR=${LIBDIR:-$PREFIX/lib} DOCDIR=${DOCDIR:-$PREFIX/share/doc/busyhour}
crate=crates/busyhour-capi
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
folder=${1:-${CARGO_TARGET_DIR:-target}/capi}

for path in "$PREFIX" "$LIBDIR" "$DOCDIR"; do
  case "$path" in /*) ;; *) echo "install-capi: PREFIX, LIBDIR and DOCDIR must be absolute, got $path" >&2; exit 2 ;; esac
done
for built in "$folder/libbusyhour.a" "$folder/libbusyhour.so.$version"; do
  [ -f "$built" ] || {
    echo "install-capi: there is no $built: run make lib first, as the user who owns the sources, then make install" >&2
    exit 1
  }
done

filled() { # TEMPLATE: with the version and the paths
  sed -e "s|@VERSION@|$version|g" -e "s|@PREFIX@|$PREFIX|g" -e "s|@LIBDIR@|$LIBDIR|g" "$1"
}

lib=$DESTDIR$LIBDIR include=$DESTDIR$PREFIX/include doc=$DESTDIR$DOCDIR
mkdir -p "$lib/pkgconfig" "$lib/cmake/busyhour" "$include" "$doc"
install -m 755 "$folder/libbusyhour.so.$version" "$lib/"
ln -sf "libbusyhour.so.$version" "$lib/libbusyhour.so.0"
ln -sf libbusyhour.so.0 "$lib/libbusyhour.so"
install -m 644 "$folder/libbusyhour.a" "$lib/"
install -m 644 $crate/include/busyhour.h $crate/include/busyhour.hpp "$include/"
install -m 644 $crate/CONVENTIONS.md "$doc/"
filled $crate/install/busyhour.pc.in >"$lib/pkgconfig/busyhour.pc"
filled $crate/install/busyhour-config.cmake.in >"$lib/cmake/busyhour/busyhour-config.cmake"
filled $crate/install/busyhour-config-version.cmake.in >"$lib/cmake/busyhour/busyhour-config-version.cmake"
echo "install-capi: busyhour $version for C and C++ is in $DESTDIR$PREFIX, what holds for all functions in $doc/CONVENTIONS.md"
echo "install-capi: if programs do not find libbusyhour.so.0, run ldconfig, or link them with -Wl,-rpath,$LIBDIR"
