#!/usr/bin/env python3
"""What a refresh of a registration costs the server, counted, and in which thread.

usage: [BUSYHOUR=target/release/busyhour] scripts/profile-refresh.py [REFRESHES] [new|challenged|refused|durable]

The server runs in memory, without passwords, under valgrind's callgrind, and twenty telephones refresh in turn (400 refreshes
unless told), each after the answer to the one before. Counting starts when all have refreshed several times, since valgrind
has to translate the code first. Prints the instructions of each thread, and those of all: valgrind runs one thread at a
time, so that its pool's workers take over more than they do otherwise. Then it prints how many of them are of the cluster's
code, by the names of functions and of the files of what was inlined, and ends with 1 if there are any: the server is alone, and
shall pay nothing for the others that it does not have.

Beside the instructions stand accesses that miss the first cache and one of 2 MiB. Then a second server, without valgrind, does the same twice, so that the
threads are as they are otherwise: first for context switches and processor time (/proc), then for system calls and those of them that are
`futex` (strace, from after the start to the last answer), all by thread. What the server does once a second counts too.

With a word the same for requests of which each is of another telephone: they are registered (new), are asked for their password
(challenged), or get 503 since there is room for twenty devices only (refused). With `durable` it is refreshes of a server that
has its store on a disk, in a new folder of the current one: each is acknowledged when it is in the journal.
Needs valgrind and strace.
"""
import collections
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

REFRESHES = int(sys.argv[1]) if len(sys.argv) > 1 else 400
KIND = sys.argv[2] if len(sys.argv) > 2 else "refresh"
STATUSES = {"refresh": 200, "new": 200, "challenged": 401, "refused": 503, "durable": 200}
if KIND not in STATUSES:
    sys.exit(f"profile-refresh: {KIND!r} is none of {', '.join(STATUSES)}")
STATUS = STATUSES[KIND]
BUSYHOUR = os.path.abspath(os.environ.get("BUSYHOUR", "target/release/busyhour"))
TELEPHONES = 20
WARM_UP = 5 * TELEPHONES
ATTEMPTS = 200
PAUSE_SECONDS = 0.2
SETTLE_SECONDS = 6

CONFIG = """
[sip]
listen = "{address}"
tcp = "off"
auth = "{auth}"
domains = ["example.com"]
[iax2]
listen = "127.0.0.1:0"
[http]
listen = "off"
socket = "off"
[store]
durability = "{durability}"
path = "store"
[log]
level = "warn"
[limits]
source_percent = 100
account_percent = 100
devices = {devices}
"""


def free_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()


class Telephones:
    def __init__(self, server):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.connect(server)
        self.address = "%s:%d" % self.socket.getsockname()
        self.cseq = 0

    def refresh(self, seconds):
        """Of the next one in turn."""
        self.cseq += 1
        number = self.cseq % TELEPHONES if KIND in ("refresh", "durable") or self.cseq <= TELEPHONES else self.cseq
        aor = f"sip:user{number}@example.com"
        self.socket.send((
            f"REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {self.address};branch=z9hG4bK{self.cseq};rport\r\n"
            f"Max-Forwards: 70\r\nFrom: <{aor}>;tag={number}\r\nTo: <{aor}>\r\nCall-ID: {number}@telephone\r\n"
            f"CSeq: {self.cseq} REGISTER\r\nContact: <sip:user{number}@{self.address}>\r\nExpires: 60\r\n"
            "Content-Length: 0\r\n\r\n").encode())
        self.socket.settimeout(seconds)
        answer = self.socket.recv(65536)
        wanted = {STATUS, 200} if self.cseq <= TELEPHONES else {STATUS}
        if int(answer[8:11]) not in wanted:
            sys.exit(f"a request was answered by {answer[:60]!r}")

    def wait(self):
        """Until the server answers."""
        for _ in range(ATTEMPTS):
            # Always the same one, so that no other has a place when there is room for twenty.
            self.cseq = 0
            try:
                return self.refresh(0.3)
            except OSError:
                time.sleep(PAUSE_SECONDS)
        sys.exit("the server does not answer")


