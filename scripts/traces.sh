#!/usr/bin/env bash
# Checks spans with OpenTelemetry's own collector: registrations with digest and calls to two telephones each, to the file
# that the collector writes.
# usage: scripts/traces.sh [PROGRAM]     PROGRAM: target/debug/busyhour unless told
# The collector is built from its Go modules the first time (scripts/otel-collector), which needs Go 1.25 and some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/debug/busyhour}")
tools=$PWD/target/tools
collector=$tools/otel-collector
if [ ! -x "$collector" ]; then
  command -v go >/dev/null || { echo "traces: Go is missing; install Go 1.25 or later" >&2; exit 1; }
  mkdir -p "$tools"
  echo "traces: building the collector, which takes some minutes the first time"
  (cd scripts/otel-collector && go build -o "$collector" .)
fi
work=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/collector.yaml" <<END
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:$port"}}}}
exporters: {file: {path: "$work/spans.json", flush_interval: 200ms}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [file]}}
END
"$collector" --config "file:$work/collector.yaml" 2>"$work/collector.log" &
running+=($!)

cat >"$work/busyhour.toml" <<END
[sip]
listen = "127.0.0.1:0"
realm = "example.org"
[iax2]
listen = "off"
[http]
listen = "127.0.0.1:0"
socket = "off"
[store]
path = "$work/busyhour.db"
[otlp]
endpoint = "http://127.0.0.1:$port"
trace_one_in = 1
[[account_range]]
prefix = "device"
first = 1
count = 20
password = "secret"
END
"$program" serve --quiet --config "$work/busyhour.toml" >"$work/ready" 2>"$work/log" &
running+=($!)
until grep -q '^ready ' "$work/ready"; do kill -0 "${running[1]}" || { cat "$work/log"; exit 1; }; sleep 0.1; done
sip=$(sed -n 's/.* sip-udp=\([^ ]*\).*/\1/p' "$work/ready")
http=$(sed -n 's/.* http=\([^ ]*\).*/\1/p' "$work/ready")
"$program" storm --calls --target "$sip" --auth 'device{n}:secret' --devices 10 --rate 10 --over 1s --forks 2 --ring 50ms --settle 0s --quiet
# It ends with 3 for what else it warns of on this machine.
"$program" doctor --config "$work/busyhour.toml" --json >"$work/doctor" || [ $? = 3 ]
python3 - "$http" "$work/spans.json" "$work/collector.log" "$work/doctor" <<'END'
"""What the collector has written is what the server has followed, and each request has its parts."""
import json, sys, time, urllib.request
from collections import Counter

http, path, log, doctor = sys.argv[1:]

def stats():
    with urllib.request.urlopen(f"http://{http}/api/v1/stats") as answer:
        return json.load(answer)["spans"]

def told():
    try:
        lines = open(path).read().splitlines()
    except OSError:
        return []
    # The last line may be half written.
    whole = [line for line in lines if line.endswith("}")]
    return [span for line in whole for resource in json.loads(line)["resourceSpans"]
            for scope in resource["scopeSpans"] for span in scope["spans"]]

for _ in range(600):
    spans, counted = told(), stats()
    roots = [span for span in spans if not span.get("parentSpanId")]
    if counted["followed"] and len(roots) == counted["followed"] == counted["exported"]:
        break
    time.sleep(0.1)
else:
    sys.exit(f"traces: {len(roots)} requests were told: {counted}\n{open(log).read()[-2000:]}")
if counted["dropped"] or counted["failed"] or counted["rejected_spans"]:
    sys.exit(f"traces: some were lost: {counted}")

collector = [one for one in json.load(open(doctor))["findings"] if one["check"] == "collector"]
if [one["verdict"] for one in collector] != ["good"]:
    sys.exit(f"traces: the doctor says {collector}")

def attribute(span, key):
    return next((one["value"] for one in span["attributes"] if one["key"] == key), {})

kinds = Counter()
for root in roots:
    parts = [span for span in spans if span["traceId"] == root["traceId"] and span.get("parentSpanId") == root["spanId"]]
    parts.sort(key=lambda span: int(span["startTimeUnixNano"]))
    kinds[root["name"], attribute(root, "sip.status_code").get("intValue"), " ".join(span["name"] for span in parts)] += 1
for (name, status, parts), count in sorted(kinds.items(), key=str):
    print(f"traces: {count} times {name} {status}: {parts}")
wanted = {("REGISTER", "401", "receive digest"), ("REGISTER", "200", "receive digest queue registrar store answer"),
          ("INVITE", "407", "receive digest"), ("INVITE", "200", "receive digest location branch branch")}
if not wanted <= kinds.keys():
    sys.exit(f"traces: missing: {wanted - kinds.keys()}")
print(f"traces: {len(roots)} requests in {len(spans)} spans, as the server has counted")
END
