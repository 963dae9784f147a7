#!/usr/bin/env python3
"""Checks the history of a run of scripts/cluster-faults.sh.

usage: scripts/cluster-history.py HISTORY       prints the findings; 1 if there are some
       scripts/cluster-history.py --self-test   plants each fault in a history, and has to find it

A history has one JSON object a line. Times are seconds of one clock.

    register  device, call_id, cseq, is_on, status, begun, ended     status 0: no answer
    publish   device, version, how (new, modify), status, begun, ended
    query     device, is_on, status, ended                            what the registrar says
    subscribe watcher, device, in_dialog, status, ended
    notify    watcher, device, cseq, dialog, shown, at                shown: "on", "off", or "vN"
    call      device, call_id, status, is_over, begun, ended          of the INVITE; is_over: it was refused, or its BYE answered
    hang_up   call_id, status, ended                                  a BYE of the callee
    lamp      watcher, device, cseq, dialog, shown, at                shown: "busy" or "idle"
    commit    order, partition, epoch, owner, by, aor, call_id, cseq, removed
    stored    at, bindings: [{aor, call_id, cseq}], publications: [{device, version}]
    fault     what, begun, ended
    quiet     begun, ended                                            nothing is sent meanwhile
    counters  node, handed_on, not_taken, taken, set_aside, undelivered
"""

import copy
import json
import sys
from collections import defaultdict

PATIENCE = 10.0
# A request of a fault's time may still be on its way for so long after it.
AFTERMATH = 15.0


def main():
    match sys.argv[1:]:
        case ["--self-test"]:
            self_test()
        case [path] if not path.startswith("-"):
            with open(path) as lines:
                history = [json.loads(line) for line in lines]
            findings, figures = check(history)
            for finding in findings:
                print(f"FOUND: {finding}")
            for name, value in figures.items():
                print(f"{name}: {value}")
            sys.exit(1 if findings else 0)
        case _:
            sys.exit(__doc__)


def check(history):
    """All findings, and figures of what was checked."""
    of = defaultdict(list)
    for one in history:
        of[one["op"]].append(one)
    findings = [
        *lost_bindings(of),
        *lost_publications(of),
        *second_owners(of),
        *disorder(of),
        *lost_subscriptions(of),
        *wrong_watchers(of),
        *stuck_lamps(of),
        *lost_calls(of),
        *unexplained_losses(of),
    ]
    acknowledged = sum(one["status"] == 200 for one in of["register"] + of["publish"])
    figures = {
        "acknowledged registrations and publications": acknowledged,
        "without an answer or refused": len(of["register"] + of["publish"]) - acknowledged,
        "commits": len(of["commit"]),
        "notifications": len(of["notify"]) + len(of["lamp"]),
        "calls": len(of["call"]),
        "calls refused or not known to be over": len(of["call"]) - sum(one["status"] == 200 and one["is_over"] for one in of["call"]),
        "faults": len(of["fault"]),
        "longest until all watchers were right (s)": round(longest_wrong(of), 1),
    }
    return findings, figures


def possible(requests, until, value, nothing):
    """What may be so at a moment: what was acknowledged last, and what was asked for since."""
    states = {nothing}
    for one in sorted(requests, key=lambda one: one["begun"]):
        if one["begun"] > until:
            break
        if one["status"] == 200 and one["ended"] <= until:
            states = {value(one)}
        else:
            states.add(value(one))
    return states


def by(records, name):
    groups = defaultdict(list)
    for one in records:
        groups[one[name]].append(one)
    return groups


def binding_of(register):
    return register["cseq"] if register["is_on"] else None


def lost_bindings(of):
    devices = by(of["register"], "device")
    for stored in of["stored"]:
        rows = {row["aor"]: row["cseq"] for row in stored["bindings"]}
        for device, requests in devices.items():
            states = possible(requests, stored["at"], binding_of, None)
            found = rows.get(device)
            if found not in states:
                yield f"binding of {device}: the database has CSeq {found} and not one of {ordered(states)} at {stored['at']:.1f}"
    for query in of["query"]:
        if query["status"] != 200:
            continue
        requests = devices[query["device"]]
        states = possible(requests, query["ended"], lambda one: one["is_on"], False)
        if query["is_on"] not in states:
            yield f"binding of {query['device']}: the registrar says {query['is_on']} at {query['ended']:.1f}"


