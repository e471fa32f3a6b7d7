# SPDX-License-Identifier: Apache-2.0
"""test_fidelity_jsac.py - what users of OSP, LOSP and DQLOSP expect: the record of rounds, schedules
of compensation and rates, at most K local steps."""
import csv
import io
import json

from fidelity import ARGUMENTS, Fidelity
from harness import ENDLESS, SMALL, SlowLink, evaluated, job_pb2, main, tensors


class Records(Fidelity):
    """What JSAC2020 recorded of each round, in one place."""

    SPEC = {**SMALL, "workers": 2, "update": {"name": "losp", "params": {"steps": 12}},
            "optimizer": {"local": {"name": "sgd", "params": {"lr": 0.1}}}, "eval_every_steps": 30}

    def rows(self, files, name):
        return list(csv.DictReader(io.StringIO(bytes(files[name]).decode())))

    def column(self, rows, name):
        return [float(row[name]) for row in rows if row[name] != ""]

    def check(self, job, files):
        """Its record says what the reports of the ranks say, and what the job counted."""
        title, progress = job["spec"]["title"], job["progress"]
        rounds = self.rows(files, f"ROUND-{title}.csv")
        total = int(progress["total_steps"])
        steps = 12
        self.assertEqual([int(r["round"]) for r in rounds], list(range(1, len(rounds) + 1)))
        self.assertEqual(len(rounds), -(-total // steps))
        self.assertEqual(int(rounds[-1]["iterations"]), 2 * total)
        self.assertEqual(int(progress["iterations"]), 2 * total)
        for rank in range(2):
            losses = self.column(self.rows(files, f"TR-{title}-N({rank}).csv"), "loss")
            self.assertEqual(self.column(rounds, f"steps_{rank}")[0], steps)
            for i, row in enumerate(rounds):
                own = losses[steps * i:steps * (i + 1)]
                self.assertEqual(int(row[f"steps_{rank}"]), len(own))
                self.assertAlmostEqual(float(row[f"loss_{rank}"]), sum(own) / len(own), 6)
        for way in ("up", "down"):
            self.assertEqual(sum(self.column(rounds, f"bytes_{way}")), int(progress[f"bytes_{way}"]))
        times = self.column(rounds, "time_s")
        self.assertEqual(times, sorted(times))
        self.assertTrue(all(x > 0 for x in self.column(rounds, "compute_s")))
        self.assertEqual(len(self.column(rounds, "exchange_s")), len(rounds))
        spent = sum(self.column(rounds, "compute_s_0")) + sum(self.column(rounds, "wait_s_0"))
        self.assertLess(spent, times[-1] + 0.5)
        evaluations = self.rows(files, f"EV-{title}-N(0).csv")
        self.assertGreater(len(evaluations), job["spec"]["epochs"])
        for ours, theirs in (("test_loss", "loss"), ("test_accuracy", "accuracy")):
            self.assertEqual([round(x, 7) for x in self.column(rounds, ours)],
                             [round(x, 7) for x in self.column(evaluations, theirs)])

    def test_a_round_is_a_row(self):
        self.c = self.cluster(workers=2, pservers=2)
        self.folder = self.c.folder
        job = self.c.wait(self.c.submit(self.SPEC).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        files = self.c.files(job.id)
        self.check(json.loads(files["summary.json"]), files)
        self.assertFalse([name for name in files if name.endswith(".part")])
        (self.folder / "job.json").write_text(json.dumps(self.SPEC))
        local = self.train("job.json")
        self.check(local, {f.name: f.read_bytes() for f in (self.folder / "out").glob("*.csv")})
        self.assertIn("ROUND-small.csv", [file["name"] for file in local["artifacts"]])
        self.assertFalse(list((self.folder / "out").glob("*.part")))

    def test_a_step_is_a_round_where_gradients_travel(self):
        self.folder = self.cluster(workers=0, pservers=0).folder
        for exchange in ("pserver", "ring"):
            with self.subTest(exchange=exchange):
                job = self.train("--preset", "bsp", "-t", "psgd", "-W", 3, "-E", 1,
                                 "--train-limit", 1280,
                                 "--exchange", exchange)
                rounds = self.rows({"r": (self.folder / "out/ROUND-psgd.csv").read_bytes()}, "r")
                self.assertEqual(len(rounds), int(job["progress"]["total_steps"]))
                self.assertEqual(set(self.column(rounds, "steps")), {3})
                self.assertEqual(sum(self.column(rounds, "bytes_up")),
                                 int(job["progress"]["bytes_up"]))

    def test_what_ended_early_has_its_record(self):
        self.c = self.cluster(workers=2, pservers=1)
        self.folder = self.c.folder
        for name, end in (("cancel", lambda job: self.psgd("cancel", job, coordinator=self.c.coordinator.address)),
                          ("kill", lambda job: self.c.workers[1].kill())):
            with self.subTest(name):
                job = self.c.submit({**ENDLESS, "workers": 2})
                self.c.wait(job.id, lambda j: j.progress.step > 20)
                end(job.id)
                job = self.c.wait(job.id)
                self.assertIn(job.state, (job_pb2.JOB_STATE_CANCELLED, job_pb2.JOB_STATE_FAILED))
                rounds = self.rows(self.c.files(job.id), "ROUND-endless.csv")
                self.assertGreater(len(rounds), 20)
                # Ranks train on while files are collected, from one a moment later than from
                # another. So each has all rounds up to an end of its own, and one has them all.
                ends = []
                for rank in (0, 1):
                    steps = [row[f"steps_{rank}"] for row in rounds]
                    ends.append(steps.count("1"))
                    self.assertEqual(steps, ["1"] * ends[rank] + [""] * (len(rounds) - ends[rank]))
                self.assertEqual(max(ends), len(rounds))
                self.assertGreater(ends[0], 20)
                self.assertEqual(rounds[5]["steps_1"], "" if name == "kill" else "1")
                self.assertGreaterEqual(int(rounds[-1]["iterations"]), len(rounds))


class Jsac(Fidelity):
    """What JSAC2020's config.json and its two hooks said."""

    LOSP = ("--preset", "losp", "-W", 2, "-E", 1, "--train-limit", 6400, "--local-steps", 4)

    def setUp(self):
        self.folder = self.cluster(workers=0, pservers=0).folder

    def model(self, *args):
        job = self.train(*self.LOSP, *args)
        return job, tensors((self.folder / "out/MODEL-losp-N(ps).safetensors").read_bytes())

    def test_compensation_and_rate_have_schedules(self):
        """get_worker_gamma and get_ps_lr; left out, or constant, no bit changes."""
        _, plain = self.model()
        schedule = "optimizer.compensation_schedule"
        _, constant = self.model("-s", f"{schedule}.name=constant")
        self.assertEqual(plain, constant)
        job, falling = self.model("-s", f"{schedule}.name=polynomial",
                                  "-s", f"{schedule}.params.end=0.5")
        self.assertNotEqual(plain, falling)
        self.assertGreater(job["result"]["accuracy"], 0.5)
        self.assertIn("update osp has no number compensation",
                      self.psgd("train", "--preset", "osp", "-s", f"{schedule}.name=step",
                                code=ARGUMENTS))
        _, slower = self.model("-s", "optimizer.schedule.name=polynomial")
        self.assertNotEqual(plain, slower)

    def test_every_worker_goes_through_the_whole_set(self):
        part = self.train("--preset", "localsgd", "-W", 4, "-E", 2, "--train-limit", 2560)
        whole = self.train("--preset", "localsgd", "-W", 4, "-E", 2, "--train-limit", 2560,
                           "--assignment", "whole")
        self.assertEqual(int(part["progress"]["total_steps"]), 2 * 2560 // 64 // 4)
        self.assertEqual(int(whole["progress"]["total_steps"]), 2 * 2560 // 64)
        self.assertEqual(int(whole["progress"]["iterations"]), 4 * 2 * 2560 // 64)
        self.assertGreater(whole["result"]["accuracy"], part["result"]["accuracy"])
        said = self.psgd("train", "--preset", "localsgd", "-W", 4, "--assignment", "whole",
                         "-s", "data.transforms[0].name=non_iid", code=ARGUMENTS)
        self.assertIn("each has all samples", said)


class AtMost(Fidelity):
    """K of OSP and LOSP: as many local steps as fit while a round is exchanged, at most K."""

    K = 32
    SPEC = {"title": "k", "workers": 2, "epochs": 4, "blockSize": 128, "evalEverySteps": 20,
            "model": {"widths": [64]}, "data": {"name": "glyphs", "trainLimit": 12800, "testLimit": 500},
            "optimizer": {"local": {"name": "sgd", "params": {"lr": 0.1}}},
            "update": {"name": "losp", "params": {"steps": K, "at_most": 1}}}

    def job(self, c, **fields):
        """The job, and the steps of both workers in each round."""
        job = c.wait(c.submit({**self.SPEC, **fields}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(job.message, "")
        files = c.files(job.id)
        rounds = list(csv.DictReader(io.StringIO(files["ROUND-k.csv"].decode())))
        steps = [int(row[f"steps_{rank}"]) for row in rounds for rank in range(2)]
        self.assertTrue(all(1 <= n <= self.K for n in steps), steps)
        self.assertEqual(sum(steps), job.progress.iterations)
        self.assertGreaterEqual(sum(steps), 2 * job.progress.total_steps)
        self.assertGreater(job.result["accuracy"], 0.6)
        for rank in range(2):
            rows = files[f"TR-k-N({rank}).csv"].decode().splitlines()
            self.assertEqual(len(rows) - 1, sum(steps[rank::2]))
        self.assertEqual(*(evaluated(files[f"EV-k-N({rank}).csv"]).count("\n") for rank in range(2)))
        return job, steps

    def test_steps_follow_the_speed_of_the_link(self):
        mean = {}
        for name, rate in (("loopback", None), ("slow", 3e6)):
            c = self.cluster(workers=2, pservers=0 if rate else 1)
            if rate:
                link = SlowLink(rate)
                self.addCleanup(link.close)
                c.pservers = [c.add("pserver", 0, ("--advertise", link.address, "--sockets-only"))]
                link.to = c.pservers[0].address
            _, steps = self.job(c)
            mean[name] = sum(steps) / len(steps)
        print(f"steps a round: {mean}")
        self.assertGreater(mean["slow"], 1.5 * mean["loopback"])

    def test_other_methods_and_what_is_refused(self):
        c = self.cluster(workers=2, pservers=2)
        self.folder = c.folder
        for name in ("osp", "dqlosp"):
            with self.subTest(name):
                update = {"name": name, "params": {"steps": 4, "at_most": 1}}
                job = c.wait(c.submit({**self.SPEC, "update": update}).id)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                self.assertGreaterEqual(job.progress.iterations, 2 * job.progress.total_steps)
                self.assertEqual(job.progress.resyncs, 0)
        said = self.psgd("train", "--preset", "losp", "-s", "update.params.at_most=1",
                         "--consistency", "asp", code=ARGUMENTS)
        self.assertIn("bsp is allowed", said)

    def test_within_one_process_it_is_exactly_k(self):
        self.folder = self.cluster(workers=0, pservers=0).folder
        models = []
        for at_most in (0, 1):
            job = self.train("--preset", "losp", "-W", 2, "-E", 1, "--train-limit", 6400,
                             "-s", f"update.params.at_most={at_most}")
            self.assertEqual(int(job["progress"]["iterations"]), 100)
            models.append(tensors((self.folder / "out/MODEL-losp-N(ps).safetensors").read_bytes()))
        self.assertEqual(*models)


if __name__ == "__main__":
    main()
