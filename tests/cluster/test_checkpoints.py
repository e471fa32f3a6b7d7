# SPDX-License-Identifier: Apache-2.0
"""test_checkpoints.py - checkpoints of a job: taken while it trains, listed, kept, and gone on from,
on other numbers of processes and with the bits of a run that nothing interrupted."""
import csv
import hashlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

import grpc
from harness import BIN, FRAGILE, PATIENCE, SMALL, ClusterTest, coordinator_pb2, evaluated, job_pb2, main, rows_of, same_with_any_registry, tensors

# 10 steps an epoch; slow enough that a checkpoint is stored long before the end.
JOB = {**SMALL, "title": "cut", "workers": 4, "epochs": 4, "seed": 5}
SLOW_STEPS = {"straggler": {"name": "fixed", "params": {"rank": -1, "ms": 100}}}

KINDS = {
    "f32": {},
    "int8 with error feedback": {"codec": {"up": {"name": "int8", "params": {"error_feedback": 1}},
                                           "down": {"name": "int8"}}},
    "top-k with error feedback": {"codec": {"up": {"name": "topk", "params": {"fraction": 0.1,
                                                                              "error_feedback": 1}}}},
    "powersgd": {"codec": {"up": {"name": "powersgd"}}},
    "losp": {"update": {"name": "losp", "params": {"steps": 2}}, "optimizer": {}},
    "dqlosp": {"update": {"name": "dqlosp", "params": {"steps": 2}}, "optimizer": {}},
}


# Six blocks, each at two of four workers; 10 steps an epoch.
TWICE = {"assignment": {"name": "iid", "params": {"redundancy": 2}}, "blockSize": 33}
MESHES = {
    "ring": {"exchange": {"name": "ring"}},
    "ring, int8 with error feedback": {
        "exchange": {"name": "ring"},
        "codec": {"up": {"name": "int8", "params": {"error_feedback": 1}}, "down": {"name": "int8"}}},
    "tree": {"exchange": {"name": "tree"}},
    "plain, redundancy 2": {"exchange": {"name": "plain"}, **TWICE},
    "ccdc, redundancy 2": {"exchange": {"name": "ccdc"}, **TWICE},
}


def hashed(name):
    return {"name": name, "kind": "hashed", "params": {"buckets": 500}}


# Rows of a table of clicks, 10 steps an epoch for 4 workers.
CLICKS = {
    "model": {"preset": "wide_deep", "params": {"hidden": 8, "layers": 1}},
    "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.01}}}, "epochs": 2, "blockSize": 10,
    "data": {"name": "csv", "folder": "clicks", "files": ["clicks.csv"], "trainLimit": 400,
             "testLimit": 50, "columns": [{"name": "age"}, hashed("site"), hashed("user"),
                                          {"name": "click", "kind": "label"}]},
}


def write_clicks(folder):
    """Writes such a table below `folder`: many users come once, some sites often."""
    (folder / "clicks").mkdir()
    with open(folder / "clicks" / "clicks.csv", "w") as out:
        out.write("age,site,user,click\n")
        for i in range(600):
            out.write(f"{i * 7 % 60},s{i * i % 23},u{i * 31 % 217},{i * i % 7 // 4}\n")


