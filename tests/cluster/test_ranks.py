# SPDX-License-Identifier: Apache-2.0
"""test_ranks.py - ranks are logical: one worker process carries one of them or several."""
import json

from harness import SMALL, ClusterTest, evaluated, job_pb2, main, tensors

# Where the ranks are must not matter to any of these.
JOBS = {
    "f32": {},
    "int8 with error feedback": {"codec": {"up": {"name": "int8", "params": {"error_feedback": 1}}}},
    "top-k": {"codec": {"up": {"name": "topk", "params": {"fraction": 0.1}}}},
    "local steps": {"update": {"name": "losp"}},
    "ring": {"exchange": {"name": "ring"}},
    "ndc": {"exchange": {"name": "ndc"}, "assignment": {"name": "duplicate",
                                                        "params": {"redundancy": 2}}},
    "split evaluation": {"splitEvaluation": True},
}


class Ranks(ClusterTest):
    def train(self, c, spec, **fields):
        job = c.wait(c.submit(spec, **fields).id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        return job

    def test_the_bits_do_not_depend_on_the_number_of_processes(self):
        c = self.cluster(workers=4, pservers=2)
        for name, extra in JOBS.items():
            with self.subTest(name):
                found = {}
                for processes in (4, 2, 3, 1):
                    job = self.train(c, {**SMALL, **extra}, workers=4, seed=3,
                                     workerProcesses=processes)
                    files = c.files(job.id)
                    found[processes] = (tensors(files["MODEL-small-N(0).safetensors"]),
                                        [evaluated(files[f"EV-small-N({rank}).csv"]) for rank in range(4)])
                    on = [p.node_id for p in job.placements if p.role == 1]
                    self.assertEqual(len(on), 4)
                    self.assertEqual(len(set(on)), processes)
                    self.assertEqual(job.progress.workers_alive, 4)
                    self.assertTrue(all(f"TR-small-N({rank}).csv" in files for rank in range(4)))
                for processes in (2, 3, 1):
                    self.assertEqual(found[processes], found[4], f"{processes} processes")

    def test_four_ranks_train_on_the_two_workers_that_there_are(self):
        c = self.cluster(workers=2, pservers=1)
        job = self.train(c, SMALL, workers=4, workerProcesses=2)
        summary = json.loads(c.files(job.id)["summary.json"])
        ranks = [[r["rank"] for r in n["ranks"]] for n in summary["nodes"] if n["role"] == "worker"]
        self.assertEqual(sorted(ranks), [[0, 1], [2, 3]])

    def test_a_process_gives_the_files_of_a_hundred_ranks(self):
        c = self.cluster(workers=1, pservers=1)
        job = self.train(c, SMALL, workers=100, workerProcesses=1, epochs=1, blockSize=2,
                         data={"name": "glyphs", "trainLimit": 400, "testLimit": 20})
        files = c.files(job.id)
        for kind in ("TR", "EV"):
            self.assertTrue(all(f"{kind}-small-N({rank}).csv" in files for rank in range(100)))
        header, *rounds = files["ROUND-small.csv"].decode().splitlines()
        self.assertIn("steps_99", header)
        self.assertEqual([row.split(",")[3] for row in rounds], ["100", "100"])

    def test_a_process_that_dies_takes_all_of_its_ranks(self):
        c = self.cluster(workers=2, pservers=1)
        steady = {"rule": {"name": "sgd", "params": {"lr": 0.01}}}
        job = c.submit(SMALL, workers=4, workerProcesses=2, epochs=60, optimizer=steady,
                       consistency={"name": "asp"},
                       straggler={"name": "fixed", "params": {"rank": -1, "ms": 5}})
        c.wait(job.id, lambda j: j.progress.step > 5)
        self.assertEqual(c.get(job.id).progress.workers_alive, 4)
        c.workers[1].kill()
        job = c.wait(job.id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        self.assertEqual(job.progress.workers_alive, 2)

    def test_a_number_of_processes_that_cannot_be_is_refused(self):
        c = self.cluster(workers=1, pservers=1)
        with self.assertRaises(Exception) as e:
            c.submit(SMALL, workers=2, workerProcesses=3)
        self.assertIn("worker_processes", str(e.exception.details()) +
                      str(e.exception.trailing_metadata()))


if __name__ == "__main__":
    main()
