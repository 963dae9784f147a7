#!/usr/bin/env python3
"""How long the dashboard's view of devices waits for a page when there are a million of them.

usage: [BUSYHOUR=target/release/busyhour] [ONLY=end] scripts/devices.py [DEVICES] [ROUNDS]

Makes a database with DEVICES registered devices (a million unless told), starts a server on it, and asks for the contacts of some of
them while the server reads the rest. Then it asks what the view asks: the
very first page, which makes the rows, and a registration meanwhile; the first page in each order, page after page, searches that
find many, one and none, the filters, each ROUNDS times; and pages while devices register as fast as one client can. Then it starts
a server on them whose registrations all end at one instant, and registers others meanwhile. Prints how long the starts took, the
median and the longest time of each, how long a registration takes while somebody searches and while all end, and the memory of
the rows and of the server. With ONLY=end it does that last part alone. Meanwhile it looks each 5 ms what the thread that writes the
journal does, and what the disk has done, and prints that for the longest (as root; the disk is that of the temporary folder). Fails if a page is not what it should be, or if some do not end.
"""
import json
import os
import re
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

DEVICES = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
BUSYHOUR = os.environ.get("BUSYHOUR", "target/release/busyhour")
# What devices.js asks for at once.
PAGE = 50
# Seconds until all registrations end, which a start on them must not need; and how long to look on after that.
END_IN = 10 + DEVICES // 50_000
END_TAKES = 5 + DEVICES // 50_000
AGENTS = ["Yealink SIP-T46U 108.86", "snomD785/10.1", "Grandstream GXP2170 1.0.11", "baresip v3.1 (x86_64/Linux)"]


def configuration(folder):
    return f"""
[sip]
listen = "127.0.0.1:0"
tcp = "off"
auth = "open"
domains = ["example.com"]
verify_seconds = 0
probe_seconds = 0
nat_probe_seconds = 0
[iax2]
listen = "off"
[http]
listen = "127.0.0.1:0"
socket = "off"
requests_per_second = 1000
[limits]
devices = {2 * DEVICES + 1000}
[store]
path = "{folder}/busyhour.db"
[log]
level = "warn"
"""


