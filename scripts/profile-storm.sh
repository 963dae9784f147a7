#!/usr/bin/env bash
# usage: scripts/profile-storm.sh [COUNT] [RATE] [open|digest] [register|calls|iax2]
#
# Counts what a storm of registrations by SIP or IAX2, or of calls between ten devices, costs inside
# the server, in instructions, and how much of that is each module's: the server runs
# under valgrind's callgrind while `busyhour storm` registers so many devices, or makes so
# many calls (600 unless told, 20 a second).
# Counting starts when the server is up and has answered some, since valgrind has
# to translate its code first: requests that wait for that are sent again and
# would be counted twice. A module's share is that of the code in
# its folder, wherever the compiler has put it, and of functions named after it.
# With digest each registration is two messages, and each call has three more. A registration by IAX2 is four frames of
# the device, with a call token and a password (digest). Valgrind's
# processor has no instructions for SHA-256: what is counted for hash functions costs a real
# processor a small part of that.
# Without the dashboard and without log lines: at so low a rate, what they cost once a
# second would be charged to some ten registrations.
# Needs valgrind. BUSYHOUR names another binary than this tree's release build.
set -euo pipefail
cd "$(dirname "$0")/.."

count=${1:-600}
rate=${2:-20}
auth=${3:-open}
kind=${4:-register}
binary=${BUSYHOUR:-target/release/busyhour}
[ -n "${BUSYHOUR:-}" ] || CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_STRIP=none \
  cargo build --release --package busyhour-server
for tool in valgrind callgrind_control callgrind_annotate; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install valgrind" >&2; exit 1; }
done

scratch=$(mktemp -d)
port=${PORT:-15071}
cat >"$scratch/busyhour.toml" <<END
[[account_range]]
prefix = "device"
count = 1000000
password = "secret"
END
valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$scratch/out" --log-file="$scratch/log" \
  "$binary" serve --config "$scratch/busyhour.toml" --sip-listen "127.0.0.1:$port" --http-listen off --log-level warn \
  --iax2-listen "127.0.0.1:$((port + 1))" \
  --sip-auth "$auth" --limits-source-percent 100 --store-path "$scratch/store" >"$scratch/serve" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT

credentials=()
[ "$auth" = open ] || credentials=(--auth 'device{n}:secret')
way=(--target "127.0.0.1:$port")
[ "$kind" != iax2 ] || way=(--protocol iax2 --target "127.0.0.1:$((port + 1))")
storm() { "$binary" storm "${way[@]}" --t1 20s "${credentials[@]}" "$@"; }
# The server answers the first device once it is ready.
for _ in $(seq 60); do
  storm --devices 1 --first 900001 --rate 1 >/dev/null 2>&1 && break
  kill -0 "$server" 2>/dev/null || { cat "$scratch/serve" "$scratch/log" >&2; exit 1; }
done
callgrind_control --instr=on "$server" >/dev/null 2>&1
case "$kind" in
  register | iax2) unit=REGISTER warm_up=(--devices 50 --first 800001 --rate 5)
    load=(--devices "$count" --rate "$rate") ;;
  calls) unit=call warm_up=(--calls --devices 10 --rate 5 --over 6s --settle 0s)
    load=(--calls --devices 10 --rate "$rate" --over "$((count / rate))s" --settle 0s) ;;
  *) echo "register, calls or iax2, not $kind" >&2; exit 1 ;;
esac
storm "${warm_up[@]}" >/dev/null
callgrind_control --zero "$server" >/dev/null 2>&1
storm "${load[@]}" | tee "$scratch/storm" | tail -n 20
awk '$1 == "retransmitted" && $2 > 0 { exit 1 }' "$scratch/storm" ||
  echo "requests were sent again and are counted: give a lower RATE" >&2
callgrind_control --dump "$server" >/dev/null 2>&1

profile=$(find "$scratch" -name 'out.*' -size +1k | sort | tail -n 1)
callgrind_annotate --threshold=100 --show-percs=no --auto=no "$profile" 2>/dev/null |
  awk -v count_all="$count" -v unit="per $unit" '
    # If a function was entered before counting began, it is charged with everything that it called.
    /PROGRAM TOTALS|__rust_begin_short_backtrace|start_thread|thread_start|clone.S/ { next }
    $1 ~ /^[0-9,]+$/ {
      count = $1; gsub(",", "", count)
      module = "everything else"
      if (match($0, /busyhour\/src\/[a-z_]+/)) module = "library " substr($0, RSTART + 13, RLENGTH - 13)
      else if (match($0, /busyhour-[a-z0-9]+\/src\/[a-z_]+/)) {
        module = substr($0, RSTART + 9, RLENGTH - 9); sub("/src/", " ", module)
      }
      else if (match($0, /busyhour::(bus|pool|serializer|timer|buffer|task|run_queue)::/))
        module = "library " substr($0, RSTART + 10, RLENGTH - 12)
      else if (match($0, /busyhour_[a-z0-9]+::[a-z_]+/)) {
        module = substr($0, RSTART + 9, RLENGTH - 9); sub("::", " ", module)
      }
      else if (/sqlite/) module = "SQLite"
      else if (/compress/) module = "hash functions"
      share[module] += count; total += count
    }
    END {
      printf "%-28s %12s %8s\n", "module", unit, "share"
      for (module in share)
        printf "%-28s %12d %7.2f%%\n", module, share[module] / count_all, 100 * share[module] / total
    }' | { read -r head; echo "$head"; awk '{ print $NF, $0 }' | sort -rn | cut -d" " -f2-; }
