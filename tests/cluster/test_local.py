# SPDX-License-Identifier: Apache-2.0
"""test_local.py - psgd train: it gives the same bits as a cluster, and behaves as documented on the command line."""
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

import timeline
from harness import (BIN, ENDLESS, PATIENCE, SLOW, SMALL, ClusterTest, data_path, evaluated, job_pb2, main,
                     tensors)

PSGD = BIN / "psgd"
OK, SERVER, ARGUMENTS, INTERRUPTED = 0, 1, 4, 130


class Folder:
    """A temporary folder in which a test trains."""

    def __init__(self, test):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="psgd-local-"))
        test.addCleanup(shutil.rmtree, self.path, True)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_")}
        self.runs = 0

    def spec(self, spec):
        self.runs += 1
        path = self.path / f"{self.runs}.json"
        path.write_text(json.dumps(spec))
        return path

    def command(self, *args):
        return [str(PSGD), *map(str, args)]

    def run(self, *args, seconds=120):
        """(exit code, stdout, stderr)"""
        p = subprocess.run(self.command(*args), capture_output=True, text=True, env=self.env,
                           cwd=self.path, timeout=seconds * PATIENCE, stdin=subprocess.DEVNULL)
        return p.returncode, p.stdout, p.stderr


class SameBits(ClusterTest):
    def test_the_model_of_a_cluster(self):
        c = self.cluster(workers=2, pservers=2)
        f = Folder(self)
        codecs = {"f32": {}, "int8": {"codec": {"up": {"name": "int8"}, "down": {"name": "int8"}}},
                  "sign": {"codec": {"up": {"name": "sign", "params": {"error_feedback": 1}}}},
                  "powersgd": {"model": {"preset": "mlp", "widths": [64]},  # whole: four slices
                               "codec": {"up": {"name": "powersgd"}}},
                  "localsgd": {"update": {"name": "localsgd"}},
                  "dqlosp": {"update": {"name": "dqlosp"}, "optimizer": {"rule": {"name": "sgd"}}}}
        cases = itertools.product(codecs, (1, 2), (1, 2))
        for codec, workers, servers in cases:
            with self.subTest(codec=codec, workers=workers, servers=servers):
                spec = {**SMALL, "epochs": 2, "workers": workers, "pservers": servers,
                        **codecs[codec]}
                job = c.wait(c.submit(spec).id)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                files = c.files(job.id)
                code, out, err = f.run("train", f.spec(spec), "--out", job.id, "--job-id", job.id)
                self.assertEqual(code, OK, out + err)
                mine = {name: (f.path / job.id / name).read_bytes()
                        for name in ("MODEL-small-N(0).safetensors", "EV-small-N(0).csv")}
                for name, of in (("MODEL-small-N(0).safetensors", lambda model: hashlib.sha256(model).hexdigest()),
                                 ("EV-small-N(0).csv", evaluated)):
                    self.assertEqual(of(mine[name]), of(files[name]), name)


