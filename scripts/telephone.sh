#!/usr/bin/env bash
# Makes the SIP client of the telephone page: JsSIP as one file, with the licences of what is in it.
# usage: scripts/telephone.sh [FOLDER]     target/telephone unless told; the setting http.telephone names it
#
# npm fetches the versions of scripts/telephone/package-lock.json, whose checksums it verifies, and runs no script of them.
# What is there already is kept if it is of the same lock file. Needs npm and node.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
folder=$(realpath --canonicalize-missing "${1:-target/telephone}")
sources=(scripts/telephone/package.json scripts/telephone/package-lock.json scripts/telephone/entry.js scripts/telephone.sh)
made_of=$(cat "${sources[@]}" | sha256sum | cut -d' ' -f1)
[ "$(cat "$folder/made-of" 2>/dev/null)" != "$made_of" ] || exit 0
command -v npm >/dev/null || {
  echo "telephone: npm is missing; scripts/install-deps.sh test installs it" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp scripts/telephone/* "$work"
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --silent) || {
  echo "telephone: npm could not fetch what scripts/telephone/package-lock.json names; 'npm ci' there says why" >&2
  exit 1
}
(cd "$work" && npm run --silent build)
mkdir -p "$folder"
for package in jssip debug events ms sdp-transform; do
  licence=$(find "$work/node_modules/$package" -maxdepth 1 -iname 'licen[sc]e*' | head -1)
  printf '== %s %s\n\n' "$package" "$(cd "$work" && node --print "require('./node_modules/$package/package.json').version")"
  [ -n "$licence" ] || { echo "telephone: $package has no licence file" >&2; exit 1; }
  cat "$licence"
  echo
done >"$work/licences"
install -m 644 "$work/jssip.js" "$folder/jssip.js"
install -m 644 "$work/licences" "$folder/jssip.LICENSES"
echo "$made_of" >"$folder/made-of"
