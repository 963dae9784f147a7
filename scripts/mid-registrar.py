#!/usr/bin/env python3
"""How many refreshes end here before a registrar behind, and at which cost, beside Kamailio that takes them itself.

usage: [BUSYHOUR=target/release/busyhour] scripts/mid-registrar.py [TELEPHONES] [SECONDS]

Telephones refresh every 5 s, and the registrar behind is asked for 300 s: the same 1:60 as a minute and an hour. First
they register at Kamailio (usrloc in memory), then at Busyhour (in memory as well) with the same Kamailio behind. Neither
asks for a password. Prints the processor time of each per refresh, their ratio (at most 0.5 is wanted), and which share
of the refreshes made no REGISTER to Kamailio (at least 95 % is wanted). Fails if a refresh is not answered by 200.
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

TELEPHONES = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 300
BUSYHOUR = os.environ.get("BUSYHOUR", "target/release/busyhour")
PERIOD_SECONDS = 5
TICKS = os.sysconf("SC_CLK_TCK")
SETTLE_SECONDS = 3

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
            while sent < min(due, total):
                self.socket.send(self.request(sent % TELEPHONES))
                sent += 1
            self.hear(begin + sent * PERIOD_SECONDS / TELEPHONES)
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


def measure(server, process):
    """The processor time of a refresh in seconds, and how many there were."""
    wait_for(server)
    telephones = Telephones(server)
    telephones.register(PERIOD_SECONDS)
    before, known = processor_seconds(process.pid), telephones.answered
    sent = telephones.register(SECONDS)
    used = processor_seconds(process.pid) - before
    answered = telephones.answered - known
    if answered < 0.999 * sent:
        sys.exit(f"only {answered} of {sent} refreshes were answered")
    return used / answered, answered


def stats(http):
    with socket.create_connection(("127.0.0.1", http)) as connection:
        connection.sendall(b"GET /api/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b""
        while part := connection.recv(65536):
            text += part
    body = text.split(b"\r\n\r\n", 1)[1]
    return json.loads(re.search(rb"\{.*\}", body, re.S)[0])["upstream"]


def run(folder):
    pbx = ("127.0.0.1", free_port())
    ours, http = ("127.0.0.1", free_port()), free_port()
    config = os.path.join(folder, "kamailio.cfg")
    with open(config, "w") as file:
        file.write(KAMAILIO.format(address="%s:%d" % pbx))
    command = ["kamailio", "-f", config, "-DD", "-E", "-m", "256", "-Y", folder, "-P", os.path.join(folder, "pid")]
    kamailio = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=folder)
    busyhour = None
    try:
        alone, count = measure(pbx, kamailio)
        print(f"Kamailio: {alone * 1e6:.0f} µs a refresh, {count} refreshes")
        config = os.path.join(folder, "busyhour.toml")
        with open(config, "w") as file:
            text = BUSYHOUR_TOML.format(address="%s:%d" % ours, pbx="%s:%d" % pbx, http=f"127.0.0.1:{http}")
            file.write(text)
        busyhour = subprocess.Popen([os.path.abspath(BUSYHOUR), "serve", "--config", config], cwd=folder)
        wait_for(ours)
        front, count = measure(ours, busyhour)
        told = stats(http)
        # The first registration of each is none of the refreshes.
        passed = max(0, told["sent"] - TELEPHONES - 1)
        print(f"Busyhour: {front * 1e6:.0f} µs a refresh, {count} refreshes, {passed} of them told to Kamailio")
        absorbed = 1 - passed / count
        print(f"absorbed: {absorbed:.1%} (95 % wanted); processor time: {front / alone:.2f} of Kamailio's (0.50 wanted)")
        if told["told_count"] < TELEPHONES or told["failing_count"]:
            sys.exit(f"Kamailio has not all of them: {told}")
    finally:
        for process in filter(None, [busyhour, kamailio]):
            process.send_signal(signal.SIGTERM)
            process.wait()


with tempfile.TemporaryDirectory() as folder:
    run(folder)
