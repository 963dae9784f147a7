#!/usr/bin/env bash
# Prints the folder of the standard library's sources that belong to the running toolchain, for `cargo -Zbuild-std`.
# usage: scripts/std-sources.sh
#
# They are the toolchain's own (`rustup component add rust-src`) or, where that component cannot be had, Debian's package
# rust-src of the same version: it is looked up in sid and in the backports, and unpacked below target/.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(rustc -vV | sed -n 's/^release: //p')
component=$(rustc --print sysroot)/lib/rustlib/src/rust/library
if [ -d "$component" ]; then echo "$component"; exit; fi

folder=$PWD/target/rust-src
root=$folder/root
sources=$root/usr/src/rustc-$version/library
if [ -d "$sources" ]; then echo "$sources"; exit; fi

fail() {
  echo "std-sources: no sources of Rust $version: $1; run \`rustup component add rust-src\`" >&2
  exit 1
}
command -v apt-get >/dev/null || fail "this machine has no apt-get to take Debian's package with"
archive=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -E '/debian/?$' | head -n 1) || true
[ -n "$archive" ] || fail "apt knows no Debian archive"

# A separate list of packages, so that the machine's own list stays as it is.
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$root"
for suite in sid trixie-backports; do
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main"
done >"$folder/sources.list"
apt=(-o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State::lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root)
apt-get "${apt[@]}" update >"$folder/log" 2>&1 || fail "apt-get update failed, see $folder/log"
# To the end, since apt-cache fails if nobody reads on.
package=$(apt-cache "${apt[@]}" madison rust-src | awk -F ' *[|] *' -v version="$version" \
  '!found && (index($2, version "+") == 1 || index($2, version "-") == 1) { print $2; found = 1 }')
[ -n "$package" ] || fail "Debian has none now"
(cd "$folder" && apt-get "${apt[@]}" download "rust-src=$package" >>log 2>&1) ||
  fail "the package did not arrive, see $folder/log"
dpkg -x "$folder"/rust-src_"$version"*.deb "$root"
[ -d "$sources" ] || fail "Debian's package has no folder $sources"
echo "$sources"
