#!/usr/bin/env python3
"""How soon nodes of a cluster know what devices of other nodes do, and how soon one that joins knows all of it.

usage: [BUSYHOUR=target/quick/busyhour] scripts/cluster-live.py [STATES] [CHANGES]

Three nodes know STATES extensions (100,000 unless told), each with a device of its own, so each node is told by the other two of
the devices that they own. A device changes its line CHANGES times (300); the same extension is watched where its owner also owns the
device and where the device is another node's, and how much later the second is told is printed (at most 20 ms at the 99th percentile
is wanted). Then a node leaves and joins again: printed is how long after it has its lease the owners have told it all states (at most 3 s), and the
longest that a REGISTER, one each 5 ms at a node that stays, waited for its answer meanwhile (at most 50 ms); and the same for an
address that the joining node takes over, whose REGISTER may come while nobody has it, and is sent again after 0.5 s then. Ends with 1 if one of
these is missed. Needs Debian's packages postgresql and nats-server.
"""
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

STATES = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
CHANGES = int(sys.argv[2]) if len(sys.argv) > 2 else 300
BUSYHOUR = os.path.abspath(os.environ.get("BUSYHOUR", "target/quick/busyhour"))
HERE = Path(__file__).resolve().parent
DOMAIN = "example.com"
SIP, HTTP, NATS = 26_061, 28_181, 24_322
LATER_MS_MAX, WHOLE_S_MAX, WAIT_MS_MAX = 20.0, 3.0, 50.0


def main():
    with tempfile.TemporaryDirectory() as folder:
        site = start(folder)
        try:
            wait("all partitions to be served", lambda: sum(cluster(one)["partitions_served"] for one in range(3)) == 256)
            extensions(folder)
            later_ms = changes(folder)
            whole_s, wait_ms, moved_ms = join(folder)
        finally:
            site.send_signal(signal.SIGTERM)
            site.wait(60)
    print(f"a change is told {later_ms:.1f} ms later where the device is another node's (99th percentile of {CHANGES})")
    print(f"a node that joins knows {STATES} states {whole_s:.2f} s after it has its lease; a REGISTER waited {wait_ms:.0f} ms at most meanwhile")
    print(f"a REGISTER of an address that the node took over waited {moved_ms:.0f} ms at most")
    sys.exit(later_ms > LATER_MS_MAX or whole_s > WHOLE_S_MAX or max(wait_ms, moved_ms) > WAIT_MS_MAX)


def start(folder):
    environment = dict(os.environ, BUSYHOUR=BUSYHOUR, SIP_PORT=str(SIP), HTTP_PORT=str(HTTP), NATS_PORT=str(NATS),
                       BUSYHOUR_LIMITS_HINTS=str(STATES + 1000), BUSYHOUR_LIMITS_DEVICES=str(2 * STATES + 10_000))
    log = open(f"{folder}/site.log", "w+")
    site = subprocess.Popen([HERE / "three-nodes.sh", folder], env=environment, stdout=log, stderr=log)
    wait("the nodes", lambda: "are ready" in Path(log.name).read_text() or site.poll() is not None)
    if site.poll() is not None:
        sys.exit(Path(log.name).read_text())
    return site


def wait(what, is_so, patience=120.0, pause=0.05):
    until = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > until:
            sys.exit(f"cluster-live: {what}: not within {patience:.0f} s")
        time.sleep(pause)


def stats(node):
    with urllib.request.urlopen(f"http://127.0.0.1:{HTTP + node}/api/v1/stats", timeout=10) as answer:
        return json.load(answer)


def cluster(node):
    return stats(node)["cluster"]


def partition(user):
    return hashlib.md5(f"sip:{user}@{DOMAIN}".encode()).digest()[0]


def sql(folder, statement):
    words = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement, f"postgres://busyhour@/busyhour?host={folder}"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def owners(folder):
    """The node that owns a user's address: 0, 1 or 2."""
    rows = sql(folder, "SELECT partition, name FROM cluster_partition JOIN cluster_node ON node = owner").split()
    of_partition = dict(row.split("|") for row in rows)
    return lambda user: ["alpha", "beta", "gamma"].index(of_partition[str(partition(user))])


def extensions(folder):
    sql(folder, f"INSERT INTO setting SELECT 'hint', 'e' || n, 'sip:d' || n || '@{DOMAIN}' FROM generate_series(1, {STATES}) AS n")
    # Of each device two nodes are told by the third, which says it once.
    begun = time.monotonic()

    def is_told():
        nodes = [cluster(one) for one in range(3)]
        is_whole = all(node["is_whole"] and node["states_awaited"] == 0 for node in nodes)
        return is_whole and sum(node["states_watched"] for node in nodes) >= 2 * STATES

    wait("all states to be told", is_told, 600.0, 0.5)
    print(f"three nodes knew {STATES} new extensions after {time.monotonic() - begun:.1f} s")


