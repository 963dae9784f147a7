#!/usr/bin/env python3
"""Writes what `busyhour` is made of, in the format CycloneDX 1.5: each crate with version, licence, checksum and what it needs,
and the packages of npm in the client of its telephone page.

usage: scripts/sbom.py [FILE]     standard output without FILE

Only what ends up in the program: no test, no build script's own crates, no other platform. The same commit gives the same
text.
"""
import base64
import json
import subprocess
import sys
import tomllib
from datetime import datetime, timezone

PROGRAM = "busyhour-server"


def main():
    host = tell("rustc", "-vV").split("host: ")[1].split()[0]
    metadata = json.loads(tell("cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", host))
    with open("Cargo.lock", "rb") as file:
        locked = {(each["name"], each["version"]): each.get("checksum") for each in tomllib.load(file)["package"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    needs = {node["id"]: linked(node) for node in metadata["resolve"]["nodes"]}
    program = next(id for id, package in packages.items() if package["name"] == PROGRAM)
    inside = reached(program, needs)
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": last_commit_time(),
            "component": component(packages[program], locked, "application"),
        },
        "components": [component(packages[id], locked, "library") for id in in_order(inside - {program}, packages)]
        + telephone_components(),
        "dependencies": [
            {"ref": reference(packages[id]), "dependsOn": [reference(packages[need]) for need in in_order(needs[id], packages)]}
            for id in in_order(inside, packages)
        ],
    }
    text = json.dumps(bom, indent=1) + "\n"
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as file:
            file.write(text)
    else:
        sys.stdout.write(text)


def tell(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def linked(node):
    """What a crate is linked with: `kind` is null for that, and `dev` or `build` for the rest."""
    return {need["pkg"] for need in node["deps"] if any(kind["kind"] is None for kind in need["dep_kinds"])}


def reached(first, needs):
    inside, waiting = set(), [first]
    while waiting:
        id = waiting.pop()
        if id not in inside:
            inside.add(id)
            waiting.extend(needs[id])
    return inside


def in_order(ids, packages):
    return sorted(ids, key=lambda id: (packages[id]["name"], packages[id]["version"]))


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, locked, kind):
    made = {
        "type": kind,
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
        "description": " ".join((package["description"] or "").split()),
    }
    # Some old crates write a slash for OR.
    if package["license"]:
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = locked.get((package["name"], package["version"]))
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


def telephone_components():
    """What scripts/telephone.sh bundles, but not what it bundles with."""
    with open("scripts/telephone/package-lock.json") as file:
        packages = json.load(file)["packages"]
    bundled = {path.split("node_modules/")[-1]: package for path, package in packages.items() if path and not package.get("dev")}
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:npm/{name}@{package['version']}",
            "name": name,
            "version": package["version"],
            "purl": f"pkg:npm/{name}@{package['version']}",
            "description": "in the client of the telephone page (http.telephone)",
            "licenses": [{"expression": package["license"]}],
            "hashes": [{"alg": "SHA-512", "content": base64.b64decode(package["integrity"].removeprefix("sha512-")).hex()}],
        }
        for name, package in sorted(bundled.items())
    ]


def last_commit_time():
    seconds = tell("git", "log", "-1", "--format=%ct").strip()
    return datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


main()
