#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs with trackers: what an MLflow server gets, and that a bad one costs neither a job nor the
coordinator anything. The server is a stub that enforces the documented bounds (mlflow_stub.py)."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

import grpc

import mlflow_stub
import test_local
from harness import BIN, ENDLESS, PATIENCE, SMALL, ClusterTest, coordinator_pb2, job_pb2, main

# Steps of 25 ms: an evaluation each quarter of a second.
PACED = {**SMALL, "title": "paced", "evalEverySteps": 10,
         "straggler": {"name": "fixed", "params": {"ms": 25}}}

# One that fails at once.
WILD = {**SMALL, "title": "wild", "model": {"preset": "linear", "loss": "mse"},
        "data": {"name": "simlin", "trainLimit": 2000, "testLimit": 500},
        "optimizer": {"rule": {"name": "sgd", "params": {"lr": 1000}}}}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Trackers(ClusterTest):
    def stub(self, **options):
        stub = mlflow_stub.Stub(**options)
        self.addCleanup(stub.close)
        return stub

    def start(self, workers=1, **options):
        c = self.cluster(workers=workers, pservers=1, **options)
        c.wait_nodes(workers + 1)
        return c

    def notes(self, c):
        """The jobs and trackers that something is left to send to."""
        folder = c.coordinator.data_dir / "trackers"
        return sorted(os.listdir(folder)) if folder.exists() else []

    def ended(self, c, stub, job_id, status):
        c.poll(f"the run of {job_id} is {status}", lambda: stub.status(job_id) == status)
        c.poll("nothing is left to send", lambda: not [n for n in self.notes(c) if n.startswith(job_id)])
        self.assertEqual(stub.faults, [])

    def evaluations(self, c, job_id):
        """[(step, accuracy)] by the report of the worker."""
        report = next(text for name, text in c.files(job_id).items() if name.startswith("EV-"))
        lines = [line.split(",") for line in report.decode().splitlines()]
        step, accuracy = lines[0].index("step"), lines[0].index("accuracy")
        return [(int(line[step]), float(line[accuracy])) for line in lines[1:]]

    def test_a_run_has_the_parameters_metrics_and_files_of_the_job(self):
        c, stub, down = self.start(), self.stub(), free_port()
        job = c.submit(SMALL, tracker=[stub.url + "/", f"mlflow:http://127.0.0.1:{down}"], seed=7)
        job = c.wait(job.id)  # the other tracker is down: the job does not know
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE)
        self.ended_one(c, stub, job)
        run = stub.run_of(job.id)
        self.assertEqual((run["info"]["run_name"], stub.experiments), (job.id, {"small": "1"}))
        self.assertEqual(run["info"]["end_time"], job.end_time.ToMilliseconds())
        params = run["params"]
        self.assertEqual([params[k] for k in ("optimizer.rule.name", "optimizer.rule.params.lr", "seed",
                                              "model.widths.0", "block_size")], ["adam", "0.002", "7", "16", "50"])
        self.assertNotIn("tracker.0", params)
        points = stub.points(job.id, "test/accuracy")
        self.assertEqual([(s, round(v, 6)) for s, v in points],
                         [(s, round(v, 6)) for s, v in self.evaluations(c, job.id)])
        self.assertEqual(len(points), 8)
        steps = [s for s, _ in stub.points(job.id, "train/loss")]
        self.assertEqual((steps, steps[-1]), (sorted(set(steps)), job.progress.step))
        sent = {name.split("/artifacts/")[1]: text for name, text in stub.artifacts.items()}
        self.assertEqual(sent, {k: v for k, v in c.files(job.id).items() if k in {a.name for a in job.artifacts}})
        self.assertEqual(self.notes(c), [f"{job.id}.1"])  # for the tracker that is down

    def ended_one(self, c, stub, job):
        c.poll("the run is over", lambda: stub.status(job.id) == "FINISHED")
        c.poll("its note is gone", lambda: f"{job.id}.0" not in self.notes(c))
        self.assertEqual(stub.faults, [])

    def test_a_job_of_psgd_train_has_a_run_for_each_training(self):
        f, stub = test_local.Folder(self), self.stub(login="Bearer secret")
        f.env["MLFLOW_TRACKING_TOKEN"] = "secret"
        spec = f.spec({**SMALL, "tracker": [stub.url]})
        for runs in (1, 2):
            code, out, err = f.run("--format", "json", "train", spec, "--out", "here")
            self.assertEqual((code, stub.faults, len(stub.runs)), (0, [], runs), err)
            said = json.loads(out)
            ran = stub.runs[said["tracker_runs"][0]["run_id"]]
            job_id = ran["tags"]["psgd_job"]
            self.assertRegex(job_id, r"^small-local-\d{13}$")
            self.assertEqual((ran["info"]["status"], ran["params"]["model.widths.0"]), ("FINISHED", "16"))
            lines = [line.split(",") for line in (f.path / "here/EV-small-N(0).csv").read_text().splitlines()]
            step, accuracy = lines[0].index("step"), lines[0].index("accuracy")
            self.assertEqual([(s, round(v, 6)) for s, v in stub.points(job_id, "test/accuracy")],
                             [(int(line[step]), round(float(line[accuracy]), 6)) for line in lines[1:]])
            self.assertEqual(stub.points(job_id, "train/loss")[-1][0], int(said["progress"]["step"]))
            files = {name.split("/artifacts/")[1]: text for name, text in stub.artifacts.items() if ran["info"]["run_id"] in name}
            self.assertEqual(files, {a["name"]: (f.path / "here" / a["name"]).read_bytes() for a in said["artifacts"]})

    def test_psgd_train_waits_for_a_tracker_that_hangs_until_it_is_interrupted(self):
        f, stub = test_local.Folder(self), self.stub()
        stub.mode = "hang"
        args = f.command("train", f.spec({**SMALL, "tracker": [stub.url]}), "--out", "here")
        with subprocess.Popen(args, cwd=f.path, env=f.env, stdout=subprocess.PIPE, text=True) as p:
            end = time.monotonic() + 20 * PATIENCE
            while not (f.path / "here/manifest.json").exists() and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(0.5)
            self.assertIsNone(p.poll())  # it waits
            p.send_signal(signal.SIGINT)
            out = p.communicate(timeout=5 * PATIENCE)[0]
        self.assertEqual(p.returncode, 0, out)
        self.assertIn(f"tracker   {stub.url}: it did not answer", out)

    def cancel(self, c, job_id):
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job_id), timeout=10 * PATIENCE)
        c.wait(job_id)

    def test_ends_of_jobs_are_ends_of_runs(self):
        c, stub = self.start(), self.stub()
        job = c.submit(ENDLESS, tracker=[stub.url])
        c.poll("a run", lambda: stub.status(job.id) == "RUNNING")
        self.cancel(c, job.id)
        self.ended(c, stub, job.id, "KILLED")
        c.wait_idle()
        job = c.submit(WILD, tracker=[stub.url])
        self.assertEqual(c.wait(job.id).reason, "DIVERGED")
        self.ended(c, stub, job.id, "FAILED")

    def test_trackers_that_hang_or_fail_cost_a_job_nothing(self):
        c, stub = self.start(), self.stub()
        stub.mode = "hang"
        job = c.submit(ENDLESS, tracker=[stub.url])
        c.poll("it is asked", lambda: stub.asked)
        step = c.get(job.id).progress.step
        began = time.monotonic()
        c.wait(job.id, until=lambda j: j.progress.step > step + 200)
        took = max(self.took(c.get, job.id) for _ in range(50))
        self.assertLess(took, 0.5 * PATIENCE)
        began = time.monotonic()
        c.coordinator.stop()  # while a request hangs
        self.assertLess(time.monotonic() - began, 5 * PATIENCE)
        asked = len(stub.asked)
        c.restart_coordinator()
        c.poll("it is asked again", lambda: len(stub.asked) > asked)
        for mode in ("500", "429"):
            asked = len(stub.asked)
            stub.mode = mode
            c.poll(f"it is asked in mode {mode}", lambda: any(a[2] == mode for a in stub.asked[asked:]), 60)
        stub.release.set()
        stub.mode = ""
        c.poll("values", lambda: stub.points(job.id, "train/loss"))
        self.assertEqual(stub.faults, [])
        self.cancel(c, job.id)

    def took(self, call, *args):
        began = time.monotonic()
        call(*args)
        return time.monotonic() - began

    def test_a_restart_goes_on_with_the_run(self):
        c, stub = self.start(), self.stub()
        job = c.submit(PACED, tracker=[stub.url], epochs=5)
        c.poll("evaluations", lambda: len(stub.points(job.id, "test/accuracy")) >= 6)
        first = stub.run_of(job.id)["info"]["run_id"]
        c.coordinator.kill()
        unfinished = c.coordinator.data_dir / "trackers" / f".{job.id}.0.1.1.tmp"
        unfinished.write_text("{")  # as a process leaves it that is killed while it writes
        c.restart_coordinator()
        c.poll("evaluations after it", lambda: len(stub.points(job.id, "test/accuracy")) >= 10)
        stub.mode = "500"  # from now on until the job is over, and the coordinator started once more
        self.assertEqual(c.wait(job.id).state, job_pb2.JOB_STATE_DONE)
        self.assertEqual(self.notes(c), [f"{job.id}.0"])
        self.assertEqual(c.get(job.id).tracker_runs[0].run_id, first)
        c.coordinator.kill()
        c.restart_coordinator()
        stub.mode = ""
        self.ended(c, stub, job.id, "FINISHED")
        self.assertEqual(stub.run_of(job.id)["info"]["run_id"], first)
        # Each evaluation is there. Those of the last batch before a kill may be there twice: a second has 4.
        points = stub.points(job.id, "test/accuracy")
        self.assertEqual(sorted({(s, round(v, 6)) for s, v in points}),
                         [(s, round(v, 6)) for s, v in self.evaluations(c, job.id)])
        self.assertLessEqual(len(points) - len(set(points)), 4)

    def test_what_is_refused_is_said_once(self):
        c, stub = self.start(), self.stub(files="s3://bucket")
        job = c.submit(SMALL, tracker=[stub.url])
        c.wait(job.id)
        self.ended(c, stub, job.id, "FINISHED")
        self.assertEqual(stub.artifacts, {})
        self.assertEqual(c.coordinator.log().count("files are not sent"), 1)
        stub.mode = "400"
        job = c.submit(ENDLESS, tracker=[stub.url])
        job = c.wait(job.id, until=lambda j: j.tracker_runs and j.tracker_runs[0].message != "")
        self.assertEqual(job.tracker_runs[0].message,
                         "nothing more is sent: it answers HTTP 400 BROKEN: as it was told to")
        c.wait(job.id, until=lambda j: j.progress.step > job.progress.step + 500)
        self.assertEqual(c.coordinator.log().count("nothing more is sent"), 1)
        self.cancel(c, job.id)

    def refused(self, c, url):
        with self.assertRaises(grpc.RpcError) as e:
            c.submit(SMALL, tracker=[url])
        self.assertEqual(e.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        return e.exception.details()

    def test_only_allowed_addresses_are_called(self):
        stub = self.stub()
        c = self.start(coordinator_args=["--tracker-allow", "mlflow.example:5000,127.0.0.1:1"])
        self.assertIn(f"--tracker-allow 127.0.0.1:{stub.port}", self.refused(c, stub.url))
        self.assertIn("without a name or password", self.refused(c, "mlflow:http://me:secret@127.0.0.1:1"))
        self.assertIn("--tracker-allow mlflow.example:5001", self.refused(c, "mlflow:http://mlflow.example:5001"))
        c.submit(SMALL, tracker=["mlflow:http://127.0.0.1:1/x"])
        open_ = self.cluster(workers=0, pservers=0, place=lambda name: {"host": "0.0.0.0"},
                             coordinator_args=["--advertise", "127.0.0.1"])
        self.assertIn(f"--tracker-allow 127.0.0.1:{stub.port}", self.refused(open_, stub.url))
        self.assertEqual(stub.asked, [])

    def test_logins_reach_their_tracker_and_no_log(self):
        token, user = self.stub(login="Bearer sesame-31"), self.stub(login="Basic YW5uOm9wZW4tNDI=")
        with tempfile.TemporaryDirectory() as folder:
            logins = pathlib.Path(folder) / "logins"
            logins.write_text(f"# who\n127.0.0.1:{user.port} password ann open-42\n")
            logins.chmod(0o644)
            args = ["--tracker-logins", logins, "--log-level", "debug"]
            end = subprocess.run([BIN / "psgd-coordinator", "--listen", "127.0.0.1:0", "--data-dir", folder, *args],
                                 capture_output=True, text=True, timeout=20 * PATIENCE)
            self.assertEqual(end.returncode, 1)
            self.assertIn("it has secrets and mode 0644; 0600 is allowed", end.stderr)
            logins.chmod(0o600)
            c = self.start(coordinator_env={"MLFLOW_TRACKING_TOKEN": "sesame-31"}, coordinator_args=args)
        job = c.submit(SMALL, tracker=[token.url, user.url])
        c.wait(job.id)
        self.ended(c, token, job.id, "FINISHED")
        self.ended(c, user, job.id, "FINISHED")
        for secret in ("sesame-31", "open-42", "YW5uOm9wZW4tNDI"):
            self.assertNotIn(secret, c.coordinator.log())


if __name__ == "__main__":
    main()
