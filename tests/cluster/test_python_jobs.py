#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_python_jobs.py - the Python package psgd submits, follows, cancels and downloads jobs of a real cluster."""
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients/python"))
import harness  # which imports psgd.v1, the messages that protoc makes, beside the package

os.environ["PATH"] = os.environ["PSGD_BIN"] + ":" + os.environ["PATH"]

import psgd

JOB = {"title": "t", "workers": 1, "pservers": 1, "epochs": 2, "model": {"preset": "mlp"},
       "data": {"name": "glyphs", "train_limit": 256, "test_limit": 64}}


class Jobs(harness.ClusterTest):
    def test_a_job_from_its_submission_to_its_model(self):
        c = self.cluster(workers=1, pservers=1)
        where = {"coordinator": c.coordinator.address}
        job = psgd.submit(JOB, **where)
        events = list(psgd.watch(job, **where))
        self.assertEqual([e["sequence"] for e in events], sorted({e["sequence"] for e in events}))
        self.assertEqual(events[-1]["job"]["state"], "JOB_STATE_DONE")
        self.assertEqual(psgd.get(job["id"], **where)["result"], events[-1]["job"]["result"])
        with tempfile.TemporaryDirectory() as folder:
            model, = psgd.download(job, folder, "MODEL-t-N(0).safetensors", **where)
            self.assertEqual(memoryview(psgd.safetensors.load(model)["dense0.weight"]).shape, (128, 784))
            self.assertGreater(len(psgd.download(job, folder, **where)), 5)
            spec = pathlib.Path(folder, "-job.yaml")
            spec.write_text("title: file\nworkers: 1\npservers: 1\nmax_steps: 1\nmodel: {preset: linear}\n"
                            "data: {name: glyphs, train_limit: 64, test_limit: 64}\n")
            self.assertTrue(psgd.submit(spec, **where)["id"].startswith("file-"))

    def test_events_come_while_the_job_runs_and_it_can_be_cancelled(self):
        c = self.cluster(workers=1, pservers=1)
        where = {"coordinator": c.coordinator.address}
        job = psgd.submit({**JOB, "epochs": 100000}, **where)
        for event in psgd.watch(job, **where):  # left: the job goes on
            if event["job"].get("progress", {}).get("step", 0) > 0:
                break
        self.assertEqual(psgd.get(job, **where)["state"], "JOB_STATE_RUNNING")
        psgd.cancel(job, **where)
        last = list(psgd.watch(job, **where))[-1]
        self.assertEqual(last["job"]["state"], "JOB_STATE_CANCELLED")

    def test_errors_say_what_is_wrong(self):
        c = self.cluster(workers=1, pservers=1)
        where = {"coordinator": c.coordinator.address}
        for code, text, ask in (
                (4, "workers: is 100000", lambda: psgd.submit({**JOB, "workers": 100000}, **where)),
                (4, "spec.model.preset: is \"mlpp\"; did you mean \"mlp\"", lambda: psgd.submit({**JOB, "model": {"preset": "mlpp"}}, **where)),
                (1, "nothere", lambda: psgd.get("nothere", **where)),
                (1, "nothere", lambda: list(psgd.watch("nothere", **where))),
                (2, "127.0.0.1:1", lambda: psgd.get("x", coordinator="127.0.0.1:1"))):
            with self.assertRaises(psgd.CommandError) as caught:
                ask()
            self.assertIn(text, str(caught.exception))
            self.assertEqual(caught.exception.code, code, caught.exception)
        for wrong in ("--all", "", None, "a/b", {"id": "-x"}):
            with self.assertRaisesRegex(ValueError, "is allowed"):
                psgd.cancel(wrong, **where)
        with self.assertRaisesRegex(ValueError, "names of files are allowed"):
            psgd.download("x", "out", "--help", **where)


if __name__ == "__main__":
    unittest.main()
