#!/usr/bin/env python3
"""Packages static programs that `programs` built: tarballs, a Debian package, a krew manifest, checksums. `make dist`."""

import argparse
import gzip
import hashlib
import io
import os
import pathlib
import platform
import shutil
import subprocess
import tarfile
import tempfile

WORKSPACE = pathlib.Path(__file__).resolve().parent.parent.parent
DEBIAN = pathlib.Path(__file__).resolve().parent / "debian"
RELEASES = "https://github.com/pinfold/pinfold/releases/download"
# What runs on nodes and at terminals; the scheduler is an image.
PROGRAMS = ["pinfold", "kubectl-pinfold", "pinfold-agent"]
# Programs of `platform.machine()`, and what runs those of others.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
COMPLETIONS = {
    "bash": "share/bash-completion/completions/{}",
    "zsh": "share/zsh/site-functions/_{}",
    "fish": "share/fish/vendor_completions.d/{}.fish",
}


def runner(architecture):
    """The words before a program of this architecture that run it here."""
    machine = MACHINES[architecture]
    return [] if platform.machine() == machine else [f"qemu-{machine}-static"]


def stage(programs, architecture, root):
    """Puts the programs with completions and man pages below `root`, as `make install` does."""
    (root / "bin").mkdir(parents=True)
    man = root / "share/man/man1"
    man.mkdir(parents=True)
    for name in PROGRAMS:
        program = pathlib.Path(programs) / architecture / name
        shutil.copyfile(program, root / "bin" / name)
        (root / "bin" / name).chmod(0o755)
        words = [*runner(architecture), str(program)]
        for shell, place in COMPLETIONS.items():
            path = root / place.format(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            found = subprocess.run([*words, "completions", shell], check=True, capture_output=True)
            path.write_bytes(found.stdout)
        subprocess.run([*words, "man", str(man)], check=True)
    (root / "bin/kubectl_complete-pinfold").symlink_to("kubectl-pinfold")


def tarball(path, folder, name, time):
    """Writes the files below `folder` as `name/...`: in order, owned by root, with one time."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for file in [folder, *sorted(folder.rglob("*"))]:
            inner = f"{name}/{file.relative_to(folder)}" if file != folder else name
            entry = tar.gettarinfo(str(file), inner)
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = time
            if entry.isfile():
                with open(file, "rb") as data:
                    tar.addfile(entry, data)
            else:
                tar.addfile(entry)
    with open(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as zipped:
        zipped.write(content.getvalue())


def tarball_of_all(out, staged, version, architecture, time):
    """The tarball of an architecture: what `make install` installs, with the unit, the licence and the manifests."""
    name = f"pinfold-{version}-linux-{architecture}"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / name
        shutil.copytree(staged, root, symlinks=True)
        unit = root / "lib/systemd/system/pinfold-agent.service"
        unit.parent.mkdir(parents=True)
        shutil.copyfile(WORKSPACE / "deploy/agent/pinfold-agent.service", unit)
        for file in ("LICENSE", "README.md", "CHANGELOG.md"):
            shutil.copyfile(WORKSPACE / file, root / file)
        path = out / f"{name}.tar.gz"
        tarball(path, root, name, time)
    return path


def plugin_tarball(out, staged, version, architecture, time):
    """The archive that krew installs from."""
    name = f"kubectl-pinfold-{version}-linux-{architecture}"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / name
        root.mkdir()
        shutil.copyfile(staged / "bin/kubectl-pinfold", root / "kubectl-pinfold")
        (root / "kubectl-pinfold").chmod(0o755)
        shutil.copyfile(WORKSPACE / "LICENSE", root / "LICENSE")
        path = out / f"{name}.tar.gz"
        tarball(path, root, name, time)
    return path


def debian_package(out, staged, version, architecture, time):
    """The Debian package of a node: programs, unit, and a configuration in mode mirror. It starts nothing by itself."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        shutil.copytree(staged, root / "usr", symlinks=True)
        for page in (root / "usr/share/man/man1").iterdir():
            with open(page, "rb") as plain, gzip.GzipFile(f"{page}.gz", "wb", mtime=0) as zipped:
                shutil.copyfileobj(plain, zipped)
            page.unlink()
        for source, place in (
            (WORKSPACE / "deploy/agent/pinfold-agent.service", "lib/systemd/system/pinfold-agent.service"),
            (DEBIAN / "agent.yaml", "etc/pinfold/agent.yaml"),
            (WORKSPACE / "LICENSE", "usr/share/doc/pinfold/copyright"),
        ):
            path = root / place
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, path)
        (root / "etc/pinfold").chmod(0o755)
        (root / "etc/pinfold/agent.yaml").chmod(0o600)
        control = root / "DEBIAN"
        control.mkdir()
        size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) // 1024
        text = (DEBIAN / "control").read_text()
        text = text.format(version=version, architecture=architecture, size=size)
        (control / "control").write_text(text)
        (control / "conffiles").write_text("/etc/pinfold/agent.yaml\n")
        for script in ("postinst", "prerm", "postrm"):
            shutil.copyfile(DEBIAN / script, control / script)
            (control / script).chmod(0o755)
        path = out / f"pinfold_{version}_{architecture}.deb"
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
        words = ["dpkg-deb", "--root-owner-group", "--build", str(root), str(path)]
        subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)
    return path


def krew_manifest(version, archives):
    """The manifest of the kubectl plugin; `archives` are the archives by architecture."""
    platforms = ""
    for architecture, path in sorted(archives.items()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        name = path.name.removesuffix(".tar.gz")
        platforms += f"""  - selector:
      matchLabels: {{os: linux, arch: {architecture}}}
    uri: {RELEASES}/v{version}/{path.name}
    sha256: {digest}
    files:
    - {{from: {name}/kubectl-pinfold, to: .}}
    - {{from: {name}/LICENSE, to: .}}
    bin: kubectl-pinfold
"""
    return f"""apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: pinfold
spec:
  version: v{version}
  homepage: https://github.com/pinfold/pinfold
  shortDescription: NUMA usage of nodes, and why pods are pending
  description: |
    Shows the usage of every NUMA node, explains why a pod is on its node or pending and which changes would make it fit,
    counts the replicas that really start, and says what is wrong with NUMA placement in a cluster.
  platforms:
{platforms}"""


def package(programs, out, version, architectures, time):
    """Writes everything into `out`; returns the files."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    files, archives = [], {}
    for architecture in architectures:
        with tempfile.TemporaryDirectory() as folder:
            staged = pathlib.Path(folder) / "staged"
            stage(programs, architecture, staged)
            files.append(tarball_of_all(out, staged, version, architecture, time))
            archives[architecture] = plugin_tarball(out, staged, version, architecture, time)
            files += [archives[architecture], debian_package(out, staged, version, architecture, time)]
    manifest = out / "pinfold.yaml"
    manifest.write_text(krew_manifest(version, archives))
    files.append(manifest)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files)]
    (out / "SHA256SUMS").write_text("".join(sums))
    return [*files, out / "SHA256SUMS"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True, help="folder with a folder of programs per architecture")
    parser.add_argument("--out", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("architecture", nargs="+", choices=MACHINES)
    args = parser.parse_args()
    words = ["git", "log", "-1", "--format=%ct"]
    commit = lambda: subprocess.run(words, cwd=WORKSPACE, check=True, capture_output=True).stdout
    time = int(os.environ.get("SOURCE_DATE_EPOCH") or commit())
    for file in package(args.programs, args.out, args.version, args.architecture, time):
        print(file)


if __name__ == "__main__":
    main()
