#!/usr/bin/env bash
# Tries the project on a machine that has never seen it: a clean Debian 12 in a temporary folder.
# usage: scripts/fresh.sh [OPTION...]
#
#   --packages     only scripts/install-deps.sh, as root
#   --run          `make run` in a clone of HEAD, until the server says that it is ready
#   --test         `make test` in that clone; more options after it: more steps. None means --run --test
#   --capi         the Debian packages for C and C++: installed as root, checked by lintian, used by pkg-config and CMake
#   --server       the packages of the server: installed, started by systemd, upgraded and removed; and the image
#   --user NAME    as this user, who has sudo (or as root, if NAME is root). Unless told: first root, then newcomer
#   --mirror URL   the Debian mirror, if the one that apt uses here cannot be told from its settings
#   --help         this text
#
# The package systemd is installed in the clean root but does not run, as in most containers and build machines.
# The root resolves and downloads as this machine does (mirror, proxy, own certificates), and its Rust toolchain is the
# one that `rustc` here belongs to, mounted read-only. Crates are downloaded anew.
# For --capi, ARCHIVE in the environment is as in scripts/deb-capi.sh, and spares a build; scripts/installed-server.sh says
# what --server takes.
# It needs root (or sudo) and the right to mount. All mounts and processes are in namespaces of their own, which end with
# the command; then the folder is removed.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/goes-on.sh
source scripts/installed-server.sh

main() {
  read_options "$@"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "needs root to make a clean root; run it as root, or install sudo"
    exec sudo env PATH="$PATH" RUSTUP_TOOLCHAIN="${RUSTUP_TOOLCHAIN:-}" FRESH_CARGO_HOME="$cargo_home" \
      FRESH_SYSROOT="$(rustc --print sysroot)" "$0" "$@"
  fi
  if [ -z "${FRESH_INSIDE:-}" ]; then outside "$@"; else inside; fi
}

read_options() {
  steps=() users=() mirror=""
  cargo_home=${FRESH_CARGO_HOME:-${CARGO_HOME:-$HOME/.cargo}}
  while [ $# -gt 0 ]; do
    case "$1" in
      --packages | --run | --test | --capi | --server) steps+=("${1#--}") ;;
      --user) users+=("${2:?"fresh: --user needs a name"}"); shift ;;
      --mirror) mirror=${2:?"fresh: --mirror needs an address"}; shift ;;
      --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
      *) echo "fresh: no option '$1'; see scripts/fresh.sh --help" >&2; exit 2 ;;
    esac
    shift
  done
  [ ${#steps[@]} -gt 0 ] || steps=(run test)
  [ ${#users[@]} -gt 0 ] || users=(root newcomer)
}

# In namespaces of their own, mounts and processes end when `inside` does, however it ends.
outside() {
  scripts/install-deps.sh fresh
  sysroot=${FRESH_SYSROOT:-$(rustc --print sysroot)}
  [ "$sysroot" != /usr ] || fail "the Rust toolchain lies in /usr; one of rustup's is needed, which can be mounted alone"
  unshare --mount --pid --fork true 2>/dev/null || fail "may not mount here (CAP_SYS_ADMIN is missing, as in unprivileged \
containers); run it on a machine that may"
  work=$(mktemp -d --tmpdir busyhour-fresh.XXXXXX)
  trap 'rm -rf --one-file-system "$work"' EXIT
  trap 'exit 130' INT TERM
  chmod 755 "$work"
  FRESH_INSIDE=$work FRESH_SYSROOT=$sysroot FRESH_CARGO_HOME=$cargo_home \
    unshare --mount --propagation private --pid --fork --kill-child "$0" "${arguments[@]}"
}

inside() {
  root=$FRESH_INSIDE/root
  local begin=$SECONDS
  make_root
  mount_all
  said "a clean root in $((SECONDS - begin)) s: Debian $(cat "$root/etc/debian_version"), systemd installed, not running"
  local user step
  for user in "${users[@]}"; do
    for step in "${steps[@]}"; do
      begin=$SECONDS
      case "$step" in
        packages) packages ;;
        capi) capi ;;
        server) server ;;
        run) clone "$user"; as "$user" 'cd busyhour && exec bash -c "$1" -' "$(declare -f until_ready); until_ready" ;;
        test) clone "$user"; as "$user" 'cd busyhour && exec make test' ;;
      esac || fail "$step as $user FAILED after $((SECONDS - begin)) s"
      said "$step as $user: ok in $((SECONDS - begin)) s"
    done
    needs_users || break
  done
}