def ordered(states):
    return sorted(states, key=lambda one: -1 if one is None else one)


def lost_publications(of):
    devices = by(of["publish"], "device")
    for device, requests in devices.items():
        is_known = False
        for one in sorted(requests, key=lambda one: one["begun"]):
            if one["status"] == 412 and one["how"] == "modify" and is_known:
                yield f"publication of {device}: its entity tag is not known at {one['ended']:.1f}"
            is_known = one["status"] == 200
    for stored in of["stored"]:
        rows = defaultdict(set)
        for row in stored["publications"]:
            rows[row["device"]].add(row["version"])
        for device, requests in devices.items():
            states = possible(requests, stored["at"], lambda one: one["version"], None)
            if not rows[device] & states and None not in states:
                yield f"publication of {device}: the database has {ordered(rows[device])} and not one of {ordered(states)}"


def second_owners(of):
    """In one epoch of a partition one node commits, and that is its owner."""
    committed = {}
    for one in of["commit"]:
        key = (one["partition"], one["epoch"])
        first = committed.setdefault(key, one["by"])
        if first != one["by"]:
            yield f"partition {key[0]}, epoch {key[1]}: {first} and {one['by']} have committed"
        elif one["owner"] != one["by"]:
            yield f"partition {key[0]}, epoch {key[1]}: {one['by']} has committed, and {one['owner']} owned it"


def disorder(of):
    """What is committed of a device, and what is acknowledged to it, goes forward only."""
    last = {}
    for one in sorted(of["commit"], key=lambda one: one["order"]):
        key = (one["aor"], one["call_id"])
        if one["cseq"] < last.get(key, 0):
            yield f"{one['aor']}: CSeq {one['cseq']} was committed after {last[key]}"
        last[key] = max(one["cseq"], last.get(key, 0))
    shown = {}
    for one in sorted(of["notify"], key=lambda one: (one["at"], one["cseq"])):
        if not one["shown"].startswith("v"):
            continue
        key, version = one["dialog"], int(one["shown"][1:])
        before = shown.get(key)
        if before and one["cseq"] > before[0] and version < before[1]:
            yield f"{one['watcher']}: version {version} of {one['device']} was told after {before[1]}"
        if not before or one["cseq"] > before[0]:
            shown[key] = (one["cseq"], version)


def lost_subscriptions(of):
    for one in of["subscribe"]:
        if one["in_dialog"] and one["status"] == 481:
            yield f"subscription of {one['watcher']} to {one['device']}: it is not known at {one['ended']:.1f}"


def truth(of, device, at):
    """What watchers of a device may be shown."""
    published = [one for one in of["publish"] if one["device"] == device]
    if published:
        states = possible(published, at, lambda one: one["version"], None)
        return {f"v{one}" if one is not None else "on" for one in states}
    registered = [one for one in of["register"] if one["device"] == device]
    states = possible(registered, at, lambda one: one["is_on"], False)
    return {"on" if one else "off" for one in states}


def rights(of):
    """For each quiet time and watcher: when it was shown the truth for good; None if never."""
    watchers = by(of["notify"], "watcher")
    for quiet in of["quiet"]:
        truths = {}
        for watcher, told in watchers.items():
            device = told[0]["device"]
            if device not in truths:
                truths[device] = truth(of, device, quiet["begun"])
            yield quiet, watcher, device, truths[device], right_since(told, truths[device], quiet)


def right_since(told, states, quiet):
    since, best = None, {}
    for one in sorted(told, key=lambda one: one["at"]):
        if one["at"] > quiet["ended"]:
            break
        # A copy, or one that was overtaken, changes nothing.
        if one["cseq"] <= best.get(one["dialog"], -1):
            continue
        best[one["dialog"]] = one["cseq"]
        if one["shown"] not in states:
            since = None
        elif since is None:
            since = one["at"]
    return since


def wrong_watchers(of):
    for quiet, watcher, device, states, since in rights(of):
        if since is None or since > quiet["begun"] + PATIENCE:
            when = "never" if since is None else f"after {since - quiet['begun']:.1f} s"
            yield f"{watcher}: {device} is {ordered_text(states)}, and it was told so {when} in the quiet from {quiet['begun']:.1f}"


