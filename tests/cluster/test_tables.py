# SPDX-License-Identifier: Apache-2.0
"""test_tables.py - embeddings by rows and as sparse tables on the servers, between real processes
and on real data: what they reach beside whole tables, what travels, and the files they leave."""
import csv
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile

import grpc

from harness import (BIN, PATIENCE, ClusterTest, data_path, evaluated, job_pb2, main, rows_of,
                     tensors)

# A codec with a number is taken as it is: whole tables travel.
WHOLE = {"up": {"name": "f32", "params": {"lossless": 1}}}
SPARSE = {"name": "sparse"}
ADAGRAD = {"rule": {"name": "adagrad", "params": {"lr": 0.05}}}


def hashed(name):
    return {"name": name, "kind": "hashed", "params": {"buckets": 20000}}


ADULT = {
    "title": "adult", "epochs": 1, "blockSize": 64, "optimizer": ADAGRAD,
    "model": {"preset": "wide_deep", "params": {"hidden": 32, "layers": 2}},
    "data": {"name": "csv", "folder": "ctr", "files": ["adult.csv"], "trainLimit": 7680,
             "testLimit": 3000,
             "columns": [{"name": "age"}, {"name": "education_num"}, {"name": "hr_per_week"},
                         *map(hashed, ("type_employer", "marital", "occupation", "country")),
                         {"name": "income", "kind": "label"}]},
    "metrics": [{"name": "auc"}],
}
TEXT = {
    "title": "text", "epochs": 1, "blockSize": 64, "optimizer": ADAGRAD,
    "model": {"preset": "ngram", "params": {"rows": 50000, "width": 16, "hidden": 16, "dropout": 0}},
    "data": {"name": "ngram", "folder": "text", "files": ["tinyshakespeare.txt"],
             "trainLimit": 7680, "testLimit": 1000, "params": {"cutoff": 50}},
}
PAIRS = {
    "title": "pairs", "epochs": 1, "blockSize": 64, "optimizer": ADAGRAD,
    "model": {"preset": "skipgram", "params": {"width": 16}},
    "data": {"name": "skipgram", "folder": "text", "files": ["tinyshakespeare.txt"],
             "trainLimit": 1280, "testLimit": 500, "params": {"cutoff": 50}},
}


