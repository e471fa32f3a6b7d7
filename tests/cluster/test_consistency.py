# SPDX-License-Identifier: Apache-2.0
"""test_consistency.py - every policy over the wire, and what becomes of a job that
loses a worker under it."""
import csv
import io
import json

from harness import ENDLESS, PATIENCE, SLOW, SMALL, ClusterTest, coordinator_pb2, job_pb2, main

LIMIT_MS = int(2000 * SLOW)
LIMITS = {"leaseMs": LIMIT_MS}
# Each contribution is a step of most policies, on weights of others' steps ago: a rate at which
# no timing of theirs makes Adam swing.
STEADY = {**SMALL, "epochs": 16, "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.0005}}}}
# Three workers; the numbers make each policy do what only it does.
POLICIES = {
    "bsp": {},
    "ssp": {"bound": 2},
    "asp": {},
    "dssp": {"lower": 1, "upper": 6},
    "backup": {"backups": 1},
    "quorum": {"quorum": 2, "wait_ms": 5},
    "half_async": {"merge": 2, "wait_ms": 5},
    "lag_discard": {"ratio": 1.5},
    "stale_scaled": {"power": 0.5, "free": 2},
}


class Consistency(ClusterTest):
    def counters(self, c, job):
        """Of each server, as the summary has them."""
        summary = json.loads(c.files(job.id)["summary.json"])
        return [n["counters"] for n in summary["nodes"] if "counters" in n]

    def check_counts(self, servers, policy):
        for server in servers:
            shares = server["workers"]
            self.assertEqual(len(shares), 3)
            for key in ("applied", "dropped", "left_out"):
                self.assertEqual(int(server[key]), sum(int(w[key]) for w in shares), key)
            self.assertEqual(int(server["applied"]), sum(map(int, server["staleness_bins"])))
            if policy not in ("backup", "lag_discard"):
                self.assertEqual(int(server["dropped"]), 0)
            if policy != "quorum":
                self.assertEqual(int(server["late"]), 0)
            if policy not in ("backup", "quorum"):
                self.assertEqual(int(server["left_out"]), 0)
                self.assertEqual(int(server["open"]), 0)

    def train(self, policy):
        c = self.cluster(workers=3, pservers=2)
        c.wait_nodes(5)
        job = c.wait(c.submit(STEADY, workers=3, pservers=2, consistency={
            "name": policy, "params": POLICIES[policy]}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(job.progress.workers_alive, 3)
        self.assertLess(job.result["loss"], 2.2)
        self.check_counts(self.counters(c, job), policy)

    def test_one_worker_is_behind_nobody(self):
        """Alone, it has the same weights under every policy."""
        c = self.cluster(workers=1, pservers=2)
        c.wait_nodes(3)
        losses = {}
        for policy, params in {**POLICIES, "quorum": {"quorum": 1, "wait_ms": 5}}.items():
            if policy == "backup":  # at least one is not waited for
                continue
            job = c.wait(c.submit(STEADY, workers=1, pservers=2, consistency={
                "name": policy, "params": params}).id)
            self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
            losses[policy] = job.result["loss"]
        self.assertLess(losses["bsp"], 2.2)
        self.assertEqual(losses, dict.fromkeys(losses, losses["bsp"]))

    def lose(self, policy):
        c = self.cluster(workers=3, pservers=1)
        c.wait_nodes(4)
        job = c.submit(ENDLESS, workers=3, timeouts=LIMITS, consistency={
            "name": policy, "params": POLICIES[policy]})
        c.wait(job.id, lambda j: j.progress.step > 5)
        c.workers[1].kill()
        if policy == "bsp":
            job = c.wait(job.id)
            self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
            self.assertEqual(job.reason, "NODE_LOST")
            return
        c.poll("the server knows", lambda: sum(
            w.lost for w in c.status(c.pservers[0]).counters.workers) == 1)
        at = c.status(c.workers[0]).progress[0].step
        c.poll("the others go on",
               lambda: all(c.status(w).progress[0].step > at + 50 for w in (c.workers[0], c.workers[2])))
        c.wait(job.id, lambda j: j.progress.workers_alive == 2)
        self.assertIn("is lost, going on without it", c.pservers[0].log())
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
        self.assertEqual(c.wait(job.id).state, job_pb2.JOB_STATE_CANCELLED)
        c.wait_idle([c.workers[0], c.workers[2], *c.pservers])

    def end_without(self, policy):
        c = self.cluster(workers=3, pservers=2)
        c.wait_nodes(5)
        # 2600 steps of 3 ms and more: far from its end when the worker dies.
        job = c.submit({**STEADY, "epochs": 200}, workers=3, pservers=2, timeouts=LIMITS,
                       consistency={"name": policy, "params": POLICIES[policy]},
                       straggler={"name": "fixed", "params": {"rank": -1, "ms": 3}})
        c.wait(job.id, lambda j: j.progress.step > 5)
        c.workers[1].kill()
        job = c.wait(job.id, seconds=150)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(job.progress.workers_alive, 2)
        self.assertEqual(job.progress.step, job.progress.total_steps)
        self.check_counts(self.counters(c, job), policy)
        self.assertLess(job.result["loss"], 1)

    def test_a_slow_worker_is_left_behind_by_backup_and_held_to_by_bsp(self):
        # The others have a pace too: they must not be through before it has taken a step.
        slow = {"name": "fixed", "params": {"rank": 2, "ms": 60, "others_ms": 5}}
        steps = {}
        for policy in ("bsp", "backup"):
            c = self.cluster(workers=3, pservers=1)
            c.wait_nodes(4)
            job = c.wait(c.submit({**SMALL, "epochs": 6}, workers=3, straggler=slow, consistency={
                "name": policy, "params": POLICIES[policy]}).id)
            self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
            files = c.files(job.id)
            steps[policy] = [len(files[f"TR-small-N({w}).csv"].splitlines()) - 1 for w in range(3)]
            if policy == "bsp":  # the others waited for it
                rows = files["TR-small-N(0).csv"].decode().splitlines()
                column = rows[0].split(",").index("wait_s")
                self.assertGreater(float(rows[-1].split(",")[column]), 0.055 * steps["bsp"][0] / 2)
            else:
                server, = self.counters(c, job)
                self.assertGreater(int(server["workers"][2]["left_out"]), 0)
                # It pulls once for each step that it takes, not for those that it leaves out.
                down = []
                for w in (0, 2):
                    rows = list(csv.DictReader(io.StringIO(files[f"TR-small-N({w}).csv"].decode())))
                    down.append(int(rows[-1]["bytes_down"]) / len(rows))
                self.assertLess(down[1], 1.2 * down[0])
        self.assertEqual(len(set(steps["bsp"])), 1)
        self.assertLess(steps["backup"][2], steps["backup"][0])

    def test_an_ssp_job_ends_without_a_lost_worker(self):
        self.end_without("ssp")

    def test_a_backup_job_ends_without_a_lost_worker(self):
        self.end_without("backup")


for _policy in POLICIES:
    setattr(Consistency, f"test_{_policy}_trains", lambda self, p=_policy: self.train(p))
    setattr(Consistency, f"test_{_policy}_when_a_worker_is_lost",
            lambda self, p=_policy: self.lose(p))

if __name__ == "__main__":
    main()
