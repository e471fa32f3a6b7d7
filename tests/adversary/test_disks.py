# SPDX-License-Identifier: Apache-2.0
"""test_disks.py - disks are full when a job is submitted, runs or ends, and have room again later.

Nothing is lost and nothing is stuck: nodes keep their files until the coordinator has stored them.
"""
import csv
import hashlib
import io
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import disks  # noqa: E402

if __name__ == "__main__":
    disks.enter()

import grpc  # noqa: E402
from harness import (BIN, ENDLESS, FINAL, SMALL, ClusterTest, coordinator_pb2,  # noqa: E402
                     job_pb2, main)

MIB = 1 << 20
RUNNING, DONE = job_pb2.JOB_STATE_RUNNING, job_pb2.JOB_STATE_DONE
# Long enough to fill a disk while it runs.
PACE = {"name": "fixed", "params": {"rank": -1, "ms": 5}}
JOB = {**SMALL, "title": "filled", "epochs": 12, "straggler": PACE}
TABLES = {
    "title": "rows", "epochs": 1, "blockSize": 10, "straggler": PACE,
    "optimizer": {"rule": {"name": "adagrad", "params": {"lr": 0.05}}},
    "model": {"preset": "ngram", "params": {"rows": 300, "width": 8, "hidden": 8, "dropout": 0},
              "table": {"name": "sparse"}},
    "data": {"name": "ngram", "folder": "text", "files": ["words.txt"], "trainLimit": 3000,
             "testLimit": 300},
}


