#!/usr/bin/env python3
"""usage: scripts/page.py [BUSYHOUR]

Opens the dashboard in Chromium, without a window, and checks its table of queues: first that of a running server, then
that of made-up queues, of which the slow ones must come first and be marked. BUSYHOUR is the program (target/debug/busyhour
unless told). Needs Chromium: apt-get install chromium.
"""
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

PATIENCE_S = 60
ROWS = """JSON.stringify([...document.querySelectorAll('#queues tbody tr')].map((row) =>
    [row.className, ...[...row.cells].map((cell) => cell.textContent)]))"""


class Browser:
    """Chromium, driven over a pair of pipes: messages of JSON, each with a zero byte at its end."""

    def __init__(self, profile):
        program = shutil.which("chromium") or sys.exit("page: chromium is missing: apt-get install chromium")
        (to_read, self.to_write), (self.to_hear, to_say) = os.pipe(), os.pipe()
        shell = f'exec "$0" "$@" 3<&{to_read} 4>&{to_say}'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(
            ["bash", "-c", shell, program, *flags], pass_fds=[to_read, to_say], stderr=subprocess.DEVNULL
        )
        os.close(to_read), os.close(to_say)
        self.number, self.rest = 0, b""

    def call(self, method, session=None, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self.to_write, json.dumps(request).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                heard = os.read(self.to_hear, 1 << 16)
                if not heard:
                    sys.exit("page: Chromium has ended")
                self.rest += heard
            message, self.rest = self.rest.split(b"\0", 1)
            message = json.loads(message)
            if message.get("id") == self.number:
                return message.get("result") or sys.exit(f"page: {method}: {message}")

    def rows(self, url, is_enough):
        """The rows of the queues' table, as soon as there are enough."""
        target = self.call("Target.createTarget", url=url)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            result = self.call("Runtime.evaluate", session, expression=ROWS)["result"]
            rows = json.loads(result.get("value", "[]"))
            if is_enough(rows):
                return rows
            time.sleep(0.1)
        sys.exit(f"page: the table of {url} never was as expected: {rows}")


def start(program, folder):
    """A server of its own, and the address of its dashboard."""
    words = ["--sip-listen", "127.0.0.1:0", "--iax2-listen", "off", "--http-listen", "127.0.0.1:0", "--http-socket", "off"]
    words += ["--store-durability", "memory", "--sip-auth", "open"]
    server = subprocess.Popen([program, "serve", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder)
    for line in server.stdout:
        if line.startswith("ready "):
            address = dict(word.split("=") for word in line.split()[1:])["http"]
            return server, f"http://{address}"
    sys.exit("page: the server did not start")


def made_up(name, **fields):
    known = dict.fromkeys(["queued_high_water", "high_watermark", "is_high", "oldest_waiting_ns", "running", "running_for_ns", "processed", "refused"])
    return {**known, "kind": "strand", "name": name, "queued_len": 0, **fields}


MADE_UP = [
    made_up("idle", oldest_waiting_ns=0, processed=7),
    made_up("old", oldest_waiting_ns=2_000_000_000, queued_len=1),
    made_up("busy", running="request", running_for_ns=200_000_000),
    made_up("high", queued_len=40, high_watermark=32, is_high=True, oldest_waiting_ns=5),
    made_up("<b>name</b>", oldest_waiting_ns=1),
]


def serve_made_up(real):
    """The address of the same page, with made-up queues."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            is_stream = self.path == "/api/events"
            self.send_response(200)
            self.send_header("content-type", "text/event-stream" if is_stream else "text/html; charset=utf-8")
            self.end_headers()
            if is_stream:
                self.wfile.write(f"event: queues\ndata: {json.dumps(MADE_UP)}\n\n".encode())
                self.wfile.flush()
                time.sleep(PATIENCE_S)
            else:
                self.wfile.write(urllib.request.urlopen(real).read())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/debug/busyhour")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server, address = start(program, folder)
        browser = Browser(folder + "/profile")
        try:
            wanted = {"pool", "strand", "watcher", "hint", "expiry", "iax2", "store", "socket", "connection", "http"}
            rows = browser.rows(address, lambda rows: wanted <= {row[1] for row in rows})
            print(f"a running server: {len(rows)} queues, of {len({row[1] for row in rows})} kinds")
            rows = browser.rows(serve_made_up(address), lambda rows: len(rows) == len(MADE_UP))
            told = [(row[0], row[2]) for row in rows]
            expected = [("slow", "high"), ("slow", "old"), ("slow", "busy"), ("", "<b>name</b>"), ("", "idle")]
            if told != expected:
                sys.exit(f"page: {told} instead of {expected}")
            print("made-up queues: those with an alert and the oldest come first, and the slow ones are marked")
        finally:
            browser.process.kill()
            server.kill()


main()
