#!/usr/bin/env python3
"""Registration in front of a real Asterisk (`[[registrar]]`), over UDP and over TCP.

usage: [BUSYHOUR=target/debug/busyhour] scripts/asterisk-registrar.py ASTERISK PJPROJECT [PREFIX]

ASTERISK is a folder with Asterisk's source, which is copied, and PJPROJECT one with the version of pjproject that its
third-party/versions.mak names. Asterisk is built with the modules that this needs and installed in PREFIX (target/asterisk
unless told), which takes three minutes of processor; what is installed there already is used. Needs libjansson-dev,
libedit-dev, uuid-dev, libsqlite3-dev, libxml2-dev and libssl-dev. For each transport: a telephone refreshes twenty times, and
Asterisk is asked once, with a challenge; it has one contact, with our Path; a call by way of Asterisk arrives at the
telephone; a user that Asterisk does not know is refused here with the next refresh; the end of the registration reaches it.
Exit code 0: all of that is so.
"""
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BUSYHOUR = os.path.abspath(os.environ.get("BUSYHOUR", "target/debug/busyhour"))
MODULES = """res_pjproject res_pjsip res_pjsip_session res_pjsip_registrar res_pjsip_path res_pjsip_authenticator_digest
res_pjsip_endpoint_identifier_user res_pjsip_endpoint_identifier_ip res_sorcery_config res_sorcery_memory res_sorcery_astdb
res_rtp_asterisk res_pjsip_sdp_rtp res_pjsip_nat res_pjsip_pubsub chan_pjsip app_dial bridge_simple pbx_config codec_ulaw
res_timing_timerfd res_statsd res_crypto res_http_websocket res_geolocation""".split()
ASTERISK_HOST, PATIENCE_S = "127.0.0.40", 60

PJSIP = """
[udp]
type=transport
protocol=udp
bind={host}:{port}
[tcp]
type=transport
protocol=tcp
bind={host}:{port}
[bob]
type=endpoint
context=users
disallow=all
allow=ulaw
aors=bob
auth=bob
rewrite_contact=no
[bob]
type=auth
auth_type=userpass
username=bob
password=secret
[bob]
type=aor
max_contacts=1
remove_existing=yes
support_path=yes
[world]
type=endpoint
context=users
disallow=all
allow=ulaw
[world]
type=identify
endpoint=world
match=127.0.0.41
"""

BUSYHOUR_TOML = """
[sip]
listen = "127.0.0.1:0"
domains = ["example.com"]
[iax2]
listen = "off"
[http]
listen = "127.0.0.1:0"
[[account]]
user = "bob"
password = "secret"
[[account]]
user = "mallory"
password = "secret"
[[peer]]
name = "pbx"
addresses = ["{host}"]
may_call = true
[[registrar]]
name = "pbx"
address = "{over}{host}:{port}"
"""

OFFER = "v=0\r\no=- 1 1 IN IP4 127.0.0.41\r\ns=-\r\nc=IN IP4 127.0.0.41\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\n"


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("\n".join(__doc__.split("\n")[2:3]))
    prefix = os.path.abspath(sys.argv[3] if len(sys.argv) == 4 else "target/asterisk")
    if not os.path.exists(f"{prefix}/sbin/asterisk"):
        build(sys.argv[1], sys.argv[2], prefix)
    for over in ("", "tcp/"):
        with tempfile.TemporaryDirectory() as folder:
            try_it(folder, prefix, over)
    print("asterisk-registrar: all is so")


def build(asterisk, pjproject, prefix):
    with tempfile.TemporaryDirectory() as folder:
        source, cache = f"{folder}/source", f"{folder}/cache"
        shutil.copytree(asterisk, source, symlinks=True)
        os.mkdir(cache)
        with open(f"{source}/third-party/versions.mak") as file:
            version = re.search(r"PJPROJECT_VERSION=(\S+)", file.read())[1]
        name = f"pjproject-{version}"
        run(folder, "tar", "cjf", f"{cache}/{name}.tar.bz2", f"--transform=s,^\\.,{name},", "-C", os.path.abspath(pjproject), ".")
        with open(f"{cache}/{name}.tar.bz2", "rb") as file:
            digest = hashlib.md5(file.read()).hexdigest()
        with open(f"{source}/third-party/pjproject/{name}.tar.bz2.md5", "w") as file:
            file.write(f"{digest}  {name}.tar.bz2\n")
        run(source, "./configure", f"--prefix={prefix}", f"--with-externals-cache={cache}", "--with-pjproject-bundled",
            "--without-jansson-bundled")
        run(source, "make", "menuselect.makeopts")
        run(source, "menuselect/menuselect", "--disable-all", "menuselect.makeopts")
        for module in MODULES:
            run(source, "menuselect/menuselect", "--enable", module, "menuselect.makeopts")
        run(source, "make", f"-j{os.cpu_count()}")
        run(source, "make", "install")


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"asterisk-registrar: {' '.join(command)} failed:\n{done.stdout[-3000:]}")


