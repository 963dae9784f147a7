#!/usr/bin/env bash
# Makes Debian's package of the server: busyhour.
# usage: scripts/deb-server.sh FOLDER [PROGRAM]     FOLDER: where the .deb file goes
#
# PROGRAM is a built `busyhour`; without it one is built as released. Variables as in scripts/deb-common.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
folder=$1 program=${2:-}
source scripts/deb-common.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

main() {
  local root=$work/busyhour
  mkdir -p "$folder" "$root/DEBIAN"
  [ -n "$program" ] || program=$(built)
  scripts/server-tree.sh "$root" "$program"
  install -m 755 packaging/deb/p* "$root/DEBIAN/"
  (cd "$root" && find etc -type f -printf '/%p\n' | sort) >"$root/DEBIAN/conffiles"
  mkdir -p "$root/usr/share/lintian/overrides"
  cp packaging/deb/lintian-overrides "$root/usr/share/lintian/overrides/busyhour"
  package busyhour net "$(libraries busyhour "$root/usr/bin/busyhour"), init-system-helpers (>= 1.54~), systemd (>= 246) | systemd-standalone-sysusers" \
    "SIP server: registration, presence, lamps and calls" \
    "Telephones register over UDP, TCP, TLS and IAX2, call each other, and see
 whether others are busy. A registration that was acknowledged survives a
 power cut. A dashboard, an HTTP interface and metrics show what happens." \
    "Suggests: fail2ban, prometheus"
}

built() {
  BUSYHOUR_COMMIT=$(git rev-parse --short=10 HEAD) cargo build --quiet --release --package busyhour-server >&2
  echo target/release/busyhour
}

main
