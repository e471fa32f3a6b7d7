# SPDX-License-Identifier: Apache-2.0
"""test_strangers.py - somebody who has no part in a job names addresses for it, and asks its nodes."""
import pathlib
import re
import socket
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc  # noqa: E402
from harness import (ENDLESS, PATIENCE, SMALL, ClusterTest, coordinator_pb2, job_pb2,  # noqa: E402
                     main, node_pb2, node_pb2_grpc)
from psgd.v1 import parameter_pb2, parameter_pb2_grpc  # noqa: E402

WORKER, PSERVER = job_pb2.NODE_ROLE_WORKER, job_pb2.NODE_ROLE_PSERVER


class StrangerTest(ClusterTest):
    def refusal(self, call):
        """The code and the text with which a call is refused."""
        with self.assertRaises(grpc.RpcError) as refused:
            call()
        return refused.exception.code(), refused.exception.details()

    def test_addresses_are_a_host_and_a_port(self):
        """gRPC would connect to whatever else these name."""
        room = tempfile.TemporaryDirectory(prefix="psgd-strangers-")
        self.addCleanup(room.cleanup)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(f"{room.name}/s")
        listener.listen()
        listener.setblocking(False)
        c = self.cluster(workers=0, pservers=0)
        for address in (f"unix:{room.name}/s", f"unix://{room.name}/s", "unix-abstract:s", "xds:///h",
                        "unix:80", "unix-abstract:80", "xds:80", "dns:80", "vsock:80", "dns:h:80", "dns:///h:80", "ipv4:127.0.0.1:80", "h:80/x", "h:", "h:0x50"):
            with self.subTest(address):
                code, text = self.refusal(lambda a=address: c.submit({**SMALL, "nodes": [
                    {"role": "NODE_ROLE_WORKER", "address": a},
                    {"role": "NODE_ROLE_PSERVER", "address": "127.0.0.1:1"}]}))
                self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, text)
                code, text = self.refusal(lambda a=address: c.api.RegisterNode(
                    coordinator_pb2.RegisterNodeRequest(node_id="n", role=WORKER, incarnation=1,
                                                        address=a), timeout=10 * PATIENCE))
                self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, text)
        with self.assertRaises(BlockingIOError):
            listener.accept()
        self.assertEqual(len(c.node_list()), 0)

    def test_refusals_tell_no_secrets(self):
        """Neither the hash nor the incarnation with which a stranger could pass for a worker."""
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        job = c.submit(ENDLESS)
        c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        for process, role in ((c.workers[0], WORKER), (c.pservers[0], PSERVER)):
            with self.subTest(process.name), c.dial(process.address) as channel:
                answer = node_pb2_grpc.NodeServiceStub(channel).CanCommit(node_pb2.CanCommitRequest(
                    job_id="other", attempt=1, role=role, coordinator=c.coordinator.address),
                    timeout=10 * PATIENCE)
                self.assertFalse(answer.ready)
                self.assertEqual(answer.held_by_job, job.id)
                self.assertEqual(answer.incarnation, 0)
        who = parameter_pb2.WorkerIdentity(job_id=job.id, rank=0, incarnation=1 << 62, layout_hash=1)
        with c.dial(c.pservers[0].address) as channel:
            api = parameter_pb2_grpc.ParameterServiceStub(channel)
            for call in (lambda: api.PushGradient(iter([parameter_pb2.PushGradientRequest(
                             worker=who, attempt=1)]), timeout=10 * PATIENCE),
                         lambda: api.PullWeights(iter([parameter_pb2.PullWeightsRequest(
                             worker=who, attempt=1)]), timeout=10 * PATIENCE)):
                code, text = self.refusal(lambda call=call: list(call()))
                self.assertEqual(code, grpc.StatusCode.FAILED_PRECONDITION, text)
                self.assertEqual(re.findall(r"\b[0-9a-f]{16}\b", text), [f"{who.layout_hash:016x}"], text)
        step = c.get(job.id).progress.step
        c.wait(job.id, lambda j: j.progress.step > step + 10)  # it has not noticed


if __name__ == "__main__":
    main()
