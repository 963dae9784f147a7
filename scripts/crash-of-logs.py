#!/usr/bin/env python3
"""Whether the designs of a durable log keep what they have acknowledged: after SIGKILL, and after a simulated power cut.

The designs are those of the benchmark `durable-log`, each with the table behind it (bench/engines/durable-logs). One program commits groups
of refreshes and says after each commit how many are acknowledged; another one says what a start finds after the crash. The promise:
all that was acknowledged is found, at most the group that was under way besides, and what is found is the first so many refreshes
and nothing else, for each binding.

**kill**: the writer gets SIGKILL at a random time. Up to five writers go on in one folder, each after the crash of the one before; some are
killed while they recover. What the kernel has stays, so a log that does not synchronise passes this part.

**power cut**: a writer runs to its orderly end under strace. At random points of its calls the folder is made as a disk may have it after a power
cut, and opened. Another writer then goes on, under strace, in one of these folders, and the power is cut for it as well, while it
recovers, too; four in all. traced_disk.py says which outcomes a cut may have; what it does not know it does not try.

Three checks of the check: the self-test of traced_disk.py; the design raw-append-unsynchronised, which does not synchronise, must lose
something in its power cuts; and so must each design on a disk that forgets to synchronise (`--blind`, a number of cuts). With `--forget NAME` the
disk forgets it for the files of that name alone, and each design must lose something. The end is 1 if a design breaks the promise, or one of
these does not.

Needs strace (scripts/install-deps.sh peers) and cargo. Example, of one design for a minute:

    scripts/crash-of-logs.py --designs busyhour --kills 10 --cuts 50
"""
import argparse
import copy
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from traced_disk import Disk, NotFollowed, events_of, make_folder, self_test, traced

ENGINE = pathlib.Path(__file__).resolve().parent.parent / "bench/engines/durable-logs"
DESIGNS = ("busyhour", "busyhour-each", "sqlite", "sqlite-log", "fjall", "redb", "raw-append")
UNSYNCHRONISED = "raw-append-unsynchronised"
# Each refresh is a commit of its own there, so a group may be there in part until it is acknowledged.
NOT_GROUPED = ("busyhour-each",)
LIVES = 5
CUT_LIVES = 4
# So that a writer of 400 groups takes as long as the table needs to follow a few times.
PAUSE_US = 5000
# None gets so far before it is killed; one whose script is gone ends.
KILLED_GROUPS = 100_000
START_PATIENCE_S = 120


def main():
    options = options_of(sys.argv[1:])
    if shutil.which("strace") is None:
        sys.exit("crash-of-logs: strace is missing: scripts/install-deps.sh peers")
    if options.program is None:
        options.program = build()
    options.program = str(pathlib.Path(options.program).resolve())
    if options.cuts:
        self_test()
    results = []
    with tempfile.TemporaryDirectory(prefix="crash-of-logs-", dir=options.folder) as folder:
        for design in options.designs:
            trial = Trial(design, options, pathlib.Path(folder).resolve() / design)
            if options.kills and design != UNSYNCHRONISED:
                results.append(report(trial.kill()))
            if options.cuts:
                results.extend(report(result) for result in cuts_of(trial))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(0 if all(result["is_as_wanted"] for result in results) else 1)


def cuts_of(trial):
    try:
        yield from trial.cut()
    except NotFollowed as error:
        trial.result["findings"].append(f"no more can be said: {error}")
        yield trial.result | {"is_as_wanted": False}


