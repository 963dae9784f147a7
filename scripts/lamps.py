#!/usr/bin/env python3
"""How soon a panel with one list of 5,000 lamps is told that one of them has changed.

usage: [BUSYHOUR=target/release/busyhour] scripts/lamps.py [LAMPS] [CHANGES] [udp|tcp]

Starts a server of its own, subscribes to the list (RFC 4662) and answers its NOTIFYs, publishes the state of one lamp
after the other (RFC 3903), and prints the time from each PUBLISH to the NOTIFY with that lamp alone, and the NOTIFY's
length; over TCP also in how many segments it came, of at most 1,448 bytes as on an Ethernet. Fails if a lamp is wrong at the
end, or if a NOTIFY has more than one lamp.
"""
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

LAMPS = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
# Each lamp changes once at most.
CHANGES = min(int(sys.argv[2]) if len(sys.argv) > 2 else 200, LAMPS)
OVER = sys.argv[3] if len(sys.argv) > 3 else "udp"
BUSYHOUR = os.environ.get("BUSYHOUR", "target/release/busyhour")
DATAGRAM_BYTES_MAX = 65536
PATIENCE_SECONDS = 60
SEGMENT_BYTES = 1460
# Of struct tcp_info: tcpi_data_segs_in.
DATA_SEGMENTS_AT = 152


def configuration():
    entries = ", ".join(f'"lamp{number}"' for number in range(LAMPS))
    return f"""
[sip]
listen = "127.0.0.1:0"
tcp = "127.0.0.1:0"
auth = "open"
domains = ["127.0.0.1"]
[iax2]
listen = "127.0.0.1:0"
[http]
listen = "off"
socket = "off"
[store]
durability = "memory"
[log]
level = "warn"
[[list]]
name = "panel"
entries = [{entries}]
"""


class Telephone:
    """A panel, and whoever publishes what its lamps show."""

    def __init__(self, server):
        kind = socket.SOCK_STREAM if OVER == "tcp" else socket.SOCK_DGRAM
        self.socket = socket.socket(socket.AF_INET, kind)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        if OVER == "tcp":
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(server)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.address = "%s:%d" % self.socket.getsockname()
        self.cseq = 0
        self.lamps = {}
        self.unread = b""

    def send(self, text):
        self.socket.sendall(text.encode())

    def receive(self):
        """The next message."""
        if OVER == "udp":
            return self.socket.recv(DATAGRAM_BYTES_MAX).decode()
        while True:
            head, end, rest = self.unread.partition(b"\r\n\r\n")
            length = re.search(rb"Content-Length: (\d+)", head) if end else None
            if length and len(rest) >= int(length.group(1)):
                body, self.unread = rest[: int(length.group(1))], rest[int(length.group(1)) :]
                return (head + end + body).decode()
            heard = self.socket.recv(1 << 20)
            if not heard:
                sys.exit("lamps: the server has ended the connection")
            self.unread += heard

    def segments(self):
        """Those with data that have come."""
        if OVER == "udp":
            return 0
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return struct.unpack_from("I", info, DATA_SEGMENTS_AT)[0]

    def request(self, method, user, headers, body=""):
        self.cseq += 1
        self.send(
            f"{method} sip:{user}@127.0.0.1 SIP/2.0\r\n"
            f"Via: SIP/2.0/{OVER.upper()} {self.address};branch=z9hG4bK{method}{self.cseq};rport\r\n"
            f"Max-Forwards: 70\r\nFrom: <sip:panel@127.0.0.1>;tag=panel\r\n"
            f"To: <sip:{user}@127.0.0.1>\r\nCall-ID: {method}{self.cseq}@{self.address}\r\n"
            f"CSeq: {self.cseq} {method}\r\nContact: <sip:panel@{self.address};transport={OVER}>\r\n{headers}"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )

    def subscribe(self):
        self.request("SUBSCRIBE", "panel", "Event: dialog\r\nSupported: eventlist\r\nExpires: 3600\r\n")

    def publish(self, number, state):
        body = (
            '<dialog-info xmlns="urn:ietf:params:xml:ns:dialog-info" version="0" state="full" entity="x">'
            f'<dialog id="1" call-id="{self.cseq}" direction="recipient"><state>{state}</state></dialog></dialog-info>'
        )
        self.request("PUBLISH", f"lamp{number}", "Event: dialog\r\nContent-Type: application/dialog-info+xml\r\n", body)

    def hear(self):
        """The next NOTIFY, which is answered: its length, and the lamps in it."""
        while True:
            message = self.receive()
            if not message.startswith("NOTIFY "):
                continue
            kept = [line for line in message.split("\r\n") if line.split(":")[0] in ("Via", "From", "To", "Call-ID", "CSeq")]
            self.send("SIP/2.0 200 OK\r\n" + "\r\n".join(kept) + "\r\nContent-Length: 0\r\n\r\n")
            documents = re.findall(r'<dialog-info [^>]*entity="sip:lamp(\d+)@.*?</dialog-info>', message, re.S)
            states = re.findall(r'entity="sip:lamp(\d+)@[^"]*">(.*?)</dialog-info>', message, re.S)
            for number, document in states:
                found = re.search(r"<state>(\w+)</state>", document)
                self.lamps[int(number)] = found.group(1) if found else "dark"
            return len(message), [int(number) for number in documents]


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def measure(server):
    panel = Telephone(server)
    begun = time.monotonic()
    panel.subscribe()
    notifies = 0
    while len(panel.lamps) < LAMPS:
        panel.hear()
        notifies += 1
    print(f"full state of {LAMPS} lamps: {notifies} NOTIFYs, {time.monotonic() - begun:.2f} s")
    publisher = Telephone(server)
    expected, told_ms, lengths, segments = {}, [], [], []
    for change in range(CHANGES):
        number, state = change * 7919 % LAMPS, ("early", "confirmed")[change % 2]
        begun, before = time.monotonic(), panel.segments()
        publisher.publish(number, state)
        length, lamps = panel.hear()
        told_ms.append((time.monotonic() - begun) * 1000)
        lengths.append(length)
        segments.append(panel.segments() - before)
        publisher.receive()
        expected[number] = state
        if lamps != [number]:
            sys.exit(f"lamps: lamp {number} has changed, and {lamps} were told")
    wrong = [number for number, state in expected.items() if panel.lamps[number] != state]
    print(f"{CHANGES} changes, PUBLISH to NOTIFY: p50 {quantile(told_ms, 0.5):.2f} ms, p99 {quantile(told_ms, 0.99):.2f} ms")
    came_in = "one datagram" if OVER == "udp" else f"at most {max(segments)} segments"
    print(f"each in {came_in}, of at most {max(lengths)} bytes; lamps wrong at the end: {len(wrong)}")
    return 1 if wrong else 0


def main():
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "busyhour.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(configuration())
        process = subprocess.Popen([BUSYHOUR, "serve", "--config", path], stdout=subprocess.PIPE, text=True)
        try:
            for line in process.stdout:
                ready = re.search(r"^ready .*sip-" + OVER + r"=([\d.]+):(\d+)", line)
                if ready:
                    return measure((ready.group(1), int(ready.group(2))))
            sys.exit("lamps: the server does not start")
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
