# SPDX-License-Identifier: Apache-2.0
"""test_campaign.py - nodes are killed, stopped and frozen at random, job after job.

PSGD_CAMPAIGN says how many jobs and faults (short by default), PSGD_SEED which ones are drawn.
"""
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from harness import (ENDLESS, FINAL, SLOW, SMALL, ClusterTest, coordinator_pb2,  # noqa: E402
                     job_pb2, main, seed)

COUNT = int(os.environ.get("PSGD_CAMPAIGN", "5"))
SEED = seed("PSGD_SEED")
LIMIT_MS = int(2000 * SLOW)
LIMITS = {"canCommitMs": LIMIT_MS, "leaseMs": 2 * LIMIT_MS, "stepMs": 20 * LIMIT_MS}
# Others give up before the lease is over.
IMPATIENT = {"canCommitMs": LIMIT_MS, "leaseMs": 20 * LIMIT_MS, "stepMs": LIMIT_MS}
RECOVERS = {"recovery": {"onWorkerLoss": "LOSS_ACTION_RESTART",
                         "onServerLoss": "LOSS_ACTION_RESTART"},
            "checkpoint": {"everySteps": 10}}
QUICK = {**SMALL, "epochs": 2}
PACE = {"name": "fixed", "params": {"rank": -1, "ms": 5}}


class CampaignTest(ClusterTest):
    def setUp(self):
        print(f"PSGD_SEED={SEED}", flush=True)
        self.draw = random.Random(SEED)

    def harm(self, node, how):
        if how == "freeze":
            node.freeze()
        elif how == "kill":
            node.kill()
        else:
            node.stop()

    def revive(self, c, node, how):
        """The node is there again."""
        if how == "freeze":
            node.thaw()
        else:
            if node.process.poll() is None:
                node.wait()  # it was told to stop
            since = time.time()
            try:
                node.start()
            except RuntimeError:
                # Somebody else on this machine has been given its port meanwhile.
                self.assertIn("Address already in use", node.log()[-300:])
                node.port = 0
                node.start()
            c.poll(f"{node.name} again", lambda: any(
                n.id == node.name and n.last_seen.ToNanoseconds() > since * 1e9
                for n in c.node_list()))

    def wait_idle_nodes(self, c):
        c.poll("all nodes idle", lambda: sum(
            n.alive and not n.job_id and n.phase == coordinator_pb2.NODE_PHASE_IDLE
            for n in c.node_list()) == len(c.nodes))

    def test_nodes_fall_before_jobs_begin(self):
        """There are spare ones, so every job is done."""
        c = self.cluster(workers=4, pservers=3, node_args=["--grace", "100ms"])
        c.wait_nodes(7)
        for i in range(COUNT):
            node, how = self.draw.choice(c.nodes), self.draw.choice(("kill", "stop", "freeze"))
            before_s = self.draw.uniform(0, 3)
            with self.subTest(job=i, node=node.name, how=how, before_s=round(before_s, 2)):
                self.harm(node, how)
                past = time.monotonic() + before_s
                c.poll("the moment", lambda: time.monotonic() > past)
                job = c.wait(c.submit(QUICK, workers=2, timeouts=LIMITS).id)
                self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_DONE",
                                 f"{job.reason} {job.message}")
            self.revive(c, node, how)
            self.wait_idle_nodes(c)

    def must_blame(self, node, reason, message):
        self.assertRegex(message, rf"^(worker|parameter server) {node.name} ", reason)

    def must_fail(self, c, job_id, node):
        job = c.wait(job_id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        self.must_blame(node, job.reason, job.message)

    def must_recover(self, c, job_id, node):
        """The first recovery blames the node, and the job trains again. Mended meanwhile."""
        job = c.wait(job_id, lambda j: j.state in FINAL or (
            len(j.recoveries) > 0 and j.recoveries[-1].seconds > 0))
        self.assertNotIn(job.state, FINAL, f"{job.reason} {job.message}")
        for recovery in job.recoveries:
            self.must_blame(node, recovery.reason, recovery.message)
            self.assertEqual(list(recovery.node_ids), [node.name], recovery.message)
        c.wait(job_id, lambda j: j.state in FINAL or j.progress.step > recovery.from_step)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job_id))
        job = c.wait(job_id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_CANCELLED", job.message)

    def test_nodes_fall_while_jobs_train(self):
        """Each job ends in the name of the node that fell, or recovers from its loss; the next one
        is done."""
        c = self.cluster(workers=3, pservers=2, node_args=["--grace", "100ms"])
        c.wait_nodes(5)
        for i in range(COUNT):
            node = self.draw.choice(c.nodes)
            how = self.draw.choice(("kill", "stop", "freeze", "impatient freeze"))
            policy = self.draw.choice(("bsp", "ssp", "bsp that recovers"))
            if policy == "ssp" and node in c.workers and how != "impatient freeze":
                policy = "bsp"  # ssp goes on without a worker
            recovers = policy == "bsp that recovers"
            after_s = self.draw.uniform(0, 1)
            with self.subTest(fault=i, node=node.name, how=how, policy=policy):
                job = c.submit({**ENDLESS, "workers": 3, "pservers": 2, "straggler": PACE,
                                "consistency": {"name": policy.split()[0]},
                                "timeouts": IMPATIENT if how == "impatient freeze" else LIMITS,
                                **(RECOVERS if recovers else {})})
                job = c.wait(job.id, lambda j: j.state in FINAL or j.progress.step > 3)
                past = time.monotonic() + after_s
                c.poll("the moment", lambda: time.monotonic() > past)
                self.harm(node, how.split()[-1])
                if how == "impatient freeze":
                    for worker in c.workers:
                        if worker is not node:
                            c.poll(f"{worker.name} gives up", lambda w=worker: c.status(
                                w).node.phase == coordinator_pb2.NODE_PHASE_FAILED)
                    node.thaw()
                if recovers:
                    # All nodes are needed: the next attempt waits for the one that fell.
                    c.wait(job.id, lambda j: j.state in FINAL or len(j.recoveries) > 0)
                    if how != "impatient freeze":
                        self.revive(c, node, how)
                    self.must_recover(c, job.id, node)
                else:
                    self.must_fail(c, job.id, node)
            if not recovers:
                self.revive(c, node, how.split()[-1])
            self.wait_idle_nodes(c)
            job = c.wait(c.submit(QUICK, workers=3, pservers=2).id)
            self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_DONE",
                             f"after fault {i}: {job.reason} {job.message}")


if __name__ == "__main__":
    main()
