# SPDX-License-Identifier: Apache-2.0
"""test_start.py - what happens to a job between its submission and its training: nodes are silent,
the coordinator is frozen or dies, models are too large, data sets take long to read."""
import gzip
import pathlib
import re
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc  # noqa: E402
from harness import (FINAL, SLOW, SMALL, ClusterTest, coordinator_pb2, job_pb2,  # noqa: E402
                     main)

LIMIT_MS = int(2000 * SLOW)
# 11.6 million parameters: 44 MiB.
LARGE = {**SMALL, "title": "large", "model": {"preset": "mlp", "widths": [4096, 2048]}}
NOBODY = [{"role": "NODE_ROLE_WORKER", "address": "127.0.0.1:1"},
          {"role": "NODE_ROLE_PSERVER", "address": "127.0.0.1:2"}]
MIB = 1 << 20


class StartTest(ClusterTest):
    def test_a_frozen_worker_is_passed_over(self):
        """It is chosen, because it has missed no heartbeat yet."""
        c = self.cluster(workers=3, pservers=1)
        c.wait_nodes(4)
        c.workers[0].freeze()
        job = c.wait(c.submit(SMALL, workers=2, timeouts={"canCommitMs": LIMIT_MS}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        self.assertNotIn("worker-0", [p.node_id for p in job.placements])
        c.workers[0].thaw()
        job = c.wait(c.submit(SMALL, workers=3).id)  # it answers, so it is chosen again
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")

    def test_a_job_waits_for_the_only_worker(self):
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        c.workers[0].freeze()
        job = c.submit(SMALL, timeouts={"canCommitMs": LIMIT_MS})
        job = c.wait(job.id, lambda j: j.state in FINAL or "worker-0" in j.progress.waiting_for)
        job = c.wait(job.id, lambda j: j.state in FINAL or "does not answer: worker-0" in j.message)
        self.assertEqual(job.state, job_pb2.JOB_STATE_QUEUED, job.message)
        c.workers[0].thaw()
        job = c.wait(job.id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)

    def test_a_coordinator_that_is_frozen_before_training_loses_no_job(self):
        """For longer than all limits of the job, when a node is reserved and another is not."""
        c = self.cluster(workers=1, pservers=1)
        c.workers.append(c.add("worker", 1, ["--fault", "stop-at:RESERVED"]))
        c.wait_nodes(3)
        job = c.submit(SMALL, workers=2, timeouts={
            "canCommitMs": LIMIT_MS, "preCommitFloorMs": LIMIT_MS, "preCommitCapMs": LIMIT_MS,
            "readyMs": LIMIT_MS, "leaseMs": LIMIT_MS})
        stat = pathlib.Path(f"/proc/{c.workers[1].process.pid}/stat")
        c.poll("a frozen worker", lambda: stat.read_text().split()[2] == "T")
        c.coordinator.freeze()
        began = time.monotonic()
        c.workers[1].thaw()
        c.poll("all limits are past", lambda: time.monotonic() > began + 3.5 * LIMIT_MS / 1000)
        c.coordinator.thaw()
        job = c.wait(job.id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        self.assertEqual(job.attempt, 1)

    def test_a_coordinator_that_is_told_to_stop_does_not_count_against_the_job(self):
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        c.workers[0].freeze()
        job = c.submit(SMALL, timeouts={"canCommitMs": int(60000 * SLOW)})
        for life in range(4):
            c.wait_state(job.id, job_pb2.JOB_STATE_CAN_COMMIT)
            self.assertEqual(c.coordinator.stop(), 0)
            c.restart_coordinator()
            # Its lease is over: until it is heard of again the job waits.
            c.workers[0].thaw()
            c.wait_nodes(2)
            self.assertEqual(c.get(job.id).interrupted, 0)
            if life < 3:
                c.workers[0].freeze()
        job = c.wait(job.id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")

    def test_a_coordinator_that_dies_of_a_job_does_not_try_it_for_ever(self):
        c = self.cluster(workers=1, pservers=1,
                         coordinator_args=["--fault", "exit-at:PRE_COMMIT"])
        c.wait_nodes(2)
        job = c.submit(SMALL)
        for life in range(3):
            c.coordinator.wait()
            if life == 2:
                c.coordinator.args = c.coordinator.args[:c.coordinator.args.index("--fault")]
            c.restart_coordinator()
        job = c.wait(job.id)
        self.assertEqual((job_pb2.JobState.Name(job.state), job.reason, job.interrupted),
                         ("JOB_STATE_FAILED", "COORDINATOR_RESTARTED", 3), job.message)
        c.wait_idle()

    # --- memory -------------------------------------------------------------------

    def peak(self, c):
        """Bytes of memory that the coordinator has had at most."""
        text = pathlib.Path(f"/proc/{c.coordinator.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", text).group(1))

    def test_no_weights_are_drawn_before_nodes_answer(self):
        c = self.cluster(workers=1, pservers=1)
        before = self.peak(c)
        jobs = [c.submit(LARGE, nodes=NOBODY, timeouts={"canCommitMs": LIMIT_MS}) for _ in range(8)]
        for job in jobs:
            job = c.wait(job.id)
            self.assertIn(job.reason, ("CAN_COMMIT_TIMEOUT", "NODE_UNREACHABLE"), job.message)
        self.assertLess(self.peak(c) - before, 44 * MIB)

    def test_jobs_take_turns_at_the_memory(self):
        c = self.cluster(workers=2, pservers=2, coordinator_args=["--max-memory", "60"])
        c.wait_nodes(4)
        small = {**LARGE, "epochs": 1, "data": {"name": "glyphs", "trainLimit": 50, "testLimit": 50}}
        nobody = c.submit(small, nodes=NOBODY, timeouts={"canCommitMs": 4 * LIMIT_MS})
        c.wait_state(nobody.id, job_pb2.JOB_STATE_CAN_COMMIT)
        job = c.submit(small)
        waiting = c.wait(job.id, lambda j: j.state in FINAL or j.reason == "WAITING_FOR_MEMORY")
        self.assertEqual(waiting.state, job_pb2.JOB_STATE_QUEUED, waiting.message)
        self.assertIn("--max-memory", waiting.message)
        job = c.wait(job.id)  # when the other one has given up
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)

    def test_a_model_that_is_too_large_is_refused(self):
        c = self.cluster(workers=0, pservers=0, coordinator_args=["--max-memory", "40"])
        with self.assertRaises(grpc.RpcError) as refused:
            c.submit(LARGE)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("--max-memory", refused.exception.details())

    # --- data sets ------------------------------------------------------------------

    TABLE = {**SMALL, "title": "table", "data": {
        "name": "csv", "folder": "table", "files": ["t.csv"],
        "columns": [{"name": "n"}, {"name": "l", "kind": "label"}]}}

    def table(self):
        """A data path with a small table."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-bomb-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "table").mkdir()
        (folder / "table/t.csv").write_text("n,l\n" + "".join(f"{i},{i % 3}\n" for i in range(3000)))
        return folder

    def arm(self, folder, mib):
        """Puts a small file in its place that unpacks to so much."""
        (folder / "table/t.csv").unlink()
        member = gzip.compress(b"1,0\n2,1\n3,2\n" * (64 * MIB // 12), 9)
        with open(folder / "table/t.csv.gz", "wb") as out:
            out.write(gzip.compress(b"n,l\n"))
            for _ in range(mib // 64):
                out.write(member)

    def nodes_come(self, c, count):
        c.pservers += [c.add("pserver", i) for i in range(count)]
        c.workers += [c.add("worker", i) for i in range(count)]

    def test_a_data_set_that_unpacks_for_long_holds_up_no_other_job(self):
        folder = self.table()
        c = self.cluster(workers=0, pservers=0, data=str(folder))
        slow = c.submit(self.TABLE)
        self.arm(folder, 4096)
        self.nodes_come(c, 2)
        c.wait_state(slow.id, job_pb2.JOB_STATE_CAN_COMMIT)
        job = c.wait(c.submit(SMALL, timeouts={"preCommitFloorMs": LIMIT_MS,
                                               "preCommitCapMs": LIMIT_MS}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(c.get(slow.id).state, job_pb2.JOB_STATE_CAN_COMMIT)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=slow.id))
        self.assertEqual(c.wait(slow.id).state, job_pb2.JOB_STATE_CANCELLED)

    def test_there_is_an_end_to_what_is_unpacked(self):
        folder = self.table()
        c = self.cluster(workers=0, pservers=0, data=str(folder),
                         coordinator_args=["--max-unpacked", "100"])
        job = c.submit(self.TABLE)
        self.arm(folder, 1024)
        self.nodes_come(c, 1)
        job = c.wait(job.id)
        self.assertEqual((job_pb2.JobState.Name(job.state), job.reason),
                         ("JOB_STATE_FAILED", "PACKAGE_FAILED"), job.message)
        self.assertRegex(job.message, r"t\.csv.*more than 104857600 bytes.*--max-unpacked")
        with self.assertRaises(grpc.RpcError) as refused:
            c.submit(self.TABLE)
        self.assertIn("--max-unpacked", refused.exception.details())


if __name__ == "__main__":
    main()
