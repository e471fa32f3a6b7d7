# SPDX-License-Identifier: Apache-2.0
"""test_init.py - jobs that start from a model that is there."""
import csv
import io
import os
import pathlib
import struct
import tempfile

import grpc

from harness import SMALL, ClusterTest, coordinator_pb2, job_pb2, main, tensors

# Steps so small that what comes out is what went in.
STILL = {**SMALL, "title": "still", "epochs": 1,
         "optimizer": {"rule": {"name": "sgd", "params": {"lr": 1e-9}}}}


class Init(ClusterTest):
    def done(self, c, spec, **fields):
        job = c.wait(c.submit(spec, **fields).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        return job

    def refused(self, c, words, **fields):
        """The submission is refused because of init_from, and the reason has these words."""
        with self.assertRaises(grpc.RpcError) as e:
            c.submit({**STILL, **fields})
        self.assertEqual(e.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("spec.init_from", e.exception.details())
        for word in words:
            self.assertIn(word, e.exception.details())

    def evaluations(self, c, job):
        rows = csv.DictReader(io.StringIO(c.files(job.id)[
            f"EV-{job.spec.title}-N(0).csv"].decode()))
        return [float(row["accuracy"]) for row in rows]

    def test_training_goes_on_from_the_accuracy_reached(self):
        c = self.cluster(workers=2, pservers=2)
        first = self.done(c, SMALL, workers=2, pservers=2)
        reached = first.result["accuracy"]
        self.assertGreater(reached, 0.6)
        # Drawn weights know nothing, and such steps teach nothing.
        self.assertLess(self.done(c, STILL).result["accuracy"], 0.3)
        # The same steps from the model that was left; cut over another number of servers.
        for shape in ({}, {"workers": 2, "pservers": 2}):
            job = self.done(c, STILL, init_from=f"job:{first.id}", **shape)
            self.assertAlmostEqual(job.result["accuracy"], reached, delta=0.003)
            self.assertAlmostEqual(job.result["loss"], first.result["loss"], delta=0.003)
            self.assertEqual(c.get(job.id).spec.init_from, f"job:{first.id}")
        # Trained on, it gets better than it was, from its first epoch.
        more = self.done(c, SMALL, epochs=4, init_from=f"job:{first.id}")
        curve = self.evaluations(c, more)
        self.assertGreater(curve[0], reached - 0.05)
        self.assertGreater(max(curve), reached)

    def test_a_file_below_the_data_path(self):
        with tempfile.TemporaryDirectory() as folder:
            data = pathlib.Path(folder, "data")
            (data / "models").mkdir(parents=True)
            c = self.cluster(workers=1, pservers=1, data=str(data))
            first = self.done(c, SMALL, epochs=3)
            model = c.files(first.id)["MODEL-small-N(ps).safetensors"]
            (data / "models/m.safetensors").write_bytes(model)
            job = self.done(c, STILL, init_from="models/m.safetensors")
            self.assertAlmostEqual(job.result["accuracy"], first.result["accuracy"], delta=0.003)
            # To the bit, when the steps are too small for float32.
            exact = {**STILL, "optimizer": {"rule": {"name": "sgd", "params": {"lr": 1e-30}}}}
            job = self.done(c, exact, init_from="models/m.safetensors")
            self.assertEqual(tensors(c.files(job.id)["MODEL-still-N(ps).safetensors"]),
                             tensors(model))
            # What is not there, leads away, or is another model, is told at once.
            self.refused(c, ["nothing.safetensors"], init_from="models/nothing.safetensors")
            pathlib.Path(folder, "secret.safetensors").write_bytes(model)
            os.symlink("../secret.safetensors", data / "away.safetensors")
            self.refused(c, ["away.safetensors leads out"], init_from="away.safetensors")
            self.refused(c, ["is \"../secret"], init_from="../secret.safetensors")
            self.refused(c, ["\"dense0.weight\"", "expected [17, 784]", "found [16, 784]"],
                         init_from="models/m.safetensors",
                         model={"preset": "mlp", "widths": [17]})
            (data / "half.safetensors").write_bytes(model[:100])
            self.refused(c, ["half.safetensors", "a header of"], init_from="half.safetensors")
            # Values are looked at when the job starts.
            at = 8 + struct.unpack_from("<Q", model)[0]
            (data / "nan.safetensors").write_bytes(
                model[:at + 4] + struct.pack("<f", float("nan")) + model[at + 8:])
            job = c.wait(c.submit({**STILL, "init_from": "nan.safetensors"}).id)
            self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_FAILED, "INIT_REFUSED"))
            self.assertIn("value 1 is nan", job.message)
            c.wait_idle()

    def test_a_job_that_has_no_model_is_refused(self):
        c = self.cluster(workers=1, pservers=1)
        self.refused(c, ["no-such-1"], init_from="job:no-such-1")
        self.refused(c, ["no --data-path"], init_from="models/m.safetensors")
        endless = c.submit({**SMALL, "epochs": 100000})
        c.wait_state(endless.id, job_pb2.JOB_STATE_RUNNING)
        self.refused(c, [endless.id, "RUNNING"], init_from=f"job:{endless.id}")
        waiting = c.submit(SMALL)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=waiting.id))
        c.wait(waiting.id)
        self.refused(c, ["CANCELLED", "no model"], init_from=f"job:{waiting.id}")
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=endless.id))
        c.wait(endless.id)
        # A model that is deleted while the job that wants it waits.
        first = self.done(c, SMALL, epochs=1)
        blocker = c.submit({**SMALL, "epochs": 100000})
        c.wait_state(blocker.id, job_pb2.JOB_STATE_RUNNING)
        waiting = c.submit({**STILL, "init_from": f"job:{first.id}"})
        c.api.DeleteJob(coordinator_pb2.DeleteJobRequest(job_id=first.id))
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=blocker.id))
        job = c.wait(waiting.id)
        self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_FAILED, "INIT_REFUSED"))
        self.assertIn(first.id, job.message)


if __name__ == "__main__":
    main()
