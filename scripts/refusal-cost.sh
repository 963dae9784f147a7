#!/usr/bin/env bash
# usage: scripts/refusal-cost.sh [SECONDS] [RATE]
#        scripts/refusal-cost.sh --parts
#
# Counts what a new call costs the server that it refuses because it cannot keep up, in instructions: the server runs
# under valgrind's callgrind, which is so slow that its queue stands, while RATE INVITEs a second (3,000 unless told) come
# for SECONDS (8); each 503 gets its ACK. Most INVITEs get no answer, since refusals have had their part of the time: the list
# is by new call, answered or not. What the kernel does is not in it. BUSYHOUR names another binary than this tree's release
# build, which needs line tables for the list of functions. Needs valgrind and python3.
#
# With --parts: only what the messages cost, read and unread: an INVITE is understood, its 503 written, and the ACK known
# again, without the rest of the server (crates/busyhour-sip/examples/refusal.rs).
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

if [ "${1:-}" = --parts ]; then
  cargo build --release --quiet --package busyhour-sip --example refusal
  # Twice as many less as many: what each costs, without the start.
  instructions() { # COUNT read|unread
    valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/refusal "$1" "$2" 2>&1 >/dev/null |
      awk '/Collected/ { print $NF }'
  }
  for how in read unread; do
    few=$(instructions 1000 "$how")
    many=$(instructions 2000 "$how")
    printf '%s: %d instructions a refusal\n' "$how" $(((many - few) / 1000))
  done
  exit
fi

seconds=${1:-8}
rate=${2:-3000}
binary=${BUSYHOUR:-target/release/busyhour}
[ -n "${BUSYHOUR:-}" ] || CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_STRIP=none \
  cargo build --release --package busyhour-server
for tool in valgrind callgrind_control callgrind_annotate python3; do
  command -v "$tool" >/dev/null || { echo "refusal-cost: $tool is missing: scripts/install-deps.sh test" >&2; exit 1; }
done

scratch=$(mktemp -d)
port=${PORT:-15072}
valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$scratch/out" --log-file="$scratch/log" \
  "$binary" serve --sip-listen "127.0.0.1:$port" --http-listen off --log-level warn --sip-auth open \
  --limits-source-percent 100 --store-path "$scratch/store" >"$scratch/serve" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT

# Until SECONDS have passed after the first answer.
flood() { # SECONDS
  python3 - "$port" "$1" "$rate" <<'END'
import select, socket, sys, time

port, seconds, rate = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
sock.connect(("127.0.0.1", port))
sock.setblocking(False)
here = "127.0.0.1:%d" % sock.getsockname()[1]
BODY = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0 8\r\n"
run = "%x" % time.time_ns()


def message(method, number, to, more, body):
    lines = [
        f"{method} sip:device{number % 1000}@127.0.0.1 SIP/2.0",
        f"Via: SIP/2.0/UDP {here};branch=z9hG4bK{run}{number};rport",
        "Max-Forwards: 70",
        f"From: <sip:caller{number % 1000}@127.0.0.1>;tag=f{number}",
        f"To: {to}",
        f"Call-ID: {run}-{number}",
        f"CSeq: 1 {method}",
        *more,
        f"Content-Length: {len(body)}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def send(datagram):
    try:
        sock.send(datagram)
    except (BlockingIOError, ConnectionRefusedError):
        pass


def answers():
    while True:
        try:
            yield sock.recv(4096).decode()
        except (BlockingIOError, ConnectionRefusedError):
            return


more = [f"Contact: <sip:caller@{here}>", "Content-Type: application/sdp"]
began, number = None, 0
while began is None or time.monotonic() < began + seconds:
    due = number + rate // 100
    for number in range(number, due):
        send(message("INVITE", number, f"<sip:device{number % 1000}@127.0.0.1>", more, BODY))
    number = due
    for answer in answers():
        began = began or time.monotonic()
        if answer[8:11] >= "300":
            fields = dict(line.split(": ", 1) for line in answer.split("\r\n") if ": " in line)
            send(message("ACK", int(fields["Call-ID"].split("-")[1]), fields["To"], [], ""))
    select.select([sock], [], [], 0.01)
END
}

flood 4
callgrind_control --instr=on "$server" >/dev/null 2>&1
flood 2
callgrind_control --zero "$server" >/dev/null 2>&1
flood "$seconds"
callgrind_control --dump "$server" >/dev/null 2>&1
profile=$(find "$scratch" -name 'out.*' -size +1k | sort | tail -n 1)
# The profile says how often each function was called; names stand in full where they come first.
read -r refused shed < <(awk '
  match($0, /^c?fn=\([0-9]+\) /) { split($0, part, /[()]/); name[part[2]] = substr($0, RLENGTH + 1) }
  /^cfn=/ { split($0, part, /[()]/); called = part[2] }
  /^calls=/ && name[called] ~ /::refuse_(unread|for_load)$/ { split($0, part, /[= ]/); refused += part[2] }
  /^calls=/ && name[called] ~ /::LoadControl::sheds_call$/ { split($0, part, /[= ]/); asked += part[2] }
  END { print refused + 0, asked + 0 }' "${profile:-/dev/null}")
[ "$refused" -gt 100 ] || { echo "only $refused calls were refused" >&2; cat "$scratch/serve" >&2; exit 1; }
echo "$shed new calls, of which $refused got 503; instructions by new call:"
# Of the thread that receives: the function that all of it is in, and what it calls.
callgrind_annotate --inclusive=yes --threshold=100 --show-percs=no --auto=no "$profile" 2>/dev/null |
  awk -v shed="$shed" '
    $1 ~ /^[0-9,]+$/ && /busyhour_/ {
      count = $1; gsub(",", "", count); sub(/^ *[0-9,]+ */, ""); sub(/ \[.*$/, ""); sub(/^[^ ]*:/, "")
      if (!seen[$0]++ && shown++ < 25) printf "%8d  %s\n", count / shed, $0
    }'
