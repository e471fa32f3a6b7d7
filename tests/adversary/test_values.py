# SPDX-License-Identifier: Apache-2.0
"""test_values.py - a member of a job leaves values that are no finite numbers, and says that all is
well."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from harness import FINAL, SMALL, ClusterTest, coordinator_pb2, job_pb2, main  # noqa: E402
from rogue import PSERVER, Rogue  # noqa: E402

ASYNC = {**SMALL, "title": "wild", "epochs": 1, "model": {"preset": "mlp", "widths": [4]},
         "consistency": {"name": "asp"}}
VALUES = 784 * 4 + 4 + 4 * 10 + 10


class ValueTest(ClusterTest):
    def test_a_server_s_nan_is_no_model(self):
        c = self.cluster(workers=0, pservers=0)
        nodes = [Rogue(c.coordinator.address), Rogue(c.coordinator.address, "server", PSERVER)]
        for node in nodes:
            self.addCleanup(node.close)
        weights = struct.pack("<f", 0.5) * (VALUES - 1)
        nodes[1].leaves = [("weights.f32", job_pb2.ARTIFACT_KIND_MODEL,
                            weights + struct.pack("<f", float("inf")))]
        c.wait_nodes(2)
        job = c.wait(c.submit(ASYNC).id, lambda j: j.state in FINAL)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        self.assertIn("server", job.message)
        self.assertIn(f"value {VALUES - 1} of weights.f32 is not finite", job.message)
        self.assertFalse([name for name in c.files(job.id) if name.startswith("MODEL-")])
        # A job that failed for another reason says so too.
        def run():  # fails when the server has told that it is over
            c.poll("the server is over",
                   lambda: nodes[1].phase == coordinator_pb2.NODE_PHASE_FINISHED)
            nodes[1].heartbeat()

        nodes[0].run = run
        nodes[0].ends_as = coordinator_pb2.NODE_PHASE_FAILED
        nodes[0].claims = {"error_code": 13, "error": "it broke"}
        job = c.wait(c.submit(ASYNC).id, lambda j: j.state in FINAL)
        self.assertIn("it broke", job.message)
        self.assertIn("weights.f32 is not finite", job.message)
        nodes[0].claims = {}


if __name__ == "__main__":
    main()
