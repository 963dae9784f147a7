#!/usr/bin/env bash
# Kills one of three nodes and measures until the others serve all that it had.
#
# usage: scripts/cluster-takeover.sh [DEVICES]     10000 by default; BUSYHOUR=PROGRAM
#
# Prints how long it took until all 256 partitions were served again, and how many bindings there were before and after.
set -euo pipefail
cd "$(dirname "$0")/.."
devices=${1:-10000}
program=${BUSYHOUR:-target/quick/busyhour}
folder=$(mktemp -d)
BUSYHOUR=$program scripts/three-nodes.sh "$folder" >"$folder/site.log" 2>&1 &
site=$!
end() { kill "$site" 2>/dev/null || true; wait "$site" 2>/dev/null || true; rm -rf "$folder"; }
trap end EXIT
until grep -q "are ready" "$folder/site.log"; do
  sleep 0.1
  kill -0 "$site" 2>/dev/null || { cat "$folder/site.log" >&2; exit 1; }
done
python3 - "$program" "$devices" "$folder" <<'PYTHON'
import json, os, signal, subprocess, sys, time, urllib.request

program, devices, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def stats(number):
    with urllib.request.urlopen(f"http://127.0.0.1:808{number}/api/v1/stats", timeout=5) as answer:
        return json.load(answer)


def served(numbers):
    return sum(stats(number)["cluster"]["partitions_served"] for number in numbers)


def bindings(numbers):
    return sum(stats(number)["registrar"]["binding_count"] for number in numbers)


while served([1, 2, 3]) != 256:
    time.sleep(0.05)
subprocess.run([program, "storm", "--target", "127.0.0.1:5061", "--devices", str(devices), "--closed", "64",
                "--domain", "example.com"],
               check=True, stdout=subprocess.DEVNULL)
before = bindings([1, 2, 3])
with open(f"{folder}/gamma.pid") as pid:
    os.kill(int(pid.read()), signal.SIGKILL)
killed = time.monotonic()
while served([1, 2]) != 256:
    time.sleep(0.02)
took = time.monotonic() - killed
print(f"{devices} devices: all partitions served again after {took:.2f} s; {before} bindings before, {bindings([1, 2])} after")
PYTHON
