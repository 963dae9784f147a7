#!/usr/bin/env bash
# Makes Debian's packages of the library for C and C++: libbusyhour0 and libbusyhour-dev.
# usage: scripts/deb-capi.sh FOLDER [ARCHIVE]     FOLDER: where the two .deb files go
#
# ARCHIVE as in scripts/install-capi.sh. DEBFULLNAME and DEBEMAIL name the maintainer. DEB_COMPRESSION is that of dpkg-deb (xz).
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
folder=$1 archive=${2:-}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
maintainer="${DEBFULLNAME:-The developers of Busyhour} <${DEBEMAIL:-busyhour@localhost}>"
architecture=$(dpkg-architecture -qDEB_HOST_ARCH)
lib=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

main() {
  mkdir -p "$folder"
  PREFIX=/usr LIBDIR=$lib DESTDIR=$work/all scripts/install-capi.sh ${archive:+"$archive"}
  runtime
  development
}

runtime() {
  local root=$work/libbusyhour0
  mkdir -p "$root$lib" "$root/DEBIAN"
  mv "$work/all$lib/libbusyhour.so.0" "$work/all$lib/libbusyhour.so.$version" "$root$lib/"
  echo "libbusyhour 0 libbusyhour0 (>= $version)" >"$root/DEBIAN/shlibs"
  echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
  package libbusyhour0 libs "$(libraries "$root$lib/libbusyhour.so.$version")" "runtime for long-lived servers, shared library" \
    "Timers, serializers and pools of workers, topics with the last value of each
 key, pinned buffers, heaps, and a simulation that replays from a seed."
}

development() {
  local root=$work/libbusyhour-dev
  mv "$work/all" "$root"
  mkdir -p "$root/DEBIAN"
  package libbusyhour-dev libdevel "libbusyhour0 (= $version)" "runtime for long-lived servers, for development" \
    "The headers for C and C++, the static library, and the files for pkg-config
 and CMake."
}

# What the library is linked with, as packages.
libraries() {
  mkdir -p "$work/source/debian"
  printf 'Source: busyhour\n\nPackage: libbusyhour0\nArchitecture: any\n' >"$work/source/debian/control"
  (cd "$work/source" && dpkg-shlibdeps -O -e"$1" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

package() { # NAME SECTION DEPENDS SUMMARY DESCRIPTION
  local root=$work/$1 doc=$work/$1/usr/share/doc/$1
  mkdir -p "$doc"
  { cat LICENSE-MIT; printf '\n--- or, at your choice:\n\n'; cat LICENSE-APACHE; } >"$doc/copyright"
  gzip --best --no-name <CHANGELOG.md >"$doc/changelog.gz"
  find "$root" -type d -exec chmod 755 {} + && find "$root" -type f -exec chmod 644 {} +
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  cat >"$root/DEBIAN/control" <<END
Package: $1
Source: busyhour
Version: $version
Architecture: $architecture
Multi-Arch: same
Maintainer: $maintainer
Section: $2
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $3
Description: $4
 $5
END
  dpkg-deb --root-owner-group -Z"${DEB_COMPRESSION:-xz}" --build "$root" "$folder/$1_${version}_$architecture.deb"
}

main
