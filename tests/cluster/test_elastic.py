# SPDX-License-Identifier: Apache-2.0
"""test_elastic.py - the processes of a synchronous job become more or fewer while it trains: by psgd
scale, because nodes are told to stop, and because idle workers join it. The model has the bits of a run that nothing disturbed, and no step is repeated."""
import json
import subprocess
import time

import grpc

from harness import (BIN, PATIENCE, SMALL, ClusterTest, coordinator_pb2, evaluated, job_pb2, main, tensors)

# 10 steps an epoch.
JOB = {**SMALL, "title": "moved", "workers": 4, "epochs": 8, "seed": 5}
PACE = {"straggler": {"name": "fixed", "params": {"rank": -1, "ms": 100}}}
TOP_K = {"codec": {"up": {"name": "topk", "params": {"fraction": 0.1, "error_feedback": 1}},
                   "down": {"name": "int8", "params": {"error_feedback": 1}}}}
QUEUED, RUNNING, DONE, FAILED = (job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING,
                                 job_pb2.JOB_STATE_DONE, job_pb2.JOB_STATE_FAILED)


def model_of(files):
    """The tensors of the job's model."""
    return tensors(next(data for name, data in sorted(files.items()) if name.startswith("MODEL-") and
                        name.endswith(("-N(ps).safetensors", "-N(0).safetensors"))))


def seconds(stamp):
    return stamp.seconds + stamp.nanos * 1e-9


class ElasticTest(ClusterTest):
    def straight(self, c, **fields):
        job = c.wait(c.submit({**JOB, **fields}).id)
        self.assertEqual(job.state, DONE, job.message)
        return c.files(job.id)

    def scale(self, c, job_id, **numbers):
        return c.api.ScaleJob(coordinator_pb2.ScaleJobRequest(job_id=job_id, **numbers), timeout=60 * PATIENCE).job

    def refused(self, c, job_id, **numbers):
        """Code, reason and text."""
        with self.assertRaises(grpc.RpcError) as caught:
            self.scale(c, job_id, **numbers)
        return caught.exception.code().name, caught.exception.details()

    def back(self, c, job_id, moves):
        """The job, when it trains after so many changes."""
        return c.wait(job_id, lambda j: j.state == RUNNING and len(j.recoveries) == moves and
                      j.recoveries[-1].seconds > 0 and j.progress.step > j.recoveries[-1].from_step)

    def processes(self, job):
        """Worker processes and servers of its attempt."""
        of = {role: {p.node_id for p in job.placements if p.role == role}
              for role in (job_pb2.NODE_ROLE_WORKER, job_pb2.NODE_ROLE_PSERVER)}
        return tuple(len(ids) for ids in of.values())

    def must_be_whole(self, c, job, straight, reasons):
        """The job is done, its files are those of the straight run, and no step was repeated."""
        self.assertEqual(job.state, DONE, f"{job.reason} {job.message}")
        files = c.files(job.id)
        self.assertEqual(model_of(files), model_of(straight))
        for rank in range(job.spec.workers):
            ev = f"EV-moved-N({rank}).csv"
            self.assertEqual(evaluated(files[ev]), evaluated(straight[ev]))
        self.assertEqual([r.reason for r in job.recoveries], reasons)
        self.assertEqual([r.step - r.from_step for r in job.recoveries], [0] * len(reasons))
        self.assertEqual((job.restarts, [r.is_planned for r in job.recoveries]), (0, [True] * len(reasons)))
        self.assertEqual([r["reason"] for r in json.loads(files["summary.json"])["recoveries"]], reasons)
        return files


