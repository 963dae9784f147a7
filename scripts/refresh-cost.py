#!/usr/bin/env python3
"""What a refresh costs Busyhour and Kamailio, which both keep registrations in memory and ask for no password.

usage: [BUSYHOUR=target/quick/busyhour] [BEFORE=OTHER_BINARY] [REFLECTOR=PROGRAM] [STORE=memory|postgres] scripts/refresh-cost.py [ROUNDS] [LOAD...]

In each round every server in turn has each LOAD: `closed:64` keeps so many refreshes under way, `rate:500` offers so many a second
(all of closed:64, rate:20000, rate:2000, rate:500 and rate:200 unless told), for SECONDS_EACH seconds (4). `busyhour storm` is the load for both.
Prints of each the processor time by refresh (the scheduler's count, from the second on in which the load has begun), refreshes a
second, and the latency; then the medians and their spread, and their ratios to Kamailio's. Needs Kamailio. REFLECTOR names the example `reflector`, which
grants each refresh at once and remembers nothing: what the kernel and the load tool take (cargo build --release -p busyhour-server
--example reflector). With STORE=postgres
Busyhour acknowledges what a PostgreSQL of its own on this machine has committed, by a Unix socket, and Kamailio has no part in it; what
PostgreSQL and the load tool take of the same processors is printed as well. There `floor:128` is a load, too: pgbench has PostgreSQL renew
the leases of 128 of the devices in one statement, again and again over one connection, and no server or load tool is there. That
needs Debian's package postgresql.
"""
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

STORE = os.environ.get("STORE", "memory")
LOAD_KINDS = ("closed:", "rate:", *(["floor:"] if STORE == "postgres" else []))
HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("telephones_before_a_pbx", HERE / "mid-registrar.py")
pbx = importlib.util.module_from_spec(spec)
ARGUMENTS, sys.argv = sys.argv[1:], sys.argv[:1]
spec.loader.exec_module(pbx)

if STORE not in ("memory", "postgres") or ARGUMENTS and not (ARGUMENTS[0].isdecimal() and all(load.startswith(LOAD_KINDS) for load in ARGUMENTS[1:])):
    sys.exit(__doc__)
if STORE == "postgres" and os.environ.get("REFLECTOR"):
    sys.exit("REFLECTOR stores nothing, so it is not measured beside a server on PostgreSQL")
ROUNDS = int(ARGUMENTS[0]) if ARGUMENTS else 3
LOADS = ARGUMENTS[1:] or ["closed:64", "rate:20000", "rate:2000", "rate:500", "rate:200"]
SECONDS = int(os.environ.get("SECONDS_EACH", "4"))
DEVICES = 1000
# Until all devices have registered, before they refresh.
BEGIN_SECONDS = 2
BINARIES = {"busyhour": os.environ.get("BUSYHOUR", "target/quick/busyhour")}
for variable in ("BEFORE", "REFLECTOR"):
    if os.environ.get(variable):
        BINARIES[variable.lower()] = os.environ[variable]


def start(name, folder):
    address = f"127.0.0.1:{pbx.free_port()}"
    if name == "kamailio":
        config = folder / "kamailio.cfg"
        config.write_text(pbx.KAMAILIO.format(address=address, granted=3600))
        command = ["kamailio", "-DD", "-f", str(config), "-m", "256"]
    elif name == "reflector":
        command = [BINARIES[name], address]
    else:
        command = [BINARIES[name], "serve", "--sip-listen", address, "--iax2-listen", "off", "--http-listen", "off",
                   "--sip-auth", "open", "--log-level", "warn", "--limits-source-percent", "100"]
        if STORE == "memory":
            command += ["--store-durability", "memory"]
    environment = dict(os.environ)
    if STORE == "postgres":
        subprocess.run([postgres_programs() / "createdb", "-h", folder, "-U", "busyhour", address.replace(":", "-")], check=True)
        environment["BUSYHOUR_STORE_URL"] = f"postgres://busyhour@/{address.replace(':', '-')}?host={folder}"
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    return process, address


def postgres_programs():
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    return found[-1] if found else sys.exit("PostgreSQL is not installed: Debian has it as the package postgresql")


