#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_ha_join.py - several coordinators on one etcd, under TLS, with one authority: nodes join, and their
certificates are renewed, whoever leads."""
import json
import pathlib
import re
import tempfile
import time

import grpc

import harness
from ha_cluster import LEASE_S, PACED, SHORT, HaCluster, HaTest
from harness import PATIENCE, SLOW, Process, free_ports, job_pb2, main
from test_join import refused
from tls_cluster import Authority, credentials

LIFE_S = 20  # of certificates of nodes; the least that is allowed


class TlsHaCluster(HaCluster):
    """Two coordinators, each at a host of its own, so that both have the port of one token."""

    HOSTS = ("127.0.3.1", "127.0.3.2")

    def __init__(self, etcd):
        self.authority = Authority()
        self.admin = self.authority.join("admin/anna")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-cluster-"))
        port, self.join_port = free_ports(2)
        self.coordinators = [harness.Process(
            "psgd-coordinator", f"coordinator-{i}", self.folder,
            ["--registry", etcd.url, "--leader-lease", f"{LEASE_S}s", "--heartbeat", "200ms",
             "--lease", f"{int(5000 * SLOW)}ms", "--tls-dir", self.member(f"coordinator/c{i}", host),
             "--pki", self.authority.pki, "--join-listen", f"{host}:{self.join_port}",
             "--node-cert-life", f"{LIFE_S}s"],
            port=port, host=host, data_dir=self.folder / "shared") for i, host in enumerate(self.HOSTS)]
        self.channels = {c.address: self.dial(c.address) for c in self.coordinators}
        self.workers, self.pservers = [], []
        self.leader()

    def member(self, principal, host):
        at = self.authority.dir_of(principal)
        self.authority.run("request", principal, "--host", host, "--tls-dir", at)
        self.authority.run("install", self.authority.answer(principal), "--tls-dir", at, "--fingerprint",
                           self.authority.fingerprint)
        return at

    def dial(self, address):
        return grpc.secure_channel(address, credentials(self.admin))

    def token(self, name):
        return self.authority.run("token", f"node/{name}", "--pki", self.authority.pki, "--join-port",
                                  self.join_port)["token"]

    def join(self, role, name, *order):
        """Starts a node with a token, which asks the coordinators in this order."""
        token = self.token(name)
        node = Process(f"psgd-{role}", name, self.folder,
                       ["--coordinator", ",".join(c.address for c in order), "--join", token, "--tls-dir",
                        self.folder / name / "tls"])
        (self.workers if role == "worker" else self.pservers).append(node)
        return node, token

    def joins(self):
        """Who has joined, as the audit has it."""
        lines = map(json.loads, (self.folder / "shared" / "audit.jsonl").read_text().splitlines())
        return [a["about"] for a in lines if a["method"] == "Join" and a["result"] == "OK"]

    def close(self, failed=False):
        super().close(failed)
        self.authority.close()


class HaJoin(HaTest):
    def setUp(self):
        self.c = TlsHaCluster(self.etcd())
        self.addCleanup(lambda: self.c.close(bool(self._outcome.result.failures + self._outcome.result.errors)))
        self.first = self.c.leader()
        (self.second,) = [c for c in self.c.coordinators if c is not self.first]

    def test_a_coordinator_that_follows_puts_off_who_joins(self):
        c = self.c
        c.coordinator = self.second
        alone = c.token("alone")
        began = time.monotonic()
        said = refused(c, "worker", "--join", alone)  # asks nobody but the one that follows
        self.assertIn("this coordinator does not lead now; the token was not used", said)
        self.assertGreater(time.monotonic() - began, 15, "it asks again for 20 s")
        node, token = c.join("worker", "n", self.second, self.first)
        c.wait_nodes(1)
        self.assertNotIn("joins from", self.second.log())
        c.poll("the audit has it", lambda: c.joins() == ["node/n"])
        for coordinator in c.coordinators:  # one use, whoever is asked first
            c.coordinator = coordinator
            order = [coordinator.address, *(o.address for o in c.coordinators if o is not coordinator)]
            self.assertIn("the join token of node/n was used already",
                          refused(c, "worker", "--join", token, "--coordinator", ",".join(order)))

    def test_nodes_join_and_renew_while_the_leader_changes(self):
        c = self.c
        c.join("worker", "a", self.first, self.second)
        c.join("pserver", "s", self.first, self.second)
        c.wait_nodes(2)
        job = c.submit(PACED, workers=1, pservers=1)
        c.wait(job.id, lambda j: j.state == job_pb2.JOB_STATE_RUNNING)
        self.first.kill()
        b, _ = c.join("worker", "b", self.first, self.second)  # nobody leads just now
        self.assertRegex(b.log(), "asks again for 20 s")
        self.assertIs(c.leader(but=self.first), self.second)
        c.poll("all are known to the new leader", lambda: {n.id for n in c.node_list() if n.alive} == {"a", "b", "s"})
        c.poll("the audit has it", lambda: c.joins() == ["node/a", "node/s", "node/b"])
        c.poll("all have renewed", lambda: all(len(re.findall("has a new certificate", n.log())) >= 2
                                               for n in c.nodes), 3 * LIFE_S)
        for n in c.nodes:
            self.assertNotIn("certificate expired", n.log())
        done = c.wait(job.id, seconds=120)
        self.assertEqual(done.state, job_pb2.JOB_STATE_DONE, done.message)
        after = c.submit(SHORT, workers=2, pservers=1)  # the links of renewed nodes to each other
        after = c.wait(after.id, seconds=120)
        self.assertEqual(after.state, job_pb2.JOB_STATE_DONE, after.message)


if __name__ == "__main__":
    main()