class Tables(ClusterTest):
    def train(self, c, spec, table=None, **more):
        model = {**spec["model"], **({"table": table} if table else {})}
        job = c.wait(c.submit({**spec, "model": model, "workers": 2, "pservers": 2, **more}).id,
                     seconds=240)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        return job

    def compare(self, c, spec, tolerance):
        whole = self.train(c, spec, codec=WHOLE)
        runs = {"whole": whole, "by rows": self.train(c, spec), "sparse": self.train(c, spec, SPARSE),
                "sparse, asp": self.train(c, spec, SPARSE, consistency={"name": "asp"})}
        for name, job in runs.items():
            p = job.progress
            print(f"{spec['title']}, {name}: {dict(job.result)}, {p.bytes_up >> 10} KiB up, "
                  f"{p.bytes_down >> 10} KiB down")
            self.assertLess(abs(job.result["loss"] / whole.result["loss"] - 1), tolerance, name)
            if name != "whole":
                self.assertLess(p.bytes_down, 0.1 * whole.progress.bytes_down, name)
                self.assertLess(p.bytes_up, whole.progress.bytes_up, name)
        # Adagrad rests where its gradient is 0: to the bit.
        self.assertEqual(runs["by rows"].result["loss"], whole.result["loss"])
        return runs

    def data(self):
        if not data_path():
            self.skipTest("PSGD_DATA has no ctr/ and text/")
        return data_path()

    def test_clicks_are_learnt_from_sparse_tables(self):
        c = self.cluster(workers=2, pservers=2, data=self.data())
        runs = self.compare(c, ADULT, 0.04)
        for job in runs.values():
            self.assertGreater(job.result["auc"], 0.8)
            self.assertLess(abs(job.result["auc"] - runs["whole"].result["auc"]), 0.01)
        self.check_files(c, runs["sparse"])

    def check_files(self, c, job):
        """A table's file from each server, whose rows are those that were met."""
        files = c.files(job.id)
        tables = sorted(name for name in files if name.endswith(".psgdtab"))
        self.assertEqual(tables, ["MODEL-adult-N(ps0).table0.psgdtab",
                                  "MODEL-adult-N(ps1).table0.psgdtab"])
        for name in tables:
            magic, width, slots, table, _, kind, _ = struct.unpack_from("<8s6I", files[name])
            self.assertEqual((magic, width, slots, table, kind), (b"PSGDTAB1", 10, 1, 0, 0))
        rows = len(rows_of(files))
        self.assertTrue(30 < rows < 200, rows)  # of 80,000 ids
        model = files["MODEL-adult-N(ps).safetensors"]
        self.assertNotIn(b"embedding.weight", model)
        self.assertIn(b"deep1.weight", model)

    def evaluate(self, folder, *arguments):
        done = subprocess.run([BIN / "psgd", "eval", "--format", "json", "--data-path", data_path(),
                               *arguments], cwd=folder, capture_output=True, text=True,
                              timeout=120 * PATIENCE)
        if done.returncode != 0:
            return done.stderr
        return {k: float(f"{v:.9g}") for k, v in json.loads(done.stdout)["metrics"].items()}

    def save(self, c, job, folder):
        folder.mkdir()
        for name, content in c.files(job.id).items():
            if "/" not in name:
                (folder / name).write_bytes(content)
        return sorted(f.name for f in folder.glob("*.psgdtab"))

    def last(self, c, job):
        """The last row of what worker 0 said of the test set."""
        rows = csv.DictReader(io.StringIO(c.files(job.id)["EV-adult-N(0).csv"].decode()))
        return {k: float(v) for k, v in list(rows)[-1].items() if k in ("loss", "auc")}

    def test_a_job_goes_on_from_the_files_of_another(self):
        """To the bits of one that was not stopped, where the dense rule keeps nothing and
        samples come in the same order: on other numbers of servers, whole, as changes, in one
        process; and what a model with its tables is worth can be asked for without a job."""
        data = pathlib.Path(tempfile.mkdtemp(prefix="psgd-data-"))
        self.addCleanup(shutil.rmtree, data, True)
        shutil.copytree(pathlib.Path(self.data()) / "ctr", data / "ctr")
        c = self.cluster(workers=2, pservers=3, data=data)
        spec = {**ADULT, "seed": 7, "optimizer": {"rule": {"name": "sgd", "params": {"lr": 0.05}}},
                "data": {**ADULT["data"], "trainLimit": 1280, "testLimit": 500,
                         "transforms": [{"name": "shuffle", "params": {"every_epoch": 0}}]}}
        never = self.train(c, spec, SPARSE, epochs=2)
        half = self.train(c, spec, SPARSE)
        want = c.files(never.id)
        model = "MODEL-adult-N(ps).safetensors"

        rest = self.train(c, spec, SPARSE, init_from=f"job:{half.id}", pservers=3)
        self.assertEqual(tensors(c.files(rest.id)[model]), tensors(want[model]))
        self.assertEqual(rows_of(c.files(rest.id)), rows_of(want))
        self.assertEqual(rest.result["loss"], never.result["loss"])
        # Only what changed, which is less, and over what it changed it is the whole.
        changed = self.train(c, spec, {"name": "sparse", "params": {"save_changes": 1}},
                             init_from=f"job:{half.id}")
        tables = self.save(c, changed, data / "changed")
        self.assertEqual(tables, ["MODEL-adult-N(ps0).table0.psgdtab",
                                  "MODEL-adult-N(ps1).table0.psgdtab"])
        base = [data / "half" / name for name in self.save(c, half, data / "half")]
        both = [f"--table={f}" for f in (*base, *(data / "changed" / name for name in tables))]
        self.assertEqual(self.evaluate(data / "changed", "-m", model, *both), self.last(c, never))
        self.assertIn("without a whole file", self.evaluate(data / "changed", "-m", model))
        # Without being told, the files beside the model.
        self.assertEqual(self.evaluate(data / "half", "-m", model), self.last(c, half))
        far = data / ("a folder of a path longer than those that messages show whole " * 2)
        far.symlink_to(data / "half")
        self.assertEqual(self.evaluate(data, "-m", far / model), self.last(c, half))
        self.check_export(c, half, data / "half", model)
        os.remove(base[1])
        self.assertIn("no whole file of table 0", self.evaluate(data / "half", "-m", model))
        os.remove(base[0])
        self.assertIn("no file with their rows is beside it", self.evaluate(data / "half", "-m", model))
        # One process, from files.
        self.save(c, half, data / "again")
        (data / "job.json").write_text(json.dumps(
            {**spec, "workers": 2, "pservers": 1, "model": {**spec["model"], "table": SPARSE},
             "initFrom": f"again/{model}",
             "initTables": [f"again/{name}" for name in tables]}))
        done = subprocess.run([BIN / "psgd", "train", data / "job.json", "--out", data / "out",
                               "--data-path", data], capture_output=True, text=True,
                              timeout=120 * PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(rows_of({f.name: f.read_bytes() for f in (data / "out").iterdir()
                                  if f.is_file()}), rows_of(want))
        self.check_refusals(c, spec, data, half)

    def check_export(self, c, job, folder, model):
        """With a row for every id a model is one file, which is worth as much."""
        for name in ("whole.safetensors", "whole.onnx"):
            self.evaluate(folder, "-m", model, "--export", name)
        self.assertEqual(self.evaluate(folder, "-m", "whole.safetensors"), self.last(c, job))
        whole = (folder / "whole.safetensors").read_bytes()
        (n,) = struct.unpack_from("<Q", whole)
        table = json.loads(whole[8:8 + n])["embedding.weight"]
        self.assertEqual(table["shape"], [80000, 10])
        begin, end = (8 + n + at for at in table["data_offsets"])
        rows = rows_of(c.files(job.id))
        self.assertTrue(rows)
        for (_, key), rest in rows.items():  # row i is that of id i
            at = begin + 40 * int.from_bytes(key, "little")
            self.assertEqual(whole[at:at + 40], rest[24:64])
        self.assertIn(whole[begin:end], (folder / "whole.onnx").read_bytes())
        self.assertIn("the model has no sparse tables", self.evaluate(
            folder, "-m", "whole.safetensors", "--export", "again.onnx"))

    def check_refusals(self, c, spec, data, half):
        one = "again/MODEL-adult-N(ps0).table0.psgdtab"
        whole = (data / one).read_bytes()
        (data / "bad.psgdtab").write_bytes(b"X" + whole[1:])
        (data / "torn.psgdtab").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        (data / "empty.psgdtab").touch()
        with (data / "huge.psgdtab").open("wb") as huge:
            huge.truncate((64 << 30) + 1)
        model = {**spec["model"], "table": SPARSE}
        dense = {"initFrom": "again/MODEL-adult-N(ps).safetensors"}
        for words, more in (("spec.init_tables: no whole file of table 0", {"initTables": [one]}),
                            ("spec.init_tables: is empty", dense),
                            ("offset 0: not the file", {"initTables": ["bad.psgdtab"]}),
                            ("empty.psgdtab: size: 0; 1 to 68719476736",
                             {"initTables": ["empty.psgdtab"]}),
                            ("huge.psgdtab: size: 68719476737", {"initTables": ["huge.psgdtab"]}),
                            ("nothing.psgdtab", {"initTables": ["nothing.psgdtab"]}),
                            ("no-such", {"initTables": ["job:no-such"]}),
                            ("of another optimizer", {"optimizer": ADAGRAD,
                                                      "initTables": [f"job:{half.id}"]}),
                            ("without sparse tables", {"model": spec["model"],
                                                       "initTables": [one]})):
            with self.subTest(words=words), self.assertRaises(grpc.RpcError) as refused:
                c.submit({**spec, "model": model, **more})
            self.assertIn(words, refused.exception.details())
        # What a head does not tell is told by the server that takes it in.
        more = {"initTables": ["torn.psgdtab", "again/MODEL-adult-N(ps1).table0.psgdtab"]}
        job = c.wait(c.submit({**spec, "model": model, **more}).id, seconds=60)
        self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_FAILED, "PRE_COMMIT_FAILED"))
        self.assertIn("the checksum of bytes", job.message)
        c.wait_idle()
        # Another optimizer may have the values.
        self.train(c, {**spec, "optimizer": ADAGRAD},
                   {"name": "sparse", "params": {"keep_state": 0}}, initTables=[f"job:{half.id}"])

    def test_words_are_learnt_from_sparse_tables(self):
        c = self.cluster(workers=2, pservers=2, data=self.data())
        self.compare(c, TEXT, 0.02)

    def test_one_process_leaves_the_bits_of_a_cluster(self):
        data = self.data()
        c = self.cluster(workers=2, pservers=2, data=data)
        self.check_bits(c, {**ADULT, "data": {**ADULT["data"], "trainLimit": 1280, "testLimit": 500}},
                        data)
        # A model that is nothing but tables.
        folder, job = self.check_bits(c, PAIRS, data)
        said = self.evaluate(folder, "-m", "MODEL-pairs-N(ps).safetensors")
        self.assertEqual(said["loss"], float(f"{job.result['loss']:.9g}"))

    def check_bits(self, c, spec, data):
        title = spec["title"]
        job = self.train(c, spec, SPARSE)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-tables-"))
        self.addCleanup(shutil.rmtree, folder, True)
        (folder / "job.json").write_text(json.dumps(
            {**spec, "workers": 2, "pservers": 2, "model": {**spec["model"], "table": SPARSE}}))
        # On one thread each worker computes while the other one waits for servers.
        done = subprocess.run([BIN / "psgd", "train", folder / "job.json", "--out", folder / "out",
                               "--job-id", job.id, "--data-path", data, "--threads", "1"],
                              capture_output=True, text=True, timeout=120 * PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        files = c.files(job.id)
        self.assertEqual(self.ahead(files), [9, 9])  # of 10 steps, each of a block
        for name, of in ((f"MODEL-{title}-N(0).safetensors", lambda model: hashlib.sha256(model).hexdigest()),
                         (f"EV-{title}-N(0).csv", evaluated)):
            self.assertEqual(of((folder / "out" / name).read_bytes()), of(files[name]), name)
        return folder / "out", job

    def test_the_preset_of_click_rates_learns_what_its_dense_form_does(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-ctr-"))
        self.addCleanup(shutil.rmtree, folder, True)
        auc = {}
        for name, choices in (("sparse", ("model.table.name=sparse",)),
                              ("none", ("model.table.name=none",)),
                              ("bsp", ("model.table.name=sparse", "consistency.name=bsp"))):
            choices = [word for choice in (*choices, "epochs=1", "data.train_limit=12000")
                       for word in ("-s", choice)]
            done = subprocess.run([BIN / "psgd", "--format", "json", "train", "--preset",
                                   "fleet_ctr", *choices, "--data-path", self.data(), "--out",
                                   folder / name],
                                  capture_output=True, text=True, timeout=240 * PATIENCE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            auc[name] = json.loads(done.stdout)["result"]["auc"]
        print("fleet_ctr", auc)
        self.assertGreater(auc["sparse"], 0.88)
        self.assertLess(abs(auc["sparse"] - auc["none"]), 0.01)
        # Under bsp what the servers leave is what worker 0 evaluated; under asp others still pushed.
        said = self.evaluate(folder / "bsp", "-m", "MODEL-fleet_ctr-N(ps).safetensors")
        self.assertEqual(said["auc"], float(f"{auc['bsp']:.9g}"))

    def ahead(self, files):
        """How many blocks' rows each worker asked for while it computed the one before."""
        said = [re.findall(rb"rows of (\d+) blocks were asked for[^,]*, of (\d+)", text)
                for name, text in files.items() if name.startswith("LOG-")]
        said = [(int(all_), int(there)) for found in said for all_, there in found]
        print("rows asked for ahead, and there in time:", said)
        self.assertTrue(all(there <= all_ for all_, there in said))
        return [all_ for all_, _ in said]

    def test_rows_are_asked_for_while_the_block_before_is_computed(self):
        """Blocks of a step and steps alike, but not beyond an evaluation, which asks for its own; to
        the same bits where policies have bits."""
        c = self.cluster(workers=2, pservers=2, data=self.data())
        spec = {**ADULT, "evalEverySteps": 6, "epochs": 2,
                "assignment": {"name": "uneven", "params": {"ratio_1": 2, "ratio_2": 1}},
                "data": {**ADULT["data"], "trainLimit": 1920, "testLimit": 100}}
        never = {"name": "sparse", "params": {"prefetch": 0}}
        jobs = [self.train(c, spec, SPARSE), self.train(c, spec, never),
                self.train(c, spec, SPARSE, consistency={"name": "asp"})]
        files = [c.files(job.id) for job in jobs]
        self.assertEqual(self.ahead(files[1]), [])
        self.assertEqual(rows_of(files[0]), rows_of(files[1]))
        self.assertEqual(jobs[0].result["loss"], jobs[1].result["loss"])
        # 40 and 20 blocks, but for the first of each stretch: from steps 0, 6, 10, 12 and 18.
        for left in (files[0], files[2]):
            self.assertEqual(sorted(self.ahead(left)), [15, 35])

    def test_what_goes_beside_sparse_tables(self):
        """Every kind of policy, rows through codecs of few bits, and beside them dense
        variables through codecs that keep something; more workers than servers and fewer."""
        c = self.cluster(workers=3, pservers=2, data=self.data())
        spec = {**ADULT, "data": {**ADULT["data"], "trainLimit": 3840, "testLimit": 1500}}
        kept = {"up": {"name": "topk", "params": {"error_feedback": 1}},
                "variables": [{"match": "embedding.*", "up": {"name": "f16"},
                               "down": {"name": "int8"}}]}
        bits = {"up": {"name": "int8"}, "down": {"name": "f16"}}
        base = self.train(c, spec, SPARSE)
        for more in ({"consistency": {"name": "ssp", "params": {"bound": 1}}},
                     {"consistency": {"name": "dssp"}}, {"consistency": {"name": "half_async"}},
                     {"consistency": {"name": "stale_scaled"}}, {"consistency": {"name": "lag_discard"}},
                     {"consistency": {"name": "backup"}, "workers": 3},
                     {"consistency": {"name": "quorum"}, "workers": 3},
                     {"optimizer": {**ADAGRAD, "l1": 1e-5, "l2": 1e-4}},
                     {"codec": bits}, {"codec": kept, "workers": 3, "pservers": 1}):
            with self.subTest(more=more):
                job = self.train(c, spec, SPARSE, **more)
                print(more, dict(job.result), f"{job.progress.bytes_up >> 10} KiB up, "
                      f"{job.progress.bytes_down >> 10} KiB down")
                self.assertGreater(job.result["auc"], 0.8)
                if "codec" in more:
                    self.assertLess(job.progress.bytes_up, base.progress.bytes_up * 0.75)

    def test_what_does_not_go_together_is_refused(self):
        c = self.cluster(workers=1, pservers=1, data=self.data())
        wrong = {"spec.update.name": {"update": {"name": "losp"}},
                 "spec.exchange.name": {"exchange": {"name": "ring"}, "pservers": 0},
                 "spec.optimizer.side": {"optimizer": {**ADAGRAD, "side": "OPTIMIZER_SIDE_WORKER"}},
                 "spec.codec.up.params": {"codec": {"up": {"name": "int8",
                                                           "params": {"error_feedback": 1}}}}}
        for field, more in wrong.items():
            with self.subTest(field=field), self.assertRaises(grpc.RpcError) as refused:
                c.submit({**ADULT, "model": {**ADULT["model"], "table": SPARSE}}, **more)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(field, refused.exception.details())


if __name__ == "__main__":
    main()
