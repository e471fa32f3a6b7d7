# SPDX-License-Identifier: Apache-2.0
"""test_data.py - a data set travels to a node once, and only when it has none."""
import gzip
import os
import random
import struct
import tempfile

import grpc
from google.protobuf import json_format

from harness import SLOW, SMALL, ClusterTest, coordinator_pb2, job_pb2, main


def write_mnist(folder, seed=1):
    """Four small IDX files."""
    rng = random.Random(seed)
    os.makedirs(folder)
    for split, count in (("train", 2000), ("t10k", 500)):
        labels = bytes(rng.randrange(10) for _ in range(count))
        rows = [bytes([25 * d]) * 784 for d in range(10)]
        with gzip.open(f"{folder}/{split}-images-idx3-ubyte.gz", "wb", compresslevel=1) as f:
            f.write(struct.pack(">IIII", 0x803, count, 28, 28) + b"".join(rows[d] for d in labels))
        with gzip.open(f"{folder}/{split}-labels-idx1-ubyte.gz", "wb", compresslevel=1) as f:
            f.write(struct.pack(">II", 0x801, count) + labels)


class Data(ClusterTest):
    def test_it_travels_once(self):
        with tempfile.TemporaryDirectory() as folder:
            write_mnist(f"{folder}/mnist")
            c = self.cluster(workers=1, pservers=1, data=folder)
            spec = {**SMALL, "data": {"name": "mnist"},
                    "timeouts": {"preCommitFloorMs": int(30000 * SLOW)}}
            for _ in range(2):
                job = c.wait(c.submit(spec).id, seconds=120)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
            stored = os.listdir(c.folder / "worker-0" / "datasets")
            self.assertEqual(len(stored), 1, stored)
            log = c.workers[0].log() + c.coordinator.log()
            self.assertEqual(log.count("data set received"), 1, log)
            # After a restart of the worker it is still there.
            c.workers[0].stop()
            c.workers[0].start()
            c.wait_nodes(2)
            self.assertEqual(c.wait(c.submit(spec).id, seconds=120).state, job_pb2.JOB_STATE_DONE)
            self.assertEqual(c.workers[0].log().count("data set received"), 1)

    def test_a_worker_keeps_the_sets_used_last_within_its_bound(self):
        with tempfile.TemporaryDirectory() as folder:
            # Of 0.4 MiB each, two have room; the last is too large.
            rows = {"a": 6000, "b": 6001, "c": 6002, "huge": 24000}
            specs = {name: {**self.table(folder, n, name=name), "workers": 1, "epochs": 1}
                     for name, n in rows.items()}
            c = self.cluster(workers=1, pservers=1, data=folder, node_args=["--data-cache", "1"])

            def stored():
                return set(os.listdir(c.folder / "worker-0" / "datasets"))

            def train(name):
                job = c.wait(c.submit(specs[name]).id, seconds=120)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                return stored()

            a = train("a")
            b = train("b") - a
            self.assertEqual(train("a"), a | b)
            c.workers[0].stop()
            c.workers[0].start()  # knows the order still
            c.wait_nodes(2)
            after = train("c")
            self.assertEqual(len(after), 2)
            self.assertEqual(after & (a | b), a, "b was used least recently")
            job = c.wait(c.submit(specs["huge"]).id, seconds=120)
            self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
            self.assertIn("--data-cache allows 1: set it to 2 or more", job.message)
            self.assertEqual(stored(), after)

    def test_a_worker_with_no_cache_has_a_set_for_its_job_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            spec = {**self.table(folder), "workers": 1, "epochs": 100000}
            c = self.cluster(workers=1, pservers=1, data=folder, node_args=["--data-cache", "0"])
            job = c.wait_state(c.submit(spec).id, job_pb2.JOB_STATE_RUNNING)
            self.assertEqual(job.state, job_pb2.JOB_STATE_RUNNING, job.message)
            self.assertEqual(len(os.listdir(c.folder / "worker-0" / "datasets")), 1)
            c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
            c.wait(job.id)
            c.wait_idle()
            self.assertEqual(os.listdir(c.folder / "worker-0" / "datasets"), [])
            self.assertEqual(len(os.listdir(f"{folder}/t")), 2)  # those of the user stay

    def test_a_set_that_nobody_has_is_a_reason(self):
        c = self.cluster(workers=1, pservers=1)
        job = c.wait(c.submit({**SMALL, "data": {"name": "mnist"}}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
        self.assertIn("mnist", job.message)

    def table(self, folder, rows=1200, bad=None, name="t"):
        """Two files of rows whose label follows from a number and a word."""
        rng = random.Random(5)
        os.makedirs(f"{folder}/{name}")
        for part in range(2):
            with open(f"{folder}/{name}/part-{part}.csv", "w") as f:
                f.write("size,colour,unread,good\n")
                for i in range(rows):
                    size, colour = rng.gauss(40, 9), rng.choice(("red", "green", "a, b"))
                    good = "yes" if (size > 40) != (colour == "green") else "no"
                    f.write(f'{"x" if (part, i) == bad else size},"{colour}",{i},{good}\n')
        return {**SMALL, "workers": 2, "pservers": 1, "epochs": 6, "blockSize": 32,
                "model": {"widths": [16], "activation": "relu"}, "assignment": {"name": "modulo"},
                "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.01}}},
                "data": {"name": "csv", "folder": name, "files": ["part-0.csv", "part-1.csv"],
                         "columns": [{"name": "size"},
                                     {"name": "colour", "kind": "vocabulary",
                                      "params": {"one_hot": 1}},
                                     {"name": "good", "kind": "label"}],
                         "transforms": [{"name": "normalise", "params": {"per": 2}}]}}

    def test_a_table_of_the_user_s_trains_by_file(self):
        with tempfile.TemporaryDirectory() as folder:
            spec = self.table(folder)
            c = self.cluster(workers=2, pservers=1, data=folder)
            job = c.wait(c.submit(spec).id, seconds=120)
            self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
            self.assertGreater(job.result["accuracy"], 0.95)
            data = job.spec.data
            self.assertEqual(data.train_limit + data.test_limit, 2400)
            self.assertEqual(data.columns[1].params["size"], 4)  # and one for the unknown
            self.assertEqual(data.columns[2].params["classes"], 2)

    def test_a_damaged_table_is_refused_when_it_is_submitted(self):
        with tempfile.TemporaryDirectory() as folder:
            spec = self.table(folder, rows=50, bad=(1, 7))
            c = self.cluster(workers=2, pservers=1, data=folder)
            with self.assertRaises(grpc.RpcError) as refused:
                c.submit(spec)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn('part-1.csv: line 9: column size: 1 bytes that are no finite number',
                          refused.exception.details())

    def test_who_hangs_up_while_files_are_read_has_submitted_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            spec = self.table(folder, rows=60000)
            c = self.cluster(workers=2, pservers=1, data=folder)
            message = json_format.ParseDict({**spec, "title": "gone"}, job_pb2.JobSpec())
            call = c.api.SubmitJob.future(coordinator_pb2.SubmitJobRequest(spec=message))
            call.cancel()
            # Files are read for one job after the other: when this is answered, that is over.
            kept = c.submit({**spec, "epochs": 1})
            jobs = c.api.ListJobs(coordinator_pb2.ListJobsRequest()).jobs
            self.assertEqual([job.id for job in jobs], [kept.id])
            self.assertEqual(c.wait(kept.id, seconds=240).state, job_pb2.JOB_STATE_DONE)


if __name__ == "__main__":
    main()
