# What the scripts that make Debian's packages share; they source it, in the root of the tree.
#
# They set `work`, a temporary folder with a folder for each package. DEBFULLNAME and DEBEMAIL name the maintainer.
# DEB_COMPRESSION is that of dpkg-deb (xz). VERSION replaces the version of Cargo.toml.

version=${VERSION:-$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)}
maintainer="${DEBFULLNAME:-The developers of Busyhour} <${DEBEMAIL:-busyhour@localhost}>"
architecture=$(dpkg-architecture -qDEB_HOST_ARCH)

# What a file is linked with, as packages.
libraries() { # PACKAGE FILE
  mkdir -p "$work/source/debian"
  printf 'Source: busyhour\n\nPackage: %s\nArchitecture: any\n' "$1" >"$work/source/debian/control"
  (cd "$work/source" && dpkg-shlibdeps -O -e"$2" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
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

package() { # NAME SECTION DEPENDS SUMMARY DESCRIPTION [FIELD...]: each field is a line of the control file
  local root=$work/$1 doc=$work/$1/usr/share/doc/$1
  mkdir -p "$doc"
  copyright >"$doc/copyright"
  changelog | gzip --best --no-name >"$doc/changelog.gz"
  gzip --best --no-name <CHANGELOG.md >"$doc/CHANGELOG.md.gz"
  find "$root" -type d -exec chmod 755 {} + && find "$root" -type f ! -path '*/bin/*' ! -path '*/DEBIAN/p*' -exec chmod 644 {} +
  (cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  cat >"$root/DEBIAN/control" <<END
Package: $1
Source: busyhour
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Section: $2
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $3
$(printf '%s\n' "${@:6}")
Description: $4
 $5
END
  dpkg-deb --root-owner-group -Z"${DEB_COMPRESSION:-xz}" --build "$root" "$folder/$1_${version}_$architecture.deb"
}