class Scale(ElasticTest):
    def run_one(self, c, steps, **fields):
        straight = self.straight(c, **{"pservers": 1, **fields})
        job = c.submit({**JOB, **PACE, **fields})
        c.wait(job.id, lambda j: j.progress.step > 1)
        for i, (numbers, wanted) in enumerate(steps):
            self.scale(c, job.id, **numbers)
            job = self.back(c, job.id, i + 1)
            self.assertEqual(self.processes(job), wanted)
            r = job.recoveries[-1]
            self.assertGreaterEqual(seconds(r.notice_time), seconds(r.ask_time))
            print(f"{numbers}: stood still after {seconds(r.notice_time) - seconds(r.ask_time):.3f} s for "
                  f"{r.seconds:.3f} s", flush=True)
        job = c.wait(job.id)
        self.must_be_whole(c, job, straight, ["SCALED"] * len(steps))
        return job

    def test_workers_and_servers_become_more_and_fewer(self):
        c = self.cluster(workers=4, pservers=3)
        c.wait_nodes(7)
        steps = [(dict(worker_processes=2), (2, 1)), (dict(pservers=3), (2, 3)),
                 (dict(worker_processes=4, pservers=1), (4, 1))]
        job = self.run_one(c, steps)
        out = subprocess.run([BIN / "psgd", "watch", job.id, "--coordinator", c.coordinator.address],
                             capture_output=True, text=True, timeout=60 * PATIENCE).stdout
        self.assertRegex(out, r"scaled by a client to 2 worker processes and 3 servers \(SCALED\): stood still for "
                              r"(\d+\.\d s|\d+ ms), 0 steps repeated")
        self.run_one(c, steps, codec={"up": {"name": "int8"}, "down": {"name": "int8"}})
        self.run_one(c, steps, **TOP_K)

    def test_exchanges_among_workers(self):
        c = self.cluster(workers=4, pservers=0)
        c.wait_nodes(4)
        self.run_one(c, [(dict(worker_processes=2), (2, 0)), (dict(worker_processes=4), (4, 0))],
                     exchange={"name": "ring"})

    def test_a_queued_job_has_its_numbers_at_once(self):
        c = self.cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        job = c.submit(JOB)
        c.wait(job.id, lambda j: j.state == QUEUED and "needs 4 workers, 2 idle" in j.message)
        job = self.scale(c, job.id, worker_processes=2)
        self.assertEqual((job.scaled_processes, job.scaled_pservers, job.spec.worker_processes), (2, 1, 4))
        job = c.wait(job.id)
        self.assertEqual((job.state, self.processes(job), len(job.recoveries)), (DONE, (2, 1), 0))

    def test_the_same_numbers_change_nothing(self):
        c = self.cluster(workers=2, pservers=1)
        job = c.submit({**JOB, **PACE, "workers": 2, "epochs": 3})
        c.wait(job.id, lambda j: j.progress.step > 1)
        scaled = self.scale(c, job.id, worker_processes=2, pservers=1)
        self.assertEqual((scaled.state, scaled.scaled_processes, scaled.scaled_pservers), (RUNNING, 2, 1))
        job = c.wait(job.id)
        self.assertEqual((job.state, len(job.recoveries)), (DONE, 0), job.message)

    def test_checkpoints_for_which_nobody_asked_do_not_stay(self):
        """Those of `psgd scale` until the next one, and until the job is done; one that was asked for stays."""
        c = self.cluster(workers=2, pservers=1)
        job = c.submit({**JOB, **PACE, "workers": 2})
        folder = c.folder / "coordinator" / "jobs" / job.id / "checkpoints"

        def listed():
            return c.api.ListCheckpoints(
                coordinator_pb2.ListCheckpointsRequest(job_id=job.id), timeout=10 * PATIENCE).checkpoints

        def steps():
            return [s.step for s in listed()]

        c.wait(job.id, lambda j: j.progress.step > 1)
        self.scale(c, job.id, worker_processes=1)
        first = self.back(c, job.id, 1).recoveries[0].from_step
        self.assertEqual(steps(), [first])
        listing = subprocess.run([BIN / "psgd", "checkpoints", job.id, "--coordinator", c.coordinator.address],
                                 capture_output=True, text=True, check=True, timeout=60 * PATIENCE).stdout
        self.assertRegex(listing, rf"(?m)^{first} .* whole, passing$")
        c.api.TakeCheckpoint(coordinator_pb2.TakeCheckpointRequest(job_id=job.id), timeout=10 * PATIENCE)
        c.wait(job.id, lambda j: j.progress.checkpoints == 2)
        asked, = steps()
        self.assertGreater(asked, first)
        self.scale(c, job.id, worker_processes=2)
        second = self.back(c, job.id, 2).recoveries[1].from_step
        self.assertEqual([(s.step, s.is_passing) for s in listed()], [(asked, False), (second, True)])
        self.assertEqual(c.wait(job.id).state, DONE)
        self.assertEqual(steps(), [asked])
        self.assertEqual((folder / "LATEST").read_text(), f"{asked:013}\n")

        job = c.submit({**JOB, **PACE, "workers": 2})
        folder = c.folder / "coordinator" / "jobs" / job.id / "checkpoints"
        c.wait(job.id, lambda j: j.progress.step > 1)
        self.scale(c, job.id, worker_processes=1)
        self.back(c, job.id, 1)
        self.assertEqual(len(steps()), 1)
        self.assertEqual(c.wait(job.id).state, DONE)
        self.assertEqual((steps(), list(folder.iterdir())), ([], []))

    def test_a_resumed_job_has_the_numbers_that_it_had_last(self):
        c = self.cluster(workers=2, pservers=2)
        job = c.submit({**JOB, **PACE, "workers": 2, "pservers": 2})
        c.wait(job.id, lambda j: j.progress.step > 1)
        self.scale(c, job.id, worker_processes=1, pservers=1)
        self.back(c, job.id, 1)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
        c.wait(job.id)
        for flags, wanted in (([], (1, 1)), (["--workers", "2"], (2, 1))):
            out = subprocess.run([BIN / "psgd", "resume", job.id, "--coordinator", c.coordinator.address, *flags],
                                 capture_output=True, text=True, timeout=60 * PATIENCE, check=True).stdout
            spec = c.get(out.split()[1].rstrip(",")).spec
            self.assertEqual((spec.worker_processes, spec.pservers), wanted)

    def test_what_cannot_be_is_refused_by_name(self):
        c = self.cluster(workers=4, pservers=1)
        c.wait_nodes(5)
        job = c.submit({**JOB, **PACE, "epochs": 1000})
        c.wait(job.id, lambda j: j.progress.step > 1)
        for numbers, code, text in (
                (dict(), "INVALID_ARGUMENT", "are both 0"),
                (dict(worker_processes=5), "INVALID_ARGUMENT", "worker_processes is 5; 1 to 4 are allowed"),
                (dict(pservers=65), "INVALID_ARGUMENT", "pservers is 65; 1 to 64 are allowed"),
                (dict(pservers=1, checkpoint_ms=3600001), "INVALID_ARGUMENT", "checkpoint_ms is 3600001"),
                (dict(pservers=3), "FAILED_PRECONDITION", "4 workers and 3 servers are wanted; the job has, or "
                                                          "could have, 4 and 1")):
            said = self.refused(c, job.id, **numbers)
            self.assertEqual(said[0], code)
            self.assertIn(text, said[1])
        # One that cannot be taken in time changes nothing.
        self.assertIn("no checkpoint was stored in time; the job goes on with its processes as before",
                      self.refused(c, job.id, worker_processes=2, checkpoint_ms=1)[1])
        job = c.wait(job.id, lambda j, at=c.get(job.id).progress.step: j.progress.step > at + 20)
        self.assertEqual((job.state, job.attempt, self.processes(job)), (RUNNING, 1, (4, 1)))
        out = subprocess.run([BIN / "psgd", "scale", job.id, "--coordinator", c.coordinator.address],
                             capture_output=True, text=True, timeout=60 * PATIENCE)
        self.assertIn("give --workers P, --pservers M, or both", out.stderr)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
        c.wait(job.id)
        self.assertEqual(self.refused(c, job.id, pservers=1),
                         ("FAILED_PRECONDITION", f"job {job.id} is CANCELLED already"))
        c.wait_idle()
        for fields, numbers, text in (
                ({"consistency": {"name": "asp"}}, dict(worker_processes=3), "cannot stop at a checkpoint: "),
                ({"exchange": {"name": "ring"}}, dict(pservers=1), "exchange among themselves (ring): it has no servers")):
            job = c.submit({**JOB, **PACE, "epochs": 1000, **fields})
            c.wait(job.id, lambda j: j.progress.step > 1)
            self.assertIn(text, self.refused(c, job.id, **numbers)[1])
            c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
            c.wait(job.id)
            c.wait_idle()