class Command(unittest.TestCase):
    def test_it_says_what_it_does_and_leaves_what_it_lists(self):
        f = Folder(self)
        code, out, err = f.run("train", f.spec({**SMALL, "workers": 2}))
        self.assertEqual((code, err), (OK, ""))
        for words in ("2 workers", "memory", "test set: loss", "160 steps", "result"):
            self.assertIn(words, out)
        folder = f.path / "small-local"
        manifest = json.loads((folder / "manifest.json").read_text())
        for entry in manifest["files"]:
            data = (folder / entry["name"]).read_bytes()
            self.assertEqual(hashlib.sha256(data).hexdigest(), entry["sha256"])
            self.assertIn(entry["name"], out)
        summary = json.loads((folder / "summary.json").read_text())
        self.assertEqual(summary["state"], "JOB_STATE_DONE")
        self.assertGreater(summary["result"]["accuracy"], 0.5)
        ranks = [r for n in summary["nodes"] for r in n.get("ranks", [])]
        (servers,) = (n["counters"] for n in summary["nodes"] if "counters" in n)
        self.assertEqual(sum(r["bytes_up"] for r in ranks), summary["progress"]["bytes_up"])
        self.assertEqual(servers["bytes_up"], summary["progress"]["bytes_up"])
        self.assertEqual(servers["version"], summary["progress"]["step"])

    def test_a_model_says_how_many_steps_are_behind_it(self):
        f = Folder(self)
        for update in ("gradient", "localsgd"):  # rounds of localsgd have 16 steps
            code, out, err = f.run("train", f.spec({**SMALL, "update": {"name": update}}), "--out", update)
            self.assertEqual((code, err), (OK, ""), out)
            data = (f.path / update / "MODEL-small-N(0).safetensors").read_bytes()
            meta = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])["__metadata__"]
            self.assertEqual((meta["job"], meta["step"]), ("small-local", "320"))

    def test_the_initial_model_is_what_a_job_with_its_seed_starts_from(self):
        f = Folder(self)
        data = f.path / "data"
        data.mkdir()

        def model(folder, *args, name="0", **fields):
            code, out, err = f.run("train", f.spec({**SMALL, "epochs": 1, "seed": 5, **fields}),
                                   "--data-path", data, "--out", folder, *args)
            self.assertEqual((code, err), (OK, ""), out)
            return (f.path / folder / f"MODEL-small-N({name}).safetensors").read_bytes()

        exact = {"optimizer": {"rule": {"name": "sgd", "params": {"lr": 1e-30}}}}
        for i, fields in enumerate([{}, {"workers": 2, "exchange": {"name": "ring"}}]):
            with self.subTest(**fields):
                first = model(f"first{i}", "--init-only", **fields)
                meta = json.loads(first[8:8 + int.from_bytes(first[:8], "little")])["__metadata__"]
                self.assertEqual(meta["step"], "0")
                self.assertIn('"glyphs"', meta["spec"])
                # Weights to the bit, when the steps are too small for float32; biases begin at 0.
                still = tensors(model(f"still{i}", **exact, **fields))
                for name, (shape, bits) in tensors(first).items():
                    if name.endswith(".weight"):
                        self.assertEqual((shape, bits), still[name], name)
                    else:
                        self.assertEqual((shape, bits), (still[name][0], bytes(len(bits))), name)
                (data / "first.safetensors").write_bytes(first)
                end = tensors(model(f"end{i}", **fields))
                self.assertNotEqual(end, tensors(first))
                # A job that starts from the file is the job that draws its weights.
                self.assertEqual(end, tensors(model(f"same{i}", init_from="first.safetensors", **fields)))
                other = tensors(model(f"other{i}", init_from="first.safetensors",
                                      **{**exact, **fields, "seed": 6}))
                self.assertEqual(tensors(first)["dense0.weight"], other["dense0.weight"])
        self.assertNotEqual(tensors(model("six", "--init-only", seed=6)), tensors(first))
        left = {p.name for p in (f.path / "first0").iterdir()}
        self.assertEqual(left, {"LOG-small-N(local).jsonl", "MODEL-small-N(0).onnx",
                                "MODEL-small-N(0).safetensors", "MODEL-small-N(ps).safetensors",
                                "summary.json", "manifest.json"})
        self.assertEqual(tensors(model("both", "--init-only")),
                         tensors((f.path / "both/MODEL-small-N(ps).safetensors").read_bytes()))
        summary = json.loads((f.path / "first0/summary.json").read_text())
        self.assertNotIn("result", summary)
        for p, size in ((f.path / "first0" / e["name"], e["size"]) for e in json.loads(
                (f.path / "first0/manifest.json").read_text())["files"]):
            self.assertEqual(p.stat().st_size, size)
        code, out, err = f.run("train", f.spec(SMALL), "--init-only", "--plan")
        self.assertEqual((code, out), (ARGUMENTS, ""))
        self.assertIn("--init-only", err)

    def test_json_is_the_job_and_jsonl_its_events(self):
        f = Folder(self)
        code, out, _ = f.run("--format", "json", "train", f.spec(SMALL))
        self.assertEqual(code, OK)
        job = json.loads(out)
        self.assertEqual(job["state"], "JOB_STATE_DONE")
        self.assertEqual(int(job["progress"]["step"]), 320)
        code, out, _ = f.run("--format", "jsonl", "train", f.spec(SMALL))
        self.assertEqual(code, OK)
        events = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(events[-1]["kind"], "JOB_EVENT_KIND_STATE")
        self.assertEqual(events[-1]["job"]["state"], "JOB_STATE_DONE")

    def test_every_wrong_field_is_named(self):
        f = Folder(self)
        code, out, err = f.run("train", f.spec({
            "workers": 100000, "optimizer": {"rule": {"name": "adma"}},
            "codec": {"up": {"name": "int9"}},
            "consistency": {"name": "ssp", "params": {"bnd": 1}}}))
        self.assertEqual((code, out), (ARGUMENTS, ""))
        for field in ("spec.workers", "spec.optimizer.rule.name", "spec.codec.up.name",
                      "spec.consistency.params"):
            self.assertIn(field, err)
        code, _, err = f.run("train", f.spec({"epohcs": 2}))
        self.assertEqual(code, ARGUMENTS)
        self.assertIn("epohcs", err)
        job = f.path / "job.yaml"
        job.write_text("workers: 1\ndata:\n  name: glyphs\n  trainLimit: 70000\n")
        code, _, err = f.run("train", job)
        self.assertEqual(code, ARGUMENTS)
        self.assertIn("job.yaml:4: spec.data.train_limit: is 70000", err)
        code, _, err = f.run("train", "--data", "mnist")
        self.assertEqual(code, SERVER)
        self.assertIn("--data-path", err)
        code, _, err = f.run("train", "--threads", "-1")
        self.assertEqual(code, ARGUMENTS)

    def test_fields_that_one_process_cannot_obey_are_refused(self):
        f = Folder(self)
        recovery = {"maxRestarts": 3, "onWorkerLoss": "LOSS_ACTION_RESTART", "onServerLoss": "LOSS_ACTION_RESTART",
                    "waitSeconds": 5}
        job = f.spec({**SMALL, "checkpoint": {"keep": 2}, "recovery": recovery, "workersMin": 1, "workersMax": 1})
        code, out, err = f.run("train", job)
        self.assertEqual((code, out), (ARGUMENTS, ""))
        for field in ("checkpoint", "recovery.max_restarts", "recovery.on_worker_loss", "recovery.on_server_loss",
                      "recovery.wait_seconds", "workers_min", "workers_max"):
            self.assertIn(f"spec.{field}: is set; psgd train runs in one process", err)
        code, out, err = f.run("train", "--plan", job)
        self.assertEqual(code, OK, err)
        code, out, err = f.run("train", f.spec({**SMALL, "recovery": {"onWorkerLoss": "LOSS_ACTION_FAIL"}}))
        self.assertEqual(code, OK, err)

    def test_ctrl_c_ends_it_with_model_and_reports(self):
        for title, rank, more in (("servers", "ps", {}),
                                  ("workers", "0", {"exchange": {"name": "ring"}})):
            with self.subTest(through=title):
                self.interrupt({**ENDLESS, "workers": 2, "title": title, **more}, rank)

    def interrupt(self, spec, rank):
        f = Folder(self)
        p = subprocess.Popen(f.command("--format", "jsonl", "train", f.spec(spec), "--out", "out"),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=f.env,
                             cwd=f.path)
        line = p.stdout.readline()
        while int(json.loads(line)["job"]["progress"]["step"]) == 0:
            line = p.stdout.readline()
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=30 * PATIENCE)
        self.assertEqual(p.returncode, INTERRUPTED, out + err)
        self.assertEqual(json.loads(out.splitlines()[-1])["job"]["state"], "JOB_STATE_CANCELLED")
        summary = json.loads((f.path / "out/summary.json").read_text())
        self.assertEqual(summary["state"], "JOB_STATE_CANCELLED")
        rows = (f.path / f"out/TR-{spec['title']}-N(1).csv").read_text().splitlines()
        self.assertGreater(len(rows), 1)
        model = f"MODEL-{spec['title']}-N({rank}).safetensors"
        self.assertIn(model, (f.path / "out/manifest.json").read_text())
        code, out, err = f.run("--format", "json", "eval", "-m", f"out/{model}")
        self.assertEqual(code, OK, err)
        self.assertGreater(json.loads(out)["metrics"]["accuracy"], 0.05)

    def test_the_last_row_has_the_last_exchange(self):
        """Rounds of local steps too, whose exchange comes after the last step."""
        f = Folder(self)
        code, out, err = f.run("--format", "json", "train", "--preset", "fedavg", "-E", "1",
                               "--out", "out")
        self.assertEqual(code, OK, err)
        progress = json.loads(out)["progress"]
        last = [(f.path / f"out/TR-fedavg-N({r}).csv").read_text().splitlines()[-1].split(",")
                for r in (0, 1)]
        head = (f.path / "out/TR-fedavg-N(0).csv").read_text().splitlines()[0].split(",")
        for way in ("bytes_up", "bytes_down"):
            total = sum(int(row[head.index(way)]) for row in last)
            self.assertEqual(total, int(progress[way]))

    def test_the_plan_alone_trains_nothing(self):
        f = Folder(self)
        code, out, err = f.run("--format", "json", "train", "--plan", f.spec(SMALL), "--out", "out")
        self.assertEqual((code, err), (OK, ""))
        plan = json.loads(out)
        self.assertEqual(plan["steps"], 320)
        # 784 * 16 + 16 + 16 * 10 + 10 values of 4 bytes
        self.assertEqual(plan["memory"]["weights"], 4 * plan["parameters"])
        self.assertEqual(plan["parameters"], 12730)
        self.assertFalse((f.path / "out").exists())


