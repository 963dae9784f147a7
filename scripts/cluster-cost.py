#!/usr/bin/env python3
"""What a registration costs three nodes of a cluster, beside one server alone on the same PostgreSQL.

usage: [BUSYHOUR=target/release/busyhour] [APART=1] scripts/cluster-cost.py [RATE] [SECONDS] [ROUNDS]

Devices that are registered refresh: RATE a second (300 unless told), for SECONDS (10), in ROUNDS (5), in turns at a server
alone and at the three nodes, a third each; so two of three refreshes come to a node that does not own the device, and
are handed on. Prints the processor time of a refresh by part (servers, PostgreSQL, NATS), median and range over the
rounds, and the ratio of the servers' (at most 1.6 is wanted). Processor time counts, so other work on the machine changes
little. With APART=1 also three servers that know nothing of each other, a third of the devices at each: what three programs cost more
than one at this rate, before anything is handed on. Needs Debian's packages postgresql and nats-server. Ends with 1 if a refresh is not answered by 200, or the ratio is
missed.
"""
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RATE = int(sys.argv[1]) if len(sys.argv) > 1 else 300
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 10
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
BUSYHOUR = os.path.abspath(os.environ.get("BUSYHOUR", "target/release/busyhour"))
HERE = Path(__file__).resolve().parent
DEVICES = 300
# The load tool registers all devices before it refreshes them.
REGISTRATIONS = RATE * SECONDS + DEVICES
RATIO_MAX = 1.6
SIP, HTTP, NATS = 25_061, 28_081, 24_222
ALONE_SIP = 25_071
APART_SIP = 25_081
TICKS = os.sysconf("SC_CLK_TCK")


def main():
    with tempfile.TemporaryDirectory() as folder:
        servers, site = [], start_cluster(folder)
        try:
            servers.append(start_alone(folder, "alone", ALONE_SIP))
            if os.environ.get("APART"):
                servers += [start_alone(folder, f"apart{index}", APART_SIP + index) for index in range(3)]
            sys.exit(0 if measure(folder, [server.pid for server in servers]) else 1)
        finally:
            for server in servers:
                end(server)
            end(site)


def start_cluster(folder):
    environment = dict(os.environ, BUSYHOUR=BUSYHOUR, SIP_PORT=str(SIP), HTTP_PORT=str(HTTP), NATS_PORT=str(NATS))
    log = open(f"{folder}/site.log", "w+")
    site = subprocess.Popen([HERE / "three-nodes.sh", folder], env=environment, stdout=log, stderr=log)
    wait_for(site, log.name, "are ready")
    return site


def start_alone(folder, name, port):
    """A server with a database of its own in the same PostgreSQL."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    subprocess.run([programs / "createdb", "-h", folder, "-U", "busyhour", name], check=True)
    environment = dict(os.environ, BUSYHOUR_STORE_URL=f"postgres://busyhour@/{name}?host={folder}")
    log = open(f"{folder}/{name}.log", "w+")
    arguments = ["--sip-auth", "open", "--sip-domains", "example.com", "--iax2-listen", "off",
                 "--sip-listen", f"127.0.0.1:{port}", "--http-listen", "off"]
    alone = subprocess.Popen([BUSYHOUR, "serve", *arguments], env=environment, stdout=log, stderr=log)
    wait_for(alone, log.name, "ready ")
    return alone


def wait_for(process, log, text):
    until = time.monotonic() + 60
    while text not in Path(log).read_text():
        if process.poll() is not None or time.monotonic() > until:
            sys.exit(f"{process.args[0]} has not started:\n{Path(log).read_text()}")
        time.sleep(0.1)


def end(process):
    process.send_signal(signal.SIGTERM)
    process.wait(30)


def measure(folder, alone):
    alone_pid, *apart = alone
    nodes = [int(Path(f"{folder}/{name}.pid").read_text()) for name in ("alpha", "beta", "gamma")]
    postmaster = int(Path(f"{folder}/data/postmaster.pid").read_text().split()[0])
    nats = [pid for pid in children(parent(nodes[0])) if "nats-server" in name_of(pid)]
    sites = {
        "alone": ([alone_pid], [ALONE_SIP]),
        "three nodes": (nodes, [SIP, SIP + 1, SIP + 2]),
    }
    if apart:
        sites["three apart"] = (apart, [APART_SIP, APART_SIP + 1, APART_SIP + 2])
    for _, ports in sites.values():
        storm(ports, "--kind", "insert", "--closed", "16")
    costs = {name: [] for name in sites}
    for number in range(1, ROUNDS + 1):
        for name, (servers, ports) in sites.items():
            parts = {"servers": lambda: servers, "PostgreSQL": lambda: [postmaster, *children(postmaster)],
                     "NATS": lambda: nats}
            before = times(parts)
            storm(ports, "--kind", "refresh", "--rate", str(RATE // len(ports)), "--over", f"{SECONDS}s")
            after = times(parts)
            costs[name].append({part: (after[part] - before[part]) * 1e6 / REGISTRATIONS for part in parts})
        print(f"round {number} of {ROUNDS} done", flush=True)
    return report(costs)


def storm(ports, *how):
    """Storms all ports at once, each with its own devices; every request must be answered by 200."""
    each = DEVICES // len(ports)
    if "insert" not in how:
        how = [*how, "--threads", "1"]
    storms = [
        subprocess.Popen([BUSYHOUR, "storm", "--target", f"127.0.0.1:{port}", "--domain", "example.com",
                          "--devices", str(each), "--first", str(1 + index * each), *how],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for index, port in enumerate(ports)
    ]
    for process in storms:
        out, error = process.communicate(timeout=120)
        if process.returncode != 0:
            sys.exit(f"storm failed:\n{out}\n{error}")


def report(costs):
    print(f"\nµs of processor time a refresh, {RATE} a second: median (range)")
    for part in ("servers", "PostgreSQL", "NATS"):
        digits = 1 if part == "NATS" else 0
        cells = [f"{name} {spread([round_[part] for round_ in rounds], digits)}" for name, rounds in costs.items()]
        print(f"{part:>12}: {', '.join(cells)}")
    if "three apart" in costs:
        print(f"ratio of three apart: {spread(ratios_of(costs, 'three apart'), 2)}")
    ratios = ratios_of(costs, "three nodes")
    print(f"ratio of the servers: {spread(ratios, 2)} (at most {RATIO_MAX} is wanted)")
    return statistics.median(ratios) <= RATIO_MAX


def ratios_of(costs, name):
    return [three["servers"] / one["servers"] for one, three in zip(costs["alone"], costs[name])]


def spread(values, digits=0):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def times(parts):
    """Processor time of each part, in seconds. That of NATS is read from its threads, in nanoseconds: it is less than a tick in some rounds."""
    return {part: (seconds_of_threads if part == "NATS" else seconds)(pids()) for part, pids in parts.items()}


def seconds_of_threads(pids):
    threads = [thread for pid in pids for thread in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def seconds(pids):
    """Processor time, of programs that have ended as well if their parent is among them."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def children(pid):
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def name_of(pid):
    return Path(f"/proc/{pid}/comm").read_text()


if __name__ == "__main__":
    main()
