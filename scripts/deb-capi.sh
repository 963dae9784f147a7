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

copyright() { # as Debian wants it: common licences are referred to
  cat <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: busyhour

Files: *
Copyright: $(sed -n 's/^Copyright (c) //p' LICENSE-MIT)
License: Expat or Apache-2.0

License: Expat
$(sed '1,/^Copyright/d; s/^$/./; s/^/ /' LICENSE-MIT | sed '1d')

License: Apache-2.0
 On Debian systems, the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
END
}

changelog() { # what has changed is in CHANGELOG.md; this names the version, and the day of its last commit
  local day
  day=$(git log -1 --format=%aD 2>/dev/null || date -R)
  printf 'busyhour (%s) unstable; urgency=medium\n\n  * CHANGELOG.md.gz beside this file has the changes.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$day"
}

package() { # NAME SECTION DEPENDS SUMMARY DESCRIPTION
  local root=$work/$1 doc=$work/$1/usr/share/doc/$1
  mkdir -p "$doc"
  copyright >"$doc/copyright"
  changelog | gzip --best --no-name >"$doc/changelog.gz"
  gzip --best --no-name <CHANGELOG.md >"$doc/CHANGELOG.md.gz"
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
