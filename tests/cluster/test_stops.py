# SPDX-License-Identifier: Apache-2.0
"""test_stops.py - what ends a job beside its epochs: steps, a time, a goal; and jobs that go up the
loss. Command lines are those of test_fidelity.py."""
import csv
import json
import os
import pathlib
import shutil
import tempfile
import time

from fidelity import ARGUMENTS, OK, Fidelity
from harness import PATIENCE, SMALL, data_path, evaluated, job_pb2, main


def weights(model):
    """The bytes of a safetensors file behind its head, which names the job."""
    return model[8 + int.from_bytes(model[:8], "little"):]


# What a job of the tests below is trained on, and two ways of exchange.
STOPPED = {**SMALL, "title": "stopped", "workers": 2}
WAYS = {"servers": {"pservers": 2}, "mesh": {"exchange": {"name": "ring"}}}
LOCAL_ROUNDS = {"update": {"name": "localsgd", "params": {"steps": 4}},
                "optimizer": {"local": {"name": "sgd", "params": {"lr": 0.1}},
                              "rule": {"name": "sgd", "params": {"lr": 1}}}}


class Stops(Fidelity):
    """target_acc of Parallel-SGD, all_iterations of JSAC2020, and a bound of time."""

    def setUp(self):
        self.c = self.cluster(workers=2, pservers=2)
        self.folder = self.c.folder

    def done(self, spec):
        """A job of the cluster that is done, with its files."""
        job = self.c.wait(self.c.submit(spec).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        return job, self.c.files(job.id)

    def trained(self, spec):
        """The same by psgd train."""
        (self.folder / "job.json").write_text(json.dumps(spec))
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        job = self.train("job.json")
        return job, {p.name: p.read_bytes() for p in (self.folder / "out").iterdir() if p.is_file()}

    def rows(self, files, kind, rank=0):
        return list(csv.DictReader(files[f"{kind}-stopped-N({rank}).csv"].decode().splitlines()))

    def check_whole(self, files, way):
        """All ranks end at the same step, are evaluated there, and the model is there."""
        steps = [[int(r["step"]) for r in self.rows(files, "TR", rank)] for rank in (0, 1)]
        self.assertEqual(steps[0][-1], steps[1][-1])
        for rank in (0, 1):
            self.assertEqual(steps[rank], list(range(1, len(steps[rank]) + 1)))
            self.assertEqual(int(self.rows(files, "EV", rank)[-1]["step"]), steps[rank][-1])
        self.assertIn("MODEL-stopped-N(0).safetensors", files)
        self.assertEqual(way != "mesh", "MODEL-stopped-N(ps).safetensors" in files)
        self.check_last_rows(files)
        return steps[0][-1]

    def check_last_rows(self, files):
        """The last row of each worker has all that it sent and received: together they are the job's traffic."""
        progress = json.loads(files["summary.json"])["progress"]
        last = [self.rows(files, "TR", rank)[-1] for rank in (0, 1)]
        for way in ("bytes_up", "bytes_down"):
            self.assertEqual(sum(int(row[way]) for row in last), int(progress[way]), way)

    def test_a_number_of_steps(self):
        for way, choice in WAYS.items():
            with self.subTest(way=way):
                spec = {**STOPPED, **choice, "maxSteps": 27}
                job, files = self.done(spec)
                self.assertEqual((job.reason, job.message),
                                 ("MAX_STEPS", "ended by max_steps at step 27 of 27"))
                self.assertEqual(self.check_whole(files, way), 27)
                local, own = self.trained(spec)
                self.assertEqual((local["state"], local["reason"], local["message"]),
                                 ("JOB_STATE_DONE", "MAX_STEPS", job.message))
                for name in files:
                    if name.startswith("EV"):
                        self.assertEqual(evaluated(files[name]), evaluated(own[name]), name)
                    if name.endswith(".safetensors"):
                        self.assertEqual(weights(files[name]), weights(own[name]), name)

    def test_steps_decide_the_epochs_and_the_schedule(self):
        job, _ = self.trained({**STOPPED, "epochs": 0, "maxSteps": 50})
        self.assertEqual(job["spec"]["epochs"], 3)
        self.assertEqual(job["progress"]["step"], 50)
        falls = {**SMALL["optimizer"], "schedule": {"name": "polynomial"}}
        halves = {name: self.trained({**STOPPED, "optimizer": falls, **bound})[1]
                  for name, bound in (("steps", {"maxSteps": 20}), ("epochs", {"epochs": 1}))}
        self.assertEqual(*(weights(files["MODEL-stopped-N(ps).safetensors"])
                           for files in halves.values()))

    def test_a_goal(self):
        goal = {"metric": "accuracy", "value": 0.8}
        for way, choice in WAYS.items():
            with self.subTest(way=way):
                spec = {**STOPPED, **choice, "epochs": 60, "stopAt": goal, "evalEverySteps": 7}
                job, files = self.done(spec)
                self.assertEqual(job.reason, "STOP_AT", job.message)
                self.assertRegex(job.message, r"ended by stop_at at step \d+ of 1200: accuracy "
                                              r"0\.8\d* has reached 0\.8$")
                self.check_whole(files, way)
                found = [float(row["accuracy"]) for row in self.rows(files, "EV")]
                self.assertGreaterEqual(found[-1], 0.8)
                self.assertLess(max(found[:-1]), 0.8)
                _, own = self.trained(spec)
                self.assertEqual(*(evaluated(f["EV-stopped-N(1).csv"]) for f in (files, own)))
                self.assertEqual(weights(files["MODEL-stopped-N(0).safetensors"]),
                                 weights(own["MODEL-stopped-N(0).safetensors"]))

    def test_a_goal_where_workers_do_not_see_the_same(self):
        """Less is better for a loss. The coordinator merges what the workers found."""
        ways = {"split": {"splitEvaluation": True, "exchange": {"name": "ring"}},
                "asp": {"consistency": {"name": "asp"}}, "ssp": {"consistency": {"name": "ssp"}},
                "rounds": LOCAL_ROUNDS, "redundancy": {
                    "assignment": {"name": "iid", "params": {"redundancy": 2}}}}
        for way, choice in ways.items():
            with self.subTest(way=way):
                spec = {**STOPPED, "epochs": 2000, "stopAt": {"metric": "loss", "value": 0.9},
                        **choice}
                job, files = self.done(spec)
                self.assertEqual(job.reason, "STOP_AT", job.message)
                self.assertIn("MODEL-stopped-N(0).safetensors", files)
                ends = {rank: self.rows(files, "EV", rank)[-1]["step"] for rank in (0, 1)}
                self.assertEqual(ends[0], ends[1])
                self.assertLess(int(ends[0]), 40000)
                local, _ = self.trained(spec)
                self.assertEqual(local["reason"], "STOP_AT", local["message"])

    def test_a_goal_that_is_not_reached(self):
        spec = {**STOPPED, "epochs": 1, "stopAt": {"value": 1.5}}
        for job in (self.done(spec)[0].message, self.trained(spec)[0]["message"]):
            self.assertRegex(job, r"^accuracy 0\.\d+ has not reached 1\.5$")

    def test_a_time(self):
        ways = {**WAYS, "asp": {"consistency": {"name": "asp"}}, "rounds": LOCAL_ROUNDS}
        for way, choice in ways.items():
            with self.subTest(way=way):
                spec = {**STOPPED, **choice, "epochs": 0, "maxSeconds": 1}
                job, files = self.done(spec)
                self.assertEqual(job.reason, "MAX_SECONDS", job.message)
                self.assertEqual(self.check_whole(files, way), job.progress.step)
                lasted = job.end_time.ToSeconds() - job.start_time.ToSeconds()
                self.assertLess(lasted, 1 + 20 * PATIENCE)
                local, own = self.trained(spec)
                self.assertEqual(local["reason"], "MAX_SECONDS", local["message"])
                self.check_whole(own, way)
        self.c.wait_idle()

    def test_a_time_that_passes_while_the_coordinator_is_away(self):
        spec = {**STOPPED, "epochs": 0, "maxSeconds": 2}
        job = self.c.submit(spec)
        self.c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        self.c.coordinator.kill()
        time.sleep(2.5)
        self.c.coordinator.start()
        job = self.c.wait(job.id)
        self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_DONE, "MAX_SECONDS"),
                         job.message)
        self.check_whole(self.c.files(job.id), "servers")

    def test_a_preset_s_epochs_do_not_end_it(self):
        if not data_path() or not os.path.exists(os.path.join(data_path(), "ctr/adult.csv")):
            self.skipTest("PSGD_DATA has no ctr/adult.csv")
        out = self.psgd("--format", "json", "train", "--preset", "fleet_ctr", "--data-path",
                        data_path(), "--max-seconds", 0.5, "--out", "out")
        job = json.loads(out)
        self.assertEqual((job["reason"], job["spec"]["epochs"]), ("MAX_SECONDS", 100000))

    def test_flags(self):
        out = self.psgd("submit", "--preset", "bsp", "-W", 2, "-P", 1, "--train-limit", 2000,
                        "--max-steps", 5, "--watch", coordinator=self.c.coordinator.address)
        self.assertIn("DONE: MAX_STEPS: ended by max_steps at step 5 of 5", out)
        for flags, words in (
                (("--max-steps", 5), "end       ended by max_steps at step 5 of 5"),
                (("--max-seconds", .2), "end       ended by max_seconds at step"),
                (("--stop-at", .05), "end       ended by stop_at at step"),
                (("--stop-at", "loss=3"), "has reached 3"),
                (("--target_acc", .05), "end       ended by stop_at at step")):
            with self.subTest(flags=flags):
                self.assertIn(words, self.psgd("train", "--preset", "bsp", "-W", 1, "--train-limit",
                                               2000, "--out", "out", *flags))

    def test_refusals(self):
        for flags, words in (
                (("--stop-at", "accurcy=0.9"),
                 'spec.stop_at.metric: is "accurcy"; did you mean "accuracy"?; allowed: loss, '
                 "accuracy (loss, and the metrics of the job: --metric or spec.metrics adds others)"),
                (("--stop-at", "auc=0.9"), "allowed: loss, accuracy"),
                (("--stop-at", "accuracy=x"), "--stop-at: "),
                (("--stop-at", "=1"), "METRIC=VALUE, as accuracy=0.95"),
                (("--max-steps", -1), "--max-steps: "),
                (("--max-steps", 10**13), "1 to 1000000000000 are allowed, or 0 for no limit"),
                (("--max-seconds", -2), "0.001 to 1000000000 are allowed, or 0 for no limit")):
            with self.subTest(flags=flags):
                said = self.psgd("train", "--preset", "bsp", *flags, code=ARGUMENTS)
                self.assertIn(words, said)


