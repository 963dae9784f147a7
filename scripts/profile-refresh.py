#!/usr/bin/env python3
"""What a refresh of a registration costs the server, counted, and in which thread.

usage: [BUSYHOUR=target/release/busyhour] scripts/profile-refresh.py [REFRESHES] [new|challenged|refused|durable]

The server runs in memory, without passwords, under valgrind's callgrind, and twenty telephones refresh in turn (400 refreshes
unless told), each after the answer to the one before. Counting starts when all have refreshed several times, since valgrind
has to translate the code first. Prints the instructions of each thread, and those of all: valgrind runs one thread at a
time, so that its pool's workers take over more than they do otherwise. Beside those of all stand their accesses that miss the
first cache and one of 2 MiB. Then it prints how many instructions are of the cluster's code, by the names of functions and of
the files of what was inlined, and ends with 1 if there are any: the server is alone, and shall pay nothing for the others
that it does not have.

Then a second server, without valgrind, does the same twice, so that the threads are as they are otherwise: first for context
switches and processor time (/proc), then for system calls and those of them that are `futex` (strace, from after the start to
the last answer), all by thread. What the server does once a second counts too.

With a word the same for requests of which each is of another telephone: they are registered (new), are asked for their password
(challenged), or get 503 since there is room for twenty devices only (refused). With `durable` it is refreshes of a server that
has its store on a disk, in a new folder of the current one: each is acknowledged when it is in the journal. Counting starts
when the store trusts its folder, and goes on for ten seconds or longer, since its database follows once a second.
Needs valgrind and strace.
"""
import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

if len(sys.argv) > 1 and not (sys.argv[1].isdecimal() and int(sys.argv[1])):
    sys.exit(__doc__)
REFRESHES = int(sys.argv[1]) if len(sys.argv) > 1 else 400
KIND = sys.argv[2] if len(sys.argv) > 2 else "refresh"
STATUSES = {"refresh": 200, "new": 200, "challenged": 401, "refused": 503, "durable": 200}
if KIND not in STATUSES:
    sys.exit(f"profile-refresh: {KIND!r} is none of {', '.join(STATUSES)}")
IS_DURABLE = KIND == "durable"
STATUS = STATUSES[KIND]
BUSYHOUR = os.path.abspath(os.environ.get("BUSYHOUR", "target/release/busyhour"))
for program in (BUSYHOUR, "valgrind", "callgrind_control", "strace"):
    if not shutil.which(program):
        sys.exit(f"profile-refresh: {program} is missing")
TELEPHONES = 20
WARM_UP = 5 * TELEPHONES
ATTEMPTS = 200
PAUSE_SECONDS = 0.2
# Until the store trusts its folder, it looks at each of its files at each commit.
SETTLE_SECONDS = 6 if IS_DURABLE else 0
# So that the thread that follows with the database, once a second, has about as many turns in each count.
COUNT_SECONDS = 10 if IS_DURABLE else 0
END_SECONDS = 30

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
        number = self.cseq % TELEPHONES if KIND == "refresh" or IS_DURABLE or self.cseq <= TELEPHONES else self.cseq
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

    def wait(self, process):
        """Until the server of this process answers."""
        for _ in range(ATTEMPTS):
            if process.poll() is not None:
                raise ConnectionError(f"it has ended with {process.returncode}")
            # Always the same one, so that no other has a place when there is room for twenty.
            self.cseq = 0
            try:
                return self.refresh(0.3)
            except OSError:
                time.sleep(PAUSE_SECONDS)
        raise TimeoutError(f"{ATTEMPTS} requests were in vain")

    def warm_up(self):
        for _ in range(WARM_UP):
            self.refresh(30)
        time.sleep(SETTLE_SECONDS)
        for _ in range(WARM_UP):
            self.refresh(30)

    def refresh_counted(self):
        """As many as are wanted, or more until the time is over; returns how many, and how long it took."""
        begin, number = time.monotonic(), 0
        while number < REFRESHES or time.monotonic() - begin < COUNT_SECONDS:
            self.refresh(30)
            number += 1
        return number, time.monotonic() - begin


