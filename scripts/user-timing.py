#!/usr/bin/env python3
"""Measures whether the time of an answer tells which users have an account.

Sends REGISTER requests without credentials over one TCP connection, for users with and without an account in random
order, one at a time. Prints how long each kind waits for its 401, and by how much the medians differ. A difference far
below the quartiles' distance tells a stranger nothing.

usage: scripts/user-timing.py [BINARY] [REQUESTS]     target/release/busyhour and 20,000 of each kind unless told
"""

import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ACCOUNTS = 20_000


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else "target/release/busyhour"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        config = f"{folder}/busyhour.toml"
        with open(config, "w") as file:
            file.write(
                f'[sip]\nlisten = ["127.0.0.1:{port}"]\nauth = "digest"\n[http]\nlisten = "off"\n'
                f'[store]\npath = "{folder}/store"\ndurability = "memory"\n'
                f'[[account_range]]\nprefix = "device"\ncount = {ACCOUNTS}\npassword = "secret"\n'
            )
        with open(f"{folder}/log", "w") as log:
            server = subprocess.Popen([binary, "serve", "--config", config], stdout=log, stderr=log)
        try:
            report(measure(connect(port, server, folder), count))
        finally:
            server.terminate()
            server.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connect(port, server, folder):
    for _ in range(200):
        try:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except ConnectionRefusedError:
            if server.poll() is not None:
                sys.exit(open(f"{folder}/log").read())
            time.sleep(0.05)
    sys.exit("the server does not listen")


def measure(connection, count):
    """The times in microseconds until the 401, by whether the user has an account."""
    order = [True, False] * count
    random.Random(1).shuffle(order)
    times = {True: [], False: []}
    host, port = connection.getsockname()
    for number, is_known in enumerate(order):
        # Names of the same length: a longer one costs time itself.
        user = f"{'device' if is_known else 'nobody'}{random.Random(number).randrange(10_000, ACCOUNTS)}"
        request = (
            f"REGISTER sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP {host}:{port};branch=z9hG4bK{number}\r\n"
            f"From: <sip:{user}@127.0.0.1>;tag={number}\r\nTo: <sip:{user}@127.0.0.1>\r\nCall-ID: {number}\r\n"
            f"CSeq: 1 REGISTER\r\nContact: <sip:{user}@{host}:{port};transport=tcp>\r\nMax-Forwards: 70\r\n"
            "Content-Length: 0\r\n\r\n"
        ).encode()
        begun = time.perf_counter_ns()
        connection.sendall(request)
        answer = connection.recv(65536)
        taken = time.perf_counter_ns() - begun
        if not answer.startswith(b"SIP/2.0 401") or not answer.endswith(b"\r\n\r\n"):
            sys.exit(f"expected a 401 for {user}, got:\n{answer.decode(errors='replace')}")
        times[is_known].append(taken / 1000)
    return times


def report(times):
    print(f"{'user':<16} {'requests':>8} {'median µs':>10} {'quartiles':>16}")
    medians = {}
    for is_known, name in ((True, "with account"), (False, "without account")):
        low, medians[is_known], high = statistics.quantiles(times[is_known], n=4)
        print(f"{name:<16} {len(times[is_known]):>8} {medians[is_known]:>10.2f} {low:>8.2f} {high:>7.2f}")
    print(f"with account: {medians[True] - medians[False]:+.2f} µs")


if __name__ == "__main__":
    main()