class Client:
    def __init__(self, user, node):
        self.user, self.server, self.count = user, ("127.0.0.1", SIP + node), 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.call_id = f"{user}-{self.address}"
        self.etag = ""

    def request(self, method, uri, headers="", body="", call_id=None):
        self.count += 1
        return (f"{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {self.address};branch=z9hG4bK{self.user}{self.count};rport\r\n"
                f"Max-Forwards: 70\r\nFrom: <sip:{self.user}@{DOMAIN}>;tag={self.user}\r\nTo: <{uri if method != 'REGISTER' else f'sip:{self.user}@{DOMAIN}'}>\r\n"
                f"Call-ID: {call_id or self.call_id}\r\nCSeq: {self.count} {method}\r\nContact: <sip:{self.user}@{self.address}>\r\n"
                f"{headers}Content-Length: {len(body)}\r\n\r\n{body}").encode()

    def hear(self, seconds=10.0):
        self.socket.settimeout(max(0.001, seconds))
        try:
            message, source = self.socket.recvfrom(65536)
        except TimeoutError:
            return ""
        message = message.decode()
        if message.startswith("NOTIFY "):
            kept = [line for line in message.split("\r\n") if line.split(":")[0] in ("Via", "From", "To", "Call-ID", "CSeq")]
            self.socket.sendto(("\r\n".join(["SIP/2.0 200 OK", *kept]) + "\r\nContent-Length: 0\r\n\r\n").encode(), source)
        return message

    def ask(self, *request, **more):
        """The final answer; the request is sent again as telephones do it (RFC 3261 §17.1.2)."""
        request, pause, answer = self.request(*request, **more), 0.5, ""
        given_up_at = time.monotonic() + 32.0
        while not answer and time.monotonic() < given_up_at:
            self.socket.sendto(request, self.server)
            until = time.monotonic() + pause
            pause = min(2 * pause, 4.0)
            while not answer and time.monotonic() < until:
                heard = self.hear(until - time.monotonic())
                is_final = heard.startswith(("SIP/2.0 2", "SIP/2.0 4", "SIP/2.0 5"))
                # A request that was sent twice may be answered twice.
                answer = heard if is_final and f"CSeq: {self.count} " in heard else ""
        if not answer:
            sys.exit(f"cluster-live: {self.user} got no answer to {request.decode()}")
        if not answer.startswith("SIP/2.0 2"):
            sys.exit(f"cluster-live: {answer}")
        return answer

    def register(self):
        self.ask("REGISTER", f"sip:{DOMAIN}", headers="Expires: 3600\r\n")

    def publish(self, state):
        body = (f'<?xml version="1.0"?><dialog-info xmlns="urn:ietf:params:xml:ns:dialog-info" version="0" state="full" '
                f'entity="sip:{self.user}@{DOMAIN}"><dialog id="1"><state>{state}</state></dialog></dialog-info>')
        match = f"SIP-If-Match: {self.etag}\r\n" if self.etag else ""
        headers = f"Event: dialog\r\nExpires: 3600\r\n{match}Content-Type: application/dialog-info+xml\r\n"
        answer = self.ask("PUBLISH", f"sip:{self.user}@{DOMAIN}", headers=headers, body=body, call_id=f"p-{self.call_id}")
        self.etag = re.search(r"^SIP-ETag: *(\S+)", answer, re.M)[1]


class Lamp(threading.Thread):
    """Watches an extension, and notes when it is told what."""

    def __init__(self, extension, node):
        super().__init__(daemon=True)
        self.client, self.told = Client(f"w{node}", node), []
        headers = "Event: dialog\r\nExpires: 3600\r\nAccept: application/dialog-info+xml\r\n"
        self.client.ask("SUBSCRIBE", f"sip:{extension}@{DOMAIN}", headers=headers)
        self.start()

    def run(self):
        while True:
            message = self.client.hear(60.0)
            if message.startswith("NOTIFY "):
                state = re.search(r"<state[^>]*>(\w+)</state>", message)
                self.told.append((time.monotonic(), state[1] if state else "terminated"))


def has_hint(node, name):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{HTTP + node}/api/v1/hints/{name}", timeout=10) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return False


