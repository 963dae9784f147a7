#!/usr/bin/env bash
# Builds `busyhour` as one static file, for images that have nothing else.
# usage: scripts/static.sh PROGRAM [PROFILE]     PROGRAM: where it goes; PROFILE: release unless told
#
# It is linked with musl if the toolchain has that target (`rustup target add`), else with a static glibc. Only the last
# step differs from the usual build, so a folder in which the server is built needs seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
program=$1 profile=${2:-release}
folder=$profile
[ "$profile" != dev ] || folder=debug
host=$(rustc -vV | sed -n 's/^host: //p')
musl=${host%-gnu}-musl
BUSYHOUR_COMMIT=${BUSYHOUR_COMMIT:-$(git rev-parse --short=10 HEAD)}
export BUSYHOUR_COMMIT

# The dependencies are the same files. What cargo writes again is copied, and what is linked here is not taken along, so
# that the usual program and its tests stay as they are.
share_built_dependencies() {
  [ -d "target/$folder/deps" ] || return 0
  rm -rf target/static
  mkdir -p "target/static/$folder"
  cp -a "target/$folder/.fingerprint" "target/static/$folder/"
  cp -al "target/$folder/deps" "target/$folder/build" "target/static/$folder/"
  find "target/static/$folder/deps" -name 'busyhour-*' -delete
}

if [ -d "$(rustc --print sysroot)/lib/rustlib/$musl" ]; then
  cargo build --quiet --profile "$profile" --package busyhour-server --target "$musl"
  install -m 755 "target/$musl/$folder/busyhour" "$program"
else
  share_built_dependencies
  cargo rustc --quiet --profile "$profile" --package busyhour-server --bin busyhour --target-dir target/static -- \
    -C target-feature=+crt-static
  install -m 755 "target/static/$folder/busyhour" "$program"
  rm -r target/static
fi