def ordered_text(states):
    return " or ".join(sorted(states))


def longest_wrong(of):
    waits = [since - quiet["begun"] for quiet, *_, since in rights(of) if since is not None]
    return max([0.0, *waits])


def stuck_lamps(of):
    """When nobody calls any more, the lamps of all callees are dark."""
    ended = defaultdict(list)
    for one in of["hang_up"]:
        if one["status"] in (200, 481):
            ended[one["call_id"]].append(one["ended"])
    calls = by(of["call"], "device")
    for quiet in of["quiet"]:
        for (watcher, device), told in lamps(of).items():
            over = [one["ended"] if one["is_over"] else min(ended[one["call_id"]], default=None)
                    for one in calls.get(device, []) if one["begun"] < quiet["begun"]]
            # Of a call without an answer nobody knows whether it goes on.
            if any(at is None or at > quiet["begun"] for at in over):
                continue
            since = right_since(told, {"idle"}, quiet)
            if any(one["at"] <= quiet["ended"] for one in told) and (since is None or since > quiet["begun"] + PATIENCE):
                yield f"{watcher}: the lamp of {device} is lit though nobody calls, in the quiet from {quiet['begun']:.1f}"


def lamps(of):
    groups = defaultdict(list)
    for one in of["lamp"]:
        groups[one["watcher"], one["device"]].append(one)
    return groups


def is_troubled(of, one):
    """Whether a fault, or what follows from it, was while this lasted."""
    faults = [(fault["begun"] - 1.0, fault["ended"] + AFTERMATH) for fault in of["fault"]]
    return any(one["begun"] < ended and begun < one["ended"] for begun, ended in faults)


def lost_calls(of):
    """A call that met no fault is taken, and ends when it is to."""
    for one in of["call"]:
        if not is_troubled(of, one) and not (one["status"] == 200 and one["is_over"]):
            how = f"status {one['status']}" if one["status"] != 200 else "its BYE got no answer"
            yield f"call of {one['device']} at {one['begun']:.1f}: {how}, and no fault was near"


def unexplained_losses(of):
    """A request that met no fault has an answer, and what nodes lost they have counted."""
    for one in of["register"] + of["publish"]:
        if one["status"] == 0 and not is_troubled(of, one):
            yield f"request of {one['device']} at {one['begun']:.1f}: no answer, and no fault was near"
    for one in of["counters"]:
        if one["not_taken"] > one["handed_on"]:
            yield f"{one['node']} has counted more refusals than requests that it has handed on"


def sound():
    """A short history without a finding."""
    register = {"op": "register", "device": "sip:a", "call_id": "c", "is_on": True, "status": 200}
    publish = {"op": "publish", "device": "sip:p", "status": 200}
    notify = {"op": "notify", "dialog": "d", "watcher": "w", "device": "sip:p"}
    commit = {"op": "commit", "partition": 1, "aor": "sip:a", "call_id": "c", "removed": False}
    call = {"op": "call", "device": "sip:b", "status": 200, "is_over": True}
    lamp = {"op": "lamp", "dialog": "l", "watcher": "l", "device": "sip:b"}
    return [
        {**register, "cseq": 1, "begun": 0.0, "ended": 0.1},
        {**register, "cseq": 2, "begun": 1.0, "ended": 9.0, "status": 0},
        {**register, "cseq": 3, "begun": 9.0, "ended": 9.1},
        {**publish, "version": 1, "how": "new", "begun": 1.0, "ended": 1.1},
        {**publish, "version": 2, "how": "modify", "begun": 2.0, "ended": 2.1},
        {**commit, "order": 1, "epoch": 5, "owner": "alpha", "by": "alpha", "cseq": 1},
        {**commit, "order": 2, "epoch": 6, "owner": "beta", "by": "beta", "cseq": 3},
        {**notify, "cseq": 1, "shown": "v1", "at": 1.2},
        {**notify, "cseq": 2, "shown": "v2", "at": 2.2},
        {"op": "subscribe", "watcher": "w", "device": "sip:p", "in_dialog": True, "status": 200, "ended": 3.0},
        {**call, "call_id": "k1", "begun": 0.0, "ended": 7.0},
        {**call, "call_id": "k2", "status": 0, "is_over": False, "begun": 5.0, "ended": 8.0},
        {"op": "hang_up", "call_id": "k2", "status": 200, "ended": 9.0},
        {**lamp, "cseq": 1, "shown": "busy", "at": 1.0},
        {**lamp, "cseq": 2, "shown": "idle", "at": 9.5},
        {"op": "fault", "what": "kill", "begun": 1.0, "ended": 6.0},
        {"op": "query", "device": "sip:a", "is_on": True, "status": 200, "ended": 12.0},
        {"op": "quiet", "begun": 10.0, "ended": 25.0},
        {"op": "stored", "at": 25.0, "bindings": [{"aor": "sip:a", "call_id": "c", "cseq": 3}],
         "publications": [{"device": "sip:p", "version": 2}]},
        {"op": "counters", "node": "alpha", "handed_on": 3, "not_taken": 1, "taken": 2},
    ]


