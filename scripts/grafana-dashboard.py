#!/usr/bin/env python3
"""Whether packaging/monitoring/grafana-dashboard.json is a dashboard as Grafana 10 reads it.

usage: target/grafana/bin/python scripts/grafana-dashboard.py [FILE]

Grafana's own types (grafana-foundation-sdk, which Grafana makes of its schemas) read the file and write it again: what they do not
know is not in what they write. Each panel must be of a kind that has types, each query one for Prometheus, and no two panels may
have the same number or lie on each other. scripts/monitoring.sh gets the types and runs this.
"""
import json
import sys

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import prometheus
from grafana_foundation_sdk.models.dashboard import Dashboard

FILE = sys.argv[1] if len(sys.argv) > 1 else "packaging/monitoring/grafana-dashboard.json"
COLUMNS = 24


def main():
    with open(FILE) as file:
        written = json.load(file)
    plugins.register_default_plugins()
    dashboard = Dashboard.from_json(written)
    compare(written, json.loads(JSONEncoder().encode(dashboard)), "")
    for panel in dashboard.panels:
        check(not isinstance(panel.options, dict), f"{panel.title}: Grafana has no panel {panel.type_val!r}")
        for target in panel.targets:
            check(isinstance(target, prometheus.Dataquery), f"{panel.title}: not a query for Prometheus")
    numbers = [panel.id_val for panel in dashboard.panels]
    check(len(set(numbers)) == len(numbers), f"two panels have the same number: {numbers}")
    places = [(panel.grid_pos, panel.title) for panel in dashboard.panels]
    for index, (place, title) in enumerate(places):
        check(place.x + place.w <= COLUMNS, f"{title}: too wide")
        for other, other_title in places[:index]:
            check(not overlap(place, other), f"{title} lies on {other_title}")
    print(f"grafana-dashboard: {len(numbers)} panels are as Grafana reads them")


def compare(written, read, path):
    if isinstance(written, dict):
        check(isinstance(read, dict), f"{path or '/'} is not what Grafana expects")
        for name, value in written.items():
            check(name in read, f"{path}/{name}: Grafana does not know this")
            compare(value, read[name], f"{path}/{name}")
    elif isinstance(written, list):
        check(isinstance(read, list) and len(read) == len(written), f"{path} is read otherwise")
        for index, (value, same) in enumerate(zip(written, read)):
            compare(value, same, f"{path}/{index}")
    else:
        check(written == read, f"{path}: {written!r} is read as {read!r}")


def overlap(one, other):
    return one.x < other.x + other.w and other.x < one.x + one.w and one.y < other.y + other.h and other.y < one.y + one.h


def check(is_right, what):
    if not is_right:
        sys.exit(f"grafana-dashboard: {what}")


main()