class Drain(ElasticTest):
    def drained(self, c, job_id, names):
        """The job, when it has gone on after these nodes, which are told to stop at the same time, have left."""
        moves = len(c.get(job_id).recoveries)
        victims = [p for p in c.nodes if p.name in names]
        for victim in victims:
            victim.process.terminate()
        for victim in victims:
            victim.wait()
            self.assertEqual(victim.process.returncode, 0)
        job = self.back(c, job_id, moves + 1)
        self.assertEqual((job.recoveries[-1].reason, sorted(job.recoveries[-1].node_ids)), ("DRAINED", names))
        self.assertFalse({p.node_id for p in job.placements} & set(names))
        return job

    def test_nodes_that_are_told_to_stop_leave_and_the_job_goes_on(self):
        """To spares; to those that are left; two at once. Of a job that never asked for checkpoints."""
        c = self.cluster(workers=4, pservers=2)
        c.wait_nodes(6)
        straight = self.straight(c)
        job = c.submit({**JOB, **PACE})
        c.wait(job.id, lambda j: j.progress.step > 1)
        server = next(p.node_id for p in c.get(job.id).placements if p.role == job_pb2.NODE_ROLE_PSERVER)
        job = self.drained(c, job.id, [server])
        self.assertEqual(self.processes(job), (4, 1))
        self.assertRegex(job.recoveries[0].message, f"^parameter server {server} was told to stop$")
        job = self.drained(c, job.id, ["worker-2"])
        self.assertEqual(self.processes(job), (3, 1))
        job = self.drained(c, job.id, ["worker-0", "worker-3"])
        self.assertEqual(self.processes(job), (1, 1))
        job = c.wait(job.id)
        self.must_be_whole(c, job, straight, ["DRAINED"] * 3)

    def test_the_last_one_is_waited_for(self):
        c = self.cluster(workers=4, pservers=1)
        c.wait_nodes(5)
        straight = self.straight(c)
        job = c.submit({**JOB, **PACE})
        c.wait(job.id, lambda j: j.progress.step > 1)
        self.assertEqual(c.pservers[0].stop(), 0)
        job = c.wait(job.id, lambda j: j.state == QUEUED and j.reason == "WAITING_FOR_NODES")
        self.assertIn("needs 1 pserver, 0 idle", job.message)
        c.pservers[0].start()
        self.must_be_whole(c, c.wait(job.id), straight, ["DRAINED"])