def try_it(folder, prefix, over):
    port = free_port(ASTERISK_HOST)
    asterisk = Asterisk(folder, prefix, port)
    server = Busyhour(folder, BUSYHOUR_TOML.format(host=ASTERISK_HOST, port=port, over=over))
    try:
        scenario(asterisk, server, over)
    except BaseException:
        print(f"asterisk-registrar: over {over or 'udp/'}: Asterisk:\n{asterisk.log()[-4000:]}\nBusyhour:\n{server.log()[-4000:]}")
        raise
    finally:
        server.end(), asterisk.end()


def scenario(asterisk, server, over):
    bob, mallory = Telephone("127.0.0.42", "bob", server.sip), Telephone("127.0.0.43", "mallory", server.sip)
    for _ in range(20):
        bob.register(600).expect("200")
    server.wait("/upstream/answered", lambda count: count == 2)
    assert (server.stat("/upstream/sent"), server.stat("/upstream/challenged")) == (1, 1), server.stats()["upstream"]
    contacts = asterisk.command("pjsip show contacts")
    assert len(re.findall(r"Contact:\s+bob/", contacts)) == 1, contacts
    suffix = ";transport=tcp" if over else ""
    assert f"{suffix};bh-domain=example.com" in asterisk.command("database show registrar"), asterisk.command("database show registrar")

    world = Telephone("127.0.0.41", "world", asterisk.address)
    world.send(world.request("INVITE", f"sip:bob@{ASTERISK_HOST}", OFFER))
    invite = bob.hear("INVITE ")
    assert f"SIP/2.0/{'TCP' if over else 'UDP'} {ASTERISK_HOST}" in invite.text, invite.text
    bob.answer(invite, "486 Busy Here")
    world.hear("SIP/2.0 486 ")

    mallory.register(600)
    server.wait("/upstream/refused", lambda count: count > 0)
    mallory.register(600).expect("403 Refused By The Registrar Behind")

    bob.register(0).expect("200")
    server.wait("/upstream/told_count", lambda count: count == 0)
    contacts = asterisk.command("pjsip show contacts")
    assert "bob/" not in contacts, contacts
    print(f"asterisk-registrar: over {over or 'udp/'}: 20 refreshes, one registration with a challenge, a call, a refusal, the end")


class Asterisk:
    def __init__(self, folder, prefix, port):
        self.folder, self.program, self.address = folder, f"{prefix}/sbin/asterisk", (ASTERISK_HOST, port)
        for name in ("etc", "run", "var", "spool", "log"):
            os.mkdir(f"{folder}/{name}")
        version = "".join(
            f"{key} => {folder}/{name}\n"
            for key, name in [("astetcdir", "etc"), ("astrundir", "run"), ("astvarlibdir", "var"), ("astdbdir", "var"),
                              ("astkeydir", "var"), ("astspooldir", "spool"), ("astlogdir", "log"), ("astagidir", "var")]
        )
        modules, data = f"{prefix}/lib/asterisk/modules", f"{prefix}/var/lib/asterisk"
        self.write("asterisk.conf", f"[directories]\nastmoddir => {modules}\nastdatadir => {data}\n{version}")
        self.write("modules.conf", "[modules]\nautoload=yes\n")
        self.write("logger.conf", "[logfiles]\nmessages => notice,warning,error\n")
        self.write("pjsip.conf", PJSIP.format(host=ASTERISK_HOST, port=port))
        self.write("extensions.conf", "[users]\nexten => bob,1,Dial(PJSIP/bob)\n same => n,Hangup(${HANGUPCAUSE})\n")
        output = open(f"{folder}/asterisk.out", "wb")
        self.process = subprocess.Popen([self.program, "-f", "-C", f"{folder}/etc/asterisk.conf"], stdin=subprocess.DEVNULL,
                                        stdout=output, stderr=output)
        wait(lambda: "bob" in self.command("pjsip show endpoints"), self.log)

    def write(self, name, text):
        with open(f"{self.folder}/etc/{name}", "w") as file:
            file.write(text)

    def command(self, text):
        done = subprocess.run([self.program, "-C", f"{self.folder}/etc/asterisk.conf", "-rx", text], capture_output=True, text=True,
                              check=False)
        return done.stdout

    def log(self):
        return read(f"{self.folder}/asterisk.out") + read(f"{self.folder}/log/messages")

    def end(self):
        self.process.kill(), self.process.wait()