# Memory of a process that the plan does not count: program, libraries, data set. 64 MiB are allowed.
SLACK = 56 << 20


def peak_of(pid):
    """Returns the peak memory of a process in bytes."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) << 10


class Memory(ClusterTest):
    def plan(self, f, *args):
        code, out, err = f.run("--format", "json", "train", "--plan", *args)
        self.assertEqual(code, OK, err)
        return json.loads(out)["memory"]

    def kept(self, f, *args):
        """What a worker of a cluster keeps for a lost server: float32 of each step, if that of all steps fits."""
        code, out, err = f.run("--format", "json", "train", "--plan", *args)
        self.assertEqual(code, OK, err)
        plan = json.loads(out)
        kept = plan["steps"] * (4 * plan["parameters"] + (64 << 10))
        return kept if kept <= 64 << 20 else 0

    def check(self, f, what, spec):
        path = f.spec(spec)
        memory = self.plan(f, path)
        code, _, err = f.run("train", path, "--out", "out", seconds=300)
        self.assertEqual(code, OK, err)
        peak = json.loads((f.path / "out/summary.json").read_text())["peak_memory_bytes"]
        self.compare(what, peak, sum(memory.values()))

    def compare(self, what, peak, planned):
        print(f"{what}: peak {peak / 2**20:.1f} MiB, planned {planned / 2**20:.1f} MiB, "
              f"beside it {(peak - planned) / 2**20:.1f} MiB")
        self.assertLess(peak, planned + SLACK, what)

    def make_data(self, f):
        """Writes a small data set of each kind below f.path/data."""
        draw = random.Random(1)
        root = f.path / "data"
        (root / "cifar-10-batches-bin").mkdir(parents=True)
        for name, count in (("data_batch_1.bin", 64), ("test_batch.bin", 250)):
            (root / "cifar-10-batches-bin" / name).write_bytes(b"".join(
                bytes([draw.randrange(10)]) + draw.randbytes(3072) for _ in range(count)))
        (root / "large").mkdir()
        for name, count in (("train", 8), ("t10k", 64)):  # IDX: big-endian counts, then bytes
            side = struct.pack(">II", 227, 227)
            (root / f"large/{name}-images-idx3-ubyte").write_bytes(
                struct.pack(">II", 0x803, count) + side + draw.randbytes(count * 227 * 227))
            (root / f"large/{name}-labels-idx1-ubyte").write_bytes(
                struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))
        (root / "text").mkdir()
        words = [f"w{i}" for i in range(300)]
        (root / "text/text.txt").write_text("\n".join(
            " ".join(draw.choices(words, k=12)) for _ in range(400)) + "\n")
        (root / "text/clicks.tsv").write_text("".join(
            "\t".join([str(draw.randrange(2))] + [str(draw.randrange(100)) for _ in range(13)] +
                      [f"{draw.randrange(1 << 32):08x}" for _ in range(26)]) + "\n"
            for _ in range(800)))
        f.env["PSGD_DATA"] = str(root)

    def models(self, f):
        """Returns the names of all networks, from the answer to a wrong name."""
        _, _, err = f.run("train", "--model", "nonsense")
        return set(re.findall(r"allowed: (.*)", err)[-1].replace(" ", "").split(","))

    def jobs(self, f):
        """Returns a short job for each network. A whole evaluation batch needs the most memory."""
        glyphs = {"name": "glyphs", "trainLimit": 8, "testLimit": 250}
        text = {"folder": "text", "files": ["text.txt"], "trainLimit": 2000, "testLimit": 300}
        images = {"name": "cifar10", "trainLimit": 8, "testLimit": 250}
        sets = {"mlp": glyphs, "cnn": glyphs,
                "ngram": {**text, "name": "ngram"}, "skipgram": {**text, "name": "skipgram"},
                "wide_deep": {**text, "name": "criteo", "files": ["clicks.tsv"],
                              "trainLimit": 320, "testLimit": 100},
                "alexnet227": {"name": "mnist", "folder": "large"},
                "resnet18": {**images, "testLimit": 20}}  # more samples would take 2 GiB
        return {model: {"title": model, "epochs": 1, "blockSize": 8, "workers": 1,
                        "model": {"preset": model}, "data": sets.get(model, images)}
                for model in sorted(self.models(f))}

    @unittest.skipIf(SLOW > 1, "sanitizers keep memory of their own")
    def test_every_network_takes_what_the_plan_says(self):
        f = Folder(self)
        self.make_data(f)
        for model, spec in self.jobs(f).items():
            with self.subTest(model=model):
                self.check(f, model, spec)

    @unittest.skipIf(SLOW > 1, "sanitizers keep memory of their own")
    def test_a_process_takes_what_the_plan_says(self):
        f = Folder(self)
        job = {"data": {"name": "glyphs", "trainLimit": 1000, "testLimit": 300}, "epochs": 1,
               "blockSize": 32, "workers": 1}
        self.check(f, "wide mlp", {**job, "model": {"preset": "mlp", "widths": [3000, 3000]}})
        self.check(f, "four workers", {**job, "workers": 4, "pservers": 2,
                                       "codec": {"up": {"name": "int8",
                                                        "params": {"error_feedback": 1}}}})
        self.check(f, "adam at the worker", {**job, "model": {"widths": [3000, 1000]},
                                             "optimizer": {"side": "OPTIMIZER_SIDE_WORKER"}})
        self.check(f, "local steps", {**job, "workers": 2, "update": {"name": "losp"},
                                      "optimizer": {"rule": {"name": "sgd"}}})

    @unittest.skipIf(SLOW > 1 or not data_path(), "no data, or sanitizers")
    def test_whole_sets_are_within_it(self):
        f = Folder(self)
        f.env["PSGD_DATA"] = data_path()
        job = {"epochs": 1, "workers": 1, "blockSize": 64,
               "optimizer": {"rule": {"name": "adam"}}}
        small = {"kind": "dense", "params": {"units": 10}}  # the whole set is loaded
        for data in ("mnist", "glyphs", "cifar10"):
            with self.subTest(data=data):
                self.check(f, data, {**job, "data": {"name": data}, "model": {"layers": [small]}})
        text = {"files": ["tinyshakespeare.txt"], "trainLimit": 20000, "testLimit": 2000}
        for data in ("ngram", "skipgram"):
            with self.subTest(data=data):
                self.check(f, data, {**job, "data": {"name": data, **text},
                                     "model": {"preset": data}})

    @unittest.skipIf(SLOW > 1, "sanitizers keep memory of their own")
    def test_a_worker_of_a_cluster_is_within_it(self):
        f = Folder(self)
        self.make_data(f)
        jobs = self.jobs(f)
        del jobs["alexnet227"], jobs["resnet18"]  # they take seconds each, and far less memory than planned
        jobs["mlp on a whole set"] = {**jobs["mlp"], "blockSize": 64,
                                      "data": {"name": "glyphs", "testLimit": 500}}
        for model, spec in jobs.items():
            with self.subTest(model=model):
                # A process for each job: peak memory never falls.
                c = self.cluster(workers=1, pservers=1, data=f.env["PSGD_DATA"],
                                 node_data=f.env["PSGD_DATA"])
                memory = self.plan(f, f.spec(spec))
                del memory["servers"]  # servers are other processes
                memory["kept"] = self.kept(f, f.spec(spec))
                job = c.wait(c.submit(spec).id, seconds=240)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                self.compare(f"worker, {model}", peak_of(c.workers[0].process.pid),
                             sum(memory.values()))


class Timeline(ClusterTest):
    """trace: {from_step, steps} of psgd train."""

    def trained(self, **fields):
        f = Folder(self)
        code, out, err = f.run("train", f.spec({**SMALL, "model": {"preset": "mlp", "widths": [512]}, "workers": 2,
                                             "maxSteps": 40, "title": "t", **fields}),
                               "--out", "out")
        self.assertEqual(code, OK, out + err)
        return f.path / "out"

    def timeline(self, out):
        return timeline.read(self, (out / "TRACE-t.json.gz").read_bytes())

    def test_slices_nest_and_agree_with_the_record_of_rounds(self):
        out = self.trained(trace={"fromStep": 5, "steps": 30}, evalEverySteps=10,
                           codec={"up": {"name": "int8"}, "down": {"name": "int8"}})
        root = self.timeline(out)
        slices = timeline.slices_of(root)
        self.assertNotIn("otherData", root)  # there is one clock
        self.assertEqual(timeline.processes_of(root), {1: "worker 0", 2: "worker 1"})
        timeline.check_nesting(self, slices)
        self.assertEqual({e["args"]["step"] for e in slices}, set(range(5, 35)))
        names = {(e["cat"], e["name"].split(" ")[0]) for e in slices}
        self.assertLessEqual({("worker", n) for n in ("step", "data", "forward", "backward", "wait", "encode",
                                                      "send", "decode", "evaluate")} |
                             {("server", n) for n in ("decode", "sum", "step", "serve")}, names)
        timeline.check_rounds(self, slices, (out / "ROUND-t.csv").read_bytes(), 5, 34, ranks=2)

    def test_an_arrow_goes_from_push_to_step_to_pull(self):
        arrows = timeline.arrows_of(self.timeline(self.trained(trace={"steps": 20})))
        whole = [ends for ends in arrows.values() if set(ends) == set("stf")]
        self.assertGreater(len(whole), 30)  # of 2 workers in 20 steps; the last weights come later
        for ends in whole:
            at = [e["ts"] for ph in "stf" for e in sorted(ends[ph], key=lambda e: e["ts"])]
            self.assertEqual(at, sorted(at))

    def test_a_job_without_it_has_no_file_and_the_same_bits(self):
        with_it, without = self.trained(trace={}), self.trained()
        self.assertFalse(list(without.glob("TRACE*")))
        self.assertFalse(list(with_it.glob("*.part")))
        model = "MODEL-t-N(ps).safetensors"
        self.assertEqual(tensors((with_it / model).read_bytes()), tensors((without / model).read_bytes()))

    def test_what_is_refused(self):
        f = Folder(self)
        code, _, err = f.run("train", f.spec({**SMALL, "trace": {"steps": 10001}}), "--plan")
        self.assertEqual(code, ARGUMENTS, err)
        self.assertIn("trace.steps: is 10001; 1 to 10000 are allowed", err)


if __name__ == "__main__":
    main()
