#!/usr/bin/env python3
"""Runs the commands of the book's first pages and recipes against real servers, each page with its own.

usage: scripts/book-commands.py PROGRAM

PROGRAM is a built `busyhour`. Each line with `busyhour` in a block of sh is run as it stands, in a folder of its own, with other
paths, addresses and sizes for those of the page; `systemctl` stops, starts and reloads the page's server. A block behind
`<!-- not run: REASON -->` is left out. A command has to end with 0.
"""
import http.server
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BOOK = Path(__file__).resolve().parent.parent / "docs/book/src"
DEVICES = "user,password,hints\nanna,something long,100\n"
KAMAILIO = """CREATE TABLE `subscriber` (`id` int, `username` varchar(64), `domain` varchar(64), `password` varchar(64));
INSERT INTO `subscriber` (`id`, `username`, `domain`, `password`) VALUES (1, 'karl', 'k.example', 'something long');
CREATE TABLE `location` (`id` int, `username` varchar(64), `domain` varchar(64), `contact` varchar(512), `received` varchar(255),
 `path` varchar(512), `expires` datetime, `q` float, `callid` varchar(255), `cseq` int, `user_agent` varchar(255), `socket` varchar(64));
INSERT INTO `location` (`id`, `username`, `domain`, `contact`, `received`, `path`, `expires`, `q`, `callid`, `cseq`, `user_agent`, `socket`)
 VALUES (1, 'karl', 'k.example', 'sip:karl@127.0.0.1:9', NULL, NULL, '2099-01-01 00:00:00', 1.0, 'one', 1, 'a telephone', 'udp:127.0.0.1:5060');
"""


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program, count, failures = Path(sys.argv[1]).resolve(), 0, []
    for page in [*sorted(BOOK.glob("*.md")), *sorted(BOOK.glob("recipes/*.md"))]:
        lines = commands(page.read_text())
        if any("busyhour" in line for line in lines):
            count += run(program, page.name, lines, failures)
    for failure in failures:
        print(f"book: {failure}", file=sys.stderr)
    if failures or not count:
        sys.exit(1)
    print(f"book: {count} commands work")


def commands(text):
    """What is typed on this page, but for the blocks that are left out."""
    blocks = re.findall(r"(<!-- not run: [^>]+ -->\n+)?^```sh\n(.*?)^```", text, re.M | re.S)
    lines = [line for left_out, block in blocks if not left_out for line in block.splitlines()]
    return [line for line in lines if re.search(r"(^|\| )busyhour |^systemctl .*busyhour", line)]


def run(program, page, lines, failures):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        site = Site(program, folder, receiver.server_port)
        try:
            if not any("device add alice" in line for line in lines):
                site.tell(["device", "add", "alice", "--create"])
            site.start()
            for line in lines:
                if failure := site.type(line):
                    failures.append(f"{page}: `{line}`: {failure}")
        finally:
            site.stop()
            receiver.shutdown()
    return len(lines)


class Receiver(http.server.BaseHTTPRequestHandler):
    """Of webhooks."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Site:
    """A server with the files that the pages name."""

    def __init__(self, program, folder, receiver):
        self.program, self.folder, self.server = program, folder, None
        self.sip, self.http = free(), free()
        (folder / "devices.csv").write_text(DEVICES)
        (folder / "kamailio.sql").write_text(KAMAILIO)
        self.config = folder / "busyhour.toml"
        self.config.write_text(f"""
sip.domains = ["example.com"]
sip.listen = "127.0.0.1:{self.sip}"
iax2.listen = "off"
http.listen = "127.0.0.1:{self.http}"
http.socket = "{folder}/socket"
store.path = "{folder}/busyhour.db"
log.level = "error"
[[account_range]]
prefix = "device"
count = 50
password = "busyhour"
[[account_range]]
prefix = "load"
count = 50
password = "secret"
[[webhook]]
name = "crm"
url = "http://127.0.0.1:{receiver}/"
""")
        self.config.chmod(0o600)
        self.environment = {**os.environ, "BUSYHOUR_CONFIG": str(self.config)}

    def start(self):
        words = [self.program, "serve", "--quiet"]
        self.server = subprocess.Popen(words, stdout=subprocess.PIPE, env=self.environment, text=True)
        if not self.server.stdout.readline().startswith("ready "):
            sys.exit("the server does not start")

    def stop(self):
        if self.server:
            self.server.terminate()
            self.server.wait()
            self.server = None

    def type(self, line):
        """What is wrong with a command."""
        words = shlex.split(line, comments=True)
        if words[0] == "systemctl":
            return self.control(words[1])
        words = words[words.index("busyhour") + 1 :]
        words = [self.placed(word) for word in words] + self.smaller(words)
        done = self.tell(words)
        for _ in range(20):
            if done.returncode == 0 or words[0] != "show":
                break
            # A server knows a new account within a second.
            time.sleep(0.1)
            done = self.tell(words)
        return None if done.returncode == 0 else f"{done.returncode}: {done.stderr.strip() or done.stdout.strip()}"

    def control(self, action):
        if action == "reload":
            self.server.send_signal(signal.SIGHUP)
        if action in ("stop", "restart"):
            self.stop()
        if action in ("start", "restart"):
            self.start()

    def placed(self, word):
        word = word.replace("/etc/busyhour/busyhour.toml", str(self.config)).replace("/var/backups", str(self.folder))
        word = word.replace("192.0.2.1:5060", f"127.0.0.1:{self.sip}")
        return {"12000": "20", "100": "20", "60s": "1s"}.get(word, word)

    def smaller(self, words):
        """What lets a storm of a page find the server and its accounts, and end soon."""
        if words[0] != "storm":
            return []
        target = [] if "--target" in words else ["--target", f"127.0.0.1:{self.sip}"]
        last = [] if "--over" in words else ["--over", "1s"]
        accounts = [] if "--auth" in words else ["--auth", "device{n}:busyhour"]
        return [*target, *last, *accounts, "--domain", "example.com"]

    def tell(self, words):
        """A command with its end; a password that it asks for is on standard input."""
        return subprocess.run([self.program, *words], cwd=self.folder, env=self.environment, input="something long\n",
                              capture_output=True, text=True, timeout=60)


def free():
    """A port that nobody has, over UDP and TCP."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
            one.bind(("127.0.0.1", 0))
            try:
                other.bind(one.getsockname())
                return one.getsockname()[1]
            except OSError:
                continue


main()
