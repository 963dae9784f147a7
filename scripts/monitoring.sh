#!/usr/bin/env bash
# Checks packaging/monitoring: the alert rules by promtool, the dashboard by Grafana's own types, and each query of the
# dashboard and of the rules in a real Prometheus that scrapes a server under a small load.
# usage: scripts/monitoring.sh [PROGRAM]     PROGRAM: target/debug/busyhour unless told
#
# Needs Python with venv; grafana-foundation-sdk goes to target/grafana.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/debug/busyhour}")
work=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

promtool check rules packaging/monitoring/alerts.yml
promtool test rules packaging/monitoring/alerts.test.yml

[ -e target/grafana/installed ] || { python3 -m venv target/grafana &&
  target/grafana/bin/pip --quiet install 'grafana-foundation-sdk==1769699998!10.1.0' && touch target/grafana/installed; }
target/grafana/bin/python scripts/grafana-dashboard.py

"$program" serve --quiet --sip-listen 127.0.0.1:0 --iax2-listen off --http-listen 127.0.0.1:0 --http-socket off \
  --sip-auth open --store-path "$work/busyhour.db" >"$work/ready" 2>"$work/log" &
running+=($!)
until grep -q '^ready ' "$work/ready"; do kill -0 "${running[0]}"; sleep 0.1; done
sip=$(sed -n 's/.* sip-udp=\([^ ]*\).*/\1/p' "$work/ready")
http=$(sed -n 's/.* http=\([^ ]*\).*/\1/p' "$work/ready")
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

cat >"$work/prometheus.yml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$PWD/packaging/monitoring/alerts.yml"]
scrape_configs: [{job_name: busyhour, static_configs: [{targets: ["$http"]}]}]
END
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" --web.listen-address="127.0.0.1:$port" 2>"$work/prometheus.log" &
running+=($!)
"$program" storm --target "$sip" --devices 50 --over 3s --quiet
python3 - "127.0.0.1:$port" <<'END'
"""Every query has values: a metric that nobody has is a mistake."""
import json, re, sys, time, urllib.parse, urllib.request

def ask(path, **query):
    with urllib.request.urlopen(f"http://{sys.argv[1]}{path}?{urllib.parse.urlencode(query)}") as answer:
        return json.load(answer)["data"]

def until(what, wanted):
    for _ in range(300):
        try:
            if wanted():
                return
        except OSError:
            pass
        time.sleep(0.2)
    sys.exit(f"monitoring: {what}")

until("the server is not scraped", lambda: any(target["health"] == "up" for target in ask("/api/v1/targets")["activeTargets"]))
until("the load is not seen", lambda: any(float(one["value"][1]) >= 50 for one in ask("/api/v1/query", query="busyhour_registrar_devices")["result"]))
dashboard = json.load(open("packaging/monitoring/grafana-dashboard.json"))
count = 0
for panel in dashboard["panels"]:
    for target in panel["targets"]:
        query = target["expr"].replace("$instance", ".*")
        until(f"no values for {query} of {panel['title']!r}", lambda: ask("/api/v1/query", query=query)["result"])
        count += 1
for group in ask("/api/v1/rules")["groups"]:
    for rule in group["rules"]:
        if rule["health"] == "err":
            sys.exit(f"monitoring: {rule['name']}: {rule['lastError']}")
        # What is compared must exist.
        for metric in set(re.findall(r"busyhour_[a-z0-9_]+", rule["query"])):
            until(f"{rule['name']} asks for {metric}, which nobody has", lambda: ask("/api/v1/query", query=metric)["result"])
        count += 1
print(f"monitoring: {count} queries and rules have values")
END