class Server:
    def __init__(self, folder):
        begin = time.monotonic()
        self.process = subprocess.Popen([BUSYHOUR, "serve", "--quiet", "--config", f"{folder}/busyhour.toml"],
                                        stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        self.started_in = time.monotonic() - begin
        if not ready.startswith("ready "):
            sys.exit(f"devices: the server does not start: {ready}")
        self.http = re.search(r" http=(\S+)", ready)[1]
        host, port = re.search(r" sip-udp=(\S+)", ready)[1].split(":")
        self.sip = (host, int(port))

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stats(self):
        with urllib.request.urlopen(f"http://{self.http}/api/v1/stats", timeout=600) as answer:
            return json.load(answer)

    def page(self, **wanted):
        query = urllib.parse.urlencode({"limit": PAGE, **wanted})
        begin = time.monotonic()
        with urllib.request.urlopen(f"http://{self.http}/api/v1/devices?{query}", timeout=600) as answer:
            page = json.load(answer)
        return page, (time.monotonic() - begin) * 1000


def fill(path):
    """What the server would have stored: a contact and its lease for each device."""
    ends = (time.time_ns() + 3600 * 10**9)
    with sqlite3.connect(path) as database:
        address = lambda n: f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"
        database.executemany(
            "INSERT INTO contact VALUES (?, ?, ?, '', NULL, ?, '', ?, ?, '127.0.0.1:5060')",
            ((n, f"sip:device{n:07}@example.com", f"sip:device{n:07}@{address(n)}:5060", f"call-{n}", AGENTS[n % 4],
              f"{address(n)}:5060") for n in range(1, DEVICES + 1)))
        database.executemany("INSERT INTO lease VALUES (?, 1, 3600, ?, 0)", ((n, ends) for n in range(1, DEVICES + 1)))


def register(server, number, expires=3600):
    """The time until a telephone that is not among them has its 200."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as telephone:
        telephone.settimeout(60)
        telephone.bind(("127.0.0.1", 0))
        own = "%s:%d" % telephone.getsockname()
        contact = f"<sip:other{number}@{own}>" if expires else "*"
        text = (f"REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n"
                f"From: <sip:other{number}@example.com>;tag=a\r\nTo: <sip:other{number}@example.com>\r\nCall-ID: other{number}\r\n"
                f"CSeq: {1 if expires else 2} REGISTER\r\nContact: {contact}\r\n"
                f"Expires: {expires}\r\nContent-Length: 0\r\n\r\n")
        begin = time.monotonic()
        telephone.sendto(text.encode(), server.sip)
        answer = telephone.recv(65536).decode()
        if not answer.startswith("SIP/2.0 200 "):
            sys.exit(f"devices: {answer}")
        return (time.monotonic() - begin) * 1000


def ask(server, number):
    """The time until a stored device has its contacts, which are asked for (RFC 3261 §10.2.3)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as telephone:
        telephone.settimeout(60)
        telephone.bind(("127.0.0.1", 0))
        own = "%s:%d" % telephone.getsockname()
        user = f"device{number:07}"
        text = (f"REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKq{number}\r\nMax-Forwards: 70\r\n"
                f"From: <sip:{user}@example.com>;tag=a\r\nTo: <sip:{user}@example.com>\r\nCall-ID: asks{number}\r\n"
                f"CSeq: 1 REGISTER\r\nContent-Length: 0\r\n\r\n")
        begin = time.monotonic()
        telephone.sendto(text.encode(), server.sip)
        answer = telephone.recv(65536).decode()
        check(answer.count(f"\r\nContact: <sip:{user}@") == 1, answer)
        return (time.monotonic() - begin) * 1000


def measure_the_start(server):
    begin, times = time.monotonic(), []
    while server.stats()["registrar"]["unread_count"] > 0:
        times += [ask(server, 1 + (len(times) + one) * 7919 % DEVICES) for one in range(50)]
    registrar = server.stats()["registrar"]
    check(registrar["binding_count"] == DEVICES, f"{registrar['binding_count']} contacts were read")
    print(f"all were read {time.monotonic() - begin:.1f} s later")
    if times:
        tell(f"the contacts of one, while they are read, {len(times)} times", times)


def check(is_right, what):
    if not is_right:
        sys.exit(f"devices: {what}")


def tell(name, times):
    print(f"{name:58} {statistics.median(times):9.1f} ms   {max(times):9.1f} ms")


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/busyhour.toml", "w") as file:
            file.write(configuration(folder))
        Server(folder).stop()
        fill(f"{folder}/busyhour.db")
        if os.environ.get("ONLY") != "end":
            server = Server(folder)
            try:
                measure(server)
            finally:
                server.stop()
        measure_the_end(folder)


class Looks:
    """Each 5 ms: what the thread that writes the journal does, and what the disk has completed and has under way."""

    def __init__(self, server, folder):
        tasks = f"/proc/{server.process.pid}/task"
        named = lambda task: open(f"{tasks}/{task}/comm").read().strip()
        self.call = f"{tasks}/{next(task for task in os.listdir(tasks) if named(task) == 'bh-store')}/syscall"
        number = os.stat(folder).st_dev
        self.disk = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat"
        self.seen, self.is_over = [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def run(self):
        while not self.is_over.wait(0.005):
            self.seen.append(self.look())

    def look(self):
        call = open(self.call).read().split()[0]
        # The kernel's Documentation/block/stat.rst: reads, writes, discards and flushes that completed, and what is in flight.
        disk = [int(word) for word in open(self.disk).read().split()] if os.path.exists(self.disk) else [0] * 17
        return time.time(), call == PWRITEV2, disk[0] + disk[4] + disk[11] + disk[15], disk[8]

    def tell(self, begin, end):
        seen = [look for look in self.seen if begin < look[0] < end]
        if len(seen) < 2:
            return "too short for a look"
        writes = sum(is_writing for _, is_writing, _, _ in seen)
        return (f"in {writes} of {len(seen)} looks the journal was being written; between the first and the last the disk "
                f"completed {seen[-1][2] - seen[0][2]} requests, with {max(look[3] for look in seen)} under way at most")


# The number of this call on x86_64.
PWRITEV2 = "328"


def measure_the_end(folder):
    ends = time.time() + END_IN
    with sqlite3.connect(f"{folder}/busyhour.db") as database:
        database.execute("UPDATE lease SET expires_at_ns = ?", (int(ends * 10**9),))
    # Or the disk is busy with that while the server writes.
    os.sync()
    server = Server(folder)
    try:
        check(time.time() < ends, f"the start took {server.started_in:.1f} s, and they have ended")
        print(f"ready again after {server.started_in:.2f} s, with {server.resident() >> 20} MiB resident")
        while time.time() < ends:
            time.sleep(0.01)
        times, begun = [], []
        with Looks(server, folder) as looks:
            while time.time() < ends + END_TAKES:
                begun.append(time.time() - ends)
                times.append(register(server, 1_000_000 + len(times)))
        tell(f"a registration while {DEVICES} end, {len(times)} of them", times)
        print(f"99 of 100 within {sorted(times)[len(times) * 99 // 100]:.1f} ms, 999 of 1,000 within "
              f"{sorted(times)[len(times) * 999 // 1000]:.1f} ms")
        longest = sorted(zip(times, begun), reverse=True)[:3]
        for took, at in longest:
            print(f"{took:.1f} ms, {at:.1f} s after the end: {looks.tell(ends + at, ends + at + took / 1000)}")
        left = server.page(search="device")[0]["match_count"]
        check(left == 0, f"{left} have not ended")
    finally:
        server.stop()


def measure(server):
    print(f"{DEVICES} devices, ready after {server.started_in:.2f} s")
    print(f"{'':58} {'median':>9}      {'longest':>9}")
    measure_the_start(server)
    one = f"device{DEVICES // 2:07}"
    asked = [
        ("first page by name", {}, DEVICES),
        ("first page by last seen", {"sort": "-last_seen"}, DEVICES),
        ("first page by end", {"sort": "expires"}, DEVICES),
        ("first page by user agent", {"sort": "user_agent"}, DEVICES),
        ("first page by contacts", {"sort": "-contacts"}, DEVICES),
        ("search that finds a quarter (snom)", {"search": "SNOM"}, (DEVICES + 2) // 4 if DEVICES % 4 else DEVICES // 4),
        ("search that finds one (user)", {"search": one}, 1),
        ("search that finds none", {"search": "nobody-has-this"}, 0),
        ("filter: registered", {"state": "registered"}, DEVICES),
        ("filter: over TCP", {"transport": "tcp"}, 0),
    ]
    first, begun = [], threading.Event()
    thread = threading.Thread(target=lambda: (begun.set(), first.append(server.page()[1])))
    thread.start()
    begun.wait()
    meanwhile = []
    while thread.is_alive():
        meanwhile.append(register(server, 1000 + len(meanwhile)))
    thread.join()
    tell("the very first page", first)
    tell(f"a registration meanwhile, {len(meanwhile)} of them", meanwhile)
    rows = server.stats()["device_index"]
    print(f"{rows['row_count']} rows of {rows['row_bytes'] // rows['row_count']} bytes")
    for number in range(len(meanwhile)):
        register(server, 1000 + number, expires=0)
    for name, wanted, matches in asked:
        times = []
        for _ in range(ROUNDS):
            page, took = server.page(**wanted)
            times.append(took)
            check(page["match_count"] == matches, f"{name}: {page['match_count']} and not {matches}")
            check(len(page["devices"]) == min(matches, PAGE), f"{name}: a page of {len(page['devices'])}")
        tell(name, times)
    times, after, seen = [], None, []
    for _ in range(4 * ROUNDS):
        page, took = server.page(**({"after": after} if after else {}))
        times.append(took)
        seen += [device["aor"] for device in page["devices"]]
        after = page["next"]
    check(seen == [f"sip:device{n:07}@example.com" for n in range(1, len(seen) + 1)], "pages are not in order")
    tell(f"page after page, {4 * ROUNDS} of them", times)
    tell("a registration, nobody searching", [register(server, n) for n in range(20)])
    is_over = threading.Event()

    def search():
        while not is_over.is_set():
            server.page(search="nobody-has-this")

    thread = threading.Thread(target=search)
    thread.start()
    time.sleep(0.2)
    times = [register(server, n) for n in range(100, 140)]
    is_over.set()
    thread.join()
    tell("a registration while somebody searches", times)
    is_over.clear()
    registered = []

    def storm():
        while not is_over.is_set():
            registered.append(register(server, 10_000 + len(registered)))

    thread = threading.Thread(target=storm)
    thread.start()
    begin = time.monotonic()
    times = [server.page()[1] for _ in range(40)]
    rate = len(registered) / (time.monotonic() - begin)
    is_over.set()
    thread.join()
    tell(f"first page by name while {rate:.0f} a second register", times)
    one = f"other{9_999 + len(registered)}"
    check(server.page(search=one)[0]["match_count"] == 1, f"{one} has its 200 and is not found")


main()