def options_of(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    say = parser.add_argument
    say("--designs", default=",".join((*DESIGNS, UNSYNCHRONISED)), help="with commas between them: %(default)s")
    say("--kills", type=int, default=25, help="for each design (%(default)s)")
    say("--cuts", type=int, default=100, help="for each design (%(default)s)")
    say("--blind", type=int, default=10, help="cuts for each design on a disk that forgets to synchronise (%(default)s)")
    say("--forget", metavar="NAME", help="the simulated disk forgets to synchronise files of this name, and each of --designs must lose something")
    say("--group", type=int, default=16, help="refreshes in a group (%(default)s)")
    say("--groups", type=int, default=400, help="that a writer commits until its orderly end (%(default)s)")
    say("--bindings", type=int, default=3000, help="(%(default)s)")
    say("--model", choices=("ext4", "posix"), default="ext4", help="what the file system does with names (%(default)s)")
    say("--seed", type=int, default=random.randrange(1 << 32), help="of the times, points and outcomes (a new one, which is printed). "
        "The calls themselves are not the same twice")
    say("--folder", default=".", help="where the logs are, on a real disk (here)")
    say("--program", help="instead of the engine that is built")
    say("--keep", help="a folder, for each folder in which the promise was broken, as the cut left it")
    say("--json", help="a file for the results")
    options = parser.parse_args(words)
    options.designs = options.designs.split(",")
    unknown = set(options.designs) - {*DESIGNS, UNSYNCHRONISED}
    if unknown:
        parser.error(f"no design {', '.join(sorted(unknown))}; the designs are {', '.join((*DESIGNS, UNSYNCHRONISED))}")
    if options.forget and not options.cuts:
        parser.error("--forget is about power cuts: --cuts 1 at least")
    if min(options.group, options.groups, options.bindings) < 1 or options.group > options.bindings:
        parser.error("a group has one refresh at least, and none of a binding twice")
    print(f"seed {options.seed}, model {options.model}, {options.groups} groups of {options.group}, {options.bindings} bindings", flush=True)
    return options


def build():
    """In its folder, whose `.cargo/config.toml` counts."""
    name = "engine-durable-logs"
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--bin", name], cwd=ENGINE, check=True)
    return str(ENGINE / "target/release" / name)


class Promise:
    """From the lines of a writer: at least `low` refreshes are found, and at most `high`."""

    def __init__(self, group, is_grouped):
        self.group, self.is_grouped = group, is_grouped
        self.low, self.high = 0, group

    def said(self, line):
        word, _, number = line.partition(" ")
        if word in ("found", "acknowledged"):
            self.low = int(number)
            self.high = self.low + self.group

    def broken_by(self, found):
        if found < self.low:
            return f"{found} refreshes are found, and {self.low} were acknowledged"
        if found > self.high:
            return f"{found} refreshes are found, and at most {self.high} were handed in"
        if self.is_grouped and found % self.group:
            return f"{found} refreshes are found, so a part of a group of {self.group}"
        return None


class Trial:
    def __init__(self, design, options, folder):
        self.design, self.options, self.folder = design, options, folder
        folder.mkdir()
        self.generator = random.Random(f"{options.seed} {design}")
        self.order_seed = self.generator.randrange(1 << 32)
        self.result, self.promise_left = None, None

    # SIGKILL.

    def kill(self):
        self._begin("kill")
        left, disk = self.options.kills, self.folder / "disk"
        while left:
            promise, before = self._promise(), len(self.result["findings"])
            disk.mkdir()
            for life in range(min(left, LIVES)):
                left -= 1
                self._kill_once(disk, promise, life)
                if len(self.result["findings"]) > before:
                    break
            else:
                self._check(disk, promise, f"kill {self.result['crashes']}")
            shutil.rmtree(disk)
        return self._end(self.result["findings"] == [])

    def _kill_once(self, disk, promise, life):
        lines, errors = self.folder / "lines", self.folder / "errors"
        with open(lines, "wb") as out, open(errors, "wb") as error:
            writer = subprocess.Popen(self._command("crash-write", disk, f"groups={KILLED_GROUPS}"), stdout=out, stderr=error)
        if life == 0:
            wait_for_line(lines, writer)
        # A start takes less than a tenth of a second; the table follows once a second.
        time.sleep(self.generator.uniform(0, self.generator.choice((.1, 1.6))))
        has_ended = writer.poll() is not None
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        self.result["crashes"] += 1
        where = f"kill {self.result['crashes']}"
        if has_ended:
            self._finding(f"{where}: the writer ended: {errors.read_text().strip()}")
        # A line without its end was not said.
        for line in lines.read_text().split("\n")[:-1]:
            self._heard(line, promise, where)
        self._progress()

    # Power cuts.

    def cut(self):
        """Each life goes on in a folder that a cut of the one before has left."""
        self._begin("power cut")
        folder = self.folder / "disk"
        folder.mkdir()
        disk, blind = Disk(folder, self.options.model), Disk(folder, self.options.model)
        events = first = self._trace(folder)
        # The promise begins when the writer says that the log is made.
        begun = next(place for place, call, _ in events if said(call))
        self.promise_left = self._promise()
        for life, cuts in enumerate(shares(self.options.cuts, CUT_LIVES)):
            if life:
                disk = Disk(folder, self.options.model)
                try:
                    events = self._trace(folder)
                except NotFollowed as error:
                    # What the cut left does not open, or the writer does what is not followed: both are against the promise.
                    self._finding(f"life {life + 1}: {error}")
                    break
            points = self._points(events, 0 if life else begun, cuts)
            self._follow(disk, events, self.promise_left, points, left=folder, forgets=self.options.forget and self.forgets, begun=0 if life else begun)
            if self.result["findings"]:
                break
        is_known_bad = self.design == UNSYNCHRONISED or bool(self.options.forget)
        yield self._end(bool(self.result["findings"]) == is_known_bad)
        if self.options.blind and not is_known_bad:
            self._begin("power cut, nothing synchronised")
            points = self._points(first, begun, self.options.blind)
            self._follow(blind, first, self._promise(), points, forgets=lambda path: True, begun=begun)
            yield self._end(self.result["findings"] != [])

    def forgets(self, path):
        return os.path.basename(path) == self.options.forget

    def _trace(self, folder):
        trace = self.folder / "trace"
        command = self._command("crash-write", folder, f"groups={self.options.groups}", f"pause_us={PAUSE_US}")
        done = traced(command, str(trace), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise NotFollowed(f"the writer ended: {done.stderr.strip()}")
        events = events_of(trace)
        trace.unlink()
        return events

    def _points(self, events, begun, count):
        places = [place for place, _, _ in events if place >= begun]
        return sorted(self.generator.choices(places, k=count))

    def _follow(self, disk, events, promise, points, left=None, forgets=None, begun=0):
        """Cuts the power at these points. What one of the cuts leaves stays in the folder `left`, for the next life. From `begun` on the disk
        forgets to synchronise what `forgets` says; then one finding is enough."""
        points, stays = list(points), self.generator.choice(points)
        for place, call, is_end in events:
            if forgets and place >= begun:
                disk.forgets = forgets
            if not is_end:
                self._heard(said(call), promise, f"a start, at {place}")
            disk.take(call, is_end)
            while points and points[0] == place:
                points.pop(0)
                self._cut_once(disk, promise, f"cut at {place} of {events[-1][0]}")
                if left and place == stays:
                    make_folder(self._made(left), disk.after_cut(self.generator)[0])
                    self.promise_left = copy.copy(promise)
            if forgets and self.result["findings"]:
                return
        for path in sorted(disk.unseen):
            self._finding(f"{path} was mapped, so what was written there is not known")

    def _cut_once(self, disk, promise, where):
        made = self._made(self.folder / "cut")
        contents, is_lacking = disk.after_cut(self.generator)
        make_folder(made, contents)
        self.result["lacking"] += is_lacking
        self.result["crashes"] += 1
        kept = self._made(self.folder / "kept") if self.options.keep else None
        if kept:
            shutil.copytree(made, kept, dirs_exist_ok=True)
        before = len(self.result["findings"])
        self._check(made, promise, where)
        if kept and len(self.result["findings"]) > before:
            name = f"{self.design}-{self.result['part']}-{self.result['crashes']}".replace(" ", "-")
            shutil.copytree(kept, pathlib.Path(self.options.keep, name), dirs_exist_ok=True)
        shutil.rmtree(made)
        self._progress()

    @staticmethod
    def _made(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    # Both.

    def _promise(self):
        return Promise(self.options.group, self.design not in NOT_GROUPED)

    def _command(self, scenario, folder, *more):
        setup = {"folder": folder, "group": self.options.group, "bindings": self.options.bindings, "seed": self.order_seed}
        return [self.options.program, self.design, scenario, *(f"{key}={value}" for key, value in setup.items()), *more]

    def _check(self, folder, promise, where):
        done = subprocess.run(self._command("crash-count", folder), capture_output=True, text=True, check=False)
        if done.returncode:
            self._finding(f"{where}: what was left does not open: {done.stderr.strip()}")
        else:
            self._judge(int(done.stdout.split()[1]), promise, where)

    def _heard(self, line, promise, where):
        if line.startswith("found"):
            self._judge(int(line.split()[1]), promise, where)
        promise.said(line)

    def _judge(self, found, promise, where):
        self.result["with_the_group_under_way"] += found > promise.low
        if broken := promise.broken_by(found):
            self._finding(f"{where}: {broken}")

    def _begin(self, part):
        self.result = {"design": self.design, "part": part, "crashes": 0, "lacking": 0, "with_the_group_under_way": 0, "findings": []}

    def _finding(self, text):
        self.result["findings"].append(text)

    def _end(self, is_as_wanted):
        self.result["is_as_wanted"] = is_as_wanted
        return self.result

    def _progress(self):
        if sys.stderr.isatty():
            print(f"\r{self.design}, {self.result['part']}: {self.result['crashes']} ", end="", file=sys.stderr, flush=True)


def shares(count, parts):
    return [count // parts + (part < count % parts) for part in range(min(count, parts))]


def said(call):
    """What a writer says on its standard output by this call."""
    is_line = call.name == "write" and call.words[0] == "1"
    return call.strings[0].decode().strip() if is_line else ""


def wait_for_line(lines, writer):
    begun = time.monotonic()
    while not lines.read_bytes().endswith(b"\n"):
        if writer.poll() is not None or time.monotonic() > begun + START_PATIENCE_S:
            return
        time.sleep(.01)


def report(result):
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    lacking = f", {result['lacking']} without something that was written" if result["lacking"] else ""
    found = len(result["findings"])
    print(f"{result['design']}, {result['part']}: {result['crashes']} crashes{lacking}, "
          f"{result['with_the_group_under_way']} with the group that was under way, {found} findings"
          f"{'' if result['is_as_wanted'] else ': NOT AS PROMISED' if found else ': THE CHECK DOES NOT NOTICE'}", flush=True)
    for finding in result["findings"][:3 if result["is_as_wanted"] else 10]:
        print(f"  {finding}", flush=True)
    return result


if __name__ == "__main__":
    main()
