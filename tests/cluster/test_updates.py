# SPDX-License-Identifier: Apache-2.0
"""test_updates.py - every update of the build trains, between real processes."""
import csv
import io
import pathlib
import re
import shutil
import tempfile

from harness import PATIENCE, SLOW, SMALL, ClusterTest, coordinator_pb2, job_pb2, main

# Local rules want rates of their own; the servers' rule is the update's default.
LOCAL = {"name": "sgd", "params": {"lr": 0.1}}
JOB = {k: v for k, v in SMALL.items() if k != "optimizer"}
GRADIENTS = {"rule": {"name": "adam", "params": {"lr": 0.002}}}
# Of updates that need others than these.
ADAMW = {"local": {"name": "adamw", "params": {"lr": 0.002}},
         "rule": {"name": "nesterov", "params": {"lr": 0.3, "momentum": 0.5}}}
GENTLE = {"local": {"name": "sgd", "params": {"lr": 0.05}}}
STEADY = {"rule": {"name": "adam", "params": {"lr": 0.001}}}  # whatever the timing
OPTIMIZERS = {"double_buffering": GRADIENTS, "dc_asgd": STEADY, "diloco": ADAMW,
              "diloco_overlapped": ADAMW, "delta": GENTLE, "osp": GENTLE}
PARAMS = {"post_local": {"start": 20, "steps": 4}, "osp": {"steps": 2}, "delta": {"steps": 2}}
INT4 = {"name": "intn", "params": {"bits": 4, "error_feedback": 1}}
MORE = {"dc_asgd": {"consistency": {"name": "asp"}},
        "dqlosp": {"codec": {"up": INT4, "down": INT4}}}


