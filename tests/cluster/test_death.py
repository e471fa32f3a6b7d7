# SPDX-License-Identifier: Apache-2.0
"""test_death.py - a process dies or freezes in each phase of a job.

Nodes do it to themselves at a fault point (--fault exit-at:PHASE is SIGKILL,
stop-at:PHASE is SIGSTOP), so the moment is exact. Within the job's deadlines the
job is FAILED with a message that names the node; the nodes left are idle and run
the next job.
"""
import json
import re
import subprocess
import time

from harness import BIN, ENDLESS, FINAL, PATIENCE, SLOW, SMALL, ClusterTest, coordinator_pb2, job_pb2, main

LIMIT_MS = int(2000 * SLOW)
LIMITS = {"canCommitMs": LIMIT_MS, "preCommitFloorMs": LIMIT_MS, "preCommitCapMs": LIMIT_MS,
          "readyMs": LIMIT_MS, "leaseMs": LIMIT_MS, "collectMs": max(1000, LIMIT_MS)}
# Any one wait, the abort of the others, and the collection of what they have.
WITHIN_S = 4 * LIMIT_MS / 1000 + 5
# So long a step takes whatever the machine: a job is not over before it is disturbed.
PACE = {"name": "fixed", "params": {"rank": -1, "ms": 10}}
PHASES = ["RESERVED", "PREPARING", "PREPARED", "READY", "RUNNING"]


