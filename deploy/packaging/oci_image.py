"""Writes container images as OCI archives: no daemon, no registry, the same bytes for the same input.

An image is one layer of static programs, for one or more architectures:

    oci-layout, index.json ─► image index ─► manifest per architecture ─► config, layer
"""

import gzip
import hashlib
import io
import json
import struct
import tarfile

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"

# e_machine of an ELF file.
MACHINES = {"amd64": 62, "arm64": 183}
# Program header of a file that names its loader.
PT_INTERP = 3


class NotAStaticProgram(Exception):
    """A program that does not run in an image without libraries."""


def check_program(name, elf, architecture):
    """Fails unless `elf` is a static program of 64 bits for the architecture."""
    if elf[:5] != b"\x7fELF\x02" or len(elf) < 64:
        raise NotAStaticProgram(f"{name}: expected an ELF program of 64 bits")
    machine = struct.unpack_from("<H", elf, 0x12)[0]
    if machine != MACHINES[architecture]:
        raise NotAStaticProgram(
            f"{name}: expected a program for {architecture}, found machine {machine}"
        )
    start = struct.unpack_from("<Q", elf, 0x20)[0]
    size, count = struct.unpack_from("<HH", elf, 0x36)
    for index in range(count):
        if struct.unpack_from("<I", elf, start + index * size)[0] == PT_INTERP:
            raise NotAStaticProgram(
                f"{name}: expected a static program, found one that loads libraries: link it with crt-static"
            )


def tar_of(files, time):
    """A tar of files by path, with their folders: mode and content of each, owned by root, in order."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        folders = set()
        for path, (mode, data) in sorted(files.items()):
            parts = path.split("/")[:-1]
            for depth in range(1, len(parts) + 1):
                folder = "/".join(parts[:depth])
                if folder not in folders:
                    folders.add(folder)
                    entry = tarfile.TarInfo(folder)
                    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, time
                    tar.addfile(entry)
            entry = tarfile.TarInfo(path)
            entry.mode, entry.mtime, entry.size = mode, time, len(data)
            tar.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def gzipped(data):
    """`data` compressed without a name or a time."""
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", filename="", mtime=0) as zipped:
        zipped.write(data)
    return content.getvalue()


class Archive:
    """Blobs by digest, and the archive of them."""

    def __init__(self):
        self.blobs = {}

    def add(self, media_type, data):
        """Adds a blob; returns its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def add_json(self, media_type, value):
        return self.add(media_type, json.dumps(value, sort_keys=True).encode())

    def add_image(self, files, image, architecture, created, time):
        """Adds the image of one architecture; returns the descriptor of its manifest."""
        layer = tar_of(files, time)
        config = {
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {
                "User": image["user"],
                "Entrypoint": image["entrypoint"],
                "Cmd": image["command"],
                "Labels": image["labels"],
                "Env": ["PATH=/usr/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            "history": [{"created": created, "created_by": "make images"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.add_json(CONFIG, config),
            "layers": [self.add(LAYER, gzipped(layer))],
            "annotations": image["labels"],
        }
        platform = {"os": "linux", "architecture": architecture}
        return {**self.add_json(MANIFEST, manifest), "platform": platform}

    def write(self, path, manifests, name, tag, time):
        """Writes the archive of an image with these manifests."""
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
        root = self.add_json(INDEX, index)
        root["annotations"] = {
            # For `ctr images import`, and for `skopeo copy oci-archive:FILE:TAG`.
            "io.containerd.image.name": f"{name}:{tag}",
            "org.opencontainers.image.ref.name": tag,
        }
        files = {
            "oci-layout": (0o644, json.dumps({"imageLayoutVersion": "1.0.0"}).encode()),
            "index.json": (
                0o644,
                json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [root]}, sort_keys=True).encode(),
            ),
        }
        for digest, data in self.blobs.items():
            files[f"blobs/sha256/{digest}"] = (0o644, data)
        with open(path, "wb") as file:
            file.write(tar_of(files, time))
