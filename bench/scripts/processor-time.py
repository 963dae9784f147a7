#!/usr/bin/env python3
"""Processor time of one task, for a machine that others use as well: theirs is not in it, though what they take from the caches is.

usage: bench/scripts/processor-time.py ROUNDS "SCENARIO PARAMETER=VALUE..." PROGRAM...

The programs run in turns, each with the scenario's words, for example

    bench/scripts/processor-time.py 15 "pool-requeue workers=1 ms=150" \\
        bench/engines/busyhour/target/release/engine-busyhour bench/engines/busyhour-c/build/engine

A program may have words of its own behind a comma: `bench/engines/tbb/build/engine,arena`. Printed are the median, and the median and the
quartiles of the ratios to the first program in the same round. The whole program's time counts, also that of its threads that wait by
turning; with one worker there is little of that.
"""

import json
import resource
import statistics
import subprocess
import sys


def processor_ns(program, words):
    command = program.split(",") + words
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1e9 / json.loads(printed.splitlines()[-1])["checks"]["tasks"]


def main(rounds, words, programs):
    taken = {program: [] for program in programs}
    for number in range(rounds):
        for program in programs if number % 2 == 0 else reversed(programs):
            taken[program].append(processor_ns(program, words))
    for program in programs:
        ratios = sorted(own / first for first, own in zip(taken[programs[0]], taken[program]))
        low, high = ratios[rounds // 4], ratios[3 * rounds // 4]
        print(f"{statistics.median(taken[program]):8.1f} ns  {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})  {program}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(int(sys.argv[1]), sys.argv[2].split(), sys.argv[3:])
