# SPDX-License-Identifier: Apache-2.0
"""test_blame.py - a node freezes or is cut off while a job trains, and thaws before its lease is over:
the job's status, reason and message name that node and not those that wait for it."""
import pathlib
import select
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from harness import (ENDLESS, FINAL, SLOW, SMALL, ClusterTest, coordinator_pb2,  # noqa: E402
                     job_pb2, main)

STEP_MS = int(2000 * SLOW)
LEASE_MS = 20 * STEP_MS  # nobody is lost by it
RUNNING, DONE, FAILED = (job_pb2.JOB_STATE_RUNNING, job_pb2.JOB_STATE_DONE,
                         job_pb2.JOB_STATE_FAILED)
# So long a step takes whatever the machine.
PACE = {"name": "fixed", "params": {"rank": -1, "ms": 5}}


class Link:
    """A way to a server's port that can be cut: what is under way then is never delivered."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.target, self.is_cut, self.is_closed, self.pairs = None, False, False, {}
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.is_closed:
            listening = [] if self.is_cut else [self.listener, *self.pairs]
            for ready in select.select(listening, [], [], 0.05)[0]:
                if ready is self.listener:
                    self.accept()
                elif ready in self.pairs:
                    self.carry(ready)

    def accept(self):
        near, _ = self.listener.accept()
        far = socket.create_connection(self.target)
        self.pairs[near], self.pairs[far] = far, near

    def carry(self, source):
        other = self.pairs[source]
        try:
            part = source.recv(1 << 16)
            other.sendall(part)
        except OSError:
            part = b""
        if not part:
            for end in (source, other):
                del self.pairs[end]
                end.close()

    def close(self):
        self.is_closed = True
        self.thread.join()
        for end in [self.listener, *self.pairs]:
            end.close()


class BlameTest(ClusterTest):
    def begin(self, c, **fields):
        """A job that trains on all nodes."""
        job = c.submit({**ENDLESS, "workers": len(c.workers), "pservers": len(c.pservers),
                        "straggler": PACE, "timeouts": {"stepMs": STEP_MS, "leaseMs": LEASE_MS},
                        **fields})
        return c.wait(job.id, lambda j: j.state in FINAL or j.progress.step > 20)

    def is_waited_for(self, c, job, name):
        """Until the status names this node, and no other."""
        job = c.wait(job.id, lambda j: j.state in FINAL or j.progress.waiting_for == name)
        self.assertEqual(job.state, RUNNING, job.message)

    def wait_failed(self, c, nodes):
        """Until these nodes have given up."""
        for node in nodes:
            c.poll(f"{node.name} gives up", lambda: c.status(node).node.phase ==
                   coordinator_pb2.NODE_PHASE_FAILED)

    def must_blame(self, job, victim):
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        self.assertEqual(job.reason, "NODE_STALLED", job.message)
        self.assertRegex(job.message, rf"^(worker|parameter server) {victim.name} \({victim.address}\) "
                                      r"holds up the others: no heartbeat for \d+\.\d s")

    def freeze(self, victim, others, c, **fields):
        """A node freezes until the others have given up."""
        job = self.begin(c, **fields)
        victim.freeze()
        self.is_waited_for(c, job, victim.name)
        self.wait_failed(c, others)
        victim.thaw()
        job = c.wait(job.id)
        self.must_blame(job, victim)
        c.wait_idle()
        return job

    # --- servers --------------------------------------------------------------------

    def test_a_worker_that_freezes(self):
        c = self.cluster(workers=3, pservers=2)
        c.wait_nodes(5)
        victim, others = c.workers[2], c.workers[:2]
        for policy in ({"name": "bsp"}, {"name": "ssp", "params": {"bound": 2}}):
            with self.subTest(policy=policy["name"]):
                job = self.freeze(victim, others, c, consistency=policy)
                self.assertRegex(job.message, r"no (weights|acknowledgement) for \d+ s from pserver-[01]")

    def test_a_worker_that_freezes_where_nobody_waits_for_it(self):
        """Half-asynchronous jobs go on without it, and say so."""
        c = self.cluster(workers=3, pservers=1)
        c.wait_nodes(4)
        victim = c.workers[1]
        job = self.begin(c, epochs=60, consistency={"name": "half_async"},
                         timeouts={"stepMs": STEP_MS, "leaseMs": 2 * STEP_MS})
        victim.freeze()
        self.is_waited_for(c, job, victim.name)
        job = c.wait(job.id, seconds=120)
        victim.thaw()
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_DONE", job.message)
        self.assertEqual(job.progress.workers_alive, 2)

    def test_a_server_that_freezes(self):
        c = self.cluster(workers=2, pservers=2)
        c.wait_nodes(4)
        for policy in ("bsp", "asp"):
            with self.subTest(policy=policy):
                self.freeze(c.pservers[1], c.workers, c, consistency={"name": policy})

    def test_a_server_that_is_cut_off(self):
        """It lives, and so do the workers: each end waits for the other one."""
        link = Link()
        self.addCleanup(link.close)
        c = self.cluster(workers=2, pservers=1)
        c.pservers.append(c.add("pserver", 1, ["--advertise", link.address]))
        host, port = c.pservers[1].address.rsplit(":", 1)
        link.target = (host, int(port))
        c.wait_nodes(4)
        job = self.begin(c)
        link.is_cut = True
        job = c.wait(job.id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        self.assertRegex(job.message, r"no (weights|acknowledgement) for \d+ s from pserver-1$")
        link.is_cut = False

    # --- exchanges among workers ------------------------------------------------------

    def test_a_worker_of_a_mesh_that_freezes(self):
        c = self.cluster(workers=4, pservers=0)
        c.wait_nodes(4)
        window_ms = STEP_MS // 2
        for exchange in ("plain", "ndc", "ring", "tree"):
            with self.subTest(exchange=exchange):
                before = {w.name: w.log_end() for w in c.workers}
                job = self.begin(c, exchange={"name": exchange, "params": {"window_ms": window_ms}})
                rank = 3
                node = next(p for p in job.placements if p.rank == rank)
                victim = next(w for w in c.workers if w.name == node.node_id)
                others = [w for w in c.workers if w is not victim]
                victim.freeze()
                self.is_waited_for(c, job, victim.name)
                self.wait_failed(c, others)
                victim.thaw()
                self.must_blame(c.wait(job.id), victim)
                if exchange in ("plain", "ndc"):
                    for other in others:
                        self.assertRegex(
                            other.log(before[other.name]),
                            rf"nothing for 2 x {window_ms} ms from worker {rank}(?![,\d])")
                c.wait_idle()

    def test_a_worker_that_computes_for_too_long(self):
        """It is not silent, but it brings nothing."""
        c = self.cluster(workers=3, pservers=1)
        c.wait_nodes(4)
        job = c.wait(c.submit({
            **SMALL, "workers": 3, "timeouts": {"stepMs": STEP_MS, "leaseMs": LEASE_MS},
            "straggler": {"name": "fixed", "params": {"rank": 2, "ms": 10 * STEP_MS}}}).id)
        slow = next(p for p in job.placements
                    if p.rank == 2 and p.role == job_pb2.NODE_ROLE_WORKER)
        self.assertEqual(job.reason, "NODE_STALLED", job.message)
        self.assertRegex(job.message, rf"^worker {slow.node_id} \(\S+\) holds up the others; worker")


if __name__ == "__main__":
    main()