def control(what, process):
    subprocess.run(["callgrind_control", what, str(process.pid)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def serve(folder, *tool):
    """A server, run by the tool, and telephones that it has answered."""
    folder.mkdir()
    address = free_address()
    (folder / "busyhour.toml").write_text(CONFIG.format(
        address="%s:%d" % address, auth="digest" if KIND == "challenged" else "open",
        durability="full" if KIND == "durable" else "memory", devices=TELEPHONES if KIND == "refused" else 1_000_000))
    process = subprocess.Popen([*tool, BUSYHOUR, "serve", "--config", folder / "busyhour.toml"], cwd=folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        Telephones(address).wait()
    except BaseException:
        end(process)
        raise
    return process, Telephones(address)


def end(process):
    process.send_signal(signal.SIGTERM)
    process.wait()


def count_instructions(folder):
    process, telephones = serve(folder, "valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes",
                                "--cache-sim=yes", "--LL=2097152,16,64", f"--callgrind-out-file={folder}/out")
    try:
        control("--instr=on", process)
        for _ in range(WARM_UP):
            telephones.refresh(30)
        control("--zero", process)
        for _ in range(REFRESHES):
            telephones.refresh(30)
        control("--dump", process)
    finally:
        end(process)
    total, of_cluster, seen = collections.Counter(), {}, 0
    for file in sorted(folder.glob("out.1-*")):
        for place, instructions in costs(file):
            seen += instructions
            if re.search(r"busyhour_cluster|server::cluster|busyhour-cluster/src|server/cluster/", place):
                of_cluster[place] = of_cluster.get(place, 0) + instructions
        each = {name: count / REFRESHES for name, count in totals(file).items()}
        total.update(each)
        if each.get("Ir", 0) >= 1:
            print(f"thread {file.name[-2:]}: {each['Ir']:,.0f}")
    first, second = total["D1mr"] + total["D1mw"], total["DLmr"] + total["DLmw"]
    print(f"all threads: {total['Ir']:,.0f} instructions a request, {first:,.0f} miss the first cache, {second:,.1f} one of 2 MiB")
    # Those of the lines are all that were counted, or some were not looked at.
    if abs(seen / REFRESHES - total["Ir"]) > 0.01 * total["Ir"]:
        sys.exit(f"the lines have {seen / REFRESHES:,.0f} instructions a request")
    print(f"of the cluster's code: {sum(of_cluster.values()) / REFRESHES:,.1f} a refresh")
    for place, instructions in sorted(of_cluster.items(), key=lambda one: -one[1]):
        print(f"  {instructions / REFRESHES:,.1f} {place}")
    return not of_cluster


def totals(file):
    """The counts of all events, by name."""
    text = file.read_text()
    names = re.search(r"^events: (.*)", text, re.M)
    counts = re.search(r"^(?:totals|summary): (.*)", text, re.M)
    return dict(zip(names[1].split(), map(int, counts[1].split()))) if names and counts else {}


def count_system_calls(folder):
    process, telephones = serve(folder)
    try:
        for _ in range(WARM_UP):
            telephones.refresh(30)
        # Until the store believes its folder, it looks at each of its files.
        time.sleep(SETTLE_SECONDS if KIND == "durable" else 0)
        for _ in range(WARM_UP):
            telephones.refresh(30)
        before = scheduling(process)
        for _ in range(REFRESHES):
            telephones.refresh(30)
        after = scheduling(process)
        calls = traced(process, folder.with_suffix(".strace"), telephones)
    finally:
        end(process)
    print(f"{'thread':16} {'syscalls':>8} {'futex':>6} {'switches':>8} {'CPU ns':>8}  the most frequent, by request")
    for thread, (name, switches, cpu) in after.items():
        _, switches_before, cpu_before = before.get(thread, (name, 0, 0))
        own = calls.get(thread, collections.Counter())
        row = [sum(own.values()), own["futex"], switches - switches_before, cpu - cpu_before]
        if row[0] + row[2] < REFRESHES / 100:
            continue
        each = [value / REFRESHES for value in row]
        most = ", ".join(f"{call} {number / REFRESHES:.2f}" for call, number in own.most_common(4))
        print(f"{name:16} {each[0]:8.2f} {each[1]:6.2f} {each[2]:8.2f} {each[3]:8,.0f}  {most}")


def scheduling(process):
    """Of each thread its name, its context switches and its processor time in ns."""
    threads = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        status = (task / "status").read_text()
        switches = sum(map(int, re.findall(r"ctxt_switches:\s*(\d+)", status)))
        threads[task.name] = ((task / "comm").read_text().strip(), switches, int((task / "schedstat").read_text().split()[0]))
    return threads


def traced(process, file, telephones):
    """The system calls of each thread, by name, while requests are answered."""
    tracer = subprocess.Popen(["strace", "-f", "-o", file, "-p", str(process.pid)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
    tracer.stderr.readline()
    # Threads are attached to one by one, and a call that had begun is not counted.
    time.sleep(PAUSE_SECONDS)
    begin = file.stat().st_size
    for _ in range(REFRESHES):
        telephones.refresh(30)
    tracer.send_signal(signal.SIGINT)
    tracer.wait()
    calls = collections.defaultdict(collections.Counter)
    for line in file.read_bytes()[begin:].decode(errors="replace").splitlines():
        called = re.match(r"(\d+) +(\w+)\(", line)
        if called:
            calls[called[1]][called[2]] += 1
    return calls


def costs(file):
    """The instructions of each line, with its function and the file that it is in."""
    names, function, source, is_call = {}, "", "", False
    for line in file.read_text().splitlines():
        named = re.match(r"(fn|fl|fi|fe)=\((\d+)\)(?: (.*))?$", line)
        if named:
            kind, number, name = named.groups()
            key = ("fn" if kind == "fn" else "file", number)
            names[key] = name or names.get(key, "")
            if kind == "fn":
                function = names[key]
            else:
                source = names[key]
        elif line.startswith(("cfn=", "cfi=", "cfl=")):
            kind, number, name = re.match(r"c(fn|fi|fl)=\((\d+)\)(?: (.*))?$", line).groups()
            if name:
                names["fn" if kind == "fn" else "file", number] = name
        elif line.startswith("calls="):
            # The next line is what the called function took.
            is_call = True
        elif re.match(r"[-+*\d]", line):
            if not is_call:
                yield f"{function} in {source}", int(line.split()[1])
            is_call = False


# Where memory is a file system, a durable store would be in memory, too.
with tempfile.TemporaryDirectory(prefix="profile-refresh.", dir="." if KIND == "durable" else None) as scratch:
    folder = pathlib.Path(scratch).resolve()
    is_free = count_instructions(folder / "valgrind")
    count_system_calls(folder / "bare")
sys.exit(0 if is_free else 1)
