# SPDX-License-Identifier: Apache-2.0
"""What tests of the older systems' command lines, settings and files share."""
import json
import os
import subprocess

from harness import BIN, PATIENCE, ClusterTest

OK, SERVER, CONNECTION, TIMEOUT, ARGUMENTS = range(5)


class Fidelity(ClusterTest):
    folder = None

    def run_psgd(self, *args, coordinator=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_")}
        to = ["--coordinator", coordinator] if coordinator else []
        return subprocess.run([BIN / "psgd", *to, *map(str, args)], capture_output=True, text=True,
                              env=env, cwd=self.folder, timeout=120 * PATIENCE)

    def psgd(self, *args, code=OK, coordinator=None):
        """What it says: standard output, or of a refusal the error output."""
        p = self.run_psgd(*args, coordinator=coordinator)
        self.assertEqual(p.returncode, code, f"{args}: {p.stdout}{p.stderr}")
        return p.stdout if code == OK else p.stderr

    def train(self, *args):
        """The job of a training in one process, small enough for a test."""
        out = self.psgd("--format", "json", "train", "--out", "out", *args)
        return json.loads(out)
