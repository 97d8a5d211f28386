"""The workflows of `.github` call targets that the Makefile has."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent


class Workflows(unittest.TestCase):
    def test_every_make_target_of_a_workflow_exists(self):
        targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        seen = set()
        for path in (ROOT / ".github/workflows").glob("*.yaml"):
            for words in re.findall(r"\bmake ([a-z][^\n\"]*)", path.read_text()):
                named = {word for word in words.split() if re.fullmatch(r"[a-z0-9-]+", word)}
                self.assertLessEqual(named, targets, path.name)
                seen |= named
        self.assertGreaterEqual(seen, {"lint", "test", "test-plugin", "test-packaging", "images", "dist", "push"})


if __name__ == "__main__":
    unittest.main()
