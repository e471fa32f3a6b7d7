#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_python_jobs.py - the Python package psgd submits, follows, cancels and downloads jobs of a real cluster."""
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients/python"))
import harness  # which imports psgd.v1, the messages that protoc makes, beside the package

os.environ["PATH"] = os.environ["PSGD_BIN"] + ":" + os.environ["PATH"]

import psgd
from psgd import _curve

try:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
except ImportError:
    InteractiveShell = None

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

    @unittest.skipUnless(InteractiveShell, "no python3-ipython")
    def test_a_notebook_shows_the_curves_while_they_grow(self):
        c = self.cluster(workers=1, pservers=1)
        where = {"coordinator": c.coordinator.address}
        self.assertIsNone(_curve._display())  # a plain program shows nothing
        shell = InteractiveShell.instance()
        self.addCleanup(InteractiveShell.clear_instance)
        notebook = json.loads((pathlib.Path(__file__).resolve().parents[2] / "clients/examples/python/watch_job.ipynb").read_text())
        with tempfile.TemporaryDirectory() as folder, capture_output() as shown, unittest.mock.patch.dict(
                os.environ, PSGD_COORDINATOR=c.coordinator.address):
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    source = "".join(cell["source"]).replace(".plot()", ".plot(every=0)").replace('"results"', repr(folder))
                    self.assertTrue(shell.run_cell(source).success, source)
            self.assertTrue(all(path.exists() for path in shell.user_ns["files"]))
        curve, pictures = shell.user_ns["curve"], [output for output in shown.outputs if "image/svg+xml" in output.data]
        self.assertGreater(len(pictures), 2)
        self.assertEqual(len({picture.transient["display_id"] for picture in pictures}), 1)  # in one place
        self.assertEqual([bool(picture.update) for picture in pictures], [False] + [True] * (len(pictures) - 1))
        tree = xml.etree.ElementTree.fromstring(pictures[-1].data["image/svg+xml"])
        self.assertEqual(len(tree.findall("{*}polyline")), len(curve.points))
        self.assertIn("DONE", pictures[-1].data["text/plain"])
        last = psgd.get(job := shell.user_ns["job"], **where)
        self.assertEqual(curve.points["test accuracy"][-1], (last["result_step"], last["result"]["accuracy"]), job)
        for points in curve.points.values():
            self.assertEqual([step for step, _ in points], sorted({step for step, _ in points}))

    def test_a_job_that_goes_back_has_no_step_twice(self):
        curve = psgd.Curve()
        for step, loss in ((1, 3.0), (2, 2.0), (3, 1.0), (2, 2.5), (3, float("nan")), (4, 0.5)):
            curve.add({"job": {"id": "<j>", "state": "JOB_STATE_RUNNING", "progress": {"step": step, "loss": loss}}})
        self.assertEqual(curve.points["loss"], [(1, 3.0), (2, 2.0), (4, 0.5)])
        self.assertIn("&lt;j&gt; RUNNING", curve.svg())
        xml.etree.ElementTree.fromstring(psgd.Curve().svg())

    def test_metrics_of_programs_are_curves_of_their_own(self):
        curve = psgd.Curve()
        for step, metrics in ((1, {}), (2, {"grad_loss": 5.0}), (3, {"grad_loss": 4.0, "rare": 1.0})):
            curve.add({"job": {"progress": {"step": step, "loss": 1.0, "accuracy": "NaN", "program_metrics": metrics}}})
        self.assertEqual(curve.points, {"loss": [(1, 1.0), (2, 1.0), (3, 1.0)], "grad_loss": [(2, 5.0), (3, 4.0)], "rare": [(3, 1.0)]})
        self.assertEqual(len(xml.etree.ElementTree.fromstring(curve.svg()).findall("{*}rect")), 3)  # a panel each: they differ in size

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
