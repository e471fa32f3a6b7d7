# SPDX-License-Identifier: Apache-2.0
"""test_divergence.py - a job whose loss or weights become infinite or NaN is FAILED with the reason DIVERGED, whose message
names rank, step and variable: with every way of exchanging, on a cluster and by psgd train. With on_divergence ROLLBACK it
goes back to its last checkpoint at half the rate."""
import json
import os
import subprocess

from harness import BIN, ClusterTest, data_path, job_pb2, main
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


STEEP = 0.00015  # At this rate the error grows with each step; at half or a quarter of it the error falls.
SLOW_STEPS = {"straggler": {"name": "fixed", "params": {"rank": -1, "ms": 20}}, "checkpoint": {"everySteps": 5}}



def rollback(most):
    return {"recovery": {"onDivergence": "DIVERGENCE_ACTION_ROLLBACK", "maxRollbacks": most}}


class Divergence(ClusterTest):
    def specs(self):
        for name, more in CASES.items():
            yield name, {**WILD, "workers": 2, "pservers": 1, **more}
        if data_path():
            yield "tables", TABLES

    def psgd(self, c, *arguments):
        env = {**os.environ, "PSGD_COORDINATOR": c.coordinator.address}
        return subprocess.run([str(BIN / "psgd"), *arguments], capture_output=True, text=True, timeout=60,
                              env=env, check=False)

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

    def at(self, c, name, lr, **more):
        """The job at this rate, when it is over."""
        rule = "local" if name == "local updates" else "rule"
        optimizer = {rule: {"name": "sgd", "params": {"lr": lr}}}
        return c.wait(c.submit({**WILD, "workers": 2, "pservers": 1, **CASES[name], "optimizer": optimizer, **more}).id)

    def test_rolled_back_it_learns(self):
        """Without a checkpoint it begins anew, and becomes the job at the lower rate."""
        c = self.cluster(workers=2, pservers=1)
        for name in ("f32", "int8", "local updates", "mesh"):
            with self.subTest(name):
                job = self.at(c, name, STEEP, **rollback(3))
                self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_DONE", job.message)
                self.assertGreater(job.rollbacks, 0)
                self.assertEqual((job.attempt, job.restarts), (1 + job.rollbacks, 0))
                self.assertEqual([r.reason for r in job.recoveries], ["DIVERGED"] * job.rollbacks)
                lower = self.at(c, name, STEEP / 2 ** job.rollbacks)
                self.assertEqual(job.result["loss"], lower.result["loss"])
                self.assertEqual(job.progress.rollbacks, job.rollbacks)
                shown = self.psgd(c, "get", job.id).stdout
                self.assertIn("rolled back to step 0, rate halved (DIVERGED)", shown)
                self.assertIn(f"{job.rollbacks} rollback", shown)

    def test_it_goes_back_to_a_checkpoint_and_only_so_often(self):
        c = self.cluster(workers=2, pservers=1)
        job = self.at(c, "f32", STEEP, **SLOW_STEPS, **rollback(1))
        self.check(job_pb2.JobState.Name(job.state), job.reason, job.message)
        self.assertEqual((job.rollbacks, job.attempt), (1, 2))
        self.assertGreater(job.recoveries[0].from_step, 0)
        self.assertGreater(job.progress.checkpoints, 0)
        self.assertGreater(job.progress.seconds_lost, 0)

    def test_a_job_without_checkpoints_cannot_roll_back(self):
        c = self.cluster(workers=2, pservers=1)
        out = self.psgd(c, "submit", "--consistency", "backup", "--workers", "2", "--on-divergence", "rollback")
        self.assertIn("recovery.on_divergence", out.stderr)
        self.assertIn("only consistency bsp, asp, ssp, dssp,", out.stderr)

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
