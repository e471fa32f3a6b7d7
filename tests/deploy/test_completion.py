#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_completion.py - what bash and zsh complete: commands, flags, choices, presets, plugins and fields,
and with a coordinator its jobs.

    PSGD_BIN=build/test/bin test_completion.py
"""
import os
import pathlib
import pty
import select
import subprocess
import sys
import time
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


class Zsh(unittest.TestCase):
    """A zsh at a terminal, where somebody types and presses Tab."""

    def type(self, keys, wanted):
        os.write(self.terminal, keys.encode())
        said, end = "", time.monotonic() + 20
        while wanted not in said:
            self.assertLess(time.monotonic(), end, f"no {wanted!r} in {said!r}")
            if select.select([self.terminal], [], [], 0.2)[0]:
                said += os.read(self.terminal, 4096).decode()

    def test_it_completes_the_same(self):
        child, self.terminal = pty.fork()
        if child == 0:
            os.execve("/usr/bin/zsh", ["zsh", "-f", "-i"], {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "dumb",
                                                            "COLUMNS": "200", "PSGD_BASH_COMPLETION": str(SCRIPT)})
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.close, self.terminal)
        self.type(f"fpath=({SCRIPT.parent} $fpath); autoload -U compinit; compinit -u -D; echo rea''dy\n", "ready\r\n")
        self.type("psgd submit --preset tutorial-gly\t", "tutorial-glyphs ")  # the word that loads it
        self.type("--set timeouts.lea\t1000", "timeouts.lease_ms=1000")
        self.type("\x15psgd tok\t", "psgd token ")
        self.type("\x15psgd-worker --grac\t", "psgd-worker --grace ")


class Jobs(ClusterTest):
    def test_jobs_of_the_coordinator(self):
        c = self.cluster(workers=1, pservers=1)
        job = c.submit(SMALL).id
        self.assertEqual(complete("psgd", "--coordinator", c.coordinator.address, "get", job[:4]), [job])


if __name__ == "__main__":
    main()