def start_postgres(folder):
    """A PostgreSQL with nothing in it, on a Unix socket in this folder. It does not run as root."""
    as_user = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(folder, "nobody", "nogroup")
    data = folder / "data"
    initdb = [postgres_programs() / "initdb", "-D", data, "-A", "trust", "-U", "busyhour", "-E", "UTF8"]
    subprocess.run([*as_user, *initdb], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    command = [*as_user, postgres_programs() / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ready = [postgres_programs() / "pg_isready", "-h", folder, "-q"]
    until = time.monotonic() + 30
    while subprocess.run(ready, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > until:
            sys.exit("PostgreSQL has not started")
        time.sleep(0.1)
    return process


# As the server renews leases, without what says that the server is still the only one.
LEASES = f"""
    CREATE TABLE lease (id BIGINT PRIMARY KEY, cseq BIGINT NOT NULL, granted_s BIGINT NOT NULL, expires_at_ns BIGINT NOT NULL,
        removed BOOLEAN NOT NULL) WITH (fillfactor = 70);
    INSERT INTO lease SELECT id, 1, 3600, 0, false FROM generate_series(1, {DEVICES}) AS id;
"""
RENEW = """
\\set first random(1, :devices - :rows)
UPDATE lease SET cseq = lease.cseq + 1, granted_s = new.granted_s, expires_at_ns = new.expires_at_ns, removed = false
    FROM (SELECT id, 3600 AS granted_s, 1 AS expires_at_ns FROM generate_series(:first::bigint, :first::bigint + :rows::bigint - 1) AS id) AS new
    WHERE lease.id = new.id;
"""


def measure_floor(rows, folder, postgres):
    """What PostgreSQL takes to renew a lease, in groups of so many."""
    database, script = f"floor-{time.monotonic_ns()}", folder / "renew.sql"
    script.write_text(RENEW)
    reach = ["-h", folder, "-U", "busyhour"]
    subprocess.run([postgres_programs() / "createdb", *reach, database], check=True)
    psql = [postgres_programs() / "psql", *reach, "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", LEASES]
    subprocess.run(psql, check=True)
    pgbench = [postgres_programs() / "pgbench", *reach, "-n", "-M", "prepared", "-c", "1", "-T", str(SECONDS + 2), "-f", script,
               "-D", f"rows={rows}", "-D", f"devices={DEVICES}", database]
    process = subprocess.Popen(pgbench, stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    before = processor_seconds(postgres.pid)
    time.sleep(SECONDS)
    used = processor_seconds(postgres.pid) - before
    said, _ = process.communicate()
    if process.returncode != 0:
        sys.exit("pgbench has failed")
    each_second = float(said.split("tps = ")[1].split()[0]) * rows
    print(f"PostgreSQL alone, groups of {rows}: {used * 1e6 / (each_second * SECONDS):6.1f} µs each, {each_second:8,.0f} a second", flush=True)


def storm(address, *options):
    command = [BINARIES["busyhour"], "storm", "--target", address, "--domain", "example.com", "--devices", str(DEVICES), "--json",
               *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def processor_seconds(root):
    """What the threads of a process and of its children have had."""
    total = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(") ", 1)[1].split()[1])
            if root in (parent, int(stat.parent.name)):
                total += sum(int(one.read_text().split()[0]) for one in stat.parent.glob("task/*/schedstat"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total / 1e9


def measure(name, load, folder, postgres):
    process, address = start(name, folder)
    try:
        kind, number = load.split(":")
        load_tool = storm(address, "--kind", "refresh", f"--{kind}", number, "--over", f"{SECONDS + 2 * BEGIN_SECONDS}s")
        time.sleep(BEGIN_SECONDS)
        beside = {"PostgreSQL": postgres.pid, "the load tool": load_tool.pid} if postgres else {}
        roots = [process.pid, *beside.values()]
        begin, before = time.monotonic(), [processor_seconds(root) for root in roots]
        time.sleep(SECONDS)
        took, used = time.monotonic() - begin, [processor_seconds(root) - then for root, then in zip(roots, before)]
        result = json.loads(load_tool.communicate()[0])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    each, *others = [one * 1e6 / (result["register_per_s"] * took) for one in used]
    rest = "".join(f", {other} {one:.1f} µs" for other, one in zip(beside, others))
    print(f"{name:9} {load:11} {each:6.1f} µs each, {result['register_per_s']:8,.0f} a second, p50 {result['p50_us'] / 1000:7.2f} ms, "
          f"p99 {result['p99_us'] / 1000:8.2f} ms{rest}", flush=True)
    return each, result["p50_us"] / 1000, result["p99_us"] / 1000


def main():
    BINARIES.update({name: os.path.abspath(path) for name, path in BINARIES.items()})
    names = [*BINARIES, *(["kamailio"] if STORE == "memory" else [])]
    found = {(name, load): [] for name in names for load in LOADS}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        postgres = start_postgres(folder) if STORE == "postgres" else None
        try:
            for _ in range(ROUNDS):
                for load in LOADS:
                    if load.startswith("floor:"):
                        measure_floor(int(load.removeprefix("floor:")), folder, postgres)
                        continue
                    for name in names:
                        found[name, load].append(measure(name, load, folder, postgres))
        finally:
            if postgres:
                postgres.send_signal(signal.SIGINT)
                postgres.wait()
    for load in (load for load in LOADS if not load.startswith("floor:")):
        for number, (what, unit) in enumerate((("processor time", "µs"), ("p50", "ms"), ("p99", "ms"))):
            columns = {name: [row[number] for row in found[name, load]] for name in names}
            beside = statistics.median(columns["kamailio"]) if "kamailio" in names else None
            for name in names:
                spread, median = columns[name], statistics.median(columns[name])
                ratio = f", {median / beside:.2f} of Kamailio's {beside:.2f}" if beside and name != "kamailio" else ""
                print(f"{load:11} {what:14} {name:9} {median:6.2f} {unit} ({min(spread):.2f} to {max(spread):.2f}){ratio}")


main()
