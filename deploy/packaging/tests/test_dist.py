"""Tarballs, the Debian package and the krew manifest, of programs that only print."""

import hashlib
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import dist  # noqa: E402

HERE = {machine: name for name, machine in dist.MACHINES.items()}.get(platform.machine())
PROGRAM = """#!/bin/sh
case $1 in
  completions) echo "completions of $2" ;;
  man) echo page >"$2/$(basename "$0").1" ;;
esac
"""


def packaged(folder):
    """Packages played programs; returns the folder of the results."""
    programs = pathlib.Path(folder) / "programs" / HERE
    programs.mkdir(parents=True)
    for name in dist.PROGRAMS:
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    out = pathlib.Path(folder) / "out"
    dist.package(programs.parent, out, "1.2.3", [HERE], 1_700_000_000)
    return out


def files(root):
    return sorted(str(file.relative_to(root)) for file in root.rglob("*") if not file.is_dir())


@unittest.skipUnless(HERE, "programs of another architecture")
class Dist(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = packaged(self.folder.name)

    def test_the_tarball_has_programs_completions_pages_and_the_unit(self):
        tar = tarfile.open(self.out / f"pinfold-1.2.3-linux-{HERE}.tar.gz")
        names = {name.partition("/")[2] for name in tar.getnames()}
        for expected in (
            "bin/pinfold-agent",
            "bin/kubectl_complete-pinfold",
            "share/bash-completion/completions/pinfold",
            "share/zsh/site-functions/_kubectl-pinfold",
            "share/man/man1/pinfold-agent.1",
            "lib/systemd/system/pinfold-agent.service",
            "LICENSE",
        ):
            self.assertIn(expected, names)
        self.assertTrue(all(one.uid == 0 and one.mtime == 1_700_000_000 for one in tar))

    def test_the_same_programs_give_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            again = packaged(folder)
            for file in files(self.out):
                self.assertEqual((self.out / file).read_bytes(), (again / file).read_bytes(), file)

    def test_the_checksums_and_the_krew_manifest_are_those_of_the_archives(self):
        for line in (self.out / "SHA256SUMS").read_text().splitlines():
            digest, name = line.split()
            self.assertEqual(hashlib.sha256((self.out / name).read_bytes()).hexdigest(), digest)
        archive = self.out / f"kubectl-pinfold-1.2.3-linux-{HERE}.tar.gz"
        manifest = (self.out / "pinfold.yaml").read_text()
        self.assertIn(hashlib.sha256(archive.read_bytes()).hexdigest(), manifest)
        self.assertIn(f"/v1.2.3/{archive.name}", manifest)
        inner = f"{archive.name.removesuffix('.tar.gz')}/kubectl-pinfold"
        self.assertIn(f"from: {inner}", manifest)
        self.assertIn(inner, tarfile.open(archive).getnames())

    @unittest.skipUnless(shutil.which("dpkg") and shutil.which("systemd-analyze"), "needs dpkg and systemd")
    def test_the_package_installs_on_a_clean_root_and_its_removal_leaves_only_the_journal(self):
        root = pathlib.Path(self.folder.name) / "root"
        (root / "var/lib/dpkg").mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        before = files(root)
        dpkg = ["dpkg", f"--root={root}", "--force-not-root", "--force-script-chrootless", "--force-architecture"]
        package = next(self.out.glob("*.deb"))
        run = lambda *words: subprocess.run(words, check=True, capture_output=True, text=True)
        run(*dpkg, "-i", str(package))
        for expected in ("usr/bin/pinfold-agent", "lib/systemd/system/pinfold-agent.service", "etc/pinfold/agent.yaml"):
            self.assertTrue((root / expected).is_file(), expected)
        self.assertEqual((root / "etc/pinfold/agent.yaml").stat().st_mode & 0o777, 0o600)
        unit = root / "lib/systemd/system/pinfold-agent.service"
        self.assertIn("ExecStart=/usr/bin/pinfold-agent ", unit.read_text())
        # `verify` looks for the program on this machine: the unit is checked with one that is there.
        checked = pathlib.Path(self.folder.name) / "pinfold-agent.service"
        checked.write_text(unit.read_text().replace("/usr/bin/pinfold-agent", "/bin/true"))
        found = run("systemd-analyze", "verify", "--man=no", str(checked))
        own = [line for line in found.stderr.splitlines() if "pinfold" in line]
        self.assertEqual(own, [])
        journal = root / "var/lib/pinfold/journal"
        journal.parent.mkdir(parents=True)
        journal.touch()
        run(*dpkg, "--purge", "pinfold")
        left = [file for file in files(root) if file not in before and not file.startswith("var/lib/dpkg/")]
        self.assertEqual([file for file in left if not file.startswith("var/log/")], ["var/lib/pinfold/journal"])
        self.assertFalse((root / "etc/pinfold").exists())


if __name__ == "__main__":
    unittest.main()
