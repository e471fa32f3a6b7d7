# SPDX-License-Identifier: Apache-2.0
"""test_terminal.py - a coordinator, or a node, sends text that is to deceive whoever reads it, and
lists that have no end."""
import concurrent.futures
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc  # noqa: E402
from harness import (BIN, FINAL, PATIENCE, SMALL, ClusterTest, coordinator_pb2,  # noqa: E402
                     coordinator_pb2_grpc, job_pb2, main)
from rogue import Rogue  # noqa: E402

EVIL = "x\x1b[2J\u202ex\u2066\u200f\u2028\n\x9b"
BAD = "\x1b\u202e\u2066\u200f\u2028\x9b"


class Liar(coordinator_pb2_grpc.CoordinatorServiceServicer):
    """Every text of every answer is EVIL, and every page of a list has a next one."""

    def __init__(self):
        self.pages = 0
        self.job = job_pb2.Job(
            id=EVIL, state=job_pb2.JOB_STATE_DONE, reason=EVIL, message=EVIL, result={EVIL: 1.0},
            artifacts=[job_pb2.Artifact(name=EVIL, size=1)],
            placements=[job_pb2.Placement(node_id=EVIL, address=EVIL)],
            spec=job_pb2.JobSpec(title=EVIL),
            progress=job_pb2.Progress(step=1, total_steps=2, epoch=1, waiting_for=EVIL, program_metrics={EVIL: 1.0}))

    def GetJob(self, q, context):
        return coordinator_pb2.GetJobResponse(job=self.job, workers=[
            coordinator_pb2.WorkerProgress(step=1, waiting_for=EVIL, program_metrics={EVIL: 1.0})])

    def WatchJob(self, q, context):
        running = job_pb2.Job()
        running.CopyFrom(self.job)
        running.state = job_pb2.JOB_STATE_RUNNING
        yield coordinator_pb2.WatchJobResponse(
            sequence=0, job=running, kind=coordinator_pb2.JOB_EVENT_KIND_PROGRESS)
        yield coordinator_pb2.WatchJobResponse(
            sequence=1, job=self.job, kind=coordinator_pb2.JOB_EVENT_KIND_METRICS)

    def ListJobs(self, q, context):
        self.pages += 1
        return coordinator_pb2.ListJobsResponse(jobs=[self.job],
                                                next_page_token=f"t{self.pages % 3}")

    def ListNodes(self, q, context):
        return coordinator_pb2.ListNodesResponse(
            nodes=[coordinator_pb2.Node(id=EVIL, address=EVIL, job_id=EVIL, version=EVIL)])


class TerminalTest(ClusterTest):
    def liar(self):
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server(Liar(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, 0)
        return f"127.0.0.1:{port}"

    def said(self, address, *args):
        done = subprocess.run([BIN / "psgd", *args, "--coordinator", address], capture_output=True,
                              timeout=10 * PATIENCE, check=False)
        return done.returncode, done.stdout.decode("utf-8", "strict"), done.stderr.decode()

    def test_no_text_deceives(self):
        address = self.liar()
        for args in (["get", "x"], ["watch", "x"], ["watch", "--workers", "x"], ["nodes"], ["list", "-n", "2"]):
            _, out, err = self.said(address, *args)
            self.assertIn("x?", out, args)
            for c in BAD:
                self.assertNotIn(c, out + err, (args, hex(ord(c))))

    def test_a_list_without_an_end_ends(self):
        code, _, err = self.said(self.liar(), "list", "-n", "0")
        self.assertNotEqual(code, 0)
        self.assertIn("repeats a page", err)

    def test_a_node_does_not_name_metrics(self):
        c = self.cluster(workers=0, pservers=0)
        node = Rogue(c.coordinator.address)
        self.addCleanup(node.close)
        node.claims = {"progress": [coordinator_pb2.WorkerProgress(
            step=1, total_steps=1, epoch=1, evaluations=1,
            metrics={EVIL: 1.0, "other": 2.0, "accuracy": 0.5, "loss": 0.25})]}
        c.wait_nodes(1)
        job = c.wait(c.submit({**SMALL, "exchange": {"name": "ring"}}).id, lambda j: j.state in FINAL)
        self.assertEqual(dict(job.result), {"accuracy": 0.5, "loss": 0.25})


if __name__ == "__main__":
    main()
