# SPDX-License-Identifier: Apache-2.0
"""test_threads.py - the threads of a parameter server share its virtual shards: how many there are
changes no bit of what is computed."""
import json
import subprocess

from harness import BIN, ClusterTest, coordinator_pb2, data_path, job_pb2, main, rows_of, tensors

# Nine slices, so each of three threads has some.
WIDE = {
    "title": "wide", "model": {"preset": "mlp", "widths": [128, 32]},
    "data": {"name": "glyphs", "trainLimit": 1200, "testLimit": 200}, "epochs": 2, "blockSize": 50,
    "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.002}}}, "workers": 2, "seed": 5,
}
# Where the shards are must not matter to any of these.
JOBS = {
    "f32": {},
    "int8 with error feedback": {"codec": {"up": {"name": "int8", "params": {"error_feedback": 1}},
                                           "down": {"name": "int8"}}},
    "powersgd": {"codec": {"up": {"name": "powersgd"}}},
    "broadcast": {"update": {"name": "dqlosp"}},
    "local steps": {"update": {"name": "losp"}},
}
TEXT = {
    "title": "text", "epochs": 1, "blockSize": 64, "workers": 2, "seed": 5,
    "optimizer": {"rule": {"name": "adagrad", "params": {"lr": 0.05}}},
    "model": {"preset": "ngram", "params": {"rows": 50000, "width": 16, "hidden": 64, "dropout": 0}},
    "data": {"name": "ngram", "folder": "text", "files": ["tinyshakespeare.txt"],
             "trainLimit": 1280, "testLimit": 256, "params": {"cutoff": 50}},
}
SPARSE = {"model": {**TEXT["model"], "table": {"name": "sparse"}}}


class Threads(ClusterTest):
    def cluster_of(self, *threads, **options):
        """Two workers, and a server for each number of threads."""
        c = self.cluster(workers=2, pservers=0, **options)
        c.pservers = [c.add("pserver", i, ["--threads", n]) for i, n in enumerate(threads)]
        c.wait_nodes(2 + len(threads))
        return c

    def train(self, c, spec, **fields):
        job = c.wait(c.submit(spec, pservers=len(c.pservers), **fields).id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        return job

    def bits(self, c, spec, extra):
        """What a job leaves, and what its servers have counted."""
        job = self.train(c, spec, **extra)
        files = c.files(job.id)
        models = {name: tensors(bytes_) for name, bytes_ in files.items()
                  if name.endswith(".safetensors")}
        self.assertGreater(len(models), 0)
        servers = [n["counters"] for n in json.loads(files["summary.json"])["nodes"]
                   if n["role"] == "pserver"]
        applied = sum(s["applied"] for s in servers)
        return (models, rows_of(files)), applied

    def compare(self, jobs, base, **options):
        clusters = {threads: self.cluster_of(*threads, **options)
                    for threads in ((1,), (2,), (3,), (1, 3))}
        for name, extra in jobs.items():
            with self.subTest(name):
                wanted, applied = self.bits(clusters[1,], base, extra)
                self.assertGreater(applied, 0)
                for threads, c in clusters.items():
                    found, count = self.bits(c, base, extra)
                    self.assertEqual(found, wanted, f"{name}: threads {threads}")
                    if len(threads) == 1: # each server counts the rows of tables once
                        self.assertEqual(count, applied, f"{name}: threads {threads}")

    def test_the_bits_do_not_depend_on_the_number_of_threads(self):
        self.compare(JOBS, WIDE)

    def test_nor_do_those_of_tables(self):
        if not data_path():
            self.skipTest("PSGD_DATA has no text/")
        self.compare({"by rows": {}, "sparse": SPARSE}, TEXT, data=data_path())

    def test_threads_are_told(self):
        c = self.cluster_of(3)
        (server,) = [n for n in c.node_list() if n.role == 2]
        self.assertEqual(server.threads, 3)
        job = self.train(c, WIDE)
        self.assertEqual([p.threads for p in job.placements if p.role == 2], [3])
        shown = subprocess.run([BIN / "psgd", "--coordinator", c.coordinator.address, "nodes"],
                               capture_output=True, text=True, check=True).stdout
        head, *rows = [line.split() for line in shown.splitlines()]
        self.assertEqual([row[head.index("THREADS")] for row in rows if row[1] == "PSERVER"], ["3"])

    def test_a_worker_that_dies_is_lost_to_all_threads(self):
        c = self.cluster_of(3)
        job = c.submit(WIDE, epochs=100, consistency={"name": "asp"},
                       straggler={"name": "fixed", "params": {"rank": -1, "ms": 5}})
        c.wait(job.id, lambda j: j.progress.step > 5)
        c.workers[1].kill()
        job = c.wait(job.id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        self.assertEqual(job.progress.workers_alive, 1)

    def test_cancelled_and_begun_again(self):
        c = self.cluster_of(3)
        job = c.submit(WIDE, epochs=100000)
        c.wait(job.id, lambda j: j.progress.step > 5)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
        self.assertEqual(c.wait(job.id).state, job_pb2.JOB_STATE_CANCELLED)
        c.wait_idle()
        self.train(c, WIDE)

    def test_a_number_of_threads_that_cannot_be_is_refused(self):
        for threads in ("65", "-1", "many"):
            run = subprocess.run([BIN / "psgd-pserver", "--threads", threads],
                                 capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 4, run.stderr)
            self.assertIn("threads", run.stderr)


if __name__ == "__main__":
    main()