class DiskTest(ClusterTest):
    def small(self, full, mib=24, workers=1, pservers=1, **more):
        """A cluster in which the process `full` has a small disk; "kept": --checkpoint-path is one."""
        made, arguments = [], []

        def prepare(folder):
            made.append(disks.Disk(folder / full, mib))
            arguments.extend(["--checkpoint-path", folder / full] if full == "kept" else [])

        c = self.cluster(workers=workers, pservers=pservers, prepare=prepare,
                         coordinator_env={"PSGD_MIN_FREE": "4"}, coordinator_args=arguments,
                         node_args=["--min-free", "1"], **more)
        self.addCleanup(made[0].close)  # before the cluster, which removes the folder
        c.wait_nodes(workers + pservers)
        return c, made[0]

    def is_whole(self, c, job, state=DONE):
        """The job is over, its files are there and as the manifest says, and all nodes are free."""
        self.assertEqual(job_pb2.JobState.Name(job.state), job_pb2.JobState.Name(state), job.message)
        files = c.files(job.id)
        manifest = json.loads(files["manifest.json"])
        self.assertGreater(len(manifest["files"]), 2)
        for entry in manifest["files"]:
            content = files[entry["name"]]
            self.assertEqual((len(content), hashlib.sha256(content).hexdigest()),
                             (entry["size"], entry["sha256"]), entry["name"])
        c.wait_idle()
        return files

    def waits(self, c, job, whose="the coordinator's disk"):
        """Until the job says that it waits for room; the job."""
        job = c.wait(job.id, lambda j: j.state in FINAL or f"waits for room on {whose}" in j.message)
        self.assertNotIn(job.state, FINAL, job.message)
        return job

    def phases(self, c):
        return [c.status(p).node.phase for p in c.nodes]

    # --- the coordinator's disk ------------------------------------------------

    def test_full_at_the_end(self):
        c, disk = self.small("coordinator")
        job = c.submit(JOB)
        c.wait_state(job.id, RUNNING)
        disk.hog()
        job = self.waits(c, job)
        self.assertEqual(job.reason, "WAITING_FOR_ROOM")
        self.assertNotIn(coordinator_pb2.NODE_PHASE_IDLE, self.phases(c))
        disk.room()
        files = self.is_whole(c, c.wait(job.id))
        self.assertIn("MODEL-filled-N(ps).safetensors", files)
        self.is_whole(c, c.wait(c.submit(SMALL).id))  # and the next one

    def test_restarted_while_it_is_full(self):
        c, disk = self.small("coordinator")
        job = c.submit(JOB)
        c.wait_state(job.id, RUNNING)
        disk.hog()
        self.waits(c, job)
        c.coordinator.kill()
        disk.room()
        disk.fill(leave=256 << 10)  # so much a process needs to begin
        c.restart_coordinator()
        job = self.waits(c, job)
        disk.room()
        self.is_whole(c, c.wait(job.id))

    def test_a_failure_while_it_is_full(self):
        c, disk = self.small("coordinator", workers=2)
        job = c.submit(ENDLESS, workers=2)
        c.wait_state(job.id, RUNNING)
        disk.hog()
        c.workers[1].kill()
        job = c.wait(job.id, lambda j: j.state in FINAL or j.reason == "NODE_LOST")
        self.assertNotIn(job.state, FINAL)
        self.assertIn("waits for room on the coordinator's disk", job.message)
        c.coordinator.kill()
        disk.room()
        disk.fill(leave=256 << 10)
        c.restart_coordinator()
        disk.room()
        job = c.wait(job.id)
        self.assertEqual((job_pb2.JobState.Name(job.state), job.reason),
                         ("JOB_STATE_FAILED", "NODE_LOST"))
        self.assertIn("worker-1", job.message)
        c.wait_idle()

    def test_cancelled_while_it_is_full(self):
        """The reserve is enough to note how a job ended, though not for its files."""
        c, disk = self.small("coordinator")
        job = c.submit(JOB)
        c.wait_state(job.id, RUNNING)
        disk.fill()
        self.waits(c, job)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
        job = c.wait(job.id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_CANCELLED", job.message)
        self.assertIn("lost", job.message)
        c.wait_idle()
        c.coordinator.kill()
        c.restart_coordinator()
        self.assertEqual(c.get(job.id).state, job_pb2.JOB_STATE_CANCELLED)
        c.api.DeleteJob(coordinator_pb2.DeleteJobRequest(job_id=job.id))

    def test_checkpoints_are_skipped_while_it_is_low(self):
        self.checkpoints_must_be_skipped("coordinator", "the coordinator's disk has")

    def test_checkpoints_are_skipped_while_their_own_disk_is_low(self):
        self.checkpoints_must_be_skipped("kept", "--checkpoint-path has")

    def checkpoints_must_be_skipped(self, full, says):
        c, disk = self.small(full)
        job = c.submit({**ENDLESS, "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 100}}},
                       workers=1, checkpoint={"everySeconds": 1})
        kept = lambda: c.api.ListCheckpoints(  # noqa: E731
            coordinator_pb2.ListCheckpointsRequest(job_id=job.id)).checkpoints
        c.poll("a checkpoint", kept)
        disk.fill(leave=2 * MIB)
        told = c.wait(job.id, lambda j: j.reason == "CHECKPOINT_SKIPPED")
        self.assertRegex(told.message, rf"checkpoint of step \d+ skipped: {says} \d+ bytes free")
        self.assertEqual(c.api.GetServerInfo(coordinator_pb2.GetServerInfoRequest()).disk.is_low, full == "coordinator")
        steps = [p.step for p in kept()]
        self.assertEqual([p.damage for p in kept()], [""] * len(steps))
        disk.room()
        c.wait(job.id, lambda j: j.reason == "" and any(p.step > steps[-1] for p in kept()))
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
        c.wait(job.id)

    def test_cancelled_while_nothing_can_be_stored(self):
        c, disk = self.small("coordinator")
        job = c.submit(JOB)
        c.wait_state(job.id, RUNNING)
        disk.hog()
        self.waits(c, job)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
        job = c.wait(job.id, lambda j: j.state in FINAL or j.reason == "CANCELLED")
        disk.room()
        job = c.wait(job.id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_CANCELLED", job.message)
        c.wait_idle()

    def test_full_at_submission(self):
        c, disk = self.small("coordinator")
        running = c.submit(JOB)
        queued = c.submit(SMALL)
        c.wait_state(running.id, RUNNING)
        disk.fill(leave=2 * MIB)
        with self.assertRaises(grpc.RpcError) as refused:
            c.submit(SMALL)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertRegex(refused.exception.details(), rf"\d+ bytes free, {4 * MIB} are needed")
        info = c.api.GetServerInfo(coordinator_pb2.GetServerInfoRequest())
        self.assertTrue(info.disk.is_low)
        self.assertEqual(info.disk.needed_bytes, 4 * MIB)
        self.is_whole(c, c.wait(running.id))  # there is room for its files
        c.wait(queued.id, lambda j: "bytes free" in j.message)
        disk.room()
        self.is_whole(c, c.wait(queued.id))
        info = c.api.GetServerInfo(coordinator_pb2.GetServerInfoRequest())
        self.assertFalse(info.disk.is_low)

    def test_full_while_it_runs(self):
        self.full_while_it_runs("coordinator", 24)

    # --- a worker's disk ---------------------------------------------------------

    @staticmethod
    def worker_waits(job):
        return job.state in FINAL or "room on its disk" in job.progress.waiting_for

    def rows(self, files, job):
        return list(csv.DictReader(io.StringIO(files[f"TR-{job.spec.title}-N(0).csv"].decode())))

    def test_worker_full_at_the_end(self):
        c, disk = self.small("worker-0", mib=4)
        job = c.submit(JOB)
        c.wait_state(job.id, RUNNING)
        disk.hog()
        job = c.wait(job.id, self.worker_waits)
        self.assertEqual(job.state, RUNNING, job.message)
        self.assertIn("worker-0", job.progress.waiting_for)
        disk.room()
        job = c.wait(job.id)
        files = self.is_whole(c, job)
        self.assertEqual([int(r["step"]) for r in self.rows(files, job)],
                         list(range(1, job.progress.total_steps + 1)))

    def test_worker_full_while_it_runs(self):
        self.full_while_it_runs("worker-0", 4)

    def test_worker_cancelled_while_it_waits(self):
        c, disk = self.small("worker-0", mib=4)
        job = c.submit(JOB)
        c.wait_state(job.id, RUNNING)
        disk.hog()
        c.wait(job.id, self.worker_waits)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
        job = c.wait(job.id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_CANCELLED", job.message)
        c.wait_idle()

    def entry(self, c, name):
        return next(n for n in c.node_list() if n.id == name)

    def node_full_at_submission(self, full, other):
        """It is given no job until it has room, and that is said."""
        c, disk = self.small(full, mib=4)
        self.assertFalse(self.entry(c, full).disk.is_low)
        disk.hog()
        c.poll(f"{full} says so", lambda: self.entry(c, full).disk.is_low)
        self.assertEqual(self.entry(c, full).disk.needed_bytes, MIB)
        table = subprocess.run([BIN / "psgd", "nodes", "-c", c.coordinator.address],
                               capture_output=True, text=True, check=True).stdout
        self.assertRegex(table, rf"{full} .*LOW DISK")
        self.assertNotRegex(table, rf"{other} .*LOW DISK")
        listed = json.loads(subprocess.run(
            [BIN / "psgd", "nodes", "-c", c.coordinator.address, "--format", "json"],
            capture_output=True, text=True, check=True).stdout)
        self.assertEqual([n["id"] for n in listed if n.get("disk", {}).get("is_low")], [full])
        job = c.submit(SMALL)
        job = c.wait(job.id, lambda j: j.state in FINAL or "low disk" in j.message)
        self.assertEqual(job.state, job_pb2.JOB_STATE_QUEUED, job.message)
        self.assertEqual(job.reason, "WAITING_FOR_NODES")
        self.assertRegex(job.message,
                         rf"low disk: {full} \(\d+ bytes free, its --min-free is {MIB}\)")
        disk.room()
        self.has_all_steps(c, c.wait(job.id))

    def has_all_steps(self, c, job):
        files = self.is_whole(c, job)
        self.assertEqual([int(r["step"]) for r in self.rows(files, job)],
                         list(range(1, job.progress.total_steps + 1)))

    def full_while_it_runs(self, full, mib):
        """No room from the first steps on, and room again before the last."""
        c, disk = self.small(full, mib=mib)
        job = c.submit(JOB)
        job = c.wait_state(job.id, RUNNING)
        disk.hog()
        job = c.wait(job.id, lambda j: j.state in FINAL or j.progress.epoch >= 6)
        self.assertEqual(job.state, RUNNING, job.message)
        disk.room()
        self.has_all_steps(c, c.wait(job.id))

    def test_worker_full_at_submission(self):
        self.node_full_at_submission("worker-0", "pserver-0")

    def test_another_worker_takes_the_job_of_a_full_one(self):
        c, disk = self.small("worker-0", mib=4, workers=2)
        disk.hog()
        c.poll("worker-0 says so", lambda: self.entry(c, "worker-0").disk.is_low)
        job = c.wait(c.submit(SMALL).id)
        self.is_whole(c, job)
        self.assertIn("worker-1", [p.node_id for p in job.placements])

    def test_worker_without_room_for_the_data(self):
        """It has what it asks for, but the data set of the job is larger: another one takes the job,
        or the job waits until there is room."""
        data = pathlib.Path(tempfile.mkdtemp(prefix="psgd-table-"))
        self.addCleanup(shutil.rmtree, data)
        (data / "table").mkdir()
        (data / "table/t.csv").write_text("n,l\n" + "".join(
            f"{i % 7}.{'0' * 40},{i % 3}\n" for i in range(130000)))
        table = {**SMALL, "title": "table", "data": {
            "name": "csv", "folder": "table", "files": ["t.csv"], "trainLimit": 2000,
            "testLimit": 500, "columns": [{"name": "n"}, {"name": "l", "kind": "label"}]}}
        c, disk = self.small("worker-0", mib=12, data=str(data))
        disk.fill(leave=3 * MIB)
        job = c.submit(table)
        job = c.wait(job.id, lambda j: j.state in FINAL or j.reason == "NODE_FULL"
                     or "low disk" in j.message)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_QUEUED", job.message)
        disk.room()
        self.is_whole(c, c.wait(job.id))
        self.assertGreater(c.get(job.id).attempt, 1)
        c.workers[0].kill()  # the next one begins without the data set
        shutil.rmtree(disk.folder / "datasets")
        c.workers[0].start()
        c.workers.append(c.add("worker", 1, ["--min-free", "1"]))
        c.wait_nodes(3)
        disk.fill(leave=3 * MIB)
        job = c.wait(c.submit(table).id)
        self.is_whole(c, job)
        self.assertIn("worker-1", [p.node_id for p in job.placements])

    # --- a server's disk -----------------------------------------------------------

    def test_server_full_at_submission(self):
        self.node_full_at_submission("pserver-0", "worker-0")

    def test_server_full_while_it_runs(self):
        self.full_while_it_runs("pserver-0", 4)

    def test_server_full_at_the_end(self):
        data = pathlib.Path(tempfile.mkdtemp(prefix="psgd-words-"))
        self.addCleanup(shutil.rmtree, data)
        (data / "text").mkdir()
        draw = random.Random(1)
        words = [f"w{i}" for i in range(300)]
        (data / "text/words.txt").write_text(
            "\n".join(" ".join(draw.choices(words, k=12)) for _ in range(600)) + "\n")
        c, disk = self.small("pserver-0", mib=4, data=str(data))
        job = c.submit(TABLES)
        c.wait_state(job.id, RUNNING)
        disk.hog()
        job = self.waits(c, job, "parameter server pserver-0")
        self.assertIn(".psgdtab", job.message)
        disk.room()
        files = self.is_whole(c, c.wait(job.id))
        self.assertTrue([name for name in files if name.endswith(".psgdtab")])


if __name__ == "__main__":
    main()