def changes(folder):
    """How much later who watches from another owner is told."""
    owner = owners(folder)
    of_device = owner("phone")
    names = [f"x{number}" for number in range(1000)]
    near = next(name for name in names if owner(name) == of_device)
    far = next(name for name in names if owner(name) != of_device)
    sql(folder, "".join(f"INSERT INTO setting VALUES ('hint', '{name}', 'sip:phone@{DOMAIN}');" for name in (near, far)))
    wait("all nodes to have the extensions", lambda: all(has_hint(node, name) for node in range(3) for name in (near, far)))
    phone = Client("phone", of_device)
    phone.register()
    lamps = [Lamp(name, owner(name)) for name in (near, far)]
    time.sleep(1.0)
    later = []
    for number in range(CHANGES):
        state = ["confirmed", "terminated"][number % 2]
        marks = [len(lamp.told) for lamp in lamps]
        begun = time.monotonic()
        phone.publish(state)
        wait("a change", lambda: all(any(told == state for _, told in lamp.told[mark:]) for lamp, mark in zip(lamps, marks)), 10.0, 0.002)
        at = [next(at for at, told in lamp.told[mark:] if told == state) - begun for lamp, mark in zip(lamps, marks)]
        later.append(1000.0 * (at[1] - at[0]))
        time.sleep(0.05)
    return sorted(later)[int(0.99 * (len(later) - 1))]


def join(folder):
    """How long after its lease a node knows everything, and how long anybody waited meanwhile."""
    pid = int(Path(f"{folder}/gamma.pid").read_text())
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    environment = dict(one.split("=", 1) for one in Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0") if "=" in one)
    os.kill(pid, signal.SIGTERM)
    wait("gamma to leave", lambda: sum(cluster(one)["partitions_served"] for one in range(2)) == 256)
    # It still has its ports.
    wait("gamma to end", lambda: has_ended(pid))
    owner = owners(folder)
    user = next(f"probe{number}" for number in range(1000) if owner(f"probe{number}") == 0)
    # It has to stay where it is when gamma is back.
    sql(folder, f"UPDATE cluster_partition SET pinned = owner WHERE partition = {partition(user)}")
    # An owner keeps its first partitions, and gives away the last third; the very last one may still go to the other owner.
    users = [f"moving{number}" for number in range(1000)]
    by_partition = {partition(user): user for user in users if owner(user) == 0}
    moving = by_partition[sorted(by_partition)[-20]]
    is_over, waits, moved_waits = threading.Event(), [], []

    def ask(probe, waits):
        while not is_over.is_set():
            begun = time.monotonic()
            probe.register()
            waits.append((1000.0 * (time.monotonic() - begun), begun))
            time.sleep(0.005)

    probes = [(Client(user, 0), waits), (Client(moving, 0), moved_waits)]
    for probe, _ in probes:
        probe.register()
    threads = [threading.Thread(target=ask, args=probe) for probe in probes]
    for thread in threads:
        thread.start()
    # Before anything happens.
    time.sleep(2.0)
    usual, _ = max(waits)
    with open(f"{folder}/gamma.again", "w") as log:
        gamma = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
    try:
        is_there = lambda: "has_lease" if answers(2) and cluster(2)["has_lease"] else ""
        wait("gamma to have its lease", is_there, 60.0, 0.01)
        begun, told = time.monotonic(), {}

        def is_whole():
            told.update(cluster(2))
            return told["is_whole"] and told["states_awaited"] == 0 and told["states_watched"] >= STATES // 2

        wait("gamma to know all states", is_whole, 120.0, 0.1)
        whole = time.monotonic() - begun
        wait("gamma to have its part", lambda: cluster(2)["partitions_served"] in (85, 86), pause=0.2)
        is_over.set()
        for thread in threads:
            thread.join()
        if owners(folder)(moving) != 2:
            sys.exit(f"cluster-live: {moving} has not moved")
        print(f"before that, a REGISTER waited {usual:.0f} ms at most")
        longest = sorted(waits, reverse=True)[:5]
        moved = ", ".join(f"{ms:.0f} ms, {at - begun:+.2f} s" for ms, at in sorted(moved_waits, reverse=True)[:3])
        print("the longest of the address that moved:", moved)
        nodes = [cluster(one) for one in range(3)]
        figures = {name: sum(node[name] for node in nodes) for name in ("kept", "kept_copies", "kept_late", "kept_refused", "set_aside", "not_taken", "handed_lost", "undelivered")}
        print("requests that waited for an owner:", ", ".join(f"{name} {count}" for name, count in figures.items()))
        print("the longest waits:", ", ".join(f"{ms:.0f} ms, {at - begun:+.2f} s from the lease" for ms, at in longest))
        return whole, longest[0][0], max(moved_waits)[0]
    finally:
        is_over.set()
        gamma.send_signal(signal.SIGTERM)
        gamma.wait(60)


def has_ended(pid):
    """Whether a process has ended, though its parent may not have asked for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def answers(node):
    try:
        cluster(node)
        return True
    except OSError:
        return False


if __name__ == "__main__":
    main()
