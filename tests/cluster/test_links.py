# SPDX-License-Identifier: Apache-2.0
"""test_links.py - links.py runs to its table, and bytes that a job counts pass its links."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

from harness import PATIENCE, data_path, main

LINKS = pathlib.Path(__file__).with_name("links.py")
NOT_HERE = re.compile(r"need root|there is no `|`(ip|tc) .*` failed")


def links(*args, **environment):
    """(exit code, what it printed, what it complained of, its network's name)"""
    process = subprocess.Popen([sys.executable, LINKS, *args], env={**os.environ, **environment},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=200 * PATIENCE)
    finally:
        process.terminate()
    return process.returncode, out, err, f"psgd-{process.pid}-"


class Links(unittest.TestCase):
    def test_without_data_it_says_what_is_missing(self):
        code, _, err, _ = links("ngram", PSGD_DATA="")
        self.assertEqual(code, 1)
        self.assertIn("PSGD_DATA has to say", err)

    def test_without_ip_it_says_so(self):
        if os.geteuid() != 0:
            self.skipTest("only root comes that far")
        code, _, err, _ = links("ngram", PSGD_DATA="/", PATH="/nonexistent")
        self.assertEqual(code, 1)
        self.assertIn("there is no `ip`", err)

    def test_what_a_job_counts_is_what_its_links_carry(self):
        if not data_path():
            self.skipTest("PSGD_DATA has no mnist/")
        code, out, err, network = links("ngram", "--samples", "2560")
        if code == 1 and NOT_HERE.search(err):
            self.skipTest(err.strip())
        self.assertEqual(code, 0, err)
        rows = [[cell.strip() for cell in line.strip("|").split("|")]
                for line in out.splitlines() if line.startswith(("| asp ", "| geo"))]
        self.assertEqual([row[0] for row in rows], ["asp", "geo(25)"], out)
        for row in rows:
            for way in row[4:6]:
                job, kernel = map(float, way.split(","))
                self.assertGreater(job, 0)
                # They are read one after the other, and some is always on its way.
                self.assertGreater(kernel, 0.8 * job, row)
                self.assertLess(kernel, 2 * job, row)
        left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        self.assertNotIn(network, left)


if __name__ == "__main__":
    main()