class Busyhour:
    def __init__(self, folder, text):
        self.folder = folder
        with open(f"{folder}/busyhour.toml", "w") as file:
            file.write(text)
        environment = dict(os.environ, RUNTIME_DIRECTORY=f"{folder}/run-busyhour")
        self.process = subprocess.Popen(
            [BUSYHOUR, "serve", "--config", f"{folder}/busyhour.toml", "--store-path", f"{folder}/busyhour.db"],
            stdout=subprocess.PIPE, stderr=open(f"{folder}/busyhour.log", "wb"), text=True, env=environment)
        for line in self.process.stdout:
            if line.startswith("ready "):
                break
        else:
            sys.exit(f"asterisk-registrar: the server does not start:\n{self.log()}")
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        host, _, port = words["sip-udp"].rpartition(":")
        self.sip, self.http = (host, int(port)), words["http"]

    def stats(self):
        with urllib.request.urlopen(f"http://{self.http}/api/stats") as answer:
            return json.load(answer)

    def stat(self, path):
        value = self.stats()
        for name in path.strip("/").split("/"):
            value = value[name]
        return value

    def wait(self, path, is_so):
        wait(lambda: is_so(self.stat(path)), lambda: json.dumps(self.stats()["upstream"]))

    def log(self):
        return read(f"{self.folder}/busyhour.log")

    def end(self):
        self.process.send_signal(signal.SIGTERM), self.process.wait()


class Message:
    def __init__(self, text):
        self.text = text

    def values(self, name):
        return [line.split(": ", 1)[1] for line in self.text.split("\r\n") if line.lower().startswith(name.lower() + ": ")]

    def expect(self, status):
        assert self.text.startswith(f"SIP/2.0 {status}"), self.text


class Telephone:
    """Over UDP. Its password is `secret`."""

    def __init__(self, host, user, server):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, 0))
        self.socket.settimeout(PATIENCE_S)
        self.user, self.server, self.count, self.kept = user, server, 0, []
        self.address = "%s:%d" % self.socket.getsockname()

    def request(self, method, uri, body="", headers=""):
        self.count += 1
        to = f"sip:{self.user}@example.com" if method == "REGISTER" else uri
        kind = "Content-Type: application/sdp\r\n" if body else ""
        return (
            f"{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {self.address};branch=z9hG4bK{self.user}{self.count};rport\r\n"
            f"Max-Forwards: 70\r\nFrom: <sip:{self.user}@example.com>;tag={self.user}\r\nTo: <{to}>\r\n"
            f"Call-ID: {method}@{self.user}\r\nCSeq: {self.count} {method}\r\nContact: <sip:{self.user}@{self.address}>\r\n"
            f"{headers}{kind}Content-Length: {len(body)}\r\n\r\n{body}"
        )

    def register(self, expires):
        """With digest; the final answer."""
        lifetime = f"Expires: {expires}\r\n"
        self.send(self.request("REGISTER", "sip:example.com", headers=lifetime))
        challenge = self.hear("SIP/2.0 ")
        if not challenge.text.startswith("SIP/2.0 401 "):
            return challenge
        offered = next(it for it in challenge.values("WWW-Authenticate") if "algorithm" not in it or "MD5" in it.replace("MD5-sess", ""))
        realm, nonce = (re.search(f'{name}="([^"]*)"', offered)[1] for name in ("realm", "nonce"))
        digest = lambda *parts: hashlib.md5(":".join(parts).encode()).hexdigest()
        response = digest(digest(self.user, realm, "secret"), nonce, "00000001", "c", "auth", digest("REGISTER", "sip:example.com"))
        given = (
            f'Authorization: Digest username="{self.user}", realm="{realm}", nonce="{nonce}", uri="sip:example.com", '
            f'response="{response}", algorithm=MD5, qop=auth, nc=00000001, cnonce="c"\r\n'
        )
        self.send(self.request("REGISTER", "sip:example.com", headers=lifetime + given))
        return self.hear("SIP/2.0 ")

    def send(self, text):
        self.socket.sendto(text.encode(), self.server)

    def hear(self, begin):
        while True:
            text = self.socket.recv(65536).decode()
            if text.startswith(begin) and (begin != "SIP/2.0 " or not text.startswith("SIP/2.0 1")):
                return Message(text)

    def answer(self, request, status):
        kept = "".join(f"{name}: {value}\r\n" for name in ("Via", "From", "Call-ID", "CSeq") for value in request.values(name))
        to = request.values("To")[0]
        self.send(f"SIP/2.0 {status}\r\n{kept}To: {to};tag={self.user}\r\nContent-Length: 0\r\n\r\n")


def free_port(host):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def wait(is_so, what_is):
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"asterisk-registrar: it never came:\n{what_is()}")
        time.sleep(0.05)


main()
