#!/usr/bin/env bash
# usage: scripts/durable-cost.sh ROUNDS BINARY...
#
# What durable registrations cost the server, and how long they take, for each of several binaries in turn: new ones at 200 a
# second, refreshes with 256 under way, and 4,000 new ones a second that expire after 2 s. The load tool is the last binary's for
# all. Printed are, of each round, the server's processor time (/proc) by registration, what the storm says of latency, and for how
# long the processors of a virtual machine stood still, since its host gave them to nobody or to others (steal, of all processors
# together). FOLDER names a folder on the disk to be measured (the current one otherwise), SECONDS_EACH how long the last row lasts (30).
set -euo pipefail
rounds=$1; shift
storm=${!#}
scratch=$(mktemp -d "${FOLDER:-.}/durable-cost.XXXXXX")
port=${PORT:-15081}
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT

stolen() { awk '/^cpu / { print $9 }' /proc/stat; }

ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; }

# row NAME COUNT STORM-ARGUMENTS...
row() {
  local name=$1 count=$2 before after stolen; shift 2
  rm -rf "$scratch/store"
  "$binary" serve --sip-listen "127.0.0.1:$port" --http-listen off --log-level warn --sip-auth open \
    --limits-source-percent 100 --sip-min-expires-seconds 1 --store-path "$scratch/store" >"$scratch/out" 2>&1 &
  server=$!
  for _ in $(seq 100); do grep -q '^ready' "$scratch/out" && break; sleep 0.1; done
  before=$(ticks) stolen=$(stolen)
  "$storm" storm --target "127.0.0.1:$port" --json "$@" >"$scratch/storm" 2>"$scratch/error" || cat "$scratch/error" >&2
  sleep 2
  after=$(ticks) stolen=$(($(stolen) - stolen))
  python3 - "$scratch/storm" "$name" "$binary" $((after - before)) "$count" "$stolen" <<'END'
import json, sys
storm, name, binary, ticks, count, stolen = json.load(open(sys.argv[1])), *sys.argv[2:]
print(json.dumps({"row": name, "binary": binary, "cpu_us_each": round(int(ticks) * 10000 / (int(count) or storm["acknowledged"]), 1), "stolen_s": int(stolen) / 100, **storm}))
END
  kill "$server"; wait "$server" || true; server=
}

for _ in $(seq "$rounds"); do
  for binary in "$@"; do
    row "200 a second" 4000 --devices 4000 --rate 200
    row "256 under way" 0 --devices 10000 --kind refresh --closed 256 --over 10s
    row "churn" 0 --devices "$((4000 * ${SECONDS_EACH:-30}))" --rate 4000 --expires 2s
  done
done
