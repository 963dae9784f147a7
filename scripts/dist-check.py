#!/usr/bin/env python3
"""Checks what scripts/dist.sh makes: the checksums, and the list of parts against the rules of CycloneDX 1.5 and Cargo.lock.

usage: scripts/dist-check.py FOLDER     of a release
       scripts/dist-check.py            the list of parts alone, made now

With the package cyclonedx-python-lib (with json-validation) the official schema judges the list as well.
"""
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if folder:
        text = next(folder.glob("*.cdx.json")).read_text()
    else:
        made = subprocess.run([ROOT / "scripts/sbom.py"], cwd=ROOT, check=True, capture_output=True, text=True)
        text = made.stdout
    mistakes = [*(checksums(folder) if folder else []), *parts(json.loads(text)), *official(text)]
    for mistake in mistakes:
        print(f"dist: {mistake}", file=sys.stderr)
    if mistakes:
        sys.exit(1)
    print("dist: checksums and parts are right" if folder else "dist: the list of parts is right")


def checksums(folder):
    """Every file has its line, and is what the line says."""
    lines = [line.split("  ", 1) for line in (folder / "SHA256SUMS").read_text().splitlines()]
    told = {name: digest for digest, name in lines}
    there = {path.name for path in folder.iterdir()} - {"SHA256SUMS"}
    yield from (f"{name} has no checksum" for name in sorted(there - set(told)))
    yield from (f"{name} is missing" for name in sorted(set(told) - there))
    for name in sorted(there & set(told)):
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != told[name]:
            yield f"{name} is not what its checksum says"


def parts(bom):
    if (bom.get("bomFormat"), bom.get("specVersion")) != ("CycloneDX", "1.5"):
        yield "this is no CycloneDX 1.5"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bom["metadata"]["timestamp"]):
        yield "the time is none"
    all_parts = [bom["metadata"]["component"], *bom["components"]]
    references = [part["bom-ref"] for part in all_parts]
    if len(set(references)) != len(references):
        yield "two parts have one reference"
    for part in all_parts:
        yield from (f"{part.get('name')}: {problem}" for problem in part_mistakes(part))
    for one in bom["dependencies"]:
        for reference in [one["ref"], *one["dependsOn"]]:
            if reference not in references:
                yield f"{reference} is needed and is no part"
    yield from (f"{name} is in Cargo.lock otherwise" for name in unlocked(all_parts))


def part_mistakes(part):
    lengths = {"SHA-256": 64, "SHA-512": 128}
    if part.get("type") not in ("application", "library"):
        yield "no type"
    if not part.get("name") or not part.get("version"):
        yield "no name or version"
    if not re.fullmatch(r"pkg:(cargo|npm)/(%40|@)?[^@]+@\S+", part.get("purl", "")):
        yield "no purl"
    for digest in part.get("hashes", []):
        if not re.fullmatch(rf"[0-9a-f]{{{lengths.get(digest['alg'], 0)}}}", digest["content"]):
            yield f"a checksum is no {digest['alg']}"
    if not part.get("licenses"):
        yield "no licence"


def unlocked(all_parts):
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    locked = {(one["name"], one["version"]): one.get("checksum") for one in packages}
    for part in all_parts:
        if part["purl"].startswith("pkg:cargo/"):
            digest = next((one["content"] for one in part.get("hashes", [])), None)
            if locked.get((part["name"], part["version"]), "") != digest:
                yield part["name"]


def official(text):
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
    except ImportError:
        return
    error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    if error:
        yield f"the schema refuses it: {error}"


main()
