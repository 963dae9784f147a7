"""Writes archives with PCP's import library, and prints what libpcp reads from them.

usage: peer.py write BASE VERSION SEED RECORDS [START_SECONDS]
       peer.py fetch BASE FROM_NANOSECONDS STEP_MILLISECONDS COUNT [LEFT_OUT]
       peer.py domains BASE NANOSECONDS
"""

import random
import sys

import cpmapi as c
from pcp import pmapi, pmi

START = 1700000000
DOMAIN = 245

TYPES = {
    "i32": c.PM_TYPE_32,
    "u32": c.PM_TYPE_U32,
    "i64": c.PM_TYPE_64,
    "u64": c.PM_TYPE_U64,
    "f32": c.PM_TYPE_FLOAT,
    "f64": c.PM_TYPE_DOUBLE,
}
SEMANTICS = {
    "counter": c.PM_SEM_COUNTER,
    "instant": c.PM_SEM_INSTANT,
    "discrete": c.PM_SEM_DISCRETE,
}


class Values:
    """The next value of a series: counters grow, are reset, and overflow."""

    def __init__(self, draw, kind, semantics):
        self.draw, self.kind, self.semantics = draw, kind, semantics
        self.now = 0
        if semantics == "counter" and kind in ("u32", "u64"):
            self.now = draw.choice([0, 2 ** int(kind[1:]) - 2000])

    def next(self):
        if self.semantics != "counter":
            self.now = self.draw.randint(0 if self.kind[0] == "u" else -1000, 100000)
            return str(self.now / 8 if self.kind[0] == "f" else self.now)
        self.now += self.draw.randint(0, 1000)
        if self.draw.random() < 0.01:
            self.now = 0
        if self.kind in ("u32", "u64"):
            self.now %= 2 ** int(self.kind[1:])
        return str(self.now / 8 if self.kind[0] == "f" else self.now)


def write(base, version, seed, records, start=START):
    draw = random.Random(int(seed))
    log = pmi.pmiLogImport(base, 0)
    log.pmiSetVersion(int(version))
    log.pmiSetHostname("example.com")
    log.pmiSetTimezone("UTC")
    domain = log.pmiInDom(DOMAIN, 1)
    none, bytes_, count, time = (
        log.pmiUnits(0, 0, 0, 0, 0, 0),
        log.pmiUnits(1, 0, 0, c.PM_SPACE_KBYTE, 0, 0),
        log.pmiUnits(0, 0, 1, 0, 0, c.PM_COUNT_ONE),
        log.pmiUnits(0, 1, 0, 0, c.PM_TIME_MSEC, 0),
    )
    series = []
    item = 0
    for kind, type_ in TYPES.items():
        for semantics, code in SEMANTICS.items():
            for where in ("one", "many"):
                name = f"t.{kind}.{semantics}.{where}"
                indom = domain if where == "many" else c.PM_INDOM_NULL
                units = [bytes_, count, time][item % 3] if semantics == "counter" else [none, bytes_][item % 2]
                log.pmiAddMetric(name, log.pmiID(DOMAIN, 0, item), type_, indom, code, units)
                item += 1
                series.append((name, kind, semantics, where, {}))
    log.pmiAddMetric("t.text", log.pmiID(DOMAIN, 1, 0), c.PM_TYPE_STRING, c.PM_INDOM_NULL, c.PM_SEM_DISCRETE, none)
    log.pmiPutText(c.PM_TEXT_PMID, c.PM_TEXT_ONELINE, log.pmiID(DOMAIN, 1, 0), "a text")
    log.pmiPutLabel(c.PM_LABEL_CONTEXT, 0, 0, "where", "here")
    instances = []
    at = int(start) * 10**9
    for record in range(int(records)):
        if record % 17 == 0 and len(instances) < 8:
            # Names must differ in their first word.
            name = f"i{len(instances)} of many"
            log.pmiAddInstance(domain, name, len(instances) * 3)
            instances.append(name)
        wrote = False
        for name, kind, semantics, where, values in series:
            for instance in instances if where == "many" else [""]:
                # Some series are rare, and each one sometimes has no sample.
                likely = 0.05 if semantics == "discrete" else 0.9
                if record > 0 and draw.random() > likely:
                    continue
                value = values.setdefault(instance, Values(draw, kind, semantics)).next()
                log.pmiPutValue(name, instance, value)
                wrote = True
        if record % 9 == 0:
            log.pmiPutValue("t.text", "", f"text {record}")
            wrote = True
        if wrote:
            if int(version) == 3:
                log.pmiHighResWrite(at // 10**9, at % 10**9)
            else:
                log.pmiWrite(at // 10**9, at % 10**9 // 1000)
        if record > 3 and draw.random() < 0.03:
            log.pmiPutMark()
        at += draw.choice([15, 15, 15, 15, 7, 40]) * 10**9
        at += draw.choice([0, 0, 1000 * draw.randint(0, 10**6)])
    log.pmiEnd()


def names(context):
    found = []
    context.pmTraversePMNS("", found.append)
    return sorted(name if isinstance(name, str) else name.decode() for name in found)


def fetch(base, start, step, count, left_out=None):
    context = pmapi.pmContext(c.PM_CONTEXT_ARCHIVE, base)
    every = [name for name in names(context) if not (left_out and name.startswith(left_out))]
    pmids = context.pmLookupName(every)
    descriptions = context.pmLookupDescs(pmids)
    start = int(start)
    origin = pmapi.timespec(start // 10**9, start % 10**9)
    step = int(step)
    delta = pmapi.timespec(step // 1000, step % 1000 * 10**6)
    context.pmSetModeHighRes(c.PM_MODE_INTERP, origin, delta)
    result = {}
    for index in range(int(count)):
        try:
            fetched = context.pmFetchHighRes(pmids)
        except pmapi.pmErr as error:
            if error.args[0] == c.PM_ERR_EOL:
                continue
            raise
        for place, name in enumerate(every):
            type_ = descriptions[place].contents.type
            if type_ not in TYPES.values():
                continue
            values = fetched.contents.get_numval(place)
            for which in range(max(values, 0)):
                atom = context.pmExtractValue(
                    fetched.contents.get_valfmt(place), fetched.contents.get_vlist(place, which), type_, type_
                )
                series = f"{name}[{fetched.contents.get_inst(place, which)}]"
                value = atom.dref(type_)
                result.setdefault(series, [None] * int(count))[index] = value
        context.pmFreeHighResResult(fetched)
    for series, values in result.items():
        print(series, *("-" if value is None else repr(float(value)) for value in values), sep="\t")


if __name__ == "__main__":
    {"write": write, "fetch": fetch}[sys.argv[1]](*sys.argv[2:])
