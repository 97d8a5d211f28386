#!/usr/bin/env python3
"""Builds the images of the agent and the scheduler from programs that `programs` built: `make images`."""

import argparse
import datetime
import json
import os
import pathlib
import subprocess

import oci_image
import sbom

WORKSPACE = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = "https://github.com/pinfold/pinfold"
TARGETS = {"amd64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}

IMAGES = {
    "pinfold-agent": {
        "title": "Pinfold node agent",
        "description": "Places and pins pods on CPUs, memory and devices of NUMA nodes",
        # Only root can read the kubelet's files.
        "user": "0:0",
        "rust": ["pinfold-agent", "pinfold"],
        "go": [],
        "command": ["--config", "/etc/pinfold/agent.yaml", "--log-format", "json"],
    },
    "kubectl-pinfold": {
        "title": "kubectl pinfold",
        "description": "NUMA usage of a cluster's nodes, and what is wrong with it; `helm test` runs it",
        "user": "65532:65532",
        "rust": ["kubectl-pinfold"],
        "go": [],
        "command": ["doctor"],
    },
    "pinfold-scheduler": {
        "title": "Pinfold scheduler",
        "description": "kube-scheduler with the plugin Pinfold, and its engine",
        "user": "65532:65532",
        "rust": ["pinfold-scheduler"],
        "go": ["pinfold-kube-scheduler"],
        "command": ["--config", "/etc/pinfold/scheduler.yaml", "--log-format", "json"],
    },
}


def git(*words):
    found = subprocess.run(["git", *words], cwd=WORKSPACE, check=True, capture_output=True)
    return found.stdout.decode().strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True, help="folder with a folder of programs per architecture")
    parser.add_argument("--out", required=True, help="folder of the archives")
    parser.add_argument("--registry", default="localhost", help="registry and path before the names of images")
    parser.add_argument("--tag", required=True)
    parser.add_argument("--only", action="append", choices=IMAGES, help="an image; repeatable, by default all")
    parser.add_argument("architecture", nargs="+", choices=TARGETS)
    args = parser.parse_args()

    # The time of the commit, so that the same commit gives the same bytes.
    time = int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct"))
    created = datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    revision = git("rev-parse", "HEAD")
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    for name in args.only or IMAGES:
        image = dict(IMAGES[name])
        image["entrypoint"] = [f"/usr/bin/{name}"]
        image["labels"] = {
            "org.opencontainers.image.title": image["title"],
            "org.opencontainers.image.description": image["description"],
            "org.opencontainers.image.version": args.tag,
            "org.opencontainers.image.revision": revision,
            "org.opencontainers.image.created": created,
            "org.opencontainers.image.source": SOURCE,
            "org.opencontainers.image.licenses": "Apache-2.0",
        }
        archive, manifests = oci_image.Archive(), []
        for architecture in args.architecture:
            folder = pathlib.Path(args.programs) / architecture
            files, components = {}, []
            for program in image["rust"] + image["go"]:
                data = (folder / program).read_bytes()
                oci_image.check_program(program, data, architecture)
                files[f"usr/bin/{program}"] = (0o755, data)
            for program in image["rust"]:
                components += sbom.rust_components(WORKSPACE, program, TARGETS[architecture])
            for program in image["go"]:
                components += sbom.go_components(folder / program)
            bill = json.dumps(sbom.document(name, args.tag, created, components), indent=1).encode() + b"\n"
            (out / f"{name}-{args.tag}-{architecture}.cdx.json").write_bytes(bill)
            files[f"usr/share/sbom/{name}.cdx.json"] = (0o644, bill)
            files["usr/share/licenses/pinfold/LICENSE"] = (0o644, (WORKSPACE / "LICENSE").read_bytes())
            manifests.append(archive.add_image(files, image, architecture, created, time))
        path = out / f"{name}-{args.tag}.oci.tar"
        archive.write(path, manifests, f"{args.registry}/{name}", args.tag, time)
        print(f"{path} ({', '.join(args.architecture)})")


if __name__ == "__main__":
    main()
