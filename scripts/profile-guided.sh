#!/usr/bin/env bash
# Builds the release program guided by a profile: the compiler learns from a program that counts which code runs how often,
# and lays what runs often together. A refresh then costs a tenth to a fifth less (docs/missed.md).
# usage: scripts/profile-guided.sh [PROGRAM]     PROGRAM: where it goes; target/guided/busyhour unless told
#
# It builds the server twice, which takes two processors half an hour, and has storms at the first one for two minutes: refreshes of
# telephones alone and with a registrar behind, durable registrations with digest, IAX2, calls and lamps. What they
# counted is kept in target/guided/busyhour.profdata. `PROGRAM=target/guided/busyhour scripts/dist.sh` makes the packages of
# a release of the guided program.
# Needs llvm-profdata of the compiler's version of LLVM: `rustup component add llvm-tools`, or Debian's llvm.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/goes-on.sh
case "${1:-}" in --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
folder=$PWD/target/guided
program=${1:-$folder/busyhour}
host=$(rustc -vV | sed -n 's/^host: //p')
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
counting=$folder/counting/$host/release/busyhour
servers=()

# The toolchain's own, or one of the same version.
profdata() {
  local own
  own=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
  for one in "$own" "llvm-profdata-$llvm" llvm-profdata; do
    command -v "$one" >/dev/null || continue
    "$one" --version 2>/dev/null | grep -q "LLVM version $llvm\." && { echo "$one"; return; }
  done
  echo "profile-guided: llvm-profdata of LLVM $llvm is missing: rustup component add llvm-tools, or apt-get install llvm-$llvm" >&2
  return 1
}

build() { # FOLDER FLAGS
  BUSYHOUR_COMMIT=$(git rev-parse --short=10 HEAD) goes_on "building in ${1#"$PWD"/}" env RUSTFLAGS="$2" CARGO_INCREMENTAL=0 \
    cargo build --quiet --locked --release --package busyhour-server --bin busyhour --target "$host" --target-dir "$1"
}

end_servers() {
  local server
  for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; wait "$server" || true; done
  servers=()
}

serve() { # NAME ARGUMENTS...: starts a server that counts, and waits until it is ready
  local name=$1 server
  shift
  rm -rf "$folder/run/$name"
  mkdir -p "$folder/run/$name"
  "$counting" serve --http-listen off --log-level warn --limits-source-percent 100 \
    --store-path "$folder/run/$name/busyhour.db" "$@" >"$folder/run/$name.out" 2>&1 &
  server=$!
  servers+=("$server")
  for _ in $(seq 300); do
    grep -q '^ready' "$folder/run/$name.out" && return
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  cat "$folder/run/$name.out" >&2
  return 1
}

storm() { # ARGUMENTS...: what fails shows in the storm's own text
  echo "   storm $*"
  "$counting" storm "$@" >"$folder/run/storm.out" 2>&1 || { cat "$folder/run/storm.out" >&2; return 1; }
}

train() {
  local sip=127.0.0.1:15091 iax2=127.0.0.1:15092 behind=127.0.0.1:15093
  cat >"$folder/open.toml" <<END
[sip]
domains = ["example.com"]
[[registrar]]
name = "behind"
address = "$behind"
expires_seconds = 300
per_second = 1000
[[peer]]
name = "behind"
addresses = ["$behind"]
may_call = true
END
  install -m 600 /dev/null "$folder/digest.toml"
  cat >"$folder/digest.toml" <<END
[[account_range]]
prefix = "device"
count = 100000
password = "secret"
END
  serve behind --sip-listen "$behind" --iax2-listen off --sip-auth open --store-durability memory \
    --sip-min-expires-seconds 30 --sip-default-expires-seconds 30 --sip-max-expires-seconds 30
  serve front --config "$folder/open.toml" --sip-listen "$sip" --iax2-listen off --sip-auth open --store-durability memory
  storm --target "$sip" --domain example.com --devices 2000 --kind refresh --rate 1500 --over 40s
  storm --target "$sip" --domain example.com --devices 5000 --kind refresh --closed 64 --over 5s
  end_servers
  serve durable --config "$folder/digest.toml" --sip-listen "$sip" --iax2-listen "$iax2"
  storm --target "$sip" --devices 5000 --rate 500 --auth 'device{n}:secret'
  storm --target "$sip" --devices 5000 --kind refresh --rate 1000 --over 10s --auth 'device{n}:secret'
  storm --protocol iax2 --target "$iax2" --devices 3000 --rate 300 --auth 'device{n}:secret'
  storm --target "$sip" --calls --devices 100 --rate 50 --over 10s --watchers 100 --auth 'device{n}:secret'
  end_servers
}

tool=$(profdata)
mkdir -p "$folder/counts" "$folder/run"
rm -f "$folder"/counts/*
build "$folder/counting" "-Cprofile-generate=$folder/counts"
export LLVM_PROFILE_FILE=$folder/counts/%p-%m.profraw
trap end_servers EXIT
train
"$tool" merge --output "$folder/busyhour.profdata" "$folder"/counts/*.profraw
build "$folder/guided" "-Cprofile-use=$folder/busyhour.profdata"
install -D -m 755 "$folder/guided/$host/release/busyhour" "$program"
echo "$program"
