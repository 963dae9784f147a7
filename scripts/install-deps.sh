#!/usr/bin/env bash
# Installs what Busyhour needs from Debian's packages, and only what is missing.
# usage: scripts/install-deps.sh GROUP...     groups: build test peers fresh dist
set -euo pipefail

build=(build-essential pkg-config)
test=(sip-tester sipsak sngrep baresip-core linphone-cli twinkle-console faketime tmux
  pcp python3-pcp python3-requests tshark bzip2 xz-utils zstd iaxmodem valgrind postgresql nats-server pebble fail2ban zsh fish
  abigail-tools cmake libpcp3-dev python3-cffi kamailio kamailio-presence-modules
  kamailio-tls-modules kamailio-sqlite-modules kamailio-postgres-modules prometheus
  dnsmasq-base rtpengine-daemon iproute2 nftables chromium chromium-driver python3-venv)
peers=(g++ make libuv1-dev libglib2.0-dev libboost-dev libboost-fiber-dev libtbb-dev libpcp3-dev
  libpcp-import1-dev redis-server nats-server kamailio kamailio-presence-modules
  pcp strace)
dist=(dpkg-dev rpm python3)
fresh=(mmdebstrap debian-archive-keyring systemd-container lintian skopeo umoci curl iproute2 "${dist[@]}")

packages=() needs_npm=""
for group in "$@"; do
  case "$group" in
    build) packages+=("${build[@]}") ;;
    test) packages+=("${test[@]}") needs_npm=yes ;;
    peers) packages+=("${peers[@]}") ;;
    dist) packages+=("${dist[@]}") needs_npm=yes ;;
    fresh) packages+=("${fresh[@]}") ;;
    *) echo "install-deps: no group '$group'; the groups are: build test peers fresh dist" >&2; exit 2 ;;
  esac
done

command -v cargo >/dev/null || {
  echo "install-deps: cargo is missing; install the stable Rust toolchain (1.93 or later) first" >&2
  exit 1
}

# Node.js from elsewhere brings npm with it, and Debian's npm does not go with that.
[ -z "$needs_npm" ] || command -v npm >/dev/null || packages+=(nodejs npm)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || {
  echo "install-deps: missing: ${missing[*]}; this system has no apt-get, install them by its own means" >&2
  exit 1
}
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    echo "install-deps: missing: ${missing[*]}; run this as root, or install sudo" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "install-deps: installing ${missing[*]}"

# The tests start the servers among the packages themselves, with their own settings. Where systemd is installed but does
# not run, the scripts of some packages call systemctl and fail. A stand-in that always succeeds takes its place. apt gives
# these scripts a PATH of its own (DPkg::Path), so the stand-in must be named there.
stand_in=$(mktemp -d)
chmod 755 "$stand_in"
trap 'rm -rf "$stand_in"' EXIT
if [ ! -d /run/systemd/system ]; then
  printf '#!/bin/sh\nexit 0\n' >"$stand_in/systemctl"
  chmod 755 "$stand_in/systemctl"
fi
# apt says itself what it downloads and installs: this can take a minute.
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
  apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 \
  -o DPkg::Path="$stand_in:/usr/sbin:/usr/bin:/sbin:/bin" "${missing[@]}"
echo "install-deps: installed ${#missing[@]} packages and what they need"