def clicks_folder(test):
    """A folder of data with such a table; it is removed when the test has ended."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-clicks-"))
    test.addCleanup(shutil.rmtree, folder)
    write_clicks(folder)
    return folder


def model_of(files):
    """The tensors of the servers' model, or in a mesh of worker 0's."""
    return tensors(next(files[name] for end in ("-N(ps).safetensors", "-N(0).safetensors")
                        for name in files if name.endswith(end)))


def rows(report):
    """Rows of an EV file without what was measured."""
    return evaluated(report).splitlines()[1:]


def losses(report):
    """{step: (loss, accuracy)} of a TR file."""
    return {int(r["step"]): (r["loss"], r["accuracy"])
            for r in csv.DictReader(io.StringIO(report.decode()))}


def rounds(update):
    """Of two local steps with state of their own, and an outer rule that has some."""
    return {"update": {"name": update, "params": {"steps": 2}},
            "optimizer": {"rule": {"name": "nesterov", "params": {"lr": 0.5}}, "local": {"name": "adam", "params": {"lr": 0.01}}}}


class Checkpoints(ClusterTest):
    def done(self, c, job_id):
        job = c.wait(job_id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        return c.files(job_id)

    def listed(self, c, job_id):
        return c.api.ListCheckpoints(coordinator_pb2.ListCheckpointsRequest(job_id=job_id),
                                     timeout=10 * PATIENCE).checkpoints

    def wait_for(self, c, job_id, step):
        return c.poll(f"a checkpoint of step {step} of {job_id}",
                      lambda: [p for p in self.listed(c, job_id) if p.step == step], seconds=60)[0]

    def folder(self, c, job_id):
        return c.folder / "coordinator" / "jobs" / job_id / "checkpoints"

    def cut(self, c, spec, step=10):
        """A job that is cancelled when its checkpoint is stored, or is over by then; the id."""
        job = c.submit({**spec, **SLOW_STEPS}, pservers=1, checkpoint={"everySteps": step})
        self.wait_for(c, job.id, step)
        try:
            c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
        except grpc.RpcError as e:
            self.assertEqual(e.code(), grpc.StatusCode.FAILED_PRECONDITION, e.details())
        c.wait(job.id)
        return job.id

    def resume(self, c, spec, job_id, step=10):
        return c.submit({**spec, **SLOW_STEPS}, pservers=3, workerProcesses=2,
                        initFrom=f"checkpoint:{job_id}@{step}").id

    @same_with_any_registry
    def test_a_job_goes_on_to_the_bits_of_a_straight_run(self):
        c = self.cluster(workers=4, pservers=3)
        for name, extra in KINDS.items():
            with self.subTest(name):
                spec = {**JOB, "epochs": 2, **extra}
                straight = self.done(c, c.submit(spec, pservers=1).id)
                files = self.done(c, self.resume(c, spec, self.cut(c, spec)))
                self.assertEqual(model_of(files), model_of(straight))
                for rank in range(4):
                    ev = f"EV-cut-N({rank}).csv"
                    self.assertEqual(rows(files[ev]), rows(straight[ev])[-1:])
                    after = losses(files[f"TR-cut-N({rank}).csv"])
                    whole = losses(straight[f"TR-cut-N({rank}).csv"])
                    self.assertEqual(after, {s: whole[s] for s in whole if s > 10})

    @same_with_any_registry
    def test_encoded_rows_of_a_fixed_vocabulary_go_on_from_any_checkpoint(self):
        """Each rank has rows that it was sent at different steps, encoded with others."""
        c = self.cluster(workers=4, pservers=2, data=str(clicks_folder(self)))
        c.wait_nodes(6)
        spec = {**JOB, **CLICKS, "epochs": 5, "codec": {"down": {"name": "int8"}}, "pservers": 2,
                "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 40}}}
        straight = self.done(c, c.submit(spec).id)
        job = c.submit(spec, checkpoint={"everySteps": 4, "keep": 100})
        self.assertEqual(model_of(self.done(c, job.id)), model_of(straight))
        steps = [p.step for p in self.listed(c, job.id)]
        self.assertGreater(len(steps), 1)
        for step in steps:
            with self.subTest(step):
                files = self.done(c, c.submit({**spec, "initFrom": f"checkpoint:{job.id}@{step}"}, pservers=1).id)
                self.assertEqual(model_of(files), model_of(straight))

    @same_with_any_registry
    def test_a_job_of_a_mesh_goes_on_to_the_bits_of_a_straight_run(self):
        c = self.cluster(workers=4, pservers=0)
        for name, extra in MESHES.items():
            with self.subTest(name):
                spec = {**JOB, "epochs": 2, **extra, **SLOW_STEPS}
                straight = self.done(c, c.submit(spec).id)
                job = c.submit(spec, checkpoint={"everySteps": 10})
                self.wait_for(c, job.id, 10)
                c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
                c.wait(job.id)
                at = self.folder(c, job.id) / f"{10:013d}"
                self.assertEqual(sorted(p.name for p in at.iterdir()),
                                 ["MANIFEST.json", "model.safetensors"]
                                 + [f"rank-{r:05d}.state" for r in range(4)] + ["state.json"])
                files = self.done(c, c.submit(spec, workerProcesses=2,
                                              initFrom=f"checkpoint:{job.id}@10").id)
                self.assertEqual(model_of(files), model_of(straight))
                self.assertEqual(rows(files["EV-cut-N(0).csv"]), rows(straight["EV-cut-N(0).csv"])[-1:])

    @same_with_any_registry
    def test_a_job_with_redundancy_goes_on_to_the_bits_of_a_straight_run(self):
        """Ranks that others overtake skip steps, also those of checkpoints."""
        c = self.cluster(workers=4, pservers=3)
        for down in ({}, {"down": {"name": "int8", "params": {"error_feedback": 1}}}):
            with self.subTest(**down):
                self.must_go_on_with_redundancy(c, down)

    def must_go_on_with_redundancy(self, c, down):
        spec = {**JOB, **TWICE, "codec": {"up": {"name": "int8"}, **down},
                "straggler": {"name": "random", "params": {"probability": 0.3, "mean_ms": 400}}}
        straight = self.done(c, c.submit(spec, pservers=1).id)
        skipped = []
        while not skipped:  # until a rank has skipped the step at which a checkpoint was taken
            job = c.submit(spec, pservers=1, checkpoint={"everySteps": 5, "keep": 20})
            files = self.done(c, job.id)
            self.assertEqual(model_of(files), model_of(straight))
            taken = [losses(files[f"TR-cut-N({rank}).csv"]) for rank in range(4)]
            skipped = [p.step for p in self.listed(c, job.id) if any(p.step + 1 not in rows for rows in taken)]
        for step in skipped:
            files = self.done(c, c.submit(spec, pservers=3, workerProcesses=2, initFrom=f"checkpoint:{job.id}@{step}").id)
            self.assertEqual(model_of(files), model_of(straight), step)
        for victim in (c.workers[0], c.pservers[0]):
            job = c.submit(spec, pservers=1, checkpoint={"everySteps": 5})
            c.poll("a checkpoint", lambda job=job: self.listed(c, job.id), seconds=60)
            victim.kill()
            self.assertEqual(model_of(self.done(c, job.id)), model_of(straight))
            self.assertEqual([(list(r.node_ids), r.from_step > 0) for r in c.wait(job.id).recoveries], [([victim.name], True)])
            victim.start()
            c.wait_nodes(7)
        job = c.submit(spec, pservers=1)
        c.wait(job.id, lambda job: job.progress.step > 1)
        c.api.ScaleJob(coordinator_pb2.ScaleJobRequest(job_id=job.id, worker_processes=2, pservers=2), timeout=60 * PATIENCE)
        self.assertEqual(model_of(self.done(c, job.id)), model_of(straight))
        self.assertEqual([r.reason for r in c.wait(job.id).recoveries], ["SCALED"])

    @same_with_any_registry
    def test_rows_of_tables_go_on_with_their_ages(self):
        folder = clicks_folder(self)
        c = self.cluster(workers=4, pservers=0, data=str(folder))
        c.pservers = [c.add("pserver", i, ["--threads", n]) for i, n in enumerate((2, 1, 2))]
        growing = {"name": "sparse", "params": {"admit_count": 2, "tick": 3, "decay": 0.9,
                                                "unseen_max": 4}}
        kinds = {"growing": ({"table": growing}, {}), "of a fixed vocabulary": ({}, {}),
                 **{f"growing, {update}": ({"table": growing}, rounds(update)) for update in ("localsgd", "geo_sum_lag")}}
        for name, (table, extra) in kinds.items():
            with self.subTest(name):
                spec = {**JOB, **CLICKS, **extra, "model": {**CLICKS["model"], **table}}
                straight = self.done(c, c.submit(spec, pservers=1).id)
                files = self.done(c, self.resume(c, spec, self.cut(c, spec)))
                self.assertEqual(model_of(files), model_of(straight))
                self.assertEqual(rows_of(files), rows_of(straight))
                self.assertEqual(bool(rows_of(files)), "table" in table)
                self.assertEqual(rows(files["EV-cut-N(0).csv"]), rows(straight["EV-cut-N(0).csv"])[-1:])


    def test_calls_on_tables_are_made_between_two_rounds(self):
        """Also when the job goes on from before. The straight job has its only tick at that round."""
        folder = clicks_folder(self)
        c = self.cluster(workers=4, pservers=1, data=str(folder))
        steps = 120

        def spec_of(tick):
            table = {"name": "sparse", "params": {"admit_count": 2, "tick": tick, "decay": 0.9, "unseen_max": 4}}
            return {**JOB, **CLICKS, **rounds("localsgd"), "epochs": 1000, "maxSteps": steps, "model": {**CLICKS["model"], "table": table}}

        def call(action):
            return c.api.ChangeTables(coordinator_pb2.ChangeTablesRequest(job_id=job.id, action=action), timeout=30 * PATIENCE).step

        job = c.submit({**spec_of(0), **SLOW_STEPS}, pservers=1, checkpoint={"everySteps": 4})
        c.wait(job.id, lambda j: j.progress.step > steps // 2 - 4)  # so late that the next multiple of the round is behind the end
        shrunk = call(job_pb2.TABLES_ACTION_SHRINK)
        self.assertEqual(shrunk % 2, 0)
        self.assertEqual(list(c.get(job.id).table_shrinks), [shrunk // 2])
        c.workers[0].kill()
        c.wait(job.id, lambda j: j.restarts == 1 and j.progress.step > shrunk)
        self.assertLess(c.get(job.id).recoveries[0].from_step, shrunk)
        files = self.done(c, job.id)
        straight = self.done(c, c.submit(spec_of(shrunk // 2), pservers=1, workerProcesses=3).id)
        self.assertEqual(model_of(files), model_of(straight))
        self.assertEqual(rows_of(files), rows_of(straight))

    @same_with_any_registry
    def test_checkpoints_of_changed_rows_need_those_before_them(self):
        folder = clicks_folder(self)
        c = self.cluster(workers=4, pservers=3, data=str(folder))
        table = {"name": "sparse", "params": {"admit_count": 2, "tick": 3, "decay": 0.9, "unseen_max": 4}}
        spec = {**JOB, **CLICKS, "blockSize": 2, "epochs": 1, "model": {**CLICKS["model"], "table": table}}
        straight = self.done(c, c.submit(spec, pservers=1).id)
        spec = {**spec, **SLOW_STEPS}
        job = c.submit(spec, pservers=2, checkpoint={"everySteps": 5, "keep": 1})

        def with_parent():
            return [p for p in self.listed(c, job.id) if p.parent > 0]

        c.poll("a checkpoint of changes", with_parent, seconds=60)
        for victim in (c.pservers[0], c.workers[0]):
            victim.kill()
        self.assertEqual(rows_of(self.done(c, job.id)), rows_of(straight))
        job = c.submit(spec, pservers=2, workerProcesses=2, checkpoint={"everySteps": 5, "keep": 1})
        c.poll("a checkpoint of changes", with_parent, seconds=60)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
        c.wait(job.id)
        found = with_parent()[-1]
        self.assertIn(found.parent, [p.step for p in self.listed(c, job.id)])  # though only one is kept
        state = json.loads((self.folder(c, job.id) / f"{found.step:013d}" / "state.json").read_text())
        self.assertEqual(state["parent"], found.parent)
        self.assertRegex(self.psgd(c, "checkpoints", job.id), rf"(?m)^{found.step} .* whole, on {found.parent}$")
        resumed = c.submit(spec, pservers=1, workerProcesses=3, initFrom=f"checkpoint:{job.id}@{found.step}").id
        files = self.done(c, resumed)
        self.assertEqual((model_of(files), rows_of(files)), (model_of(straight), rows_of(straight)))
        parent = self.folder(c, job.id) / f"{found.parent:013d}"
        server = next(parent.glob("server-*-00.state"))
        data = server.read_bytes()
        server.write_bytes(data[:-1])
        says = f"needs its parent: checkpoint of step {found.parent}: {server.name} has {len(data) - 1} bytes"
        self.assertIn(says, {p.step: p.damage for p in self.listed(c, job.id)}[found.step])
        with self.assertRaises(grpc.RpcError) as e:
            self.resume(c, spec, job.id, found.step)
        self.assertIn(says, e.exception.details())
        server.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        job = c.wait(c.submit(spec, pservers=1, workerProcesses=2, initFrom=f"checkpoint:{job.id}@{found.step}").id)
        self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_FAILED, "INIT_REFUSED"))
        self.assertIn(f"{server.name} is damaged", job.message)

    def test_another_coordinator_goes_on_with_checkpoints_of_changed_rows(self):
        """It stores the one that nodes were told of by the coordinator before, or a later one; each counts from the one before."""
        folder = clicks_folder(self)
        c = self.cluster(workers=2, pservers=2, data=str(folder))
        columns = [{**column, "params": {"buckets": 5000}} if "params" in column else column for column in CLICKS["data"]["columns"]]
        every = 8
        job = c.submit({**JOB, **CLICKS, "data": {**CLICKS["data"], "columns": columns}, "blockSize": 2, "epochs": 1000,
                        "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 150}}},
                       workers=4, pservers=2, workerProcesses=2, checkpoint={"everySteps": every, "keep": 100})
        c.poll("one with changes", lambda: [p for p in self.listed(c, job.id) if p.parent > 0], seconds=60)
        begun = len(c.coordinator.log())
        next_ones = []
        while len(next_ones) < 3 or (every not in next_ones and len(next_ones) < 9):
            c.wait(job.id, lambda j: j.progress.step % every == 5)  # all nodes have heard of the next one
            c.coordinator.kill()
            c.restart_coordinator()
            had = self.listed(c, job.id)[-1].step
            c.poll("two more", lambda had=had: [p.step > had for p in self.listed(c, job.id)].count(True) >= 2, seconds=60)
            steps = [p.step for p in self.listed(c, job.id)]
            next_ones.append(steps[steps.index(had) + 1] - had)
        self.assertIn(every, next_ones)
        found = self.listed(c, job.id)
        self.assertEqual([p.parent for p in found], [0 if i % 9 == 0 else found[i - 1].step for i in range(len(found))])
        self.assertEqual(c.get(job.id).progress.checkpoints_skipped, 0)
        self.assertNotIn("skipped", c.coordinator.log()[begun:])
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
        c.wait(job.id)

    def test_the_newest_and_every_nth_are_kept_and_read_by_other_programs(self):
        c = self.cluster(workers=2, pservers=2)
        job = c.submit({**JOB, **SLOW_STEPS}, workers=2, pservers=2,
                       checkpoint={"everySteps": 8, "keep": 1, "keepEvery": 16})
        self.done(c, job.id)
        stored = [int(s) for s in re.findall(r"checkpoint of step (\d+) stored", c.coordinator.log())]
        self.assertEqual(stored[0], 8)
        self.assertGreater(len(stored), 2)
        found = self.listed(c, job.id)
        steps = [p.step for p in found]
        self.assertEqual(steps, [s for s in stored if s % 16 == 0 or s == stored[-1]])
        folder = self.folder(c, job.id)
        self.assertEqual((folder / "LATEST").read_text(), f"{steps[-1]:013d}\n")
        self.assertEqual(sorted(p.name for p in folder.iterdir()),
                         [f"{s:013d}" for s in steps] + ["LATEST"])
        at = folder / f"{steps[0]:013d}"
        listed = json.loads((at / "MANIFEST.json").read_text())["files"]
        self.assertEqual(sorted([f["name"] for f in listed] + ["MANIFEST.json"]),
                         sorted(p.name for p in at.iterdir()))
        self.assertEqual(sum(f["size"] for f in listed), found[0].bytes)
        for f in listed:
            self.assertEqual(hashlib.sha256((at / f["name"]).read_bytes()).hexdigest(), f["sha256"])
        state = json.loads((at / "state.json").read_text())
        self.assertEqual((state["job"], state["step"], state["ranks"], state["seed"]),
                         (job.id, steps[0], 2, "5"))
        self.assertIn("dense0.weight", tensors((at / "model.safetensors").read_bytes()))

    def test_the_best_by_a_metric_is_kept_and_listed(self):
        c = self.cluster(workers=2, pservers=1)
        for metric, extra in (("accuracy", {}), ("loss", {"minOrMax": "max"})):  # the most: against its table
            with self.subTest(metric):
                since = c.coordinator.log_end()
                job = c.submit({**JOB, **SLOW_STEPS}, workers=2, pservers=1, epochs=3, evalEverySteps=15,
                               checkpoint={"everySteps": 15, "keep": 1, "bestBy": metric, **extra})
                files = self.done(c, job.id)
                at = {int(r["step"]): float(r[metric]) for r in
                      csv.DictReader(io.StringIO(files["EV-cut-N(0).csv"].decode()))}
                stored = [int(s) for s in re.findall(r"checkpoint of step (\d+) stored", c.coordinator.log(since))]
                found = {p.step: p for p in self.listed(c, job.id)}
                self.assertGreater(len(stored), 1)
                best = max(stored, key=lambda s: at[s])
                self.assertEqual(sorted(found), sorted({best, stored[-1]}))
                for step, p in found.items():
                    self.assertEqual((p.metric, p.evaluated_step, p.is_best), (metric, step, step == best))
                self.assertIn(f"{metric} ", self.psgd(c, "checkpoints", job.id))
                self.assertIn(", the best", self.psgd(c, "checkpoints", job.id))
        for fields, text in (({"bestBy": "accuracyy"}, 'did you mean "accuracy"'), ({"minOrMax": "max"}, "best_by is not"),
                             ({"bestBy": "loss", "minOrMax": "least"}, "min or max is allowed")):
            with self.subTest(text), self.assertRaises(grpc.RpcError) as e:
                c.submit({**JOB, "checkpoint": {"everySteps": 5, **fields}})
            self.assertIn(text, e.exception.details())

    def psgd(self, c, *arguments, code=0):
        run = subprocess.run([BIN / "psgd", *arguments, "--coordinator", c.coordinator.address],
                             capture_output=True, text=True, timeout=120 * PATIENCE)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def test_many_steps_of_a_small_model(self):
        """The reports are most of what a rank stores then: with each step its file grows."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-tiny-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "tiny").mkdir()
        c = self.cluster(workers=2, pservers=1, data=str(folder))
        with open(folder / "tiny" / "tiny.csv", "w") as out:
            out.write("x,y,label\n" + "".join(f"{i % 7},{i % 5},{(i % 7 + i % 5) // 6}\n" for i in range(600)))
        spec = {"title": "cut", "workers": 2, "pservers": 1, "seed": 5, "blockSize": 1, "epochs": 30, "model": {"preset": "mlp", "widths": [2]},
                "data": {"name": "csv", "folder": "tiny", "files": ["tiny.csv"], "trainLimit": 400, "testLimit": 50,
                         "columns": [{"name": "x"}, {"name": "y"}, {"name": "label", "kind": "label"}]},
                "optimizer": {"rule": {"name": "sgd", "params": {"lr": 0.1}}}}
        straight = self.done(c, c.submit(spec).id)
        job = c.submit({**spec, "checkpoint": {"everySteps": 1000, "keep": 1}})
        self.done(c, job.id)
        progress = c.get(job.id).progress
        self.assertEqual((progress.step, progress.checkpoints_skipped), (6000, 0))
        newest, = self.listed(c, job.id)
        self.assertGreaterEqual(newest.step, 4000)
        again = self.done(c, c.submit({**spec, "initFrom": f"checkpoint:{job.id}@{newest.step}"}).id)
        self.assertEqual(model_of(again), model_of(straight))
        whole = losses(straight["TR-cut-N(0).csv"])
        self.assertEqual(losses(again["TR-cut-N(0).csv"]), {s: whole[s] for s in whole if s > newest.step})
        job = c.submit({**spec, "checkpoint": {"everySteps": 1000, "keep": 1}, "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 1}}})
        c.wait(job.id, lambda j: j.progress.step > 4000 and self.listed(c, job.id)[-1].step >= 4000)  # reports of more than 1 MiB
        for node in c.nodes:
            node.kill()
        for node in c.nodes:
            node.start()
        again = self.done(c, job.id)
        self.assertEqual(model_of(again), model_of(straight))
        self.assertEqual(losses(again["TR-cut-N(0).csv"]), whole)
        self.assertEqual(again["TR-cut-N(0).csv"].count(b"\n"), 6001)
        back, = c.get(job.id).recoveries
        self.assertGreaterEqual(back.from_step, 4000)

    def test_a_user_takes_one_lists_it_and_resumes(self):
        c = self.cluster(workers=2, pservers=1)
        spec = {**JOB, **SLOW_STEPS, "workers": 2, "epochs": 8}
        straight = self.done(c, c.submit({**JOB, "workers": 2, "epochs": 8}).id)
        job = c.submit(spec)
        c.wait(job.id, lambda j: j.progress.step > 2)
        self.assertIn("no checkpoints", self.psgd(c, "checkpoints", job.id))
        self.assertIn("take a checkpoint", self.psgd(c, "checkpoint", job.id))
        step = c.poll("a checkpoint", lambda: self.listed(c, job.id))[0].step
        self.psgd(c, "cancel", job.id)
        c.wait(job.id)
        self.assertIn("does not train", self.psgd(c, "checkpoint", job.id, code=1))
        self.assertRegex(self.psgd(c, "checkpoints", job.id), rf"(?m)^{step} .* whole$")
        out = self.psgd(c, "resume", job.id, "--workers", "1", "--watch")
        self.assertIn(f"from step {step} of {job.id}", out)
        resumed = out.split()[1].rstrip(",")
        self.assertEqual(c.get(resumed).spec.init_from, f"checkpoint:{job.id}@{step}")
        self.assertEqual(model_of(c.files(resumed)), model_of(straight))
        self.assertIn("no checkpoint", self.psgd(c, "resume", f"{job.id}@{step + 1}", code=4))

    def test_cancel_takes_one_before(self):
        c = self.cluster(workers=2, pservers=1)
        spec = {**JOB, **SLOW_STEPS, "workers": 2, "epochs": 8}
        straight = self.done(c, c.submit({**JOB, "workers": 2, "epochs": 8}).id)
        job = c.submit(spec)
        c.wait(job.id, lambda j: j.progress.step > 2)
        c.workers[0].freeze()
        self.assertIn("no checkpoint was stored in time; the job is not cancelled",
                      self.psgd(c, "cancel", job.id, "--checkpoint", "--within", "1s", code=3))
        c.workers[0].thaw()
        out = self.psgd(c, "cancel", job.id, "--checkpoint")
        step = int(re.search(r"being stopped: cancelled by a client; the checkpoint of step (\d+) is stored", out).group(1))
        ended = c.wait(job.id)
        self.assertEqual(ended.state, job_pb2.JOB_STATE_CANCELLED)
        self.assertIn(f"checkpoint of step {step}", ended.message)
        self.assertIn((step, ""), [(p.step, p.damage) for p in self.listed(c, job.id)])
        resumed = c.submit(spec, initFrom=f"checkpoint:{job.id}@{step}").id
        self.assertEqual(model_of(self.done(c, resumed)), model_of(straight))
        queued = c.submit(spec, workers=8)
        self.assertIn("does not train", self.psgd(c, "cancel", queued.id, "--checkpoint", code=1))
        self.assertEqual(c.get(queued.id).state, job_pb2.JOB_STATE_QUEUED)
        short = c.submit({**spec, "epochs": 1, "blockSize": 200},  # 5 steps
                         straggler={"name": "fixed", "params": {"rank": -1, "ms": 2000}})
        c.wait(short.id, lambda j: j.progress.step > 2)
        self.assertIn("ends before all nodes could take a checkpoint; the job is not cancelled",
                      self.psgd(c, "cancel", short.id, "--checkpoint", code=1))
        self.done(c, short.id)

    def test_a_service_that_is_stopped_has_one_taken_before(self):
        c = self.cluster(workers=4, pservers=2, coordinator_args=["--checkpoint-grace", "60s"])
        spec = {**JOB, **SLOW_STEPS, **FRAGILE, "workers": 2, "epochs": 40, "checkpoint": {"keep": 2}}
        for role in ("worker", "pserver"):
            with self.subTest(role):
                job = c.submit(spec, pservers=1)
                at = c.wait(job.id, lambda j: j.progress.step > 2)
                name = next(p.node_id for p in at.placements if p.node_id.startswith(role))
                victim = next(p for p in c.nodes if p.name == name)
                self.assertEqual(victim.stop(), 0)
                ended = c.wait(job.id)
                self.assertEqual((ended.state, ended.reason), (job_pb2.JOB_STATE_FAILED, "NODE_FAILED"))
                step = int(re.search(r"told to stop; the checkpoint of step (\d+) is stored",
                                     ended.message).group(1))
                self.assertEqual([(p.step, p.damage) for p in self.listed(c, job.id)], [(step, "")])
        with self.subTest("coordinator"):
            job = c.submit(spec, pservers=1)
            c.wait(job.id, lambda j: j.progress.step > 2)
            self.assertEqual(c.coordinator.stop(), 0)
            c.restart_coordinator()
            self.assertEqual([p.damage for p in self.listed(c, job.id)], [""])
            c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
            c.wait(job.id)

    def test_what_is_damaged_or_another_job_s_is_refused_by_name(self):
        c = self.cluster(workers=4, pservers=3)
        job_id = self.cut(c, JOB)
        at = self.folder(c, job_id) / f"{10:013d}"
        rank, manifest, facts = (at / n for n in ("rank-00002.state", "MANIFEST.json", "state.json"))

        def refused(text, **fields):
            with self.assertRaises(grpc.RpcError) as e:
                self.resume(c, {**JOB, **fields}, job_id)
            self.assertIn(text, e.exception.details())

        refused("computes something else", seed=6)
        refused("4 ranks and this job 3 workers", workers=3)
        whole = rank.read_bytes()
        rank.write_bytes(whole[:-1])
        refused(f"rank-00002.state has {len(whole) - 1} bytes")
        self.assertIn("rank-00002.state has", self.listed(c, job_id)[0].damage)
        rank.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        job = c.wait(self.resume(c, JOB, job_id))
        self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_FAILED, "INIT_REFUSED"))
        self.assertIn("rank-00002.state is damaged: its SHA-256", job.message)
        rank.unlink()
        refused("rank-00002.state is missing")
        rank.write_bytes(whole)
        text = facts.read_text()
        for name, wrong in (("clock", '"clock": -1'), ("ranks", '"ranks": 1000'), ("format", '"format": 2')):
            facts.write_text(re.sub(rf'"{name}": \d+', wrong.ljust(len(f'"{name}": 10')), text))
            if facts.stat().st_size == len(text):
                refused(f"state.json: {name}")
        facts.write_text(text)
        for wrong, says in (("{", "manifest:1"), ("[]", "no object"), ('{"files": 1}', "no list")):
            manifest.write_text(wrong)
            refused(says)
        manifest.unlink()
        refused("MANIFEST.json is missing")
        shutil.rmtree(at)
        refused("there is no checkpoint of step 10")

    @same_with_any_registry
    def test_a_job_that_cannot_have_checkpoints_is_told_why(self):
        c = self.cluster(workers=0, pservers=0)
        for fields, text in (({"consistency": {"name": "half_async"}}, "only consistency bsp, asp, ssp, dssp,"),
                             ({"assignment": {"name": "duplicate", "params": {"redundancy": 2}},
                               "optimizer": {"rule": {"name": "sgd"}, "side": "OPTIMIZER_SIDE_WORKER"}}, "with redundancy above 1"),
                             ({"checkpoint": {"keep": 1001}}, "keep: is 1001"),
                             ({"checkpoint": {"everySeconds": 0.5}}, "every_seconds: is 0.5")):
            with self.subTest(text), self.assertRaises(grpc.RpcError) as e:
                c.submit({**JOB, "checkpoint": {"everySteps": 5}, **fields})
            self.assertIn(text, e.exception.details())

    @same_with_any_registry
    def test_another_data_set_is_refused(self):
        folder = clicks_folder(self)
        c = self.cluster(workers=4, pservers=3, data=str(folder))
        spec = {**JOB, **CLICKS}
        job_id = self.cut(c, spec)
        state = json.loads((self.folder(c, job_id) / f"{10:013d}" / "state.json").read_text())
        self.assertRegex(state["data"], "^[0-9a-f]{64}$")
        file = folder / "clicks" / "clicks.csv"
        text = file.read_text()
        file.write_text(text.replace("\n7,s1,", "\n8,s1,", 1))
        job = c.wait(self.resume(c, spec, job_id))
        self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_FAILED, "INIT_REFUSED"))
        self.assertIn(f"that of the checkpoint {state['data'][:16]}", job.message)
        file.write_text(text)
        self.done(c, self.resume(c, spec, job_id))

    def refuses_to_start(self, text, *arguments):
        run = subprocess.run([BIN / "psgd-coordinator", "--listen", "127.0.0.1:0", "--web", "off", *arguments],
                             capture_output=True, text=True, timeout=20 * PATIENCE)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(text, run.stderr)

    def test_they_may_be_kept_on_another_disk(self):
        disk = pathlib.Path(tempfile.mkdtemp(prefix="psgd-disk-"))
        self.addCleanup(shutil.rmtree, disk)
        kept, data = disk / "kept", disk / "data"
        for folder in (kept, data / "inside"):
            folder.mkdir(parents=True)
        c = self.cluster(workers=2, pservers=1, coordinator_args=["--checkpoint-path", kept])
        spec = {**JOB, **SLOW_STEPS, "epochs": 2, "workers": 2, "pservers": 1,
                "checkpoint": {"everySteps": 5, "keep": 2}}
        job = c.submit(spec)
        c.poll("a checkpoint", lambda: self.listed(c, job.id))
        c.pservers[0].kill()
        c.pservers[0].start()
        straight = self.done(c, c.submit({**spec, "straggler": {}, "checkpoint": {}}).id)
        self.assertEqual(model_of(self.done(c, job.id)), model_of(straight))
        self.assertGreater(c.get(job.id).recoveries[0].from_step, 0)
        at = self.folder(c, job.id)
        self.assertEqual(at.readlink(), kept / job.id)
        self.assertEqual(len(self.listed(c, job.id)), 2)
        self.assertEqual(sorted(p.name for p in (kept / job.id).iterdir()),
                         [f"{p.step:013d}" for p in self.listed(c, job.id)] + ["LATEST"])
        for text, path in (("No such file", disk / "none"), ("is no folder", kept / job.id / "LATEST"),
                           ("is within --data-dir", data / "inside")):
            self.refuses_to_start(text, "--data-dir", data, "--checkpoint-path", path)
        if c.etcd is None:  # else they share it
            self.refuses_to_start("in use by another process", "--data-dir", data, "--checkpoint-path", kept)
        with self.subTest("the disk is gone when the job goes on"):
            lost = c.submit(spec)
            c.poll("a checkpoint", lambda: self.listed(c, lost.id))
            kept.rename(disk / "away")
            c.pservers[0].kill()
            c.pservers[0].start()
            lost = c.wait(lost.id)
            self.assertEqual((lost.state, lost.reason), (job_pb2.JOB_STATE_FAILED, "CHECKPOINTS_MISSING"))
            self.assertIn(f"are in {kept / lost.id}, which is not there", lost.message)
            (disk / "away").rename(kept)
        with self.subTest("the next coordinator keeps new ones elsewhere"):
            c.coordinator.stop()
            c.coordinator.args = [a for a in c.coordinator.args if a not in ("--checkpoint-path", kept)]
            c.restart_coordinator()
            c.wait_nodes(3)
            resumed = c.submit(spec, initFrom=f"checkpoint:{lost.id}@{self.listed(c, lost.id)[-1].step}",
                               checkpoint={"everySteps": 5})
            self.assertEqual(model_of(self.done(c, resumed.id)), model_of(straight))
            self.assertFalse(self.folder(c, resumed.id).is_symlink())
            for x in (job, lost):
                c.api.DeleteJob(coordinator_pb2.DeleteJobRequest(job_id=x.id), timeout=10 * PATIENCE)
            c.poll("nothing is left", lambda: not any((kept / x.id).exists() for x in (job, lost)))

    def test_what_the_disk_refuses_is_no_checkpoint(self):
        library = BIN.parent / "tests" / "bad_disk.so"
        if not library.exists():
            self.skipTest("a sanitizer's library must be loaded first")
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-bad-disk-"))
        self.addCleanup(shutil.rmtree, folder)
        on = folder / "on"
        c = self.cluster(workers=2, pservers=1, coordinator_env={"LD_PRELOAD": str(library), "BAD_DISK_ON": str(on)})
        job = c.submit({**JOB, **SLOW_STEPS}, workers=2, pservers=1, epochs=400)
        c.wait(job.id, lambda j: j.progress.step > 2)
        self.psgd(c, "checkpoint", job.id)
        first = c.poll("a checkpoint", lambda: self.listed(c, job.id))[0].step
        at = self.folder(c, job.id)
        for what in ("fsync:rank-00001.state", "write:server-00000-00.state", "fsync:model.safetensors",
                     "write:state.json", "fsync:MANIFEST.json", "rename:checkpoints/0000", "fsync:/checkpoints$",
                     "rename:LATEST", "write:LATEST"):
            with self.subTest(what):
                c.poll("no reason", lambda: c.get(job.id).reason != "CHECKPOINT_SKIPPED" or not on.exists())
                on.write_text(what)
                self.psgd(c, "cancel", job.id, "--checkpoint", code=1)  # tells what has become of it
                found = c.get(job.id)
                self.assertEqual((found.state, found.reason), (job_pb2.JOB_STATE_RUNNING, "CHECKPOINT_SKIPPED"))
                self.assertIn("skipped", found.message)
                on.unlink()
                self.assertEqual((at / "LATEST").read_text(), f"{first:013d}\n")
                self.assertEqual([(p.step, p.damage) for p in self.listed(c, job.id)], [(first, "")])
                c.poll("nothing half", lambda: sorted(p.name for p in at.iterdir()) == [f"{first:013d}", "LATEST"])
        self.psgd(c, "cancel", job.id, "--checkpoint")
        self.assertEqual([p.damage for p in self.listed(c, job.id)], ["", ""])
        c.wait(job.id)
        self.assertEqual(int((at / "LATEST").read_text()), self.listed(c, job.id)[1].step)

    def test_a_coordinator_that_dies_meanwhile_takes_later_ones(self):
        c = self.cluster(workers=2, pservers=1)
        job = c.submit({**JOB, **SLOW_STEPS}, workers=2, pservers=1, epochs=12,
                       checkpoint={"everySteps": 10})
        self.wait_for(c, job.id, 10)
        half = self.folder(c, job.id) / ".20-1.tmp"
        c.coordinator.kill()
        half.mkdir()
        (half / "rank-00000.state").write_bytes(b"half")
        c.restart_coordinator()
        later = c.poll("a later one", lambda: [p for p in self.listed(c, job.id) if p.step > 10])[0]
        self.assertEqual((later.step % 10, later.damage), (0, ""))
        self.assertFalse(half.exists())
        self.done(c, job.id)


if __name__ == "__main__":
    main()
