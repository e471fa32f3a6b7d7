# SPDX-License-Identifier: Apache-2.0
"""test_eval.py - psgd eval says of a model what its job said of it; psgd predict writes its outputs."""
import csv
import io
import json
import math
import os
import struct
import subprocess

from harness import BIN, PATIENCE, SMALL, ClusterTest, job_pb2, main, tensors

OK, ARGUMENTS = 0, 4


class ModelTest(ClusterTest):

    def model(self, **fields):
        """A folder with m.safetensors of a small job, and the last row of its evaluation."""
        c = self.cluster(workers=1, pservers=1)
        job = c.wait(c.submit({**SMALL, "epochs": 2, **fields}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        files = c.files(job.id)
        for rank in ("0", "ps"):
            (c.folder / f"{rank}.safetensors").write_bytes(
                files[f"MODEL-small-N({rank}).safetensors"])
        rows = list(csv.DictReader(io.StringIO(files["EV-small-N(0).csv"].decode())))
        return c.folder, job, rows[-1]

    def run_psgd(self, command, folder, *args, code=OK, data=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_")}
        if data:
            env["PSGD_DATA"] = data
        p = subprocess.run([BIN / "psgd", command, *map(str, args)], cwd=folder, env=env,
                           capture_output=True, text=True, timeout=60 * PATIENCE)
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        return p.stdout if code == OK else p.stderr

    def run_eval(self, folder, *args, **how):
        return self.run_psgd("eval", folder, *args, **how)

    def run_predict(self, folder, *args, **how):
        return self.run_psgd("predict", folder, *args, **how)


def dense(model, name, x):
    (units, inputs), weight = model[f"{name}.weight"]
    weight, bias = (struct.unpack(f"<{len(b) // 4}f", b) for b in (weight, model[f"{name}.bias"][1]))
    return [bias[u] + math.fsum(weight[u * inputs + i] * x[i] for i in range(inputs))
            for u in range(units)]


class Eval(ModelTest):

    def test_it_says_what_the_job_said(self):
        folder, job, row = self.model(metrics=[
            {"name": "accuracy"}, {"name": "top_k", "params": {"k": 2}}])
        for name in ("0", "ps"):
            out = json.loads(self.run_eval(folder, "--model", f"{name}.safetensors", "--format", "json"))
            self.assertEqual((out["samples"], out["split"], out["data"], out["job"]),
                             (500, "test", "glyphs", job.id))
            # What the report said, to its last digit.
            self.assertEqual({k: "%.9g" % v for k, v in out["metrics"].items()},
                             {k: "%.9g" % float(row[k]) for k in ("loss", "accuracy", "top_k")})
        other = json.loads(self.run_eval(folder, "-m", "0.safetensors", "-M", "auc", "-M", "rmse",
                                         "--format", "json"))
        self.assertEqual(set(other["metrics"]), {"loss", "auc", "rmse"})
        text = self.run_eval(folder, "-m", "0.safetensors", "-M", "accuracy")
        self.assertIn(f"job {job.id}, step {job.progress.total_steps}", text)
        self.assertIn("glyphs, test set, 500 samples", text)
        self.assertNotIn("top_k", text)
        # Other samples, another number of them.
        train = json.loads(self.run_eval(folder, "-m", "0.safetensors", "--split", "train",
                                         "--train-limit", "1000", "--format", "json"))
        self.assertEqual(train["samples"], 1000)
        self.assertNotEqual(train["metrics"]["loss"], out["metrics"]["loss"])

    def test_a_job_file_says_the_network_of_a_file_that_does_not(self):
        folder, _, row = self.model()
        raw = (folder / "0.safetensors").read_bytes()
        (n,) = struct.unpack_from("<Q", raw)
        header = json.loads(raw[8:8 + n])
        del header["__metadata__"]
        text = json.dumps(header).encode()
        (folder / "bare.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + n:])
        self.assertIn("--job", self.run_eval(folder, "-m", "bare.safetensors", code=ARGUMENTS))
        (folder / "job.yaml").write_text(json.dumps(SMALL))
        out = json.loads(self.run_eval(folder, "-m", "bare.safetensors", "--job", "job.yaml",
                                       "--format", "json"))
        self.assertAlmostEqual(out["metrics"]["loss"], float(row["loss"]), delta=1e-6)

    def test_what_does_not_fit_is_named(self):
        folder, _, _ = self.model()
        (folder / "other.yaml").write_text(json.dumps({**SMALL, "model": {"widths": [17]}}))
        for args, words in [
                (["-m", "0.safetensors", "--job", "other.yaml"],
                 ["dense0.weight", "expected [17, 784]", "found [16, 784]"]),
                (["-m", "0.safetensors", "--data", "cifar10"], ["cifar10", "data-path"]),
                (["-m", "0.safetensors", "--data", "nonsense"], ["data.name", "nonsense"]),
                (["-m", "0.safetensors", "-M", "nonsense"], ["metrics[0]", "nonsense"]),
                (["-m", "0.safetensors", "--set", "model.loss=mse", "-M", "perplexity"],
                 ["metrics[0]", "perplexity"]),
                (["-m", "none.safetensors"], ["none.safetensors"]),
                (["--split", "test"], ["--model FILE"])]:
            out = self.run_eval(folder, *args, code=ARGUMENTS)
            for word in words:
                self.assertIn(word, out)

    def test_real_data_is_found_by_its_path(self):
        data = self.need_mnist()
        c = self.cluster(workers=1, pservers=1, data=data)
        job = c.wait(c.submit({**SMALL, "data": {"name": "mnist", "trainLimit": 2000}, "epochs": 1}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        name = "MODEL-small-N(0).safetensors"
        (c.folder / "m.safetensors").write_bytes(c.files(job.id)[name])
        out = json.loads(self.run_eval(c.folder, "-m", "m.safetensors", "--format", "json", data=data))
        self.assertEqual(out["samples"], 10000)
        self.assertAlmostEqual(out["metrics"]["accuracy"], job.result["accuracy"], delta=1e-9)
        # The same model on other digits.
        other = json.loads(self.run_eval(c.folder, "-m", "m.safetensors", "--data", "glyphs",
                                         "--test-limit", "700", "--format", "json"))
        self.assertEqual((other["data"], other["samples"]), ("glyphs", 700))


class Predict(ModelTest):

    def test_its_rows_have_the_accuracy_that_eval_prints(self):
        folder, _, row = self.model()
        rows = list(csv.DictReader(io.StringIO(self.run_predict(folder, "-m", "0.safetensors"))))
        names = [f"output{i}" for i in range(10)]
        self.assertEqual(list(rows[0]), ["index", *names, "class", "target"])
        self.assertEqual([int(r["index"]) for r in rows], list(range(500)))
        loss = []
        for r in rows:
            p = [float(r[name]) for name in names]
            self.assertAlmostEqual(sum(p), 1, delta=1e-6)
            self.assertEqual(p.index(max(p)), int(r["class"]))
            loss.append(-math.log(p[int(r["target"])]))
        said = json.loads(self.run_eval(folder, "-m", "0.safetensors", "-M", "accuracy",
                                        "--format", "json"))["metrics"]
        right = sum(r["class"] == r["target"] for r in rows)
        self.assertEqual(right / 500, said["accuracy"])
        self.assertLess(right, 500)
        self.assertAlmostEqual(math.fsum(loss) / 500, float(row["loss"]), delta=1e-5)

        # The same rows as JSON, as lines, and in a file.
        all_json = json.loads(self.run_predict(folder, "-m", "0.safetensors", "--format", "json"))
        self.assertEqual([[r["index"], *r["outputs"], r["class"], r["target"]] for r in all_json],
                         [[float(v) for v in r.values()] for r in rows])
        lines = self.run_predict(folder, "-m", "0.safetensors", "--format", "jsonl")
        self.assertEqual([json.loads(line) for line in lines.splitlines()], all_json)
        self.assertEqual(self.run_predict(folder, "-m", "0.safetensors", "--format", "jsonl",
                                          "--output", "rows.jsonl"), "")
        self.assertEqual((folder / "rows.jsonl").read_text(), lines)
        # Other samples of the same data set.
        train = self.run_predict(folder, "-m", "0.safetensors", "--split", "train",
                                 "--train-limit", 70)
        self.assertEqual(len(train.splitlines()), 71)

    def test_its_outputs_are_those_of_the_network(self):
        folder, _, _ = self.model(model={"preset": "mlp", "widths": [16], "activation": "relu"})
        inputs = [[math.sin(0.37 * i * (k + 1)) / 2 for i in range(784)] for k in range(66)]
        (folder / "x.csv").write_text("".join(",".join(map(repr, x)) + "\n" for x in inputs))
        model = tensors((folder / "0.safetensors").read_bytes())
        rows = list(csv.DictReader(io.StringIO(
            self.run_predict(folder, "-m", "0.safetensors", "--csv", "x.csv"))))
        self.assertEqual(len(rows), 66)
        self.assertNotIn("target", rows[0])
        values = list(csv.DictReader(io.StringIO(self.run_predict(
            folder, "-m", "0.safetensors", "--csv", "x.csv", "--set", "model.loss=mse"))))
        for x, row, value in zip(inputs, rows, values):
            y = dense(model, "dense2", [max(v, 0) for v in dense(model, "dense0", x)])
            e = [math.exp(v - max(y)) for v in y]
            for j in range(10):
                self.assertAlmostEqual(float(row[f"output{j}"]), e[j] / sum(e), delta=1e-5)
                self.assertAlmostEqual(float(value[f"output{j}"]), y[j], delta=1e-4)
            self.assertEqual(int(row["class"]), y.index(max(y)))
            self.assertEqual(int(value["class"]), y.index(max(y)))

    def test_wrong_inputs_are_named(self):
        folder, _, _ = self.model()
        good = ",".join(["0.5"] * 784)
        for name, text in [("few", good + "\n0.5,1\n"), ("empty", ""), ("word", good + "\r\nx" + good[3:]),
                           ("huge", "1e39" + good[3:]), ("good", good)]:
            (folder / f"{name}.csv").write_text(text)
        m = ["-m", "0.safetensors"]
        for args, words in [
                ([*m, "--csv", "few.csv"], ["--csv", "few.csv: line 2", "2 columns", "expected 784"]),
                ([*m, "--csv", "empty.csv"], ["empty.csv", "expected a line"]),
                ([*m, "--csv", "word.csv"], ["line 2", "field 1", '"x"', "finite number"]),
                ([*m, "--csv", "huge.csv"], ["line 1", "field 1", '"1e39"', "finite number"]),
                ([*m, "--csv", "none.csv"], ["--csv", "none.csv"]),
                ([*m, "--csv", "good.csv", "--data", "glyphs"], ["--csv good.csv", "--data glyphs"]),
                ([*m, "--csv", "good.csv", "-o", "none/rows.csv"], ["--output", "none"]),
                ([*m, "--data", "nonsense"], ["data.name", "nonsense"]),
                (["-m", "none.safetensors"], ["none.safetensors"]),
                (["--csv", "good.csv"], ["--model FILE"])]:
            out = self.run_predict(folder, *args, code=ARGUMENTS)
            for word in words:
                self.assertIn(word, out)
        self.run_predict(folder, *m, "--csv", "good.csv")


if __name__ == "__main__":
    main()
