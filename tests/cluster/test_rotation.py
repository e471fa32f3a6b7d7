#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_rotation.py - certificates of all members change while a job trains, and members are revoked.

PSGD_TEST_LONG=1 changes them 100 times, else 6 times."""
import os
import re
import sys
import time

import grpc

from harness import ENDLESS, PATIENCE, SLOW, SMALL, coordinator_pb2 as pb, job_pb2, main, tensors
from tls_cluster import TlsTest

ROUNDS = 100 if os.environ.get("PSGD_TEST_LONG", "0") == "1" else 6
PACE_MS = 100 if ROUNDS < 100 else 180
OUT_S = 5 * SLOW  # in which a revoked member is out
WAIT = {"timeout": 20 * PATIENCE}


def paced(ms):
    return {"straggler": {"name": "fixed", "params": {"rank": -1, "ms": ms}}}


class Rotation(TlsTest):
    def bits(self, c, job):
        job = c.wait(job.id, seconds=600)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(job.attempt, 1)
        models = [data for name, data in sorted(c.files(job.id).items()) if name.endswith("N(ps).safetensors")]
        self.assertEqual(len(models), 1)
        return sorted(tensors(models[0]).items())

    def test_all_certificates_change_and_one_member_is_revoked(self):
        c = self.tls_cluster(workers=3, pservers=1)
        c.wait_nodes(4)
        shape = {**SMALL, "epochs": 6 + ROUNDS}
        nodes = [{"role": "NODE_ROLE_WORKER", "address": p.address} for p in c.workers[:2]]
        nodes.append({"role": "NODE_ROLE_PSERVER", "address": c.pservers[0].address})
        expected = self.bits(c, c.submit(shape, workers=2, pservers=1, nodes=nodes))
        c.wait_idle()

        members = ["coordinator/main", "admin/anna", *(f"node/{p.name}" for p in c.nodes)]
        job = c.submit(shape, workers=2, pservers=1, nodes=nodes, **paced(PACE_MS))
        c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        eve = self.stub(c, "observer/eve")
        watch = eve.WatchJob(pb.WatchJobRequest(job_id=c.submit(SMALL, workers=9).id), timeout=3600)
        next(watch)  # of a job that waits: nothing follows
        for i in range(ROUNDS):
            for who in members:
                if i < ROUNDS // 2 or who != "node/worker-2":
                    c.authority.renew(who)
            told = c.psgd("get", job.id)  # a new connection, with a new certificate
            self.assertEqual(told.returncode, 0, told.stderr)
            self.assertIn("state     RUNNING", told.stdout, "the job must last as long as the rounds")
            if i == ROUNDS // 2:
                c.authority.revoke("node/worker-2")
                c.authority.revoke("observer/eve")
                began = time.monotonic()
                self.refused(lambda: list(watch), grpc.StatusCode.UNAUTHENTICATED)
                c.poll("the node is out", lambda: not {n.id: n.alive for n in c.node_list()}["worker-2"])
                self.assertLess(time.monotonic() - began, OUT_S)
        self.assertEqual(self.bits(c, job), expected)
        alive = {n.id: n.alive for n in c.node_list()}
        self.assertEqual(alive, {"worker-0": True, "worker-1": True, "worker-2": False, "pserver-0": True})
        for p in (c.coordinator, *c.workers[:2], *c.pservers):
            for line in p.log().splitlines():
                if re.search("refused|revoked|certificate", line) and "read the list" not in line:
                    self.assertRegex(line, "TLS as |worker-2|observer/eve")

    def test_a_revoked_worker_is_out_of_its_job(self):
        c = self.tls_cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        job = c.submit(ENDLESS, workers=2, pservers=1, **paced(10))
        c.wait(job.id, lambda job: job.progress.step > 5)
        c.authority.revoke("node/worker-1")
        began = time.monotonic()
        job = c.wait(job.id)
        self.assertLess(time.monotonic() - began, OUT_S)
        self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
        self.assertIn("worker-1", job.message)
        c.poll("the loss is logged", lambda: re.search("lost: its certificate [0-9A-F]+ was revoked.*node=worker-1",
                                                       c.coordinator.log()))
        self.assertEqual({n.id: n.alive for n in c.node_list()},
                         {"worker-0": True, "worker-1": False, "pserver-0": True})


if __name__ == "__main__":
    sys.exit(main())
