"""The writer of images and of bills of materials."""

import hashlib
import io
import json
import pathlib
import struct
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import oci_image  # noqa: E402
import sbom  # noqa: E402


def elf(machine, header):
    """The beginning of an ELF program with one program header."""
    head = bytearray(64 + 56)
    head[:5] = b"\x7fELF\x02"
    struct.pack_into("<H", head, 0x12, machine)
    struct.pack_into("<Q", head, 0x20, 64)
    struct.pack_into("<HH", head, 0x36, 56, 1)
    struct.pack_into("<I", head, 64, header)
    return bytes(head)


IMAGE = {"user": "65532:65532", "entrypoint": ["/usr/bin/a"], "command": [], "labels": {"x": "y"}}


def written(order):
    """The archive of an image whose files are given in this order."""
    archive = oci_image.Archive()
    files = {path: (0o755, path.encode()) for path in order}
    manifests = [
        archive.add_image(files, IMAGE, architecture, "2026-01-01T00:00:00Z", 0)
        for architecture in ("amd64", "arm64")
    ]
    with tempfile.NamedTemporaryFile() as file:
        archive.write(file.name, manifests, "localhost/a", "1.0", 0)
        return pathlib.Path(file.name).read_bytes()


class Images(unittest.TestCase):
    def test_only_static_programs_of_the_architecture_are_taken(self):
        load, loader = 1, 3
        oci_image.check_program("a", elf(62, load), "amd64")
        oci_image.check_program("a", elf(183, load), "arm64")
        for program, architecture, expected in (
            (elf(62, loader), "amd64", "static"),
            (elf(62, load), "arm64", "arm64"),
            (b"#!/bin/sh\n", "amd64", "ELF"),
        ):
            with self.assertRaisesRegex(oci_image.NotAStaticProgram, expected):
                oci_image.check_program("a", program, architecture)

    def test_the_same_files_give_the_same_bytes(self):
        self.assertEqual(written(["usr/bin/a", "usr/bin/b"]), written(["usr/bin/b", "usr/bin/a"]))

    def test_every_descriptor_names_a_blob_by_its_digest_and_size(self):
        tar = tarfile.open(fileobj=io.BytesIO(written(["usr/bin/a"])))
        blob = lambda one: tar.extractfile("blobs/" + one["digest"].replace(":", "/")).read()

        def check(one):
            data = blob(one)
            self.assertEqual(len(data), one["size"])
            self.assertEqual("sha256:" + hashlib.sha256(data).hexdigest(), one["digest"])
            return data

        index = json.load(tar.extractfile("index.json"))
        root = json.loads(check(index["manifests"][0]))
        self.assertEqual(
            [one["platform"]["architecture"] for one in root["manifests"]], ["amd64", "arm64"]
        )
        for one in root["manifests"]:
            manifest = json.loads(check(one))
            config = json.loads(check(manifest["config"]))
            self.assertEqual(config["config"]["User"], "65532:65532")
            layer = check(manifest["layers"][0])
            files = tarfile.open(fileobj=io.BytesIO(layer))
            self.assertEqual(files.getnames(), ["usr", "usr/bin", "usr/bin/a"])
            self.assertTrue(all(one.uid == 0 and one.mtime == 0 for one in files))


METADATA = {
    "packages": [
        {"id": name, "name": name, "version": "1.0", "license": "MIT/Apache-2.0"}
        for name in ("program", "linked", "below", "for-tests", "for-building")
    ],
    "workspace_members": ["program"],
    "resolve": {
        "nodes": [
            {
                "id": "program",
                "deps": [
                    {"pkg": "linked", "dep_kinds": [{"kind": None}]},
                    {"pkg": "for-tests", "dep_kinds": [{"kind": "dev"}]},
                ],
            },
            {
                "id": "linked",
                "deps": [
                    {"pkg": "below", "dep_kinds": [{"kind": None}, {"kind": "dev"}]},
                    {"pkg": "for-building", "dep_kinds": [{"kind": "build"}]},
                ],
            },
            {"id": "below", "deps": []},
        ]
    },
}
LOCK = {"package": [{"name": "below", "version": "1.0", "checksum": "ab"}, {"name": "linked", "version": "1.0"}]}

MODULES = """program: go1.26
\tpath\texample.com/program
\tmod\texample.com/program\t(devel)\t
\tdep\texample.com/a\tv1.2.0\th1:AAAA
\tdep\texample.com/b\tv1.0.0
\t=>\texample.com/c\tv2.0.0\th1:AAAA
\tbuild\t-trimpath=true
"""


class Bills(unittest.TestCase):
    def test_only_crates_that_are_linked_are_listed(self):
        found = sbom.crates_of(METADATA, LOCK, "program")
        self.assertEqual(sorted(one["name"] for one in found), ["below", "linked"])
        below = next(one for one in found if one["name"] == "below")
        self.assertEqual(below["hashes"], [{"alg": "SHA-256", "content": "ab"}])
        self.assertEqual(below["licenses"], [{"expression": "MIT OR Apache-2.0"}])
        with self.assertRaisesRegex(ValueError, "other"):
            sbom.crates_of(METADATA, LOCK, "other")

    def test_a_replaced_module_is_listed_as_what_replaced_it(self):
        found = sbom.modules_of(MODULES)
        self.assertEqual([one["name"] for one in found], ["example.com/a", "example.com/c"])

    def test_a_bill_lists_every_component_once_and_in_order(self):
        parts = sbom.crates_of(METADATA, LOCK, "program")
        bill = sbom.document("a", "1.0", "2026-01-01T00:00:00Z", parts + parts[::-1])
        self.assertEqual([one["name"] for one in bill["components"]], ["below", "linked"])
        again = sbom.document("a", "1.0", "2026-01-01T00:00:00Z", parts)
        self.assertEqual(bill, again)


if __name__ == "__main__":
    unittest.main()
