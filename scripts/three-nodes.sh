#!/usr/bin/env bash
# Brings up three nodes of a cluster on this machine, with a PostgreSQL and a NATS of their own.
#
# usage: scripts/three-nodes.sh [FOLDER]     until Ctrl-C; FOLDER keeps the database
#        BUSYHOUR=PROGRAM SIP_PORT=5061 HTTP_PORT=8081 NATS_PORT=4222 scripts/three-nodes.sh
#
# SIP is at 127.0.0.1:5061 to 5063, HTTP at 127.0.0.1:8081 to 8083, and anybody may register; SIP_PORT and HTTP_PORT are the
# first of each three.
# It needs Debian's packages postgresql and nats-server.
set -euo pipefail
cd "$(dirname "$0")/.."
busyhour=$(realpath "${BUSYHOUR:-target/quick/busyhour}")
[ -x "$busyhour" ] || { echo "there is no program at $busyhour: make run builds it; or set BUSYHOUR" >&2; exit 2; }
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(realpath "$folder")
sip=${SIP_PORT:-5061} http=${HTTP_PORT:-8081} nats_port=${NATS_PORT:-4222}
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
nats=$(PATH=$PATH:/usr/sbin command -v nats-server) || true
[ -n "$programs" ] && [ -n "$nats" ] || { echo "PostgreSQL or nats-server is missing: scripts/install-deps.sh test" >&2; exit 2; }

# PostgreSQL refuses to run as root.
as_user=()
if [ "$(id -u)" = 0 ]; then
  chown nobody "$folder"
  chmod 755 "$folder"
  as_user=(setpriv --reuid nobody --regid nogroup --clear-groups)
fi
children=()
end() { kill "${children[@]}" 2>/dev/null || true; wait; }
trap end EXIT

if [ ! -d "$folder/data" ]; then
  (cd "$folder" && "${as_user[@]}" "$programs/initdb" -D "$folder/data" -A trust -U busyhour -E UTF8 >/dev/null)
fi
(cd "$folder" && exec "${as_user[@]}" "$programs/postgres" -D "$folder/data" -k "$folder" -c listen_addresses= >"$folder/postgres.log" 2>&1) &
children+=($!)
until "$programs/pg_isready" -q -h "$folder"; do sleep 0.1; done
"$programs/createdb" -h "$folder" -U busyhour busyhour 2>/dev/null || true
"$nats" --addr 127.0.0.1 --port "$nats_port" --log "$folder/nats.log" &
children+=($!)

for node in alpha beta gamma; do
  BUSYHOUR_STORE_URL="postgres://busyhour@/busyhour?host=$folder" "$busyhour" serve --cluster-node "$node" \
    --cluster-nats "nats://127.0.0.1:$nats_port" --sip-auth open --sip-domains example.com --iax2-listen off \
    --sip-listen "127.0.0.1:$sip" --http-listen "127.0.0.1:$http" >"$folder/$node.ready" 2>"$folder/$node.log" &
  children+=($!)
  echo $! >"$folder/$node.pid"
  sip=$((sip + 1)) http=$((http + 1))
done
for node in alpha beta gamma; do
  until grep -q '^ready ' "$folder/$node.ready"; do
    sleep 0.1
    [ -n "$(jobs -r)" ] || { cat "$folder"/*.log >&2; exit 1; }
  done
done
echo "three nodes are ready; their logs are in $folder; Ctrl-C ends them"
wait
