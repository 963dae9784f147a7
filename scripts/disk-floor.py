#!/usr/bin/env python3
"""How long whoever needs a durable write waits for this disk alone: the floor of every durable answer.

usage: scripts/disk-floor.py [FOLDER] [SECONDS] [RATE] [database | database=PAGES]

Writes a kilobyte past the page cache and past the cache of the disk (O_DIRECT, RWF_DSYNC), RATE times a second (4000) for
SECONDS (30), into a file of fixed size in FOLDER (here), as the journal of the server does, and nothing else. Prints how
long a write takes, and how long requests wait that come evenly at any time: a write of 20 ms makes all wait that come
meanwhile, so it counts for 80 of them at 4,000 a second. The second is what a registration can reach at best.

With `database` a second process writes beside it what SQLite does while the rows of many registrations that have ended are
removed (by strace of a server): 22 pages of log, synchronised, then 2 ms of rest, and after each 1,024 pages of log 512 pages of
a database of 160 MiB, synchronised. With `database=256` that is half as many pages after each 256 pages of log, so that
smaller checkpoints follow each other sooner.
"""
import mmap
import multiprocessing
import os
import random
import sys
import tempfile
import time

RECORD_BYTES = 1024
FILE_BYTES = 16 << 20
PAGE_BYTES = 4096
DATABASE_PAGES = 40 << 10
LOG_PAGES = 1024
RWF_DSYNC = 2


def writes(file, seconds, rate):
    """How long each write took, in seconds."""
    record = memoryview(mmap.mmap(-1, mmap.PAGESIZE))[:RECORD_BYTES]
    took, offset = [], 0
    begin = due = time.perf_counter()
    while due < begin + seconds:
        start = time.perf_counter()
        os.pwritev(file, [record], offset, RWF_DSYNC)
        end = time.perf_counter()
        took.append(end - start)
        offset = (offset + RECORD_BYTES) % FILE_BYTES
        # What was due meanwhile would have been one group.
        due = max(due + 1 / rate, end)
        time.sleep(max(0, due - time.perf_counter()))
    return sorted(took), end - begin


def write_database(log, database, log_pages):
    page, written = bytes(PAGE_BYTES), 0
    while True:
        for _ in range(22):
            os.pwrite(log, page, written % 1024 * PAGE_BYTES)
            written += 1
        os.fsync(log)
        if written % log_pages < 22:
            for at in sorted(random.sample(range(DATABASE_PAGES), log_pages // 2)):
                os.pwrite(database, page, at * PAGE_BYTES)
            os.fsync(database)
        time.sleep(0.002)


def files_of_a_database(folder):
    """Its log and itself, on the disk."""
    files = [tempfile.NamedTemporaryFile(dir=folder) for _ in range(2)]
    for file, pages in zip(files, (1024, DATABASE_PAGES)):
        file.write(bytes(pages * PAGE_BYTES))
        file.flush()
        os.fsync(file.fileno())
    return files


def wait_of(took, seconds, share):
    """What all but this share of requests wait at most for the write that is under way when they come, and their own."""
    low, high = 0, took[-1]
    for _ in range(40):
        middle = (low + high) / 2
        longer = sum(one - middle for one in took if one > middle) / seconds
        low, high = (middle, high) if longer > share else (low, middle)
    return high


def main():
    words = sys.argv[1:]
    what, _, pages = words[-1].partition("=") if words else ("", "", "")
    has_database = what == "database" and bool(words.pop())
    log_pages = int(pages) if pages.isdecimal() else LOG_PAGES
    if len(words) > 3 or not all(word.isdecimal() for word in words[1:]):
        sys.exit(__doc__)
    folder = words[0] if words else "."
    seconds, rate = (int(word) for word in (words[1:] + ["30", "4000"][len(words[1:]):]))
    with tempfile.NamedTemporaryFile(dir=folder) as made:
        made.write(bytes(FILE_BYTES))
        made.flush()
        os.fsync(made.fileno())
        file = os.open(made.name, os.O_RDWR | os.O_DIRECT)
        beside = files_of_a_database(folder) if has_database else []
        args = [one.fileno() for one in beside] + [log_pages]
        other = multiprocessing.Process(target=write_database, args=args, daemon=True) if has_database else None
        if other:
            other.start()
        took, passed = writes(file, seconds, rate)
        if other:
            other.terminate()
            other.join()
        os.close(file)
    at = lambda share: took[min(int(len(took) * share), len(took) - 1)] * 1e3
    print(f"{len(took)} writes: p50 {at(.5):.2f} ms, p99 {at(.99):.2f}, p99.9 {at(.999):.2f}, at most {took[-1] * 1e3:.1f}")
    waits = (wait_of(took, passed, share) * 1e3 for share in (.01, .001))
    print("requests that come evenly wait at most %.1f ms (99 of 100), %.1f ms (999 of 1,000)" % tuple(waits))


if __name__ == "__main__":
    main()
