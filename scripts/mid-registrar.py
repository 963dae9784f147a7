#!/usr/bin/env python3
"""How many refreshes end here before a registrar behind, and at which cost, beside Kamailio that takes them itself.

usage: [BUSYHOUR=target/release/busyhour] scripts/mid-registrar.py [TELEPHONES] [SECONDS]

Telephones refresh once a second, and the registrar behind grants a minute: the same 1:60 as a minute and an hour. First
they register at Kamailio (usrloc in memory), then at Busyhour (in memory as well) with the same Kamailio behind. Neither
asks for a password. What is counted begins a minute after the first registration, when all have been renewed behind, and
has each of them renewed twice at least (120 s unless told). Prints the processor time of each per refresh, their ratio
(at most 0.5 is wanted), which share of the refreshes made no REGISTER to Kamailio (at least 95 % is wanted), and what a
refresh costs Busyhour without a registrar behind. Ends with 1 if one of the two is missed, or a refresh is not answered
by 200. Processor time counts, so other work on the machine changes little; too few processors make the telephones late,
which is printed, and makes the share worse.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

if sys.argv[1:] and not all(word.isdecimal() for word in sys.argv[1:]):
    sys.exit(__doc__)
TELEPHONES = int(sys.argv[1]) if len(sys.argv) > 1 else 500
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 120
BUSYHOUR = os.environ.get("BUSYHOUR", "target/release/busyhour")
PERIOD_SECONDS = 1
GRANTED_SECONDS = 60
ABSORBED_MIN = 0.95
RATIO_MAX = 0.5
# Requests without an answer, so that no socket has more to hold when the telephones are late.
OUTSTANDING_MAX = 64
TICKS = os.sysconf("SC_CLK_TCK")
SETTLE_SECONDS = 3
LOOK_SECONDS = 0.001

KAMAILIO = """#!KAMAILIO
debug=0
log_stderror=yes
children=2
disable_tcp=yes
auto_aliases=no
alias="example.com"
listen=udp:{address}
loadmodule "sl.so"
loadmodule "pv.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
modparam("usrloc", "db_mode", 0)
modparam("usrloc", "hash_size", 14)
modparam("registrar", "max_expires", {granted})
request_route {{
  if (is_method("REGISTER")) {{
    save("location");
    exit;
  }}
  sl_send_reply("404", "Not Found");
}}
"""

BUSYHOUR_TOML = """
[sip]
listen = "{address}"
tcp = "off"
auth = "open"
domains = ["example.com"]
[iax2]
listen = "127.0.0.1:0"
[http]
listen = "{http}"
socket = "off"
[store]
durability = "memory"
[log]
level = "warn"
[limits]
source_percent = 100
"""

BEHIND = """
[[registrar]]
name = "pbx"
address = "{pbx}"
expires_seconds = 300
per_second = 10000
[[peer]]
name = "pbx"
addresses = ["{pbx}"]
may_call = true
"""


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processor_seconds(root):
    """Of a process and all below it, those that have ended included."""
    parents, used = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rsplit(") ", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(name)] = int(fields[1])
        used[int(name)] = sum(int(field) for field in fields[11:15]) / TICKS
    family = {root}
    for _ in parents:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        if not more:
            break
        family |= more
    return sum(used.get(pid, 0) for pid in family)


class Telephones:
    def __init__(self, server):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.connect(server)
        self.address = "%s:%d" % self.socket.getsockname()
        self.cseq = 0
        self.answered = 0

    def request(self, number):
        self.cseq += 1
        aor = f"sip:user{number}@example.com"
        return (
            f"REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {self.address};branch=z9hG4bK{self.cseq};rport\r\n"
            f"Max-Forwards: 70\r\nFrom: <{aor}>;tag={number}\r\nTo: <{aor}>\r\nCall-ID: {number}@telephone\r\n"
            f"CSeq: {self.cseq} REGISTER\r\nContact: <sip:user{number}@{self.address}>\r\nExpires: 60\r\n"
            "Content-Length: 0\r\n\r\n"
        ).encode()

    def hear(self, until):
        """Counts answers until then."""
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return
            self.socket.settimeout(left)
            try:
                answer = self.socket.recv(65536)
            except (TimeoutError, socket.timeout):
                return
            except ConnectionRefusedError:
                continue
            if not answer.startswith(b"SIP/2.0 200 "):
                sys.exit(f"a refresh was answered by {answer[:60]!r}")
            self.answered += 1

    def register(self, seconds):
        """All of them once each period, evenly."""
        begin, sent = time.monotonic(), 0
        total = TELEPHONES * seconds // PERIOD_SECONDS
        while sent < total:
            due = int((time.monotonic() - begin) * TELEPHONES / PERIOD_SECONDS) + 1
            while sent < min(due, total) and self.cseq - self.answered < OUTSTANDING_MAX:
                self.socket.send(self.request(sent % TELEPHONES))
                sent += 1
            next_due = begin + sent * PERIOD_SECONDS / TELEPHONES
            self.hear(max(next_due, time.monotonic() + LOOK_SECONDS))
        self.took = time.monotonic() - begin
        end = time.monotonic() + SETTLE_SECONDS
        while self.answered < self.cseq and time.monotonic() < end:
            self.hear(min(end, time.monotonic() + 0.1))
        return sent


def wait_for(server):
    """Until it answers a REGISTER."""
    probe = Telephones(server)
    end = time.monotonic() + 30
    while not probe.answered:
        if time.monotonic() > end:
            sys.exit(f"nobody answers at {server}")
        try:
            probe.socket.send(probe.request(TELEPHONES))
        except ConnectionRefusedError:
            pass
        probe.hear(time.monotonic() + 0.2)


def measure(server, process, warm_up, told=lambda: 0):
    """The processor time of a refresh in seconds, how many there were, and how much `told` grew meanwhile."""
    wait_for(server)
    telephones = Telephones(server)
    telephones.register(warm_up)
    before, known, told_before = processor_seconds(process.pid), telephones.answered, told()
    sent = telephones.register(SECONDS)
    used, passed = processor_seconds(process.pid) - before, told() - told_before
    answered = telephones.answered - known
    if answered < 0.999 * sent:
        sys.exit(f"only {answered} of {sent} refreshes were answered")
    if telephones.took > 1.05 * SECONDS:
        print(f"the telephones were late: {telephones.took:.0f} instead of {SECONDS} s")
    return used / answered, answered, passed


def stats(http):
    with socket.create_connection(("127.0.0.1", http)) as connection:
        connection.sendall(b"GET /api/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b""
        while part := connection.recv(65536):
            text += part
    body = text.split(b"\r\n\r\n", 1)[1]
    return json.loads(re.search(rb"\{.*\}", body, re.S)[0])["upstream"]


def serve(folder, text):
    config = os.path.join(folder, "busyhour.toml")
    with open(config, "w") as file:
        file.write(text)
    return subprocess.Popen([os.path.abspath(BUSYHOUR), "serve", "--config", config], cwd=folder)


def end(process):
    process.send_signal(signal.SIGTERM)
    process.wait()


def run(folder):
    """Whether both were reached."""
    pbx = ("127.0.0.1", free_port())
    ours, http = ("127.0.0.1", free_port()), free_port()
    pbx_text, ours_text = "%s:%d" % pbx, "%s:%d" % ours
    config = os.path.join(folder, "kamailio.cfg")
    with open(config, "w") as file:
        file.write(KAMAILIO.format(address=pbx_text, granted=GRANTED_SECONDS))
    command = ["kamailio", "-f", config, "-DD", "-E", "-m", "256", "-Y", folder, "-P", os.path.join(folder, "pid")]
    running = [subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=folder)]
    try:
        alone, count, _ = measure(pbx, running[0], PERIOD_SECONDS)
        print(f"Kamailio: {alone * 1e6:.0f} µs a refresh, {count} refreshes")
        text = BUSYHOUR_TOML.format(address=ours_text, http=f"127.0.0.1:{http}")
        running.append(serve(folder, text))
        floor, count, _ = measure(ours, running[1], PERIOD_SECONDS)
        print(f"Busyhour without a registrar behind: {floor * 1e6:.0f} µs a refresh, {count} refreshes")
        end(running.pop())
        running.append(serve(folder, text + BEHIND.format(pbx=pbx_text)))
        front, count, passed = measure(ours, running[1], GRANTED_SECONDS, lambda: stats(http)["sent"])
        told = stats(http)
        print(f"Busyhour: {front * 1e6:.0f} µs a refresh, {count} refreshes, {passed} REGISTER to Kamailio meanwhile")
        absorbed, ratio = 1 - passed / count, front / alone
        print(f"absorbed: {absorbed:.1%} ({ABSORBED_MIN:.0%} wanted); processor time: {ratio:.2f} of Kamailio's "
              f"({RATIO_MAX} wanted)")
        if told["told_count"] < TELEPHONES or told["failing_count"] or passed < TELEPHONES:
            sys.exit(f"Kamailio has not all of them, or was not told of each again: {told}")
        return absorbed >= ABSORBED_MIN and ratio <= RATIO_MAX
    finally:
        for process in reversed(running):
            end(process)


def main():
    with tempfile.TemporaryDirectory() as folder:
        reached = run(folder)
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main()