class Join(ElasticTest):
    def add_worker(self, c, i):
        c.workers.append(c.add("worker", i))
        return c.workers[-1]

    def test_a_job_begins_with_few_workers_idle_ones_join_and_it_waits_for_lost_ones(self):
        c = self.cluster(workers=4, pservers=1, coordinator_args=["--grow-interval", "1s"])
        c.wait_nodes(5)
        straight = self.straight(c)
        for worker in c.workers[2:]:
            self.assertEqual(worker.stop(), 0)
        job = c.submit({**JOB, **PACE, "workersMin": 3, "workersMax": 4, "recovery": {"waitSeconds": 1}},
                       checkpoint={"everySteps": 5})
        self.assertEqual(job.spec.worker_processes, 4)
        wanted = "waits for 1 more worker (workers_min): needs 3 workers, 2 idle of 2 known"  # two have left
        job = c.wait(job.id, lambda j: j.state == QUEUED and j.message.startswith(wanted))
        self.assertEqual(job.reason, "WAITING_FOR_NODES")
        c.workers[2].start()
        job = c.wait(job.id, lambda j: j.state == RUNNING)
        self.assertEqual(self.processes(job), (3, 1))
        c.workers[3].start()
        job = self.back(c, job.id, 1)
        self.assertEqual((self.processes(job), job.recoveries[0].reason, job.recoveries[0].message),
                         ((4, 1), "JOINED", "1 idle worker joined"))
        r = job.recoveries[0]
        self.assertGreaterEqual(seconds(r.ask_time) - seconds(job.start_time), 0.9)
        self.assertEqual((job.restarts, r.step - r.from_step), (0, 0))
        c.workers[0].kill()
        job = c.wait(job.id, lambda j: j.restarts == 1 and j.state == RUNNING)  # three are left
        self.assertEqual(self.processes(job), (3, 1))
        c.workers[1].kill()
        job = c.wait(job.id, lambda j: j.state == QUEUED and
                     j.message.startswith("waits for 1 more worker (workers_min): needs 3 workers, 2 idle"))
        waited = time.monotonic() + 1.5  # longer than wait_seconds
        c.poll("time", lambda: time.monotonic() > waited)
        self.assertEqual(c.get(job.id).state, QUEUED)
        c.workers[1].start()
        job = c.wait(job.id)
        self.assertEqual((job.state, job.restarts), (DONE, 2))
        self.assertEqual(model_of(c.files(job.id)), model_of(straight))

    def test_a_job_with_copies_takes_back_a_server_when_one_comes(self):
        """With one server it has no copies; with the second one the loss of the first rolls nothing back."""
        c = self.cluster(workers=4, pservers=2, coordinator_args=["--grow-interval", "300ms"])
        c.wait_nodes(6)
        straight = self.straight(c)
        job = c.submit({**JOB, **PACE, "recovery": {"replicas": 2}}, pservers=2)
        c.wait(job.id, lambda j: j.progress.step > 1)
        c.pservers[0].kill()
        job = c.wait(job.id, lambda j: j.restarts == 1 and j.state == RUNNING)
        self.assertEqual(self.processes(job)[1], 1)
        c.pservers[0].start()
        job = c.wait(job.id, lambda j: len(j.recoveries) == 2 and j.state == RUNNING)
        self.assertEqual((self.processes(job)[1], job.recoveries[1].reason, job.recoveries[1].message),
                         (2, "JOINED", "1 idle parameter server joined"))
        c.pservers[1].kill()
        job = c.wait(job.id)
        self.assertEqual((job.state, job.restarts), (DONE, 2), job.message)
        self.assertTrue(all(r.step - r.from_step <= 1 for r in job.recoveries), job.recoveries)
        self.assertEqual(model_of(c.files(job.id)), model_of(straight))

    def test_none_joins_a_job_that_does_not_ask_or_while_others_wait(self):
        c = self.cluster(workers=2, pservers=1, coordinator_args=["--grow-interval", "10ms"])
        c.wait_nodes(3)
        job = c.submit({**JOB, **PACE}, workerProcesses=2)
        elastic = {"workersMin": 1}
        waiting = c.submit({**JOB, "title": "waits"}, workers=8)
        c.wait(job.id, lambda j: j.progress.step > 1)
        self.add_worker(c, 2)
        c.wait_nodes(4)
        job = c.wait(job.id)
        self.assertEqual((job.state, job.attempt), (DONE, 1))
        c.wait_idle()
        c.workers[2].kill()
        c.poll("it is lost", lambda: sum(n.alive for n in c.node_list()) == 3)
        job = c.submit({**JOB, **PACE, **elastic})
        c.wait(job.id, lambda j: j.progress.step > 1)
        c.workers[2].start()
        c.wait_nodes(4)
        c.wait(job.id, lambda j, at=c.get(job.id).progress.step: j.progress.step > at + 15)
        self.assertEqual(c.get(job.id).attempt, 1)  # the queue comes first
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=waiting.id), timeout=10 * PATIENCE)
        self.assertEqual(self.processes(self.back(c, job.id, 1)), (3, 1))

    def test_bounds_that_cannot_be_are_refused(self):
        c = self.cluster(workers=0, pservers=0)
        for fields, field, text in (
                ({"workersMin": 5}, "spec.workers_min", "is 5; 1 to 4 (worker_processes) are allowed"),
                ({"workersMax": 5}, "spec.workers_max", "is 5; 1 to 4 (workers) are allowed"),
                ({"workersMax": 3, "workerProcesses": 2}, "spec.workers_max", "give one of them"),
                ({"workersMin": 2, "consistency": {"name": "asp"}}, "spec.workers_min",
                 "cannot stop at a checkpoint: only consistency bsp is allowed")):
            with self.assertRaises(grpc.RpcError) as caught:
                c.submit({**JOB, **fields})
            self.assertIn(f"{field}: {text}" if text.startswith("is") else text, caught.exception.details())
            self.assertIn(field, caught.exception.details())


if __name__ == "__main__":
    main()
