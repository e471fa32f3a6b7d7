#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_completion.py - what bash completes: commands, flags, choices, presets, plugins and fields,
and with a coordinator its jobs.

    PSGD_BIN=build/test/bin test_completion.py
"""
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cluster")]
from harness import BIN, SMALL, ClusterTest, main  # noqa: E402

SCRIPT = ROOT / "deploy/completion/psgd.bash"
ASK = """
source "$0"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
"$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(*words):
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", ASK, SCRIPT, *words], env=env, text=True, capture_output=True, timeout=30)
    return done.stdout.split()


class Alone(unittest.TestCase):
    def test_commands(self):
        self.assertEqual(complete("psgd", "tok"), ["token"])
        self.assertIn("submit", complete("psgd", ""))

    def test_flags(self):
        self.assertEqual(complete("psgd", "submit", "--no-q"), ["--no-queue"])
        self.assertEqual(complete("psgd-worker", "--grac"), ["--grace"])

    def test_choices(self):
        self.assertEqual(complete("psgd", "list", "--format", "js"), ["json", "jsonl"])
        self.assertEqual(complete("psgd-coordinator", "--log-format", ""), ["text", "json"])

    def test_presets_plugins_and_fields(self):
        self.assertIn("tutorial-glyphs", complete("psgd", "submit", "--preset", "tut"))
        self.assertIn("topk", complete("psgd", "train", "--codec", "to"))
        self.assertEqual(complete("psgd", "submit", "--set", "timeouts.lease"), ["timeouts.lease_ms="])
        self.assertIn("codec", complete("psgd", "info", "co"))


class Jobs(ClusterTest):
    def test_jobs_of_the_coordinator(self):
        c = self.cluster(workers=1, pservers=1)
        job = c.submit(SMALL).id
        self.assertEqual(complete("psgd", "--coordinator", c.coordinator.address, "get", job[:4]), [job])


if __name__ == "__main__":
    main()
