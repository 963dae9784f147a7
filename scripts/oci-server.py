#!/usr/bin/env python3
"""Makes an OCI image of the server, as a tar archive, without a daemon: one layer, and the JSON that describes it.

usage: scripts/oci-server.py PROGRAM ARCHIVE [--version VERSION]

PROGRAM is a static `busyhour`. The same program and the same commit give the same archive, byte for byte.
"""
import argparse
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
USER = 65532
STATE = "/var/lib/busyhour"
PASSWD = f"root:x:0:0:root:/root:/sbin/nologin\nbusyhour:x:{USER}:{USER}:Busyhour:{STATE}:/sbin/nologin\n"
GROUP = f"root:x:0:\nbusyhour:x:{USER}:\n"
# Files first, then DNS, as everywhere.
NSSWITCH = "hosts: files dns\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("archive")
    parser.add_argument("--version", default="latest", help="the tag of the image")
    arguments = parser.parse_args()
    with open(arguments.program, "rb") as program:
        program = program.read()
    if is_dynamic(arguments.program):
        sys.exit(f"oci-server: {arguments.program} is linked dynamically, and an image has no libraries; build it by scripts/static.sh")
    commit, seconds = last_commit()
    write(arguments, image(program, arguments.version, commit, seconds), seconds)


def is_dynamic(path):
    headers = subprocess.run(["readelf", "--program-headers", path], capture_output=True, text=True, check=True)
    return "INTERP" in headers.stdout


def last_commit():
    """The commit, and its time, which is that of all files."""
    told = subprocess.run(["git", "log", "-1", "--format=%H %ct"], capture_output=True, text=True)
    commit, seconds = told.stdout.split() if told.returncode == 0 and told.stdout else ("unknown", "0")
    return commit, int(os.environ.get("SOURCE_DATE_EPOCH", seconds))


def image(program, version, commit, seconds):
    """The blobs by their digests, and the index that names the manifest."""
    blobs = {}
    layer = layer_tar(program, seconds)
    packed = gzip.compress(layer, compresslevel=6, mtime=0)
    created = subprocess.run(["date", "--utc", f"--date=@{seconds}", "+%Y-%m-%dT%H:%M:%SZ"], capture_output=True, text=True, check=True).stdout.strip()
    labels = {
        "org.opencontainers.image.title": "busyhour",
        "org.opencontainers.image.description": "SIP server: registration, presence, lamps and calls",
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.revision": commit,
    }
    config = {
        "created": created,
        "architecture": ARCHITECTURES.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/usr/bin/busyhour"],
            "Cmd": ["serve"],
            "Env": [
                "PATH=/usr/bin",
                f"HOME={STATE}",
                f"BUSYHOUR_STORE_PATH={STATE}/busyhour.db",
                "BUSYHOUR_SIP_LISTEN=0.0.0.0:5060",
                "BUSYHOUR_IAX2_LISTEN=0.0.0.0:4569",
                "BUSYHOUR_HTTP_LISTEN=0.0.0.0:8080",
            ],
            "ExposedPorts": {"5060/udp": {}, "5060/tcp": {}, "4569/udp": {}, "8080/tcp": {}},
            "Volumes": {STATE: {}},
            "WorkingDir": STATE,
            "StopSignal": "SIGTERM",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "scripts/oci-server.py"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": stored(blobs, as_json(config), "application/vnd.oci.image.config.v1+json"),
        "layers": [stored(blobs, packed, "application/vnd.oci.image.layer.v1.tar+gzip")],
        "annotations": labels,
    }
    named = stored(blobs, as_json(manifest), "application/vnd.oci.image.manifest.v1+json")
    named["annotations"] = {"org.opencontainers.image.ref.name": version}
    return blobs, {"schemaVersion": 2, "manifests": [named]}


def layer_tar(program, seconds):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder, mode, owner in [
            ("etc", 0o755, 0), ("tmp", 0o1777, 0), ("usr", 0o755, 0), ("usr/bin", 0o755, 0),
            ("var", 0o755, 0), ("var/lib", 0o755, 0), ("var/lib/busyhour", 0o700, USER),
        ]:
            add(tar, folder, None, mode, owner, seconds)
        add(tar, "etc/passwd", PASSWD.encode(), 0o644, 0, seconds)
        add(tar, "etc/group", GROUP.encode(), 0o644, 0, seconds)
        add(tar, "etc/nsswitch.conf", NSSWITCH.encode(), 0o644, 0, seconds)
        add(tar, "usr/bin/busyhour", program, 0o755, 0, seconds)
    return out.getvalue()


def add(tar, name, content, mode, owner, seconds):
    entry = tarfile.TarInfo(name)
    entry.mode, entry.uid, entry.gid, entry.mtime = mode, owner, owner, seconds
    if content is None:
        entry.type = tarfile.DIRTYPE
        tar.addfile(entry)
    else:
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))


def write(arguments, made, seconds):
    blobs, index = made
    with tarfile.open(arguments.archive, mode="w") as tar:
        add(tar, "oci-layout", as_json({"imageLayoutVersion": "1.0.0"}), 0o644, 0, seconds)
        add(tar, "index.json", as_json(index), 0o644, 0, seconds)
        add(tar, "blobs", None, 0o755, 0, seconds)
        add(tar, "blobs/sha256", None, 0o755, 0, seconds)
        for name in sorted(blobs):
            add(tar, f"blobs/sha256/{name}", blobs[name], 0o644, 0, seconds)


def stored(blobs, content, media_type):
    """Keeps a blob, and describes it."""
    blobs[digest(content).split(":")[1]] = content
    return {"mediaType": media_type, "digest": digest(content), "size": len(content)}


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def as_json(value):
    return json.dumps(value, indent=1, sort_keys=True).encode()


main()
