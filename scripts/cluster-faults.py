"""The site, the load and the faults of scripts/cluster-faults.sh, which says how to use it.

Everything that a device asks for and is told becomes a line of a history, which scripts/cluster-history.py checks. A round is:
load, a fault in the middle of it, its end, the rest of the load, and a quiet time in which all watchers have to be right.
"""

import argparse
import ctypes
import json
import os
import random
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NODES = ["alpha", "beta", "gamma"]
ADDRESSES = {
    "alpha": "10.77.0.1", "beta": "10.77.0.2", "gamma": "10.77.0.3",
    "nats1": "10.77.0.11", "nats2": "10.77.0.12", "nats3": "10.77.0.13",
    "pg1": "10.77.0.21", "pg2": "10.77.0.22", "client": "10.77.0.31",
}
BROKERS = ["nats1", "nats2", "nats3"]
DATABASES = ["pg1", "pg2"]
DOMAIN = "example.com"
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
T1, GIVEN_UP = 0.5, 8.0
# As long as anything may take to be served again after a fault.
PATIENCE = 45.0


def now():
    return time.monotonic()


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **more).stdout


class Network:
    """A bridge in a namespace of its own, and one namespace for each part of the site."""

    def __init__(self):
        self.prefix = f"bhf{os.getpid()}"
        self.hub = f"{self.prefix}-hub"
        run("ip", "netns", "add", self.hub)
        self.inside(self.hub, "ip", "link", "add", "br0", "type", "bridge")
        self.inside(self.hub, "ip", "link", "set", "br0", "up")
        for number, (name, address) in enumerate(ADDRESSES.items()):
            space, veth = self.space(name), f"v{number}"
            run("ip", "netns", "add", space)
            self.inside(self.hub, "ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", space)
            self.inside(self.hub, "ip", "link", "set", veth, "master", "br0", "up")
            self.inside(space, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            self.inside(space, "ip", "link", "set", "eth0", "up")
            self.inside(space, "ip", "link", "set", "lo", "up")
            self.inside(space, "nft", "add table ip faults; add chain ip faults input { type filter hook input priority 0; }")

    def space(self, name):
        return f"{self.prefix}-{name}"

    @staticmethod
    def inside(space, *words):
        return run("ip", "netns", "exec", space, *words)

    def cut(self, source, target):
        """What source sends does not reach target any more."""
        self.inside(self.space(target), "nft", f"add rule ip faults input ip saddr {ADDRESSES[source]} drop")

    def cut_both(self, one, other):
        self.cut(one, other)
        self.cut(other, one)

    def heal(self):
        for name in ADDRESSES:
            self.inside(self.space(name), "nft", "flush chain ip faults input")

    def enter(self, name):
        """From now on sockets of this process are in that namespace."""
        with open(f"/run/netns/{self.space(name)}") as space:
            if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "setns")

    def remove(self):
        for space in [self.hub, *map(self.space, ADDRESSES)]:
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)


class Part:
    """A process that is started again when it ends, as a service manager does."""

    def __init__(self, site, name, words, environment=None, as_nobody=False):
        self.site, self.name, self.words, self.environment, self.as_nobody = site, name, words, environment or {}, as_nobody
        self.process, self.is_wanted, self.starts, self.next_start = None, False, 0, 0.0

    def start(self):
        self.is_wanted = True
        words = ["ip", "netns", "exec", self.site.network.space(self.name)]
        if self.as_nobody:
            words += ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
        log = open(self.site.folder / f"{self.name}.log", "ab")
        self.process = subprocess.Popen(words + [str(word) for word in self.words], stdout=log, stderr=log, cwd="/",
                                        env={**os.environ, **self.environment}, start_new_session=True)
        log.close()
        self.starts += 1

    def look(self):
        if self.is_wanted and self.process.poll() is not None:
            if self.next_start == 0.0:
                self.next_start = now() + 1.0
            elif now() >= self.next_start:
                self.next_start = 0.0
                self.start()

    def signal(self, number):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def kill(self):
        self.is_wanted = False
        self.signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.is_wanted = False
        self.signal(signal.SIGTERM)


