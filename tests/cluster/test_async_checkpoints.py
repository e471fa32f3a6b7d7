# SPDX-License-Identifier: Apache-2.0
"""test_async_checkpoints.py - checkpoints of jobs whose ranks are not in step: a job that loses a server
goes on from the last one, and another job goes on from it. Each contribution counts exactly once."""
import csv
import io
import re

import grpc
from harness import FINAL, PATIENCE, SLOW, SMALL, ClusterTest, coordinator_pb2, job_pb2, main, rows_of
from test_checkpoints import CLICKS, clicks_folder, rounds
from test_recovery import AGEING, PAIRS, write_words

STEPS, RANKS = 40, 4  # 10 steps an epoch
# Rank 3 is slower than the others.
JOB = {**SMALL, "title": "async", "workers": RANKS, "epochs": 4, "seed": 5,
       "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.001}}},
       "straggler": {"name": "fixed", "params": {"rank": 3, "ms": 200, "others_ms": 150}},
       "timeouts": {"leaseMs": 60000}}  # nobody is lost because the machine has no time for it
DONE, RUNNING = job_pb2.JOB_STATE_DONE, job_pb2.JOB_STATE_RUNNING


def mixed(x):
    """splitmix64, as in common/store/clocks.c."""
    mask = (1 << 64) - 1
    x = (x + 0x9e3779b97f4a7c15) & mask
    x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & mask
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) & mask
    return x ^ x >> 31


def ledger(clocks):
    """What a server says of a job in which each (clock, rank) has counted exactly once."""
    total = sum(mixed((mixed(t) + k) & (1 << 64) - 1) for t in range(clocks) for k in range(RANKS))
    return str(clocks * RANKS), f"{total & (1 << 64) - 1:016x}", "0"


# What a rank or a server keeps besides weights and optimizer: its own weights and those that it sent, the weights
# that each rank has received, a residual of each gradient.
STATES = {
    "geo_average": {"update": {"name": "geo_average", "params": {"steps": 2}},
                    "optimizer": {"rule": {"name": "sgd", "params": {"lr": 1}}}},
    "dc_asgd": {"update": {"name": "dc_asgd"}, "optimizer": {"rule": {"name": "sgd", "params": {"lr": 0.1}}}},
    "topk": {"codec": {"up": {"name": "topk", "params": {"fraction": 0.1, "error_feedback": 1}}},
             "optimizer": {"rule": {"name": "sgd", "params": {"lr": 0.1}}}},
}



