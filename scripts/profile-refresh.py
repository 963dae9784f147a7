#!/usr/bin/env python3
"""How many instructions a refresh of a registration costs the server, and in which thread.

usage: [BUSYHOUR=target/release/busyhour] scripts/profile-refresh.py [REFRESHES] [new|challenged|refused]

The server runs in memory, without passwords, under valgrind's callgrind, and twenty telephones refresh in turn (400 refreshes
unless told), each after the answer to the one before. Counting starts when all have refreshed several times, since valgrind
has to translate the code first. Prints the instructions of each thread, and those of all: valgrind runs one thread at a
time, so that its pool's workers take over more than they do otherwise. Then it prints how many of them are of the cluster's
code, by the names of functions and of the files of what was inlined, and ends with 1 if there are any: the server is alone, and
shall pay nothing for the others that it does not have. Needs valgrind.

With a word the same for requests of which each is of another telephone: they are registered (new), are asked for their password
(challenged), or get 503 since there is room for twenty devices only (refused).
"""
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
STATUSES = {"refresh": 200, "new": 200, "challenged": 401, "refused": 503}
if KIND not in STATUSES:
    sys.exit(f"profile-refresh: {KIND!r} is none of {', '.join(STATUSES)}")
STATUS = STATUSES[KIND]
BUSYHOUR = os.path.abspath(os.environ.get("BUSYHOUR", "target/release/busyhour"))
TELEPHONES = 20
WARM_UP = 5 * TELEPHONES
ATTEMPTS = 200
PAUSE_SECONDS = 0.2

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
durability = "memory"
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
        number = self.cseq % TELEPHONES if KIND == "refresh" or self.cseq <= TELEPHONES else self.cseq
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
            try:
                return self.refresh(0.3)
            except OSError:
                time.sleep(PAUSE_SECONDS)
        sys.exit("the server does not answer")


def control(what, process):
    subprocess.run(["callgrind_control", what, str(process.pid)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def count(folder):
    server = free_address()
    (folder / "busyhour.toml").write_text(CONFIG.format(
        address="%s:%d" % server, auth="digest" if KIND == "challenged" else "open",
        devices=TELEPHONES if KIND == "refused" else 1_000_000))
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes",
               f"--callgrind-out-file={folder}/out", BUSYHOUR, "serve", "--config", f"{folder}/busyhour.toml"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        Telephones(server).wait()
        telephones = Telephones(server)
        control("--instr=on", process)
        for _ in range(WARM_UP):
            telephones.refresh(30)
        control("--zero", process)
        for _ in range(REFRESHES):
            telephones.refresh(30)
        control("--dump", process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    total, of_cluster, seen = 0, {}, 0
    for file in sorted(folder.glob("out.1-*")):
        for place, instructions in costs(file):
            seen += instructions
            if re.search(r"busyhour_cluster|server::cluster|busyhour-cluster/src|server/cluster/", place):
                of_cluster[place] = of_cluster.get(place, 0) + instructions
        found = re.search(r"^(?:totals|summary): (\d+)", file.read_text(), re.M)
        each = int(found[1]) / REFRESHES if found else 0
        total += each
        if each >= 1:
            print(f"thread {file.name[-2:]}: {each:,.0f}")
    print(f"all threads: {total:,.0f} instructions a request")
    # Those of the lines are all that were counted, or some were not looked at.
    if abs(seen / REFRESHES - total) > 0.01 * total:
        sys.exit(f"the lines have {seen / REFRESHES:,.0f} instructions a request")
    print(f"of the cluster's code: {sum(of_cluster.values()) / REFRESHES:,.1f} a refresh")
    for place, instructions in sorted(of_cluster.items(), key=lambda one: -one[1]):
        print(f"  {instructions / REFRESHES:,.1f} {place}")
    return not of_cluster


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
                yield f"{function} in {source}", int(line.split()[-1])
            is_call = False


with tempfile.TemporaryDirectory() as scratch:
    is_free = count(pathlib.Path(scratch))
sys.exit(0 if is_free else 1)