# What ends a job, by its reason, beside jobs that would go on for long.
BOUNDS = {"MAX_STEPS": {"maxSteps": 7, "epochs": 0}, "MAX_SECONDS": {"maxSeconds": 0.2, "epochs": 0},
          "STOP_AT": {"stopAt": {"metric": "loss", "value": 100}, "epochs": 1000, "evalEverySteps": 5}}
# What an update needs beside its name; others are as in JSAC2020 and Fleet.
NEEDS = {"gradient": {}, "gradient_average": {}, "dc_asgd": {"consistency": {"name": "asp"}}}
ROUND = 4  # local steps


class EveryMethod(Fidelity):
    """Each bound ends each update, and each exchange among workers, where it says it does."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def updates(self):
        """Those of this build, with short rounds."""
        for kind in json.loads(self.psgd("--format", "json", "info", "update")):
            names = [number["name"] for number in kind.get("params", [])]
            params = {"params": {"steps": ROUND}} if "steps" in names else {}
            yield kind["name"], {"update": {"name": kind["name"], **params},
                                 **NEEDS.get(kind["name"], {"optimizer": {}})}

    def exchanges(self):
        for kind in json.loads(self.psgd("--format", "json", "info", "exchange")):
            if kind["name"] != "pserver":
                mesh = {"exchange": {"name": kind["name"]}}
                yield kind["name"], mesh
                yield f"{kind['name']} in rounds", {**mesh, **LOCAL_ROUNDS}

    def check(self, reason, choice):
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "job.json").write_text(json.dumps(
            {**SMALL, "title": "stopped", "workers": 2, "pservers": 0 if "exchange" in choice else 1,
             "data": {"name": "glyphs", "trainLimit": 600, "testLimit": 100}, **BOUNDS[reason], **choice}))
        job = self.train("job.json")
        self.assertEqual((job["state"], job["reason"]), ("JOB_STATE_DONE", reason), job["message"])
        files = {p.name: p.read_text() for p in (self.folder / "out").glob("*.csv")}
        ends = []
        last = []
        for rank in (0, 1):
            rows = list(csv.DictReader(files[f"TR-stopped-N({rank}).csv"].splitlines()))
            ends.append(int(rows[-1]["step"]))
            last.append(rows[-1])
            self.assertEqual([int(row["step"]) for row in rows], list(range(1, ends[-1] + 1)))
            evaluated_at = list(csv.DictReader(files[f"EV-stopped-N({rank}).csv"].splitlines()))
            self.assertEqual(int(evaluated_at[-1]["step"]), ends[-1])
        self.assertEqual(ends[0], ends[1])
        self.assertEqual(ends[0], int(job["progress"]["step"]))
        if reason == "MAX_STEPS":
            self.assertEqual(ends[0], 7)
        elif reason == "STOP_AT":  # the first evaluation is enough
            self.assertGreaterEqual(ends[0], ROUND)
            if "consistency" not in choice:  # another worker may be further
                self.assertLessEqual(ends[0], 5 + 2 * ROUND)
        for way in ("bytes_up", "bytes_down"):
            self.assertEqual(sum(int(row[way]) for row in last), int(job["progress"][way]), way)
        self.assertTrue((self.folder / "out/MODEL-stopped-N(0).safetensors").exists())
        self.assertEqual("exchange" not in choice,
                         (self.folder / "out/MODEL-stopped-N(ps).safetensors").exists())

    def test_updates(self):
        for name, choice in self.updates():
            for reason in BOUNDS:
                with self.subTest(update=name, bound=reason):
                    self.check(reason, choice)

    def test_exchanges(self):
        for name, choice in self.exchanges():
            for reason in BOUNDS:
                with self.subTest(exchange=name, bound=reason):
                    self.check(reason, choice)


class Ascent(Fidelity):
    """Parallel-SGD took a negative rate: gradient ascent."""

    def setUp(self):
        self.c = self.cluster(workers=2, pservers=1)
        self.folder = self.c.folder

    def test_the_loss_rises(self):
        spec = {**SMALL, "title": "up", "workers": 2, "epochs": 1,
                "optimizer": {"rule": {"name": "sgd", "params": {"lr": 0.05}}, "maximise": True}}
        (self.folder / "job.json").write_text(json.dumps(spec))
        local = self.train("job.json")
        self.assertGreater(local["result"]["loss"], 3)
        job = self.c.wait(self.c.submit(spec).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        own = (self.folder / "out/MODEL-up-N(ps).safetensors").read_bytes()
        self.assertEqual(weights(self.c.files(job.id)["MODEL-up-N(ps).safetensors"]), weights(own))
        rounds = self.train("job.json", "--update", "localsgd", "-O", "sgd", "--lr", 0.5)
        self.assertGreater(rounds["result"]["loss"], 3)

    def test_a_negative_rate(self):
        for flag in ("--lr", "--learn_rate"):
            p = self.run_psgd("--format", "json", "train", "--preset", "bsp", "--train-limit", 640,
                              "-O", "sgd", flag, -0.01, "--out", "out")
            self.assertEqual(p.returncode, OK, p.stderr)
            self.assertIn(f"psgd: {flag} -0.01 is --maximise --lr 0.01 today", p.stderr)
            optimizer = json.loads(p.stdout)["spec"]["optimizer"]
            self.assertEqual((optimizer["maximise"], optimizer["rule"]["params"]["lr"]),
                             (True, 0.01))
        said = self.psgd("train", "--preset", "bsp", "-s", "optimizer.rule.params.lr=-1",
                         code=ARGUMENTS)
        self.assertIn("optimizer.maximise goes up the gradient (--maximise)", said)


if __name__ == "__main__":
    main()
