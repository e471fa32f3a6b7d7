# SPDX-License-Identifier: Apache-2.0
"""test_tables.py - embeddings by rows and as sparse tables on the servers, between real processes
and on real data: what they reach beside whole tables, what travels, and the files they leave."""
import hashlib
import json
import pathlib
import shutil
import struct
import subprocess
import tempfile

import grpc

from harness import BIN, SLOW, ClusterTest, data_path, job_pb2, main

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


class Tables(ClusterTest):
    def train(self, c, spec, table=None, **more):
        model = {**spec["model"], **({"table": table} if table else {})}
        job = c.wait(c.submit({**spec, "model": model}, workers=2, pservers=2, **more).id,
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
        rows = 0
        for name in tables:
            magic, width, slots, table, _, kind, sections = struct.unpack_from("<8s6I", files[name])
            self.assertEqual((magic, width, slots, table, kind), (b"PSGDTAB1", 10, 1, 0, 0))
            at = 8 + 24 + 8
            for _ in range(sections):
                _, some, removed, candidates = struct.unpack_from("<4I", files[name], at)
                rows += some
                at += 16 + some * (32 + 4 * 2 * width) + 8 * removed + 16 * candidates + 8
            self.assertEqual(at, len(files[name]))
        self.assertTrue(30 < rows < 200, rows)  # of 80,000 ids
        model = files["MODEL-adult-N(ps).safetensors"]
        self.assertNotIn(b"embedding.weight", model)
        self.assertIn(b"deep1.weight", model)

    def test_words_are_learnt_from_sparse_tables(self):
        c = self.cluster(workers=2, pservers=2, data=self.data())
        self.compare(c, TEXT, 0.02)

    def test_one_process_leaves_the_bits_of_a_cluster(self):
        data = self.data()
        c = self.cluster(workers=2, pservers=2, data=data)
        spec = {**ADULT, "data": {**ADULT["data"], "trainLimit": 1280, "testLimit": 500}}
        job = self.train(c, spec, SPARSE)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-tables-"))
        self.addCleanup(shutil.rmtree, folder, True)
        (folder / "job.json").write_text(json.dumps(
            {**spec, "workers": 2, "pservers": 2, "model": {**spec["model"], "table": SPARSE}}))
        done = subprocess.run([BIN / "psgd", "train", folder / "job.json", "--out", folder / "out",
                               "--job-id", job.id, "--data-path", data],
                              capture_output=True, text=True, timeout=120 * SLOW)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        files = c.files(job.id)
        for name in ("MODEL-adult-N(0).safetensors", "EV-adult-N(0).csv"):
            self.assertEqual(hashlib.sha256((folder / "out" / name).read_bytes()).hexdigest(),
                             hashlib.sha256(files[name]).hexdigest(), name)

    def test_what_does_not_go_together_is_refused(self):
        c = self.cluster(workers=1, pservers=1, data=self.data())
        wrong = {"spec.update.name": {"update": {"name": "localsgd"}},
                 "spec.consistency.name": {"consistency": {"name": "ssp"}},
                 "spec.optimizer.side": {"optimizer": {**ADAGRAD, "side": "OPTIMIZER_SIDE_WORKER"}},
                 "spec.optimizer.l2": {"optimizer": {**ADAGRAD, "l2": 0.1}},
                 "spec.codec.up.params": {"codec": {"up": {"name": "int8",
                                                           "params": {"error_feedback": 1}}}}}
        for field, more in wrong.items():
            with self.subTest(field=field), self.assertRaises(grpc.RpcError) as refused:
                c.submit({**ADULT, "model": {**ADULT["model"], "table": SPARSE}}, **more)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(field, refused.exception.details())


if __name__ == "__main__":
    main()