def control(what, process):
    done = subprocess.run(["callgrind_control", what, str(process.pid)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"profile-refresh: callgrind_control {what} has failed: {done.stdout}{done.stderr}".rstrip())


@contextlib.contextmanager
def serve(folder, *tool):
    """A server, run by the tool, and telephones that it has answered. It ends with the block."""
    folder.mkdir()
    address = free_address()
    (folder / "busyhour.toml").write_text(CONFIG.format(
        address="%s:%d" % address, auth="digest" if KIND == "challenged" else "open",
        durability="full" if IS_DURABLE else "memory", devices=TELEPHONES if KIND == "refused" else 1_000_000))
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen([*tool, BUSYHOUR, "serve", "--config", folder / "busyhour.toml"], cwd=folder,
                                   stdout=output, stderr=subprocess.STDOUT)
    try:
        Telephones(address).wait(process)
        yield process, Telephones(address)
    except (TimeoutError, ConnectionError) as error:
        said = (folder / "output").read_text(errors="replace").splitlines()
        # Valgrind's own lines come last, and say something only if there are no others.
        said = [line for line in said if not re.match(r"(==|--)\d+\1", line)] or said
        sys.exit("\n".join([f"profile-refresh: the server does not answer: {error}. Its last lines:", *said[-10:]]))
    finally:
        end(process)


def end(process, number=signal.SIGTERM):
    process.send_signal(number)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def count_instructions(folder):
    with serve(folder, "valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--cache-sim=yes",
               "--LL=2097152,16,64", f"--callgrind-out-file={folder}/out") as (process, telephones):
        control("--instr=on", process)
        telephones.warm_up()
        control("--zero", process)
        number, _ = telephones.refresh_counted()
        control("--dump", process)
    total, of_cluster, seen = collections.Counter(), {}, 0
    for file in sorted(folder.glob("out.1-*")):
        for place, instructions in costs(file):
            seen += instructions
            if re.search(r"busyhour_cluster|server::cluster|busyhour-cluster/src|server/cluster/", place):
                of_cluster[place] = of_cluster.get(place, 0) + instructions
        each = {name: count / number for name, count in totals(file).items()}
        total.update(each)
        if each.get("Ir", 0) >= 1:
            print(f"thread {file.name[-2:]}: {each['Ir']:,.0f}")
    first, second = total["D1mr"] + total["D1mw"], total["DLmr"] + total["DLmw"]
    print(f"all threads: {total['Ir']:,.0f} instructions a request, {first:,.0f} miss the first cache, {second:,.1f} one of 2 MiB")
    # Those of the lines are all that were counted, or some were not looked at.
    if abs(seen / number - total["Ir"]) > 0.01 * total["Ir"]:
        sys.exit(f"the lines have {seen / number:,.0f} instructions a request")
    print(f"of the cluster's code: {sum(of_cluster.values()) / number:,.1f} a refresh")
    for place, instructions in sorted(of_cluster.items(), key=lambda one: -one[1]):
        print(f"  {instructions / number:,.1f} {place}")
    return not of_cluster


def totals(file):
    """The counts of all events, by name."""
    text = file.read_text()
    names = re.search(r"^events: (.*)", text, re.M)
    counts = re.search(r"^(?:totals|summary): (.*)", text, re.M)
    return dict(zip(names[1].split(), map(int, counts[1].split()))) if names and counts else {}


def count_system_calls(folder):
    with serve(folder) as (process, telephones):
        telephones.warm_up()
        before = scheduling(process)
        number, seconds = telephones.refresh_counted()
        after = scheduling(process)
        calls, number_traced, seconds_traced = traced(process, folder.with_suffix(".strace"), telephones)
    print(f"switches and CPU of {number:,} requests in {seconds:.1f} s, system calls of {number_traced:,} in {seconds_traced:.1f} s")
    print(f"{'thread':16} {'syscalls':>8} {'futex':>6} {'switches':>8} {'CPU ns':>8}  the most frequent, by request")
    for thread, (name, switches, cpu) in after.items():
        _, switches_before, cpu_before = before.get(thread, (name, 0, 0))
        own = calls.get(thread, collections.Counter())
        each = [sum(own.values()) / number_traced, own["futex"] / number_traced, (switches - switches_before) / number,
                (cpu - cpu_before) / number]
        if each[0] + each[2] < 0.01:
            continue
        most = ", ".join(f"{call} {count / number_traced:.2f}" for call, count in own.most_common(4))
        print(f"{name:16} {each[0]:8.2f} {each[1]:6.2f} {each[2]:8.2f} {each[3]:8,.0f}  {most}")


def scheduling(process):
    """Of each thread its name, its context switches and its processor time in ns."""
    threads = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        try:
            status, name, cpu = ((task / file).read_text() for file in ("status", "comm", "schedstat"))
        except (FileNotFoundError, ProcessLookupError):
            # It has ended meanwhile.
            continue
        switches = sum(map(int, re.findall(r"ctxt_switches:\s*(\d+)", status)))
        threads[task.name] = (name.strip(), switches, int(cpu.split()[0]))
    return threads


def traced(process, file, telephones):
    """The system calls of each thread, by name, while requests are answered; how many requests, and how long it took."""
    tracer = subprocess.Popen(["strace", "-f", "-o", file, "-p", str(process.pid)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
    try:
        said = tracer.stderr.readline()
        # Threads are attached to one by one, and a call that had begun is not counted.
        time.sleep(PAUSE_SECONDS)
        if tracer.poll() is None:
            begin = file.stat().st_size
            number, seconds = telephones.refresh_counted()
        if tracer.poll() is not None:
            sys.exit(f"profile-refresh: strace has ended: {said}{tracer.stderr.read()}".rstrip())
    finally:
        end(tracer, signal.SIGINT)
    calls = collections.defaultdict(collections.Counter)
    for line in file.read_bytes()[begin:].decode(errors="replace").splitlines():
        called = re.match(r"(\d+) +(\w+)\(", line)
        if called:
            calls[called[1]][called[2]] += 1
    return calls, number, seconds


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


def exit_by(number, _frame):
    """Without a handler nothing would be ended or removed. Another signal does not interrupt that."""
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
for one in SIGNALS:
    # As under nohup.
    if signal.getsignal(one) != signal.SIG_IGN:
        signal.signal(one, exit_by)
# Where memory is a file system, a durable store would be in memory, too.
with tempfile.TemporaryDirectory(prefix="profile-refresh.", dir="." if IS_DURABLE else None) as scratch:
    folder = pathlib.Path(scratch).resolve()
    is_free = count_instructions(folder / "valgrind")
    count_system_calls(folder / "bare")
sys.exit(0 if is_free else 1)