needs_users() { # the other steps are as root
  local step
  for step in "${steps[@]}"; do
    case "$step" in run | test) return 0 ;; esac
  done
  return 1
}

make_root() {
  local debian security settings=$FRESH_INSIDE/apt.conf
  debian=${mirror:-$(mirror_of Debian)}
  security=$(mirror_of Debian-Security)
  [ -n "$debian" ] || fail "apt knows no mirror of Debian here (run apt-get update); name one with --mirror URL"
  # Proxies and the like.
  apt-config dump | grep -E '^Acquire::(http|https|ftp|Retries)\b' >"$settings" || true
  {
    echo "deb $debian bookworm main"
    echo "deb $debian bookworm-updates main"
    [ -z "$security" ] || echo "deb $security bookworm-security main"
  } >"$FRESH_INSIDE/sources.list"
  said "making a clean root"
  goes_on "fresh: making a clean root" \
    mmdebstrap --quiet --mode=root --variant=minbase --aptopt="$settings" --dpkgopt=force-unsafe-io \
    --include=systemd,ca-certificates,git,make,sudo bookworm "$root" - <"$FRESH_INSIDE/sources.list"
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  if [ -d /usr/local/share/ca-certificates ]; then
    cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
    chroot "$root" update-ca-certificates >/dev/null 2>&1
  fi
}

mirror_of() { # LABEL: the first address that apt here uses for it
  apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$1|//p" | sed -n 1p
}

mount_all() {
  mount --bind "$root" "$root" # what becomes a root has to be a mount
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mkdir "$root/opt/rust"
  mount --bind "$FRESH_SYSROOT" "$root/opt/rust"
  mount -o remount,bind,ro "$root/opt/rust"
}

packages() {
  mkdir -p "$root/opt/busyhour/scripts"
  cp scripts/install-deps.sh "$root/opt/busyhour/scripts/"
  as root '/opt/busyhour/scripts/install-deps.sh build test'
}

capi() { # a C and a C++ program, built with what the packages install, each by pkg-config and by CMake
  local there=$root/opt/capi
  mkdir -p "$there"
  cp -r crates/busyhour-capi/tests/c "$there/programs" || return 1
  DEBEMAIL=${DEBEMAIL:-busyhour@example.org} scripts/deb-capi.sh "$there/packages" ${ARCHIVE:+"$ARCHIVE"} || return 1
  chmod -R a+rX "$there"
  as root "$(declare -f use_capi); use_capi"
}