class Updates(ClusterTest):
    def plugins(self, c):
        info = c.api.GetServerInfo(coordinator_pb2.GetServerInfoRequest(), timeout=10 * PATIENCE)
        return [p for p in info.plugins if p.kind == "update"]

    def train(self, c, update, optimizer, workers=2, **more):
        job = c.wait(c.submit({**JOB, "title": update["name"]}, workers=workers, pservers=2,
                              update=update, optimizer=optimizer, **more).id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        return job

    def choices(self, plugin):
        names = {p.name for p in plugin.params}
        params = dict(PARAMS.get(plugin.name, {}))
        if "steps" in names:
            params.setdefault("steps", 4)
        default = {"local": LOCAL} if "steps" in names else GRADIENTS
        return {"name": plugin.name, "params": params}, OPTIMIZERS.get(plugin.name, default)

    def test_every_update_trains(self):
        c = self.cluster(workers=2, pservers=2)
        for plugin in self.plugins(c):
            with self.subTest(update=plugin.name):
                update, optimizer = self.choices(plugin)
                job = self.train(c, update, optimizer, **MORE.get(plugin.name, {}))
                p = job.progress
                print(f"{plugin.name}: accuracy {job.result['accuracy']:.3f}, "
                      f"{p.bytes_up >> 10} KiB up, {p.bytes_down >> 10} KiB down, "
                      f"{p.seconds_waiting:.2f} s waited")
                self.assertEqual(p.step, p.total_steps)
                self.assertGreater(job.result["accuracy"], 0.3)

    def test_rounds_of_eight_steps_send_an_eighth(self):
        c = self.cluster(workers=2, pservers=2)
        each = self.train(c, {"name": "parameter_average", "params": {"steps": 1}}, {"local": LOCAL})
        eight = self.train(c, {"name": "localsgd", "params": {"steps": 8}}, {"local": LOCAL})
        for way in ("bytes_up_float32", "bytes_down_float32"):
            self.assertEqual(getattr(each.progress, way), 8 * getattr(eight.progress, way))
        rows = list(csv.DictReader(io.StringIO(
            c.files(eight.id)["TR-localsgd-N(0).csv"].decode())))
        self.assertEqual([int(r["step"]) for r in rows], list(range(1, eight.progress.total_steps + 1)))

    def test_steps_are_taken_while_a_round_is_exchanged(self):
        """Shown by the log: a fast worker's steps do not wait for the slow one's contribution."""
        c = self.cluster(workers=2, pservers=2)
        slow = {"name": "fixed", "params": {"rank": 1, "ms": int(20 * SLOW)}}
        for name in ("losp", "geo_average", "localsgd"):
            job = self.train(c, {"name": name, "params": {"steps": 4}}, {"local": LOCAL}, straggler=slow)
            steps = job.progress.total_steps
            said = [re.findall(rb"of (\d+) steps (\d+) were taken while the round", text)
                    for file, text in sorted(c.files(job.id).items()) if file.startswith("LOG-")]
            said = [(int(n), int(behind)) for found in said for n, behind in found]
            print(f"{name}: steps, taken behind an exchange:", said)
            if name == "localsgd":  # waits for each exchange
                self.assertEqual(said, [])
                continue
            self.assertEqual([n for n, _ in said], [steps, steps])
            self.assertGreater(max(behind for _, behind in said), 0)
            self.assertLessEqual(max(behind for _, behind in said), steps - 4)  # not in the first

    def test_changes_go_down_as_small_as_they_go_up(self):
        c = self.cluster(workers=2, pservers=2)
        codec = {"up": INT4, "down": INT4}
        with self.assertRaisesRegex(Exception, "not for weights"):
            c.submit({**JOB, "update": {"name": "losp"}}, codec={"down": {"name": "topk"}})
        p = self.train(c, {"name": "dqlosp", "params": {"steps": 4}}, {"local": LOCAL},
                       codec=codec).progress
        self.assertEqual(p.resyncs, 0)
        for way in ("up", "down"):
            bits = 32 * getattr(p, f"bytes_{way}") / getattr(p, f"bytes_{way}_float32")
            self.assertLess(bits, 4.6)

    def test_geo_sends_the_rows_that_were_touched(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-text-"))
        self.addCleanup(shutil.rmtree, folder, True)
        (folder / "text").mkdir()
        with open(folder / "text" / "lines.txt", "w") as out:
            for i in range(1500):  # walks through 3000 words; some are met often, most seldom
                at = (i * i) % 997 * (i * 7 % 3 + 1)
                out.write(" ".join(f"w{(at + 7 * j) % 3000}" for j in range(8)) + "\n")
        c = self.cluster(workers=2, pservers=2, data=str(folder))
        job = {"title": "geo", "epochs": 2, "blockSize": 50,
               "model": {"preset": "ngram", "params": {"width": 16, "hidden": 8, "dropout": 0}},
               "data": {"name": "ngram", "folder": "text", "files": ["lines.txt"], "params": {"cutoff": 0}},
               "consistency": {"name": "asp"}, "optimizer": {"local": {"name": "sgd", "params": {"lr": 0.5}}},
               "update": {"name": "geo_sum_lag", "params": {"steps": 5, "idle_rounds": 4}}}
        up = {}
        for rows in (0, 1):
            codec = {"variables": [{"match": "words.*",
                                    "up": {"name": "f32", "params": {"rows": rows}}}]}
            done = c.wait(c.submit(job, workers=2, pservers=2, codec=codec).id, seconds=120)
            self.assertEqual(done.state, job_pb2.JOB_STATE_DONE, f"{done.reason} {done.message}")
            up[rows] = done.progress.bytes_up
            self.assertLess(done.result["loss"], 7.9)  # 8.0 when nothing is learnt
        print(f"geo on text: {up[0] >> 10} KiB up, {up[1] >> 10} with rows alone")
        self.assertLess(up[1], 0.9 * up[0])

    def test_workers_that_are_not_drawn_send_nothing(self):
        c = self.cluster(workers=2, pservers=2)
        params = {"steps": 4, "fraction": 0.5}
        job = self.train(c, {"name": "fedavg", "params": params}, {"local": LOCAL})
        every = self.train(c, {"name": "fedavg", "params": {"steps": 4}}, {"local": LOCAL})
        self.assertEqual(job.progress.bytes_up_float32 * 2, every.progress.bytes_up_float32)
        self.assertGreater(job.result["accuracy"], 0.3)


if __name__ == "__main__":
    main()
