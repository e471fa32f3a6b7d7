# SPDX-License-Identifier: Apache-2.0
"""test_values.py - a member of a job leaves values that are no finite numbers, and says that all is
well."""
import pathlib
import re
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc  # noqa: E402
from harness import (BIN, FINAL, SMALL, ClusterTest, coordinator_pb2, job_pb2,  # noqa: E402
                     json_format, main)
from psgd.v1 import codec_pb2, parameter_pb2, parameter_pb2_grpc  # noqa: E402
from rogue import PSERVER, Rogue  # noqa: E402

ASYNC = {**SMALL, "title": "wild", "epochs": 1, "model": {"preset": "mlp", "widths": [4]},
         "consistency": {"name": "asp"}}
VALUES = 784 * 4 + 4 + 4 * 10 + 10
STEPS = 40  # of its epoch


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
        nodes[0].claims = {"progress": [coordinator_pb2.WorkerProgress(step=STEPS, total_steps=STEPS)]}
        job = c.wait(c.submit(ASYNC).id, lambda j: j.state in FINAL)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        self.assertIn("server", job.message)
        self.assertEqual(job.reason, "DIVERGED")
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

    def layout_hash(self, spec):
        """The hash with which a member of the job says of which model it is."""
        text = re.sub(r': "(\d+)"', r": \1", json_format.MessageToJson(spec))
        ran = subprocess.run([BIN.parent / "tests/layout_hash"], capture_output=True, input=text.encode(),
                             check=True)
        return int(ran.stdout, 16)

    def test_a_worker_s_push_of_nan_is_refused(self):
        """Then it says that it has trained to the end, and the job fails in its name all the same."""
        c = self.cluster(workers=0, pservers=0)
        c.pservers.append(c.add("pserver", 0, ["--threads", "1"]))
        node = Rogue(c.coordinator.address)
        self.addCleanup(node.close)
        server = c.pservers[0].address
        ended = []

        def run():
            who = parameter_pb2.WorkerIdentity(
                job_id=node.job_id, rank=0, incarnation=node.incarnation,
                layout_hash=self.layout_hash(node.settings.spec))
            bias = codec_pb2.Encoding(slice=1, payload_bytes=16, f32=codec_pb2.F32())
            push = parameter_pb2.PushGradientRequest(
                worker=who, attempt=node.attempt, slices=[bias],
                payload=struct.pack("<4f", 0, 0, float("nan"), 0))
            with grpc.insecure_channel(server) as channel:
                answers = parameter_pb2_grpc.ParameterServiceStub(channel).PushGradient(
                    iter([push]), timeout=20)
                try:
                    ended.append(list(answers))
                except grpc.RpcError as e:
                    ended.append((e.code(), e.details()))
            steps = node.settings.spec.epochs * STEPS
            node.claims = {"progress": [coordinator_pb2.WorkerProgress(step=steps, total_steps=steps)]}

        node.run = run
        c.wait_nodes(2)
        job = c.wait(c.submit(ASYNC).id, lambda j: j.state in FINAL)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        (answer,) = ended
        self.assertEqual(answer[0], grpc.StatusCode.INVALID_ARGUMENT, answer)
        for text in (answer[1], job.message):
            self.assertIn("rank 0, clock 0: dense0.bias: slice 1: value 2 is not finite", text)


if __name__ == "__main__":
    main()
