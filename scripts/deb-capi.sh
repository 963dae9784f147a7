#!/usr/bin/env bash
# Makes Debian's packages of the library for C and C++: libbusyhour0 and libbusyhour-dev.
# usage: scripts/deb-capi.sh FOLDER [ARCHIVE]     FOLDER: where the two .deb files go
#
# ARCHIVE as in scripts/build-capi.sh; variables as in scripts/deb-common.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
folder=$1 archive=${2:-}
source scripts/deb-common.sh
lib=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

main() {
  mkdir -p "$folder"
  scripts/build-capi.sh "$work/built" ${archive:+"$archive"}
  PREFIX=/usr LIBDIR=$lib DOCDIR=/usr/share/doc/libbusyhour-dev DESTDIR=$work/all scripts/install-capi.sh "$work/built"
  runtime
  development
}

runtime() {
  local root=$work/libbusyhour0
  mkdir -p "$root$lib" "$root/DEBIAN"
  mv "$work/all$lib/libbusyhour.so.0" "$work/all$lib/libbusyhour.so.$version" "$root$lib/"
  echo "libbusyhour 0 libbusyhour0 (>= $version)" >"$root/DEBIAN/shlibs"
  echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
  package libbusyhour0 libs "$(libraries libbusyhour0 "$root$lib/libbusyhour.so.$version")" "runtime for long-lived servers, shared library" \
    "Timers, serializers and pools of workers, topics with the last value of each
 key, pinned buffers, heaps, and a simulation that replays from a seed." "Multi-Arch: same"
}

development() {
  local root=$work/libbusyhour-dev
  mv "$work/all" "$root"
  mkdir -p "$root/DEBIAN"
  package libbusyhour-dev libdevel "libbusyhour0 (= $version)" "runtime for long-lived servers, for development" \
    "The headers for C and C++, the static library, the files for pkg-config and
 CMake, and a page with the conventions of the functions." "Multi-Arch: same"
}

main
