#!/usr/bin/env bash
# Links the shared library for C programs from the static one: only so a linker accepts symbol versions.
# usage: scripts/link-capi.sh ARCHIVE FOLDER     ARCHIVE: libbusyhour_capi.a as cargo built it
# It writes FOLDER/libbusyhour.so.VERSION and the two links to it. LDFLAGS are more options of the linker's driver.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
[ $# = 2 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
archive=$1 folder=$2
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/Cargo.toml")
soname=libbusyhour.so.0

mkdir -p "$folder"
# shellcheck disable=SC2086 # several options
# -z nodelete: its threads and its handler of forks outlive a dlclose.
cc -shared ${LDFLAGS:-} -o "$folder/libbusyhour.so.$version" \
  -Wl,-soname,"$soname" -Wl,--version-script="$here/crates/busyhour-capi/busyhour.map" \
  -Wl,--gc-sections -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,relro -Wl,-z,now \
  -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -lgcc_s -lpthread -ldl -lm -lc
ln -sf "libbusyhour.so.$version" "$folder/$soname"
ln -sf "$soname" "$folder/libbusyhour.so"
