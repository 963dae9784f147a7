#!/usr/bin/env bash
# Makes all that a release consists of, with checksums.
# usage: scripts/dist.sh [FOLDER]     target/dist unless told
#
#   busyhour_VERSION_ARCH.deb, busyhour-VERSION.RPMARCH.rpm    the server as packages
#   libbusyhour0_…, libbusyhour-dev_…                          the library for C and C++
#   busyhour-VERSION-ARCH-linux.tar.gz                         the server as one static file, with man pages and unit
#   busyhour-VERSION-ARCH.oci.tar                              the server as an image, for podman, docker, skopeo
#   busyhour-VERSION.cdx.json                                  what it is made of (CycloneDX)
#   SHA256SUMS
# Nothing is signed: whoever publishes it signs SHA256SUMS. Variables as in scripts/deb-common.sh, and PROGRAM: the
# server that the packages take, such as scripts/profile-guided.sh makes; it has to be of this commit. The static file and the
# image are built here in any case.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
folder=${1:-target/dist}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
machine=$(uname -m)
BUSYHOUR_COMMIT=$(git rev-parse --short=10 HEAD)
export BUSYHOUR_COMMIT TELEPHONE=target/telephone
[ -z "$(git status --porcelain --untracked-files=no)" ] || echo "dist: what is not committed goes in as well, and --version does not say so" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rm -rf "$folder"
mkdir -p "$folder"
scripts/telephone.sh "$TELEPHONE"
cargo build --quiet --locked --release --package busyhour-server
program=${PROGRAM:-target/release/busyhour}
"$program" --version | grep -qF "$BUSYHOUR_COMMIT" || { echo "dist: PROGRAM ($program) is not of commit $BUSYHOUR_COMMIT" >&2; exit 1; }
scripts/deb-server.sh "$folder" "$program"
scripts/rpm-server.sh "$folder" "$program"
scripts/deb-capi.sh "$folder"

scripts/static.sh "$work/busyhour" release
strip "$work/busyhour"
scripts/oci-server.py "$work/busyhour" "$folder/busyhour-$version-$machine.oci.tar" --version "$version"
name=busyhour-$version-$machine-linux
scripts/server-tree.sh "$work/$name" "$work/busyhour"
cp LICENSE-* "$work/$name/"
tar --create --gzip --file "$folder/$name.tar.gz" --owner=0 --group=0 --sort=name \
  --mtime="@$(git log -1 --format=%ct)" --directory "$work" "$name"
scripts/sbom.py "$folder/busyhour-$version.cdx.json"
(cd "$folder" && sha256sum -- * >"$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$folder/"
scripts/dist-check.py "$folder"
ls -l "$folder"
