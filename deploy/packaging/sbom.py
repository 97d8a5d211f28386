"""The software bill of materials of a program, as CycloneDX JSON.

Of a Rust program: the crates that it is linked from, by `cargo metadata`, with the checksums of Cargo.lock. Of a Go program:
the modules that the program itself names (`go version -m`).
"""

import base64
import json
import subprocess
import tomllib
import uuid


def rust_components(workspace, program, target):
    """The crates that a program of the workspace is linked from, for this target."""
    words = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    found = subprocess.run(words, cwd=workspace, check=True, capture_output=True)
    with open(f"{workspace}/Cargo.lock", "rb") as file:
        lock = tomllib.load(file)
    return crates_of(json.loads(found.stdout), lock, program)


def crates_of(metadata, lock, program):
    """The crates below a program in the output of `cargo metadata`: neither build scripts' nor tests' own."""
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    packages = {one["id"]: one for one in metadata["packages"]}
    nodes = {one["id"]: one for one in metadata["resolve"]["nodes"]}
    roots = [
        one for one in metadata["workspace_members"] if packages[one]["name"] == program
    ]
    if not roots:
        raise ValueError(f"expected a package {program} in the workspace, found none")
    seen, waiting = set(), list(roots)
    while waiting:
        package = waiting.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            # Kind null: not for tests or build scripts. Macros run in the compiler, but their crates are sources too.
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    components = []
    for package in seen - set(roots):
        one = packages[package]
        components.append(
            component(
                f"pkg:cargo/{one['name']}@{one['version']}",
                one["name"],
                one["version"],
                one.get("license"),
                checksums.get((one["name"], one["version"])),
            )
        )
    return components


def go_components(binary):
    """The modules that a Go program was built from."""
    found = subprocess.run(["go", "version", "-m", binary], check=True, capture_output=True)
    return modules_of(found.stdout.decode())


def modules_of(text):
    """The modules in the output of `go version -m`."""
    components = []
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) < 4 or words[1] not in ("dep", "=>"):
            continue
        if words[1] == "=>" and components:
            # A replaced module: the line before named the one that was asked for.
            components.pop()
        path, version = words[2], words[3]
        # `h1:` is a hash of the module's files: not that of an archive, but CycloneDX has no other place for it.
        checksum = words[4] if len(words) > 4 else ""
        digest = base64.b64decode(checksum[3:]).hex() if checksum.startswith("h1:") else None
        components.append(component(f"pkg:golang/{path}@{version}", path, version, None, digest))
    return components


def component(purl, name, version, licence, checksum):
    one = {"type": "library", "bom-ref": purl, "purl": purl, "name": name, "version": version}
    if licence:
        # Some crates still separate alternatives by a slash, which is no SPDX expression.
        one["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    if checksum:
        one["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return one


def document(name, version, created, components):
    """The bill of materials of an image."""
    known = {one["purl"]: one for one in components}
    parts = [known[purl] for purl in sorted(known)]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([name, version, parts], sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": created,
            "component": {"type": "container", "bom-ref": name, "name": name, "version": version},
        },
        "components": parts,
    }
