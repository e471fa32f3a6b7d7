#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""psgd explain over slow links: it names them, and what it foretells comes true."""
import os
import pathlib
import subprocess
import sys

import slow_links
from harness import PATIENCE, main
from test_explain import HEAVY, ExplainTest

NETWORK = os.environ.get("PSGD_TEST_NETWORK")  # set within the hub of slow links
MBIT, FAST_MBIT = 40, 2000
# A step takes 0.3 s.
LINKED = {**HEAVY, "model": {"preset": "mlp", "widths": [256]}}


def codecs(up, down):
    return {"codec": {"up": {"name": up}, "down": {"name": down}}}


class SlowLinks(ExplainTest):
    def within_links(self, test, *mbit):
        """Runs a test of WithinSlowLinks between links of these rates, up and down."""
        network = f"psgd-{os.getpid()}"
        try:
            self.addCleanup(slow_links.tear_down, network, 2)
            slow_links.build(network, 2, *mbit)
        except SystemExit as refusal:
            self.skipTest(str(refusal))
        p = subprocess.run([*slow_links.within(network, "hub"), sys.executable, str(pathlib.Path(__file__)),
                            f"WithinSlowLinks.{test}"], env={**os.environ, "PSGD_TEST_NETWORK": network},
                           capture_output=True, text=True, timeout=300 * PATIENCE)
        print(p.stderr, file=sys.stderr)
        self.assertEqual(p.returncode, 0, p.stderr)

    def test_slow_links_are_named(self):
        self.within_links("test_the_exchange_is_named", MBIT)

    def test_a_slow_way_up_is_named(self):
        self.within_links("test_the_way_up_is_named", MBIT, FAST_MBIT)

    def test_a_slow_way_down_is_named(self):
        self.within_links("test_the_way_down_is_named", FAST_MBIT, MBIT)


if NETWORK:
    class WithinSlowLinks(ExplainTest):
        def test_the_exchange_is_named(self):
            c = self.cluster(workers=2, pservers=1, place=slow_links.place(NETWORK))
            large = {"model": {"preset": "mlp", "widths": [128]}, "workers": 2, "epochs": 3}
            said = self.trained(c, **large)
            self.assertEqual((said["cause"], said["surety"]), ("exchange", "likely"))
            half = {"name": "bf16"}  # half the bytes, so half the waits
            after = self.trained(c, **large, codec={"up": half, "down": half})
            self.must_come_true(said, said["shares"]["exchange"] / 2, after)

        def test_the_way_up_is_named(self):
            c = self.cluster(workers=2, pservers=1, place=slow_links.place(NETWORK))
            said = self.explain_now(c, workers=2, **LINKED)
            self.assertEqual(said["bound_by"], "up", said)
            self.assertGreater(said["shares"]["up"], 3 * said["shares"]["down"])
            self.must_be_foretold(c, said, ("int8", "f32", 1, 0), workers=2, **LINKED, **codecs("int8", "f32"))
            self.must_be_foretold(c, said, ("", "", 1, 4), workers=2, **LINKED,
                                  update={"name": "localsgd", "params": {"steps": 4}}, optimizer={})

        def test_the_way_down_is_named(self):
            c = self.cluster(workers=2, pservers=1, place=slow_links.place(NETWORK))
            # in some steps acknowledgements of what goes up wait behind weights, so one window of ten steps says little
            said = self.explain_now(c, windows=4, workers=2, **LINKED)
            self.assertEqual(said["bound_by"], "down", said)
            self.assertGreater(said["shares"]["down"], 1.5 * said["shares"]["up"])  # acknowledgements of TCP wait, too
            self.must_be_foretold(c, said, ("f16", "f16", 1, 0), workers=2, **LINKED, **codecs("f16", "f16"))


if __name__ == "__main__":
    main()