class AsyncCheckpoints(ClusterTest):
    def listed(self, c, job_id):
        return c.api.ListCheckpoints(coordinator_pb2.ListCheckpointsRequest(job_id=job_id), timeout=10 * PATIENCE).checkpoints

    def steps(self, c, job_id):
        return [p.step for p in self.listed(c, job_id)]

    def ledgers(self, since):
        """What servers have said of them since then."""
        return set(re.findall(r"ledger: (\d+) contributions to each slice, hash ([0-9a-f]{16}); (\d+) slices differ",
                              "".join(p.log(n) for p, n in since.items())))

    def must_have_counted_once(self, c, job, since, clocks=STEPS):
        """All ranks have done all of their steps, once each."""
        self.assertEqual(job.state, DONE, f"{job.reason} {job.message}")
        self.assertEqual(self.ledgers(since), {ledger(clocks)})
        return c.files(job.id)

    def must_be_whole(self, c, job, since):
        """So it is, and the model has learnt."""
        files = self.must_have_counted_once(c, job, since)
        self.must_have_learnt(files)
        return files

    def evaluations(self, files):
        return [list(csv.DictReader(io.StringIO(files[f"EV-async-N({rank}).csv"].decode()))) for rank in range(RANKS)]

    def must_have_learnt(self, files, accuracy=0.25):
        rows = self.evaluations(files)
        self.assertGreater(max(float(r[-1]["accuracy"]) for r in rows), accuracy)
        # A rank that is ahead of the others ends on a model to which they have contributed little, so not each rank's loss falls.
        self.assertLess(min(float(r[-1]["loss"]) for r in rows), min(float(r[0]["loss"]) for r in rows))

    def steps_of(self, files, rank):
        return [int(row["step"]) for row in csv.DictReader(io.StringIO(files[f"TR-async-N({rank}).csv"].decode()))]

    def test_a_lost_server(self):
        c = self.cluster(workers=2, pservers=2)
        c.wait_nodes(4)
        for name in ("asp", "ssp"):
            with self.subTest(name):
                spec = {**JOB, "consistency": {"name": name}}
                since = {p: p.log_end() for p in c.pservers}
                job = c.submit(spec, workerProcesses=2, pservers=2, checkpoint={"everySteps": 4, "keep": 9})
                c.poll("two checkpoints", lambda j=job: len(self.steps(c, j.id)) > 1)
                c.pservers[1].kill()
                job = c.wait(job.id)
                files = self.must_be_whole(c, job, since)
                self.assertEqual(job.restarts, 1)
                r = job.recoveries[0]
                self.assertEqual((r.reason, list(r.node_ids)), ("NODE_LOST", ["pserver-1"]))
                self.assertGreaterEqual(r.from_step, 8)
                self.assertEqual(r.from_step % 4, 0)
                for rank in range(RANKS):
                    self.assertEqual(self.steps_of(files, rank), list(range(1, STEPS + 1)))
                c.pservers[1].start()
                c.wait_nodes(4)
        # Another job goes on from a checkpoint, with other processes.
        since, at = {p: p.log_end() for p in c.pservers}, self.steps(c, job.id)[1]
        again = c.wait(c.submit(spec, workerProcesses=1, pservers=1, initFrom=f"checkpoint:{job.id}@{at}").id)
        files = self.must_be_whole(c, again, since)
        for rank in range(RANKS):
            steps = self.steps_of(files, rank)
            self.assertEqual(steps, list(range(steps[0], STEPS + 1)))
            self.assertGreater(steps[0], at)

    def test_sparse_tables(self):
        """Their servers are at clocks of their own. They are lost, and another job goes on from a checkpoint with changed rows."""
        folder = clicks_folder(self)
        write_words(folder)
        c = self.cluster(workers=2, pservers=3, data=str(folder))
        c.wait_nodes(5)
        clicks = {**CLICKS, "model": {**CLICKS["model"], "table": AGEING}}
        local = {**clicks, **rounds("localsgd")}
        for name, fields, others in (("asp", clicks, (1, 3)), ("ssp", clicks, (3,)), ("asp", PAIRS, (3,)), ("asp", local, (3,))):
            clocks = STEPS // 2 if fields is local else STEPS
            with self.subTest(name, model=fields["model"]["preset"], clocks=clocks):
                spec = {**JOB, **fields, "epochs": 4, "consistency": {"name": name}, "timeouts": {"leaseMs": 60000},
                        "straggler": {"name": "fixed", "params": {"rank": 3, "ms": 300, "others_ms": 200}}}
                since = {p: p.log_end() for p in c.pservers}
                job = c.submit(spec, workerProcesses=2, pservers=2, checkpoint={"everySteps": 4, "keep": 9})
                parents = c.poll("one with the rows that changed", lambda j=job: [p for p in self.listed(c, j.id) if p.parent > 0],
                                 seconds=60)
                lost = next(p for p in c.pservers if p.name in {at.node_id for at in c.get(job.id).placements})
                lost.kill()
                job = c.wait(job.id)
                files = self.must_have_counted_once(c, job, since, clocks)
                self.assertEqual(job.restarts, 1, job.recoveries)
                first = min(float(r[0]["loss"]) for r in self.evaluations(files))
                self.assertLess(min(float(r[-1]["loss"]) for r in self.evaluations(files)), first)
                self.assertGreaterEqual(job.recoveries[0].from_step, parents[0].step)
                self.assertTrue(rows_of(files))
                for rank in range(RANKS):
                    self.assertEqual(self.steps_of(files, rank), list(range(1, STEPS + 1)))
                lost.start()
                c.wait_nodes(5)
                for pservers in others:
                    since = {p: p.log_end() for p in c.pservers}
                    again = c.wait(c.submit(spec, workerProcesses=1, pservers=pservers,
                                            initFrom=f"checkpoint:{job.id}@{parents[0].step}").id)
                    files = self.must_have_counted_once(c, again, since, clocks)
                    self.assertTrue(rows_of(files))
                    self.assertLess(min(float(r[-1]["loss"]) for r in self.evaluations(files)), first)

    def lose_the_server(self, c, job_id, more_than):
        """Until there is a checkpoint of a later step; then the server is lost, and the job goes on from it."""
        c.poll("a later one", lambda: self.steps(c, job_id)[-1:] > [more_than])
        c.pservers[0].kill()
        c.pservers[0].start()
        job = c.wait(job_id)
        self.assertEqual((job.state, job.restarts), (DONE, 1), f"{job.reason} {job.message}")
        self.assertEqual(list(job.recoveries[-1].node_ids), [c.pservers[0].name])
        self.assertGreater(job.recoveries[-1].from_step, more_than)
        return job

    def test_a_lost_worker(self):
        """Its ranks go on from the checkpoint before. Without one there is none."""
        c = self.cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        for checkpoint in ({"everySteps": 4, "keep": 9}, {}):
            with self.subTest(str(checkpoint)):
                since = {p: p.log_end() for p in c.pservers}
                job = c.submit(JOB, workerProcesses=2, pservers=1, consistency={"name": "asp"},
                               checkpoint=checkpoint)
                at = c.wait(job.id, lambda j: j.progress.step > 4)
                if checkpoint:
                    c.poll("a checkpoint", lambda: self.steps(c, job.id))
                name = next(p.node_id for p in at.placements if p.node_id.startswith("worker") and p.rank == 2)
                lost = next(p for p in c.workers if p.name == name)
                lost.kill()
                at = c.wait(job.id, lambda j: j.recoveries)
                self.assertEqual(at.progress.workers_alive, RANKS // 2)
                (survived,) = at.recoveries
                self.assertEqual((survived.is_survived, list(survived.node_ids)), (True, [lost.name]))
                if checkpoint:
                    job = self.lose_the_server(c, job.id, self.steps(c, job.id)[-1])
                    files = self.must_be_whole(c, job, since)
                    for rank in range(RANKS):
                        self.assertEqual(self.steps_of(files, rank), list(range(1, STEPS + 1)))
                else:
                    why = rf"rank \d is lost, with {lost.name}, and no checkpoint before"
                    try:  # at the moment of the loss one may be named, which is skipped
                        c.api.TakeCheckpoint(coordinator_pb2.TakeCheckpointRequest(job_id=job.id), timeout=10 * PATIENCE)
                    except grpc.RpcError as refused:
                        self.assertRegex(refused.details(), why)
                    skipped = c.wait(job.id, lambda j: j.reason == "CHECKPOINT_SKIPPED" or j.state in FINAL)
                    self.assertRegex(skipped.message, why)
                    self.assertEqual(self.steps(c, job.id), [])
                    c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
                    c.wait(job.id)
                lost.start()
                c.wait_nodes(3)

    def test_ranks_that_have_ended(self):
        """While one rank trains, the others go on from the checkpoint before."""
        c = self.cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        since = {p: p.log_end() for p in c.pservers}
        job = c.submit({**JOB, "straggler": {"name": "fixed", "params": {"rank": 3, "ms": 250, "others_ms": 60}}},
                       workerProcesses=2, pservers=1, consistency={"name": "asp"}, epochs=2,
                       checkpoint={"everySteps": 3, "keep": 9})
        c.poll("others have ended", lambda: len(re.findall("FINISHED", "".join(p.log() for p in c.workers))) == 1)
        job = self.lose_the_server(c, job.id, c.get(job.id).progress.step)
        self.assertEqual(self.ledgers(since), {ledger(STEPS // 2)})
        files = c.files(job.id)
        for rank in range(RANKS):
            self.assertEqual(self.steps_of(files, rank), list(range(1, STEPS // 2 + 1)))

    def test_the_state_of_ranks_and_servers(self):
        """Three jobs at a time lose the coordinator, then a worker each, then a server each."""
        c = self.cluster(workers=6, pservers=6)
        c.wait_nodes(12)
        since = {p: p.log_end() for p in c.pservers}
        jobs = {name: c.submit({**JOB, **more, "consistency": {"name": "asp"},
                                "straggler": {"name": "fixed", "params": {"rank": 3, "ms": 350, "others_ms": 300}}},
                               workerProcesses=2, pservers=2, checkpoint={"everySteps": 4, "keep": 9}).id
                for name, more in STATES.items()}
        for job in jobs.values():
            c.poll("a checkpoint", lambda j=job: self.steps(c, j))
        c.coordinator.kill()
        c.restart_coordinator()
        had = {job: self.steps(c, job)[-1] for job in jobs.values()}
        for job in jobs.values():
            c.poll("another one", lambda j=job: self.steps(c, j)[-1] > had[j])
        had = {job: self.steps(c, job)[-1] for job in jobs.values()}
        for role in ("worker", "pserver"):
            for job in jobs.values():
                lost = next(p.node_id for p in c.get(job).placements if p.node_id.startswith(role) and p.rank % 2)
                next(p for p in c.nodes if p.name == lost).kill()
            for job in jobs.values():
                c.wait(job, lambda j, r=role: j.recoveries if r == "worker" else j.restarts)
        for name, job in jobs.items():
            with self.subTest(name):
                job = c.wait(job)
                self.assertEqual((job.state, job.restarts), (DONE, 1), f"{job.reason} {job.message}")
                self.assertEqual([r.is_survived for r in job.recoveries], [True, False])
                self.assertGreaterEqual(job.recoveries[1].from_step, had[job.id])
                files = c.files(job.id)
                self.must_have_learnt(files, 0.15 if name == "geo_average" else 0.25)  # the mean moves slowly
                for rank in range(RANKS):
                    self.assertEqual(self.steps_of(files, rank), list(range(1, STEPS + 1)))
        self.assertEqual(self.ledgers(since), {ledger(STEPS), ledger(STEPS // 2)})

    def test_a_late_node(self):
        """A worker that is frozen for longer than step_ms misses a checkpoint; the job trains on and has the next."""
        c = self.cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        step_ms = int(1500 * SLOW)
        job = c.submit(JOB, workerProcesses=2, pservers=1, consistency={"name": "asp"}, epochs=4000,
                       timeouts={**JOB["timeouts"], "leaseMs": 40 * step_ms, "stepMs": step_ms},
                       checkpoint={"everySeconds": 1, "keep": 1})
        c.poll("a checkpoint", lambda: self.steps(c, job.id))
        c.workers[1].freeze()
        skipped = c.wait(job.id, lambda j: j.reason == "CHECKPOINT_SKIPPED")
        had, trained = self.steps(c, job.id), skipped.progress.iterations
        c.wait(job.id, lambda j: j.progress.iterations > trained)  # the other worker trains on
        c.workers[1].thaw()
        self.assertRegex(skipped.message, rf"^checkpoint of step \d+ skipped: worker-1 has not taken it within {step_ms} ms")
        c.poll("another one", lambda: self.steps(c, job.id) not in ([], had))
        # The message goes when the checkpoint is stored; the worker's ranks count again with its next heartbeat.
        job = c.wait(job.id, lambda j: not j.reason and j.progress.workers_alive == RANKS)
        self.assertEqual((job.state, job.restarts), (RUNNING, 0))
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
        c.wait(job.id)


if __name__ == "__main__":
    main()