def planted():
    """What is changed in the sound history, and the word of the finding that has to come of it."""

    def at(op, number, **fields):
        def plant(history):
            [one for one in history if one["op"] == op][number].update(fields)
        return plant

    def more(**one):
        return lambda history: history.append(one)

    notify = {"op": "notify", "dialog": "d", "watcher": "w", "device": "sip:p"}
    return {
        "an acknowledged binding is gone": (at("stored", 0, bindings=[]), "binding of"),
        "an older binding is back": (
            at("stored", 0, bindings=[{"aor": "sip:a", "call_id": "c", "cseq": 1}]), "binding of"),
        "the registrar has forgotten a binding": (at("query", 0, is_on=False), "binding of"),
        "a publication is gone": (at("stored", 0, publications=[]), "publication of"),
        "an older publication is back": (
            at("stored", 0, publications=[{"device": "sip:p", "version": 1}]), "publication of"),
        "an entity tag is forgotten": (at("publish", 1, status=412), "entity tag"),
        "two nodes commit in one epoch": (at("commit", 1, epoch=5, owner="alpha"), "have committed"),
        "somebody else than the owner commits": (at("commit", 1, owner="alpha"), "owned it"),
        "a device goes back": (at("commit", 1, cseq=0), "was committed after"),
        "a watcher goes back": (more(**notify, cseq=3, shown="v1", at=2.3), "was told after"),
        "a watcher is wrong for good": (more(**notify, cseq=3, shown="v7", at=9.0), "told so never"),
        "a watcher is right too late": (at("notify", 1, at=21.0), "told so after 11.0 s"),
        "a subscription is forgotten": (at("subscribe", 0, status=481), "subscription of"),
        "a lamp stays lit": (at("lamp", 1, shown="busy"), "the lamp of"),
        "a lamp is dark too late": (at("lamp", 1, at=21.0), "the lamp of"),
        "a call is refused without a fault": (
            more(op="call", device="sip:b", call_id="k3", status=486, is_over=True, begun=24.0, ended=24.1), "status 486"),
        "the end of a call is lost without a fault": (
            more(op="call", device="sip:b", call_id="k3", status=200, is_over=False, begun=24.0, ended=24.1), "its BYE"),
        "a request is lost without a fault": (at("fault", 0, begun=30.0, ended=31.0), "no fault was near"),
        "a counter is wrong": (at("counters", 0, not_taken=4), "refusals"),
    }


def self_test():
    findings, _ = check(sound())
    assert not findings, findings
    for name, (plant, word) in planted().items():
        history = copy.deepcopy(sound())
        plant(history)
        findings, _ = check(history)
        assert any(word in finding for finding in findings), f"{name}: not found in {findings}"
    # What had no answer may be so or not.
    for cseq in [1, 2]:
        history = [one for one in sound() if one.get("cseq") != 3 and one["op"] not in ("query", "commit")]
        stored = next(one for one in history if one["op"] == "stored")
        stored["bindings"][0]["cseq"] = cseq
        findings, _ = check(history)
        assert not findings, findings
    print(f"{len(planted())} planted faults found")


if __name__ == "__main__":
    main()