class Site:
    def __init__(self, options, folder):
        self.folder, self.options = folder, options
        self.network = Network()
        self.parts, self.disks = {}, []
        self.primary, self.standby = "pg1", "pg2"
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not programs:
            sys.exit("PostgreSQL is missing: scripts/install-deps.sh test")
        self.postgres = programs[-1]

    def begin(self):
        for name in BROKERS:
            self.start_broker(name)
        self.begin_database()
        for name in NODES:
            self.parts[name] = self.node(name, self.options.program)
            self.parts[name].start()
        self.wait("all partitions are served", self.is_served)
        self.audit()

    def wait(self, what, is_so, patience=60.0):
        begun = now()
        while not is_so():
            self.look()
            if now() - begun > patience:
                raise TimeoutError(f"{what}: not after {patience:.0f} s; see {self.folder}")
            time.sleep(0.1)

    def look(self):
        for part in self.parts.values():
            part.look()

    # NATS

    def start_broker(self, name):
        others = [f"nats://{ADDRESSES[other]}:6222" for other in BROKERS if other != name]
        program = shutil.which("nats-server", path=os.environ["PATH"] + ":/usr/sbin")
        words = [program, "--addr", ADDRESSES[name], "--port", "4222", "--cluster_name", "faults",
                 "--cluster", f"nats://{ADDRESSES[name]}:6222", "--routes", ",".join(others)]
        self.parts[name] = Part(self, name, words)
        self.parts[name].start()

    # PostgreSQL

    def begin_database(self):
        for name in DATABASES:
            place = self.folder / name
            place.mkdir()
            # So small that it can be full.
            run("mount", "-t", "tmpfs", "-o", "size=400m,mode=700", "tmpfs", place)
            self.disks.append(place)
            shutil.chown(place, "nobody", "nogroup")
        self.as_nobody(self.postgres / "initdb", "-D", self.data("pg1"), "-A", "trust", "-U", "busyhour", "-E", "UTF8", "--wal-segsize=1")
        with open(self.data("pg1") / "pg_hba.conf", "a") as hba:
            hba.write("host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n")
        with open(self.data("pg1") / "postgresql.conf", "a") as conf:
            conf.write(f"listen_addresses = '*'\nunix_socket_directories = ''\nmin_wal_size = 4MB\nmax_wal_size = 32MB\n"
                       f"wal_keep_size = 32MB\nrestart_after_crash = on\nwal_sender_timeout = 3s\nlog_min_messages = warning\n"
                       f"tcp_user_timeout = 3s\ntcp_keepalives_idle = 2\ntcp_keepalives_interval = 1\ntcp_keepalives_count = 3\n")
        self.start_database("pg1")
        self.wait("the database answers", lambda: self.sql("SELECT 1", "postgres") == "1")
        self.sql("CREATE DATABASE busyhour", "postgres")
        self.make_standby()

    def as_nobody(self, *words, space=None):
        head = ["ip", "netns", "exec", self.network.space(space)] if space else []
        return run(*head, "setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", *words, cwd="/")

    def data(self, name):
        return self.folder / name / "data"

    def start_database(self, name):
        self.parts[name] = Part(self, name, [self.postgres / "postgres", "-D", self.data(name)], as_nobody=True)
        self.parts[name].start()

    def make_standby(self):
        """A copy of the primary, without which nothing is acknowledged from now on."""
        shutil.rmtree(self.data(self.standby), ignore_errors=True)
        (self.folder / self.standby / "filler").unlink(missing_ok=True)
        self.as_nobody(self.postgres / "pg_basebackup", "-D", self.data(self.standby), "-R", "-c", "fast", "-d",
                       f"host={ADDRESSES[self.primary]} user=busyhour application_name={self.standby}", space=self.standby)
        self.start_database(self.standby)
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'", "postgres")
        self.sql("SELECT pg_reload_conf()", "postgres")
        self.wait("the standby is synchronous", self.is_standby_there)

    def is_standby_there(self):
        return self.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", "postgres") == "1"

    def sql(self, statement, database="busyhour"):
        """The rows as text; nothing if there is no answer."""
        words = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement,
                 f"postgres://busyhour@{ADDRESSES[self.primary]}/{database}?connect_timeout=3"]
        space = self.network.space(self.primary)
        done = subprocess.run(["timeout", "20", "ip", "netns", "exec", space, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def audit(self):
        """Each commit of a binding notes who made it, and who owned the partition then."""
        self.sql("""
            CREATE SCHEMA audit;
            CREATE TABLE audit.committed (number BIGSERIAL PRIMARY KEY, partition INT, epoch BIGINT, owner INT, by TEXT,
                aor TEXT, call_id TEXT, cseq BIGINT, removed BOOLEAN);
            CREATE FUNCTION audit.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO audit.committed (partition, epoch, owner, by, aor, call_id, cseq, removed)
                    SELECT p.partition, p.epoch, p.owner, host(inet_client_addr()), c.aor, c.call_id, NEW.cseq, NEW.removed
                    FROM public.contact AS c JOIN public.cluster_partition AS p
                        ON p.partition = ('x' || substr(md5(c.aor), 1, 2))::bit(8)::integer
                    WHERE c.id = NEW.id;
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE ON public.lease DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION audit.note();""")
        if self.sql("SELECT count(*) FROM pg_trigger WHERE tgname = 'note'") != "1":
            raise RuntimeError("the database does not note commits")

    # Nodes

    def node(self, name, program):
        hosts = ",".join(f"{ADDRESSES[name]}:5432" for name in DATABASES)
        url = f"postgres://busyhour@{hosts}/busyhour?target_session_attrs=read-write&connect_timeout=2"
        (self.folder / f"{name}.offset").write_text("+0\n")
        environment = {"BUSYHOUR_STORE_URL": url, "LD_PRELOAD": FAKETIME, "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                       "DONT_FAKE_MONOTONIC": "1", "FAKETIME_TIMESTAMP_FILE": str(self.folder / f"{name}.offset")}
        words = [program, "serve", "--config", self.configuration(), "--cluster-node", name,
                 "--cluster-nats", ",".join(f"nats://{ADDRESSES[broker]}:4222" for broker in BROKERS),
                 "--sip-listen", f"{ADDRESSES[name]}:5060", "--http-listen", "off", "--http-socket", self.socket(name)]
        return Part(self, name, words, environment)

    def configuration(self):
        file = self.folder / "busyhour.toml"
        file.write_text(f'[sip]\nauth = "open"\ndomains = ["{DOMAIN}"]\n[iax2]\nlisten = "off"\n')
        return file

    def socket(self, name):
        return self.folder / f"{name}.sock"

    def put(self, name, path, body):
        """Sets something at a node."""
        text = json.dumps(body)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10.0)
            connection.connect(str(self.socket(name)))
            connection.sendall(f"PUT {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
            answer = connection.recv(65536).decode()
        if " 20" not in answer.split("\r\n")[0]:
            raise RuntimeError(f"{path}: {answer}")

    def ask(self, name, path):
        """The answer of a node to GET; nothing if there is none."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(3.0)
                connection.connect(str(self.socket(name)))
                connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                parts = []
                while part := connection.recv(65536):
                    parts.append(part)
            return b"".join(parts).decode().partition("\r\n\r\n")[2]
        except OSError:
            return ""

    def cluster_stats(self, name):
        try:
            return json.loads(self.ask(name, "/api/v1/stats"))["cluster"]
        except (ValueError, KeyError):
            return None

    def is_served(self):
        stats = [self.cluster_stats(name) for name in NODES]
        return all(stats) and sum(one["partitions_served"] for one in stats) == 256

    def is_whole(self):
        stats = [self.cluster_stats(name) for name in NODES]
        return all(stats) and sum(one["partitions_served"] for one in stats) == 256 and all(one["is_whole"] for one in stats)

    def end(self):
        for part in self.parts.values():
            part.signal(signal.SIGCONT)
            part.end()
        deadline = now() + 10.0
        for part in self.parts.values():
            try:
                part.process.wait(max(0.1, deadline - now()))
            except subprocess.TimeoutExpired:
                part.signal(signal.SIGKILL)
                part.process.wait()
        for disk in self.disks:
            subprocess.run(["umount", "-l", disk], check=False, capture_output=True)
        self.network.remove()


class History:
    def __init__(self, path):
        self.file = open(path, "w")

    def add(self, op, **fields):
        self.file.write(json.dumps({"op": op, **fields}) + "\n")


def header(message, name):
    found = re.search(rf"^{name}: *(.*?)\r?$", message, re.MULTILINE | re.IGNORECASE)
    return found.group(1) if found else ""


class Request:
    """A transaction of a client over UDP: sent again until there is an answer, or nobody waits any more."""

    def __init__(self, phone, node, text, done):
        self.phone, self.text, self.done = phone, text.encode(), done
        self.target, self.node = (ADDRESSES[node], 5060), node
        self.begun, self.pause = now(), T1
        self.next = self.begun
        self.look()

    def look(self):
        if now() >= self.begun + GIVEN_UP:
            self.finish(0, "")
        elif now() >= self.next:
            self.next = now() + self.pause
            self.pause = min(2 * self.pause, 4.0)
            try:
                self.phone.socket.sendto(self.text, self.target)
            except OSError:
                pass

    def finish(self, status, answer):
        self.phone.request = None
        self.done(status, answer, self)


class Phone:
    """A socket with at most one request under way."""

    def __init__(self, load, user):
        self.load, self.user, self.aor = load, user, f"sip:{user}@{DOMAIN}"
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((ADDRESSES["client"], 0))
        self.socket.setblocking(False)
        self.address = f"{ADDRESSES['client']}:{self.socket.getsockname()[1]}"
        self.cseq, self.count, self.request, self.next = 0, 0, None, now() + load.random.uniform(0.0, 1.0)
        self.call_id = f"{user}-{load.random.getrandbits(40):x}"

    def message(self, method, uri, to, call_id, cseq, headers, body="", tag=None):
        self.count += 1
        return (f"{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {self.address};branch=z9hG4bK{self.user}{self.count};rport\r\n"
                f"Max-Forwards: 70\r\nFrom: <{self.aor}>;tag={tag or self.user}\r\nTo: {to}\r\nCall-ID: {call_id}\r\n"
                f"CSeq: {cseq} {method}\r\nContact: <sip:{self.user}@{self.address}>{self.contact_end}\r\n{headers}"
                f"Content-Length: {len(body)}\r\n\r\n{body}")

    contact_end = ""

    def branch(self):
        self.count += 1
        return f"z9hG4bK{self.user}{self.count}"

    def send(self, text, done):
        self.request = Request(self, self.load.random.choice(NODES), text, done)

    def heard(self, message, source):
        if message.startswith("SIP/2.0 "):
            status = int(message[8:11])
            waits = self.request
            if waits and status >= 200 and header(message, "CSeq") == header(waits.text.decode(), "CSeq"):
                waits.finish(status, message)
        elif message.startswith("NOTIFY "):
            self.answer(message, source)
            self.notified(message)
        else:
            self.asked(message, source)

    def answer(self, message, source, tag="", headers="", body=""):
        """200 for a request."""
        names = ("via", "from", "to", "call-id", "cseq", "record-route", "v", "f", "t", "i")
        lines = [line + (tag if line.lower().startswith("to:") and "tag=" not in line else "") for line in message.split("\r\n\r\n")[0].split("\r\n")[1:]
                 if line.split(":")[0].lower() in names]
        text = "\r\n".join(["SIP/2.0 200 OK", *lines]) + f"\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}"
        try:
            self.socket.sendto(text.encode(), source)
        except OSError:
            pass

    def notified(self, message):
        pass

    def asked(self, message, source):
        """Whoever is asked whether it is there says so."""
        if not message.startswith("ACK "):
            self.answer(message, source)

    def act(self):
        pass

    def is_settled(self):
        """Whether nothing is uncertain."""
        return True

    def make_certain(self):
        """Asks for what makes it so."""

    def settle(self):
        if self.request is None and not self.is_settled() and now() >= self.next:
            self.next = now() + 0.5
            self.make_certain()
        return self.request is None and self.is_settled()


class Registrant(Phone):
    """Registers, refreshes, and sometimes ends its registration."""

    is_certain, is_on = False, False

    def act(self):
        self.register(self.load.random.random() < 0.8)

    def register(self, is_on):
        self.cseq += 1
        cseq = self.cseq

        def done(status, _, request):
            self.load.history.add("register", device=self.aor, call_id=self.call_id, cseq=cseq, is_on=is_on, status=status,
                                  begun=request.begun, ended=now(), at=request.node)
            self.is_certain = status == 200

        self.is_on, self.is_certain = is_on, False
        headers = f"Expires: {3600 if is_on else 0}\r\n"
        self.send(self.message("REGISTER", f"sip:{DOMAIN}", f"<{self.aor}>", self.call_id, cseq, headers), done)

    def is_settled(self):
        return self.is_certain

    def make_certain(self):
        self.register(self.is_on)

    def query(self):
        """What the registrar has, without changing it."""
        self.cseq += 1

        def done(status, answer, _):
            self.load.history.add("query", device=self.aor, is_on=self.address in header(answer, "Contact"), status=status, ended=now())

        text = self.message("REGISTER", f"sip:{DOMAIN}", f"<{self.aor}>", f"query-{self.call_id}", self.cseq, "")
        self.send(re.sub(r"Contact: .*\r\n", "", text), done)


class Publisher(Registrant):
    """Registers once, and publishes one version of its presence after the other."""

    version, tag, is_published = 0, "", False

    def act(self):
        if not self.is_certain:
            self.register(True)
        else:
            self.publish()

    def publish(self):
        self.version += 1
        self.cseq += 1
        version, how = self.version, "modify" if self.tag else "new"

        def done(status, answer, request):
            self.load.history.add("publish", device=self.aor, version=version, how=how, status=status, begun=request.begun,
                                  ended=now(), at=request.node)
            self.is_published = status == 200
            self.tag = header(answer, "SIP-ETag") if status == 200 else "" if status == 412 else self.tag

        self.is_published = False
        body = (f'<?xml version="1.0"?><presence xmlns="urn:ietf:params:xml:ns:pidf" entity="{self.aor}"><tuple id="t">'
                f"<status><basic>open</basic></status><note>v{version}.</note></tuple></presence>")
        headers = f"Event: presence\r\nExpires: 3600\r\nContent-Type: application/pidf+xml\r\n"
        headers += f"SIP-If-Match: {self.tag}\r\n" if self.tag else ""
        self.send(self.message("PUBLISH", self.aor, f"<{self.aor}>", f"p-{self.call_id}", self.cseq, headers, body), done)

    def is_settled(self):
        return self.is_certain and self.is_published

    def make_certain(self):
        self.act()


class Watcher(Phone):
    """Watches the presence of one device, and subscribes again when it is told that this has ended."""

    def __init__(self, load, user, device):
        super().__init__(load, user)
        self.device, self.dialogs, self.remote_tag, self.target = device, 0, "", ""
        self.is_subscribed, self.is_answered = False, False

    def act(self):
        if not self.is_subscribed:
            self.subscribe(False)
        elif self.load.random.random() < 0.3:
            self.subscribe(True)

    def subscribe(self, in_dialog):
        if not in_dialog:
            self.dialogs += 1
            self.remote_tag, self.target = "", self.device
        self.cseq += 1
        dialog = f"w{self.dialogs}-{self.call_id}"

        def done(status, answer, _):
            self.load.history.add("subscribe", watcher=self.user, device=self.device, in_dialog=in_dialog, status=status, ended=now())
            self.is_answered = status in (200, 202)
            if self.is_answered:
                self.is_subscribed = True
                self.remote_tag = header(answer, "To").partition(";tag=")[2]
            elif status:
                self.is_subscribed = False

        to = f"<{self.device}>" + (f";tag={self.remote_tag}" if in_dialog else "")
        self.send(self.message("SUBSCRIBE", self.device, to, dialog, self.cseq, self.wanted), done)

    wanted = "Event: presence\r\nExpires: 3600\r\nAccept: application/pidf+xml\r\n"

    def notified(self, message):
        dialog = header(message, "Call-ID")
        if not dialog.startswith(f"w{self.dialogs}-"):
            return
        if header(message, "Subscription-State").startswith("terminated"):
            self.is_subscribed = False
            self.next = now() + 0.5
            return
        self.told(message, dialog, message.partition("\r\n\r\n")[2], int(header(message, "CSeq").split()[0]))

    def told(self, message, dialog, body, cseq):
        if not body:
            return
        # A publication whose entity tag was lost with an answer lives on beside the next one, as RFC 3903 wants it.
        versions = [int(version) for version in re.findall(r"<note>v(\d+)\.</note>", message)]
        shown = f"v{max(versions)}" if versions else "on" if "<basic>open" in body else "off"
        # The dialogs of a watcher follow each other, so a later one counts more than any message of an earlier one.
        self.load.history.add("notify", watcher=self.user, device=self.device, dialog=dialog, shown=shown, cseq=cseq, at=now())

    def is_settled(self):
        return self.is_subscribed and self.is_answered

    def make_certain(self):
        # A refresh without an answer is repeated: until the server hears the watcher there, it sends few NOTIFYs.
        self.subscribe(self.is_subscribed)


class Panel(Watcher):
    """Watches the lines of all callees by one list, whose entries have several owners."""

    wanted = ("Event: dialog\r\nExpires: 3600\r\nSupported: eventlist\r\n"
              "Accept: application/dialog-info+xml, application/rlmi+xml, multipart/related\r\n")

    def told(self, message, dialog, body, cseq):
        for line in re.findall(r"<dialog-info.*?(?:</dialog-info>|/>)", body, re.DOTALL):
            device = re.search(r'entity="([^"]*)"', line).group(1)
            states = re.findall(r"<state[^>]*>(\w+)</state>", line)
            shown = "busy" if any(state != "terminated" for state in states) else "idle"
            self.load.history.add("lamp", watcher=self.user, device=device, dialog=dialog, shown=shown, cseq=cseq, at=now())


SOUND = "v=0\r\no=- 1 1 IN IP4 10.77.0.31\r\ns=-\r\nc=IN IP4 10.77.0.31\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\n"
# Who carried the call may be dead, and a call that its caller does not end is ended by the callee after so long.
CALL_SECONDS_MAX = 10.0


class Callee(Registrant):
    """Stays registered, takes each call at once, and ends one that its caller does not end."""

    def __init__(self, load, user):
        super().__init__(load, user)
        self.taken = {}

    def act(self):
        if not self.is_certain:
            self.register(True)
        self.end_calls()

    def asked(self, message, source):
        method, call = message.split(" ", 1)[0], header(message, "Call-ID")
        if method == "INVITE":
            self.taken.setdefault(call, (message, now()))
            contact = f"Contact: <sip:{self.user}@{self.address}>\r\nContent-Type: application/sdp\r\n"
            self.answer(message, source, f";tag={self.user}", contact, SOUND)
        elif method == "BYE":
            self.taken.pop(call, None)
            self.answer(message, source)
        else:
            super().asked(message, source)

    def end_calls(self):
        for call, (invite, since) in list(self.taken.items()):
            if self.request is None and now() >= since + CALL_SECONDS_MAX:
                self.hang_up(call, invite)

    def hang_up(self, call, invite):
        self.cseq += 1

        def done(status, _, request):
            self.load.history.add("hang_up", call_id=call, status=status, ended=now())
            # Without an answer it is tried again.
            if status:
                self.taken.pop(call, None)

        target = re.search(r"<([^>]+)>", header(invite, "Contact")).group(1)
        routes = "".join(f"Route: {route}\r\n" for route in re.findall(r"^Record-Route: *(.*?)\r?$", invite, re.M))
        self.send(within("BYE", target, f"{header(invite, 'To').split(';')[0]};tag={self.user}", header(invite, "From"), call, self.cseq,
                         self.address, self.branch(), routes), done)

    def is_settled(self):
        return self.is_certain and not self.taken

    def make_certain(self):
        self.act()


def within(method, target, sender, receiver, call, cseq, address, branch, routes):
    """A request within a call."""
    return (f"{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch={branch};rport\r\nMax-Forwards: 70\r\n{routes}"
            f"From: {sender}\r\nTo: {receiver}\r\nCall-ID: {call}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n")


class Caller(Phone):
    """Calls one callee after the other, and ends each call soon. Any node is told."""

    def __init__(self, load, user):
        super().__init__(load, user)
        self.calls, self.open, self.call = 0, None, None

    def act(self):
        if self.open:
            return self.hang_up()
        there = [callee for callee in self.load.callees if callee.is_certain]
        if there:
            self.invite(self.load.random.choice(there))

    def invite(self, callee):
        self.calls += 1
        self.cseq += 1
        call, to = f"call{self.calls}-{self.call_id}", f"<{callee.aor}>"

        def done(status, answer, request):
            self.call = {"device": callee.aor, "call_id": call, "begun": request.begun, "status": status}
            if status:
                self.acknowledge(answer, request.target)
            if status == 200:
                self.open = answer
                self.next = now() + self.load.random.uniform(0.2, 1.5)
            else:
                self.over(status >= 300)

        self.send(self.message("INVITE", callee.aor, to, call, self.cseq, "Content-Type: application/sdp\r\n", SOUND), done)
        self.invited = self.request.text.decode() if self.request else ""

    def over(self, is_over):
        self.load.history.add("call", **self.call, is_over=is_over, ended=now())

    def acknowledge(self, answer, target):
        """The ACK of a refusal is of the same transaction as its INVITE."""
        is_taken = answer.startswith("SIP/2.0 200")
        via = header(answer, "Via")
        branch = self.branch() if is_taken else re.search(r"branch=([^;\s]+)", via).group(1)
        uri = self.remote(answer) if is_taken else self.invited.split(" ")[1]
        cseq = header(answer, "CSeq").split()[0]
        text = within("ACK", uri, header(answer, "From"), header(answer, "To"), header(answer, "Call-ID"), cseq, self.address, branch,
                      self.routes(answer) if is_taken else "")
        try:
            self.socket.sendto(text.encode(), target)
        except OSError:
            pass

    def hang_up(self):
        answer, self.open = self.open, None
        self.cseq += 1

        def done(status, _, request):
            self.over(status in (200, 481))

        self.send(within("BYE", self.remote(answer), header(answer, "From"), header(answer, "To"), header(answer, "Call-ID"), self.cseq,
                         self.address, self.branch(), self.routes(answer)), done)

    @staticmethod
    def remote(answer):
        return re.search(r"<([^>]+)>", header(answer, "Contact")).group(1)

    @staticmethod
    def routes(answer):
        return "".join(f"Route: {route}\r\n" for route in reversed(re.findall(r"^Record-Route: *(.*?)\r?$", answer, re.M)))

    def asked(self, message, source):
        super().asked(message, source)
        if message.startswith("BYE ") and self.open and header(self.open, "Call-ID") == header(message, "Call-ID"):
            self.open = None
            self.over(True)

    def heard(self, message, source):
        is_again = message.startswith("SIP/2.0 200") and header(message, "CSeq").endswith("INVITE")
        super().heard(message, source)
        if is_again and self.open is not None and self.open is not message:
            self.acknowledge(message, source)

    def is_settled(self):
        return self.open is None

    def make_certain(self):
        self.hang_up()


class Load:
    def __init__(self, site, history, seed, count):
        self.site, self.history, self.random = site, history, random.Random(seed)
        self.registrants = [Registrant(self, f"r{number}") for number in range(count)]
        self.publishers = [Publisher(self, f"p{number}") for number in range(count // 2)]
        watched = self.registrants[: count // 2] + self.publishers
        self.watchers = [Watcher(self, f"w{number}", phone.aor) for number, phone in enumerate(watched + self.publishers)]
        self.callees = [Callee(self, f"c{number}") for number in range(count // 4)]
        self.callers = [Caller(self, f"k{number}") for number in range(count // 4)]
        self.panels = [Panel(self, f"l{number}", f"sip:panel@{DOMAIN}") for number in range(3)]
        self.phones = self.registrants + self.publishers + self.watchers + self.callees + self.callers + self.panels
        self.selector = selectors.DefaultSelector()
        for phone in self.phones:
            self.selector.register(phone.socket, selectors.EVENT_READ, phone)

    def step(self):
        for key, _ in self.selector.select(0.02):
            for _ in range(20):
                try:
                    message, source = key.data.socket.recvfrom(65536)
                except OSError:
                    break
                key.data.heard(message.decode(errors="replace"), source)
        for phone in self.phones:
            if phone.request:
                phone.request.look()
        self.site.look()

    def work(self, seconds):
        end = now() + seconds
        while now() < end:
            self.step()
            for phone in self.phones:
                if phone.request is None and now() >= phone.next:
                    phone.next = now() + self.random.uniform(0.5, 2.5)
                    phone.act()

    def settle(self):
        """Until nothing is uncertain. What is not served by then is not served at all."""
        begun = now()
        while not all([phone.settle() for phone in self.phones]):
            self.step()
            if now() - begun > PATIENCE:
                unsettled = [phone.user for phone in self.phones if not phone.settle()]
                return unsettled
        return []

    def quiet(self, seconds):
        begun = now()
        while now() < begun + seconds:
            self.step()
        self.history.add("quiet", begun=begun, ended=now())

    def ask_all(self):
        registered = self.registrants + self.callees
        for phone in registered:
            phone.query()
        while any(phone.request for phone in registered):
            self.step()


class Faults:
    """What goes wrong. Each begins, and returns how it ends."""

    def __init__(self, site, load):
        self.site, self.load, self.network, self.random = site, load, site.network, load.random

    def one(self):
        return self.random.choice(NODES)

    def names(self):
        return [name[3:] for name in dir(self) if name.startswith("do_")]

    def do_kill(self):
        part = self.site.parts[self.one()]
        part.kill()
        return part.start

    def do_kill_two(self):
        parts = [self.site.parts[name] for name in self.random.sample(NODES, 2)]
        for part in parts:
            part.kill()
        return lambda: [part.start() for part in parts]

    def do_stop(self):
        part = self.site.parts[self.one()]
        part.signal(signal.SIGSTOP)
        return lambda: part.signal(signal.SIGCONT)

    def do_node_from_brokers(self):
        node = self.one()
        for broker in BROKERS:
            self.network.cut_both(node, broker)
        return self.network.heal

    def do_node_hears_no_broker(self):
        node = self.one()
        for broker in BROKERS:
            self.network.cut(broker, node)
        return self.network.heal

    def do_nodes_apart(self):
        node = self.one()
        for other in NODES:
            if other != node:
                self.network.cut_both(node, other)
        return self.network.heal

    def do_node_hears_no_other(self):
        node = self.one()
        for other in NODES:
            if other != node:
                self.network.cut(other, node)
        return self.network.heal

    def do_node_from_all(self):
        """Nobody but the client reaches it."""
        node = self.one()
        for other in [*NODES, *BROKERS, *DATABASES]:
            if other != node:
                self.network.cut_both(node, other)
        return self.network.heal

    def do_brokers_apart(self):
        alone = self.random.choice(BROKERS)
        for broker in BROKERS:
            if broker != alone:
                self.network.cut_both(alone, broker)
        return self.network.heal

    def do_broker_hears_no_other(self):
        deaf = self.random.choice(BROKERS)
        for broker in BROKERS:
            if broker != deaf:
                self.network.cut(broker, deaf)
        return self.network.heal

    def do_brokers_killed(self):
        parts = [self.site.parts[name] for name in BROKERS]
        for part in parts:
            part.kill()
        return lambda: [part.start() for part in parts]

    def do_node_from_database(self):
        node = self.one()
        for database in DATABASES:
            self.network.cut_both(node, database)
        return self.network.heal

    def do_node_hears_no_database(self):
        node = self.one()
        for database in DATABASES:
            self.network.cut(database, node)
        return self.network.heal

    def do_database_hears_no_node(self):
        node = self.one()
        for database in DATABASES:
            self.network.cut(node, database)
        return self.network.heal

    def do_standby_away(self):
        self.network.cut_both(*DATABASES)
        return self.network.heal

    def do_database_killed(self):
        part = self.site.parts[self.site.primary]
        part.kill()
        return part.start

    def do_disk_full(self):
        filler = self.site.folder / self.site.primary / "filler"
        with open(filler, "wb") as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
        return filler.unlink

    def do_failover(self):
        site = self.site
        site.parts[site.primary].kill()
        site.primary, site.standby = site.standby, site.primary
        site.sql("ALTER SYSTEM SET synchronous_standby_names = ''", "postgres")
        site.as_nobody(site.postgres / "pg_ctl", "promote", "-D", site.data(site.primary))
        site.wait("the standby is the primary", lambda: site.sql("SELECT pg_is_in_recovery()", "postgres") == "f")
        site.sql("ALTER SYSTEM SET synchronous_standby_names = ''", "postgres")
        site.sql("SELECT pg_reload_conf()", "postgres")
        return site.make_standby

    def set_clock(self, seconds):
        node = self.one()
        offset = self.site.folder / f"{node}.offset"
        offset.write_text(f"{seconds:+}\n")
        return lambda: offset.write_text("+0\n")

    def do_clock_forward(self):
        return self.set_clock(300)

    def do_clock_back(self):
        return self.set_clock(-300)

    def do_rolling_restart(self):
        programs = [self.site.options.other or self.site.options.program, self.site.options.program]
        for program in programs if self.site.options.other else programs[:1]:
            for name in NODES:
                part = self.site.parts[name]
                part.end()
                self.until(lambda: part.process.poll() is not None)
                self.site.parts[name] = self.site.node(name, program)
                self.site.parts[name].start()
                self.until(self.site.is_served)
        return lambda: None

    def until(self, is_so):
        begun = now()
        while not is_so():
            self.load.work(0.2)
            if now() - begun > PATIENCE:
                raise TimeoutError(f"a restart takes more than {PATIENCE:.0f} s; see {self.site.folder}")


def rows(site, statement):
    """The rows of a statement as JSON."""
    text = site.sql(f"SELECT coalesce(json_agg(found), '[]') FROM ({statement}) AS found")
    return json.loads(text)


def note_stored(site, history):
    bindings = rows(site, "SELECT aor, call_id, cseq FROM contact JOIN lease USING (id) WHERE NOT removed")
    publications = rows(site, "SELECT value FROM soft_state WHERE kind = 'publication' AND value NOT LIKE '%\"removed\":%'")
    found = []
    for row in publications:
        value = json.loads(row["value"])
        version = re.search(r"v(\d+)\.", row["value"])
        found.append({"device": value["device"], "version": int(version.group(1)) if version else None})
    history.add("stored", at=now(), bindings=bindings, publications=found)


def note_commits(site, history):
    names = {row["node"]: row["name"] for row in rows(site, "SELECT node, name FROM cluster_node")}
    nodes = {address: name for name, address in ADDRESSES.items()}
    for row in rows(site, "SELECT * FROM audit.committed ORDER BY number"):
        history.add("commit", order=row["number"], partition=row["partition"], epoch=row["epoch"], owner=names[row["owner"]],
                    by=nodes[row["by"]], aor=row["aor"], call_id=row["call_id"], cseq=row["cseq"], removed=row["removed"])


def play(site, load, faults, name, hold, history):
    load.work(2.0)
    begun = now()
    heal = getattr(faults, f"do_{name}")()
    load.work(hold)
    heal()
    history.add("fault", what=name, begun=begun, ended=now())
    healed = now()
    while not site.is_whole() and now() < healed + PATIENCE:
        load.work(0.2)
    whole = now() - healed
    load.work(1.0)
    unsettled = load.settle()
    load.quiet(11.0)
    load.ask_all()
    note_stored(site, history)
    print(f"  {name}: whole {whole:.1f} s after its end{', NOT SERVED: ' + ', '.join(unsettled) if unsettled else ''}", flush=True)
    return unsettled


def main():
    options = read_options()
    folder = Path(options.keep) if options.keep else Path(tempfile.mkdtemp(prefix="cluster-faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    path, site = folder / "history.jsonl", None
    history = History(path)
    print(f"seed {options.seed}, folder {folder}", flush=True)
    unserved = []
    try:
        site = Site(options, folder)
        site.begin()
        site.network.enter("client")
        load = Load(site, history, options.seed, options.devices)
        site.put("alpha", "/api/v1/lists/panel", {"entries": [callee.aor for callee in load.callees]})
        site.wait("all nodes have the list", lambda: all("entries" in site.ask(name, "/api/v1/lists/panel") for name in NODES))
        faults = Faults(site, load)
        names = options.faults or faults.names()
        for round_number in range(options.rounds):
            print(f"round {round_number + 1} of {options.rounds}", flush=True)
            load.random.shuffle(names)
            for name in names:
                hold = options.stop_seconds if name == "stop" else options.hold
                unserved += play(site, load, faults, name, hold, history)
        note_commits(site, history)
        for name in NODES:
            history.add("counters", node=name, **{key: value for key, value in site.cluster_stats(name).items() if key != "node"})
    finally:
        history.file.close()
        if site:
            site.end()
    checked = subprocess.run([sys.executable, Path(__file__).with_name("cluster-history.py"), path], check=False)
    if checked.returncode == 0 and not unserved and not options.keep:
        shutil.rmtree(folder)
    sys.exit(1 if unserved else checked.returncode)


def read_options():
    parser = argparse.ArgumentParser(prog="scripts/cluster-faults.sh")
    parser.add_argument("--list", action="store_true", help="the names of the faults")
    parser.add_argument("--faults", type=lambda names: names.split(","))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--hold", type=float, default=7.0, help="how long a fault lasts")
    parser.add_argument("--stop-seconds", type=float, default=30.0, help="how long a node stands still")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32))
    parser.add_argument("--devices", type=int, default=40)
    parser.add_argument("--keep", help="a folder that stays")
    options = parser.parse_args()
    if options.list:
        print("\n".join(name[3:] for name in dir(Faults) if name.startswith("do_")))
        sys.exit(0)
    options.program = Path(os.environ.get("BUSYHOUR", "target/quick/busyhour")).resolve()
    options.other = Path(os.environ["OTHER"]).resolve() if "OTHER" in os.environ else None
    if os.geteuid() != 0:
        sys.exit("it makes network namespaces, so it needs root")
    if not options.program.exists():
        sys.exit(f"there is no program at {options.program}: make run builds it; or set BUSYHOUR")
    return options


if __name__ == "__main__":
    main()