class Death(ClusterTest):
    def lose_unasked(self, role, kind):
        """A node that does not answer CanCommit is not to blame the job for: the job waits, says
        for whom, and begins when the node answers again, or another one in its place."""
        is_worker = role == "worker"
        c = self.cluster(workers=1 if is_worker else 2, pservers=1 if is_worker else 0)
        victim = c.add(role, 7, ["--fault", f"{kind}-at:RESERVED"])
        (c.workers if is_worker else c.pservers).append(victim)
        c.wait_nodes(3)
        job = c.submit(SMALL, workers=2, timeouts=LIMITS)
        job = c.wait(job.id, lambda j: j.state in FINAL or j.reason == "CAN_COMMIT_TIMEOUT"
                     or victim.name in j.progress.waiting_for, seconds=WITHIN_S / SLOW + 5)
        self.assertEqual(job.state, job_pb2.JOB_STATE_QUEUED, job.message)
        c.wait_idle([p for p in c.nodes if p is not victim], seconds=10)
        if kind == "stop":
            victim.stop()
        else:
            victim.wait()
        victim.args = victim.args[:victim.args.index("--fault")]
        victim.start()
        job = c.wait(job.id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertGreater(job.attempt, 1)
        c.wait_idle()

    def lose(self, role, kind, phase):
        is_worker = role == "worker"
        c = self.cluster(workers=1 if is_worker else 2, pservers=1 if is_worker else 0)
        victim = c.add(role, 7, ["--fault", f"{kind}-at:{phase}"])
        (c.workers if is_worker else c.pservers).append(victim)
        c.poll("the nodes", lambda: {n.id for n in c.node_list() if n.alive} >=
               {p.name for p in c.nodes})
        job = c.submit(ENDLESS, workers=2, timeouts=LIMITS)
        began = time.monotonic()
        job = c.wait(job.id, seconds=WITHIN_S / SLOW + 5)
        took = time.monotonic() - began
        self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
        self.assertIn(victim.name, job.message)
        self.assertTrue(job.reason)
        self.assertLess(took, WITHIN_S)
        # The others are idle, and the files of a failed job can be had.
        c.wait_idle([p for p in c.nodes if p is not victim], seconds=10)
        files = c.files(job.id)
        if phase == "RUNNING":
            left = [w for w in c.workers if w is not victim]
            # A rank that was not told to begin before the loss has no report.
            self.assertIn(sum(name.startswith("TR-") for name in files), range(1, len(left) + 1), sorted(files))
        # The next job runs: on the thawed node or on one that took its place.
        if kind == "stop":
            victim.thaw()
            c.wait_idle([victim], seconds=10)
            victim.stop()
        else:
            victim.wait()
        victim.args = victim.args[:victim.args.index("--fault")]
        restarted = time.time()
        victim.start()
        c.poll("the node again", lambda: any(
            n.id == victim.name and n.last_seen.seconds + n.last_seen.nanos * 1e-9 > restarted
            for n in c.node_list()))
        after = c.wait(c.submit(SMALL, workers=2, title="after").id)
        self.assertEqual(after.state, job_pb2.JOB_STATE_DONE, after.message)

    def lose_coordinator(self, state):
        c = self.cluster(workers=2, pservers=1, coordinator_args=["--fault", f"exit-at:{state}"])
        c.wait_nodes(3)
        spec = {**SMALL, "workers": 2, "epochs": 12}
        job_id = None
        # With so little to do the job may reach the state before the answer is sent.
        try:
            job_id = c.submit(spec).id
        except Exception:
            pass
        c.coordinator.wait()
        c.coordinator.args = c.coordinator.args[:c.coordinator.args.index("--fault")]
        c.restart_coordinator()
        if job_id is None:
            job_id = c.api.ListJobs(coordinator_pb2.ListJobsRequest()).jobs[0].id
        # Before the barrier the job begins anew, after it the nodes went on: either way it is done.
        job = c.wait(job_id, seconds=60)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        self.assertIn("MODEL-small-N(0).safetensors", c.files(job_id))
        c.wait_idle()
        self.assertEqual(c.wait(c.submit(SMALL, workers=2).id).state, job_pb2.JOB_STATE_DONE)

    def test_a_restarted_coordinator_has_the_artifacts_of_old_jobs(self):
        c = self.cluster(workers=1, pservers=1)
        job = c.wait(c.submit(SMALL).id)
        before = c.files(job.id)
        c.coordinator.kill()
        c.restart_coordinator()
        again = c.get(job.id)
        self.assertEqual(again.state, job_pb2.JOB_STATE_DONE)
        self.assertEqual(again.result, job.result)
        self.assertEqual(c.files(job.id), before)

    def test_a_frozen_coordinator_goes_on_when_it_thaws(self):
        c = self.cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        # 800 steps of 10 ms: far from its end when the coordinator freezes, for longer than a
        # lease. It has not listened meanwhile, and loses nobody.
        job = c.submit({**SMALL, "epochs": 40}, workers=2, straggler=PACE, timeouts=LIMITS)
        c.wait(job.id, lambda j: j.progress.step > 10)
        c.coordinator.freeze()
        self.assertTrue(all(c.status(w).progress[0].step < c.status(w).progress[0].total_steps
                            for w in c.workers))
        c.poll("the workers finished by themselves", lambda: all(
            c.status(w).progress[0].step == c.status(w).progress[0].total_steps > 0 for w in c.workers))
        c.coordinator.thaw()
        job = c.wait(job.id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        c.wait_idle()

    def test_a_coordinator_frozen_while_it_asks_goes_on_when_it_thaws(self):
        """For longer than nodes have to answer; they have, but it has not listened. With a registry in
        etcd its leadership outlasts that: another attempt would freeze the worker again."""
        c = self.cluster(workers=1, pservers=1, coordinator_args=["--leader-lease", "60s"])
        c.workers.append(c.add("worker", 1, ["--fault", "stop-at:RESERVED"]))
        c.wait_nodes(3)
        ask_s = 4 * SLOW
        job = c.submit(SMALL, workers=2, timeouts={"canCommitMs": int(1000 * ask_s)})
        c.poll("a frozen worker", c.workers[1].is_frozen)
        c.coordinator.freeze()
        past = time.monotonic() + ask_s + 2
        c.workers[1].thaw()
        c.poll("the time to answer is past", lambda: time.monotonic() > past)
        c.coordinator.thaw()
        job = c.wait(job.id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(job.attempt, 1)
        c.wait_idle()

    def test_asp_goes_on_without_a_worker(self):
        c = self.cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        job = c.submit({**SMALL, "epochs": 40}, workers=2, consistency={"name": "asp"},
                       straggler=PACE, timeouts=LIMITS)
        c.wait(job.id, lambda j: j.progress.step > 5)
        c.workers[1].kill()
        said = rf"worker {c.workers[1].name} \(.*\) is lost: its process has ended; the job goes on without it"
        at = c.wait(job.id, lambda j: j.recoveries)
        self.assertEqual((at.state, at.reason), (job_pb2.JOB_STATE_RUNNING, "NODE_LOST"))
        self.assertRegex(at.message, said)
        self.assertRegex(c.coordinator.log(), said)
        # A coordinator that takes the job up knows of the loss, and does not tell it again.
        c.coordinator.kill()
        c.restart_coordinator()
        job = c.wait(job.id, seconds=120)
        self.assertEqual((job.state, job.restarts), (job_pb2.JOB_STATE_DONE, 0), job.message)
        self.assertEqual(job.progress.workers_alive, 1)
        files = c.files(job.id)
        self.assertIn("EV-small-N(0).csv", files)
        for recoveries in (job.recoveries, at.recoveries):
            self.assertEqual([(r.is_survived, r.attempt, r.reason, list(r.node_ids)) for r in recoveries],
                             [(True, 1, "NODE_LOST", [c.workers[1].name])])
        self.assertGreater(job.recoveries[0].from_step, 5)
        self.assertTrue(json.loads(files["summary.json"])["recoveries"][0]["is_survived"])
        psgd = [BIN / "psgd", "--coordinator", c.coordinator.address]
        watched, got = (subprocess.run([*psgd, word, job.id], capture_output=True, text=True).stdout
                        for word in ("watch", "get"))
        self.assertEqual(len(re.findall(f"^RUNNING: NODE_LOST: {said}$", watched, re.M)), 1, watched)
        self.assertRegex(got, rf"(?m)^went on without {c.workers[1].name} \(NODE_LOST\) from step \d+$")
        c.wait_idle([c.workers[0], *c.pservers])

    def test_cancel_in_every_state(self):
        for phase in [None, "RESERVED", "PREPARING", "PREPARED", "READY", "RUNNING"]:
            with self.subTest(phase=phase):
                fault = ["--fault", f"stop-at:{phase}"] if phase else []
                c = self.cluster(workers=1, pservers=1 if phase else 0)
                if phase:
                    c.workers.append(c.add("worker", 1, fault))
                    c.wait_nodes(3)
                job = c.submit(ENDLESS, workers=2)
                if phase:
                    c.poll("a frozen worker", c.workers[1].is_frozen)
                c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
                self.assertEqual(c.wait(job.id, seconds=40).state, job_pb2.JOB_STATE_CANCELLED)
                if phase:
                    c.wait_idle([c.workers[0], *c.pservers])


def _case(role, kind, phase):
    def test(self):
        if phase == "RESERVED":
            self.lose_unasked(role, kind)
        else:
            self.lose(role, kind, phase)

    verb = {"exit": "killed", "stop": "frozen"}[kind]
    setattr(Death, f"test_a_{role}_{verb}_when_{phase.lower()}", test)


for _role in ("worker", "pserver"):
    for _kind in ("exit", "stop"):
        for _phase in PHASES:
            _case(_role, _kind, _phase)

for _state in ("CAN_COMMIT", "PRE_COMMIT", "DO_COMMIT", "RUNNING", "COLLECTING"):
    setattr(Death, f"test_the_coordinator_killed_in_{_state.lower()}",
            lambda self, s=_state: self.lose_coordinator(s))

if __name__ == "__main__":
    main()
