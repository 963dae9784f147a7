#!/usr/bin/env bash
# Makes the plot of README, drawn by a server under load. The dashboard's pictures are made by scripts/dashboard.py.
# usage: scripts/pictures.sh [PROGRAM [SECONDS]]     PROGRAM: target/debug/busyhour; SECONDS of load: 60, unless told
#
# Needs pngquant, which makes the file small.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/debug/busyhour}") seconds=${2:-60}
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

"$program" serve --quiet --sip-auth open --sip-listen 127.0.0.1:0 --iax2-listen off --http-listen 127.0.0.1:0 --http-socket off \
  --store-path "$work/busyhour.db" >"$work/ready" 2>"$work/log" &
server=$!
until grep -q '^ready ' "$work/ready"; do kill -0 "$server"; sleep 0.1; done
sip=$(sed -n 's/.* sip-udp=\([^ ]*\).*/\1/p' "$work/ready")
http=$(sed -n 's/.* http=\([^ ]*\).*/\1/p' "$work/ready")

"$program" storm --target "$sip" --devices $((seconds * 40)) --over "${seconds}s" --watchers 200 --quiet >/dev/null
from=-$((seconds + 15))s
curl --silent --fail --output "$work/plot.png" --get "http://$http/render" --data-urlencode "from=$from" \
  --data-urlencode 'target=alias(perSecond(busyhour.registrar.accepted),"registrations a second")' \
  --data-urlencode 'target=alias(scale(busyhour.registrar.device_count,0.01),"hundreds of devices")' \
  --data-urlencode format=png --data-urlencode width=700 --data-urlencode height=250
mkdir -p docs/pictures
pngquant --force --quality=40-90 --output docs/pictures/plot.png "$work/plot.png"
ls -l docs/pictures
