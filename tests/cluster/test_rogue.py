#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_rogue.py - a node with a good certificate speaks as another node, again and again, while a job trains."""
import re
import subprocess
import sys

import grpc
from google.protobuf import json_format

from harness import (BIN, PATIENCE, SMALL, coordinator_pb2 as pb, coordinator_pb2_grpc, job_pb2, main, node_pb2,
                     node_pb2_grpc, tensors)
from psgd.v1 import parameter_pb2, parameter_pb2_grpc, peer_pb2, peer_pb2_grpc
from tls_cluster import DENIED, TlsTest, credentials

WAIT = {"timeout": 20 * PATIENCE}
PACE = {"straggler": {"name": "fixed", "params": {"rank": -1, "ms": 25}}}
LATER = 1 << 62  # an incarnation that is newer than any


class Rogue(TlsTest):
    def bits(self, c, job):
        job = c.wait(job.id, seconds=300)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(job.attempt, 1)
        models = sorted((name.split("-N")[1], sorted(tensors(data).items())) for name, data in c.files(job.id).items()
                        if name.endswith(".safetensors"))
        self.assertGreater(len(models), 0)
        return models

    def identity(self, job):
        spec = re.sub(r': "(\d+)"', r": \1", json_format.MessageToJson(job.spec))
        plan = subprocess.run([BIN.parent / "tests/layout_hash"], capture_output=True, input=spec.encode())
        return parameter_pb2.WorkerIdentity(job_id=job.id, rank=0, incarnation=LATER, layout_hash=int(plan.stdout, 16))

    def attacks(self, c, job, at):
        """What the member of the folder `at` tries, as worker-0 and as the coordinator: by name."""
        def open_(process):
            channel = grpc.secure_channel(process.address, credentials(at))
            self.addCleanup(channel.close)
            return channel

        api = coordinator_pb2_grpc.CoordinatorServiceStub(open_(c.coordinator))
        found = {
            "register": lambda: api.RegisterNode(pb.RegisterNodeRequest(
                node_id="worker-0", incarnation=LATER, role=job_pb2.NODE_ROLE_WORKER, address="127.0.0.1:1"), **WAIT),
            "heartbeat": lambda: api.Heartbeat(pb.HeartbeatRequest(
                node_id="worker-0", incarnation=LATER, job_id=job.id, attempt=1, leaving=True), **WAIT),
            "ready": lambda: api.Ready(pb.ReadyRequest(node_id="worker-0", job_id=job.id, attempt=1), **WAIT)}
        for process in c.nodes[:2 + len(c.pservers)]:
            node = node_pb2_grpc.NodeServiceStub(open_(process))
            who = process.name
            found |= {
                f"collect from {who}": lambda node=node: list(node.Collect(node_pb2.CollectRequest(
                    job_id=job.id, attempt=1), **WAIT)),
                f"abort at {who}": lambda node=node: node.Abort(node_pb2.AbortRequest(
                    job_id=job.id, attempt=1), **WAIT),
                f"reserve {who}": lambda node=node: node.CanCommit(node_pb2.CanCommitRequest(
                    job_id="other", attempt=9), **WAIT),
                f"log of {who}": lambda node=node: node.GetLog(node_pb2.GetLogRequest(), **WAIT)}
        who = self.identity(job)
        for process in c.pservers:
            wire = parameter_pb2_grpc.ParameterServiceStub(open_(process))
            found["push"] = lambda: list(wire.PushGradient(iter([parameter_pb2.PushGradientRequest(
                worker=who, attempt=1)]), **WAIT))
            found["pull"] = lambda: list(wire.PullWeights(iter([parameter_pb2.PullWeightsRequest(
                worker=who, attempt=1)]), **WAIT))
        if not c.pservers:
            peer = peer_pb2_grpc.PeerServiceStub(open_(c.workers[1]))
            found["exchange"] = lambda: list(peer.Exchange(iter([peer_pb2.ExchangeRequest(
                worker=who, attempt=1, to=1)]), **WAIT))
        return found

    def check(self, fields, **options):
        c = self.tls_cluster(**options)
        c.wait_nodes(len(c.nodes))
        shape = {**SMALL, "epochs": 12}
        expected = self.bits(c, c.submit(shape, **fields))
        c.wait_idle()
        mallory = c.authority.join("node/mallory")
        # The second has a certificate of a node that is in the job, at another rank.
        for at in (mallory, c.authority.dir_of("node/worker-1")):
            job = c.submit(shape, **fields, **PACE)
            job = c.wait(job.id, lambda job: job.progress.step > 3)
            attacks = self.attacks(c, job, at)
            tries = 0
            while c.get(job.id).progress.step < 200:
                for name, attack in attacks.items():
                    with self.subTest(name):
                        told = self.refused(attack, DENIED)
                        self.assertRegex(told, "may not call|speaks for itself only|worker.rank: 0 is on node/worker-0")
                tries += 1
            self.assertGreater(tries, 1)
            self.assertEqual(self.bits(c, job), expected)
            c.wait_idle()
        self.assertTrue(all(n.alive for n in c.node_list()))

    def test_with_servers(self):
        self.check({"workers": 2, "pservers": 1}, workers=2, pservers=1)

    def test_in_a_mesh(self):
        self.check({"workers": 2, "pservers": 0, "exchange": {"name": "ring"}}, workers=2, pservers=0)


if __name__ == "__main__":
    sys.exit(main())