use_capi() { # in the root
  set -e
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 lintian /opt/capi/packages/libbusyhour0_*.deb
  ldconfig -p | grep -F libbusyhour.so.0
  [ ! -e /usr/include/busyhour.h ] || { echo "fresh: libbusyhour0 brings the header" >&2; return 1; }
  lintian --allow-root --fail-on error,warning,info --info /opt/capi/packages/*.deb
  apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 g++ make cmake pkg-config /opt/capi/packages/libbusyhour-dev_*.deb
  cd /opt/capi/programs
  cc -std=c11 -D_GNU_SOURCE simulation.c -o /tmp/by-pkg-config-c $(pkg-config --cflags --libs busyhour) -pthread
  c++ -std=c++17 closures.cpp -o /tmp/by-pkg-config-cpp $(pkg-config --cflags --libs busyhour) -pthread
  cc -std=c11 -D_GNU_SOURCE simulation.c -o /tmp/static-c -pthread $(pkg-config --cflags --static --libs busyhour | sed 's/-lbusyhour/-l:libbusyhour.a/')
  cmake -S installed -B /tmp/cmake -DSTATIONS=ON
  cmake --build /tmp/cmake
  for program in /tmp/by-pkg-config-c /tmp/by-pkg-config-cpp /tmp/static-c /tmp/cmake/{shared,static,station-c,station-cpp}; do
    timeout 120 "$program" || { echo "fresh: $program: code $?" >&2; return 1; }
    echo "fresh: $program: ok"
  done
  ! ldd /tmp/static-c /tmp/cmake/static | grep -F libbusyhour || { echo "fresh: a static program needs the library" >&2; return 1; }
  dpkg --purge libbusyhour-dev libbusyhour0
  [ -z "$(find /usr/include /usr/lib -name '*busyhour*')" ] || { echo "fresh: the packages left files behind" >&2; return 1; }
}

clone() { # USER: gets an account with sudo, and a clone of HEAD
  local home
  if [ "$1" != root ]; then
    home_of "$1" >/dev/null || chroot "$root" useradd --create-home --shell /bin/bash "$1"
    echo "$1 ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$1"
  fi
  home=$(home_of "$1")
  [ ! -d "$root$home/busyhour" ] || return 0
  [ -z "$(git_here status --porcelain --untracked-files=no)" ] || said "what is not committed is not in the clone"
  git_here clone --quiet --no-local . "$root$home/busyhour"
  git_here -C "$root$home/busyhour" checkout --quiet "$(git_here rev-parse HEAD)"
  mkdir -p "$root$home/.cargo"
  [ ! -f "$cargo_home/config.toml" ] || cp "$cargo_home/config.toml" "$root$home/.cargo/"
  chroot "$root" chown -R "$1:" "$home"
}

home_of() { # USER: fails if there is no such account in the root
  local entry
  entry=$(chroot "$root" getent passwd "$1") || return 1
  cut -d: -f6 <<<"$entry"
}

git_here() { # the folder may belong to who called sudo
  git -c safe.directory="*" "$@"
}

as() { # USER COMMAND [ARGUMENT]: in the root, with a newcomer's environment and the proxies of this one
  local user=$1 home pass=() name
  home=$(home_of "$user")
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY CARGO_HTTP_PROXY; do
    [ -z "${!name:-}" ] || pass+=("$name=${!name}")
  done
  shift
  unshare --mount --propagation private bash -c "$(declare -f become_root); become_root \"\$@\"" - "$root" \
    runuser -u "$user" -- env -i "${pass[@]}" HOME="$home" USER="$user" LANG=C.UTF-8 \
    PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -c 'cd; command=$1; shift; eval "$command"' - "$@" </dev/null
}

become_root() { # FOLDER COMMAND...: the folder is all that there is. In a chroot no user may have namespaces; tests need them
  set -e
  cd "$1"
  shift
  pivot_root . mnt
  cd /
  umount --lazy /mnt
  exec "$@"
}

until_ready() { # in the root: `make run`, until its ready line, then an orderly end
  local begin=$SECONDS server log clock
  log=$(mktemp)
  make run >"$log" 2>&1 &
  server=$!
  tail --pid="$server" --lines=+1 --follow "$log" &
  until grep -q '^ready ' "$log"; do
    kill -0 "$server" 2>/dev/null || { echo "fresh: make run ended before it was ready" >&2; return 1; }
    sleep 1
  done
  clock=$((SECONDS - begin))
  kill "$(sed -n 's/^ready .*pid=\([0-9]*\).*/\1/p' "$log")"
  wait "$server" || [ $? -le 143 ]
  times >"$log.times" # in this shell: a subshell has no children yet
  echo "fresh: ready after $clock s; of processors: $(sed -n 2p "$log.times") (user, system);" \
    "busyhour has $(($(stat -c %s target/*/busyhour | sort -n | tail -1) / 1000000)) MB"
}

said() { printf 'fresh: %s\n' "$*"; }
fail() { printf 'fresh: %s\n' "$*" >&2; exit 1; }

arguments=("$@")
main "$@"
