#!/usr/bin/env bash
# Makes the RPM package of the server.
# usage: scripts/rpm-server.sh FOLDER PROGRAM     FOLDER: where the .rpm file goes; PROGRAM: a built `busyhour`
#
# Needs rpmbuild (Debian's package rpm has it). VERSION replaces the version of Cargo.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 2 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
folder=$1 program=$2
version=${VERSION:-$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tree=$work/tree
scripts/server-tree.sh "$tree" "$program"
# Where this family of systems has them.
mkdir -p "$tree/usr/lib/systemd" "$tree/usr/share/zsh/site-functions" "$tree/var/lib/busyhour" "$folder"
mv "$tree/lib/systemd/system" "$tree/usr/lib/systemd/"
mv "$tree/usr/share/zsh/vendor-completions/_busyhour" "$tree/usr/share/zsh/site-functions/"
rm -r "$tree/lib" "$tree/usr/share/zsh/vendor-completions"
# A tilde sorts before the end, and rpm has no hyphen in versions.
rpmbuild -bb --quiet --define "_topdir $work/rpm" --define "_rpmdir $work/out" --define "tree $tree" \
  --define "version ${version//-/\~}" --define "_build_id_links none" --define "_docdir /usr/share/doc" \
  --define "debug_package %{nil}" --define "__os_install_post %{nil}" packaging/rpm/busyhour.spec
find "$work/out" -name '*.rpm' -exec cp {} "$folder/" \;
