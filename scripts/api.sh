#!/usr/bin/env bash
# Has schemathesis ask a server for everything that /api/v1/openapi.json describes, rightly and wrongly: no answer may be an
# error of the server, have another status or form than described, or take what is not allowed. Then it runs the programs of the
# book that use the Python client. Streams without an end and storms are left out.
# usage: scripts/api.sh [PROGRAM [EXAMPLES]]     PROGRAM: target/debug/busyhour; EXAMPLES for each operation: 30
#
# Needs Python with venv; schemathesis goes to target/python.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/debug/busyhour}") examples=${2:-30}
work=$(mktemp -d)
server=""
trap 'kill "$server" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

[ -x target/python/bin/schemathesis ] || { python3 -m venv target/python && target/python/bin/pip --quiet install schemathesis==4.32.5; }

token=bh_of_a_test
cat >"$work/busyhour.toml" <<EOF
[sip]
listen = ["127.0.0.1:0"]
domains = ["example.com"]
[iax2]
listen = "off"
[http]
listen = "127.0.0.1:0"
socket = "off"
requests_per_second = 100000
[store]
path = "$work/busyhour.db"
[[token]]
name = "test"
scope = "write"
sha256 = "$(printf %s "$token" | sha256sum | cut -d' ' -f1)"
EOF
"$program" serve --quiet --config "$work/busyhour.toml" >"$work/ready" 2>"$work/log" &
server=$!
until grep -q '^ready ' "$work/ready"; do kill -0 "$server"; sleep 0.1; done
http=$(sed -n 's/.* http=\([^ ]*\).*/\1/p' "$work/ready")

# A page of the book shows what it prints.
BUSYHOUR="http://$http" TOKEN=$token PYTHONPATH=packaging/python python3 scripts/book-programs.py docs/book/src/recipes/programs.md

schemathesis=$PWD/target/python/bin/schemathesis
cd "$work"  # where it leaves its notes
"$schemathesis" run "http://$http/api/v1/openapi.json" --header "Authorization: Bearer $token" \
  --exclude-path-regex '/(events|changes|trace|storm)$' --max-examples "$examples" --generation-database none --seed 1 \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,negative_data_rejection,unsupported_method,ignored_auth \
  --continue-on-failure --no-color
kill -0 "$server"
