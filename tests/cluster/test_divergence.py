# SPDX-License-Identifier: Apache-2.0
"""test_divergence.py - a job whose loss or weights become infinite or NaN is FAILED with the reason DIVERGED, whose message
names rank, step and variable: with every way of exchanging, on a cluster and by psgd train."""
import json

from harness import ClusterTest, data_path, job_pb2, main
from test_local import SERVER, Folder
from test_tables import ADULT

# A line of regression whose error grows a thousandfold with each step.
WILD = {"title": "wild", "optimizer": {"rule": {"name": "sgd", "params": {"lr": 1000}}},
        "model": {"preset": "linear", "loss": "mse"}, "epochs": 10, "blockSize": 32,
        "data": {"name": "simlin", "trainLimit": 640, "testLimit": 100}}
CASES = {
    "f32": {},
    "int8": {"codec": {"up": {"name": "int8"}}},
    "topk": {"codec": {"up": {"name": "topk"}}},
    "local updates": {"update": {"name": "localsgd"}},
    "mesh": {"exchange": {"name": "ring"}, "pservers": 0},
    "asp": {"consistency": {"name": "asp"}},
}
TABLES = {**ADULT, "model": {**ADULT["model"], "table": {"name": "sparse"}},
          "optimizer": WILD["optimizer"], "workers": 2, "pservers": 1}


class Divergence(ClusterTest):
    def specs(self):
        for name, more in CASES.items():
            yield name, {**WILD, "workers": 2, "pservers": 1, **more}
        if data_path():
            yield "tables", TABLES

    def check(self, state, reason, message):
        self.assertEqual((state, reason), ("JOB_STATE_FAILED", "DIVERGED"), message)
        self.assertRegex(message, r"rank [01], (step|clock) \d+")
        self.assertRegex(message, r"(weight|bias)")
        self.assertIn("finite", message)

    def test_on_a_cluster(self):
        c = self.cluster(workers=2, pservers=1, data=data_path())
        for name, spec in self.specs():
            with self.subTest(name):
                job = c.wait(c.submit(spec).id)
                self.check(job_pb2.JobState.Name(job.state), job.reason, job.message)
                self.assertEqual(job.attempt, 1)  # tried again it would diverge again

    def test_by_psgd_train(self):
        for name, spec in self.specs():
            with self.subTest(name):
                f = Folder(self)
                f.env.update({"PSGD_DATA": str(data_path())} if data_path() else {})
                code, out, err = f.run("--format", "json", "train", f.spec(spec), "--out", "out")
                self.assertEqual(code, SERVER, out + err)
                job = json.loads(out)
                self.check(job["state"], job["reason"], job["message"])


if __name__ == "__main__":
    main()
