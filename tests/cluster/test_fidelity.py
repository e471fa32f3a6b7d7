# SPDX-License-Identifier: Apache-2.0
"""test_fidelity.py - command lines, settings and files of the older systems, as their users
write them, each with what must come of it."""
import csv
import io
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

from harness import (BIN, ENDLESS, PATIENCE, SMALL, ClusterTest, SlowLink, data_path, evaluated,
                     job_pb2, main, tensors)

OK, SERVER, CONNECTION, TIMEOUT, ARGUMENTS = range(5)


class Fidelity(ClusterTest):
    folder = None

    def run_psgd(self, *args, coordinator=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_")}
        to = ["--coordinator", coordinator] if coordinator else []
        return subprocess.run([BIN / "psgd", *to, *map(str, args)], capture_output=True, text=True,
                              env=env, cwd=self.folder, timeout=120 * PATIENCE)

    def psgd(self, *args, code=OK, coordinator=None):
        """What it says: standard output, or of a refusal the error output."""
        p = self.run_psgd(*args, coordinator=coordinator)
        self.assertEqual(p.returncode, code, f"{args}: {p.stdout}{p.stderr}")
        return p.stdout if code == OK else p.stderr

    def train(self, *args):
        """The job of a training in one process, small enough for a test."""
        out = self.psgd("--format", "json", "train", "--out", "out", *args)
        return json.loads(out)


class Start(Fidelity):
    def test_a_service_says_its_version_and_its_port(self):
        c = self.cluster(workers=1, pservers=1)
        version = self.psgd("--version").split()[-1]
        for p in (c.coordinator, *c.nodes):
            self.assertEqual(p.first_line, f"{p.program} {version} listening on {p.address}\n")


class Presets(Fidelity):
    def setUp(self):
        self.c = self.cluster(workers=2, pservers=2)
        self.folder = self.c.folder

    def test_delay_compensation_learns_as_it_is_shipped(self):
        """Whoever types the name alone; on a cluster the timing differs from run to run."""
        for name in ("dc", "dc_asgd", "dc_qsgd", "q_ext_ext"):
            with self.subTest(preset=name):
                self.assertGreater(self.train("--preset", name)["result"]["accuracy"], 0.8)
                job = self.c.wait(self.c.submit({"preset": name}).id)
                self.assertGreater(job.result["accuracy"], 0.8)

    def test_a_worker_alone_learns_by_delay_compensation(self):
        for name in ("dc", "dc_qsgd"):
            job = self.train("--preset", name, "--workers", 1)
            self.assertGreater(job["result"]["accuracy"], 0.8)


class Rates(Fidelity):
    """A rate is that of the rule that learns, as it was in systems that had but one."""

    def setUp(self):
        self.folder = self.cluster(workers=0, pservers=0).folder

    def test_the_rate_of_local_steps(self):
        for preset, rate, least in (("losp", 0.0004, 0.8), ("fedavg", 0.002, 0.9)):
            with self.subTest(preset=preset):
                job = self.train("--preset", preset, "--lr", rate)
                self.assertEqual(job["spec"]["optimizer"]["local"]["params"]["lr"], rate)
                self.assertEqual(job["spec"]["optimizer"]["rule"]["params"]["lr"], 1)
                self.assertGreater(job["result"]["accuracy"], least)

    def test_rounds_and_compensation(self):
        spec = self.train("--preset", "losp", "--local-steps", 8, "--compensation", 1.5,
                          "--server-lr", 0.9, "-O", "momentum", "--lr", 0.02)["spec"]
        self.assertEqual(spec["update"]["params"], {"steps": 8, "compensation": 1.5, "at_most": 0})
        self.assertEqual(spec["optimizer"]["rule"]["params"]["lr"], 0.9)
        self.assertEqual(spec["optimizer"]["local"]["name"], "momentum")
        self.assertEqual(spec["optimizer"]["local"]["params"]["lr"], 0.02)


# Flags and values of the older systems, verbatim: what comes of them, by path in the job, and what
# psgd says of today's words.
OLD = [
    ("--preset bsp --psgd ssgd", {"consistency.name": "bsp"}, "--psgd ssgd is --consistency bsp"),
    ("--preset bsp --psgd asgd", {"consistency.name": "asp"}, "--psgd asgd is --consistency asp"),
    ("--preset bsp --learn_rate .05", {"optimizer.rule.params.lr": 0.05},
     "--learn_rate .05 is --lr .05"),
    ("--preset bsp --node_count 3 --batch_size 192", {"workers": 3, "block_size": 64},
     "--batch-size 192 is the global batch; divided by the node count, 3, it is --block-size 64"),
    ("--server_codec sgq", {"preset": "sgq", "update.name": "delta", "codec.up.name": "cot"},
     "--server_codec sgq is --preset sgq"),
    ("--codec ccdc --node_count 4", {"preset": "ccdc", "exchange.name": "ccdc"},
     "--codec ccdc is --preset ccdc"),
    ("--codec ndc -n 4 -r 2", {"exchange.name": "ndc"}, "--codec ndc is --preset ndc"),
    ("--codec plain -n 3", {"exchange.name": "plain"}, "--codec plain is --preset plain"),
    ("-C sgq.SGQClient --server-codec sgq", {"preset": "sgq"}, "-C sgq.SGQClient is --preset sgq"),
    ("--preset bsp --codec int8", {"codec.up.name": "int8", "codec.down.name": "int8"}, ""),
    ("--preset bsp --block_assignment dpa", {"assignment.name": "duplicate"},
     "--assignment dpa is duplicate"),
    ("--preset ndc --assignment dup",
     {"assignment.name": "duplicate", "assignment.params.redundancy": 2},
     "--assignment dup is duplicate"),
    ("--preset bsp --dataset simlin -m linear -s model.loss=mse --gradient-descent sgd",
     {"data.name": "simlin", "optimizer.rule.name": "sgd"}, "--dataset simlin is --data simlin"),
    ("-O pa", {"preset": "simple"}, "-O pa is --preset simple"),
    ("-O fast", {"preset": "fast"}, "-O fast is --preset fast"),
    ("--preset bsp -O psgd", {"optimizer.side": "OPTIMIZER_SIDE_WORKER"},
     "-O psgd is --optimizer-side worker"),
    ("-n 4 -b 64 -r 1 -C sgq.SGQClient -O psgd -E 2 -D glyphs --psgd ssgd --server-codec sgq",
     {"preset": "sgq", "workers": 4, "block_size": 64, "epochs": 2, "update.name": "delta"},
     "--server-codec sgq: preset sgq has its servers' side"),
    ("--algorithm LOSP --initial_lr 0.0004",
     {"preset": "losp", "update.name": "losp", "optimizer.local.params.lr": 0.0004},
     "--preset LOSP is losp"),
    ("--preset DQLOSP -D MNIST -m CNN", {"preset": "dqlosp", "data.name": "mnist",
                                         "model.preset": "cnn"}, "--model CNN is cnn"),
    ("--preset bsp --model_type CNN --dataset_type MNIST",
     {"model.preset": "cnn", "data.name": "mnist"}, "--data MNIST is mnist"),
    ("--preset bsp --trainer_count 4", {"worker_threads": 4}, "--trainer_count 4 is --worker-threads 4"),
    ("--preset geo --k_steps 50", {"update.params.steps": 50}, "--k_steps 50 is --local-steps 50"),
]


class OldNames(Fidelity):
    def test_names_as_their_users_type_them(self):
        """On a cluster, whose coordinator says what the job became; it is not run."""
        c = self.cluster(workers=0, pservers=0)
        self.folder = c.folder
        for line, want, note in OLD:
            with self.subTest(line=line):
                p = self.run_psgd("--format", "json", "submit", *line.split(),
                                  coordinator=c.coordinator.address)
                self.assertEqual(p.returncode, OK, p.stderr)
                job = json.loads(p.stdout)
                for path, value in want.items():
                    at = job["spec"]
                    for name in path.split("."):
                        at = at[name]
                    self.assertEqual(at, value, path)
                self.assertIn(note, p.stderr)
                self.assertEqual(p.stderr == "", note == "", p.stderr)
                self.psgd("cancel", job["id"], coordinator=c.coordinator.address)

    def test_a_batch_that_cannot_be_shared_is_refused(self):
        self.folder = self.cluster(workers=0, pservers=0).folder
        said = self.psgd("train", "--preset", "bsp", "-n", 3, "--batch_size", 64, code=ARGUMENTS)
        self.assertIn("give a multiple of --node-count, or --block-size", said)

    def test_names_of_data_that_is_not_here(self):
        """What is missing is named by today's word."""
        self.folder = self.cluster(workers=0, pservers=0).folder
        for name in ("cifar", "Cifar10", "CIFAR10"):
            p = self.run_psgd("train", "--preset", "bsp", "-D", name, "-m", "ResNet")
            self.assertIn(f"--data {name} is cifar10 today", p.stderr)
            self.assertIn("--model ResNet is resnet today", p.stderr)
            self.assertIn("data set cifar10", p.stderr)


class ManyFiles(Fidelity):
    """PaddlePaddle split a set into files, whatever their number: train.txt-00000, ..."""

    COUNT = 70

    def setUp(self):
        self.data = self.enterContext(tempfile.TemporaryDirectory())
        self.write(f"{self.data}/text")

    def write(self, folder, count=COUNT):
        """Files of lines in which each word follows from the one before."""
        rng = random.Random(3)
        os.makedirs(f"{folder}/held")
        names = [f"train.txt-{i:05}" for i in range(count)] + ["held/test-1", "held/test-2"]
        for name in names:
            with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
                for _ in range(8):
                    start = rng.randrange(9)
                    f.write(" ".join(f"w{(start + i) % 9}" for i in range(7)) + "\n")
        return names

    def spec(self, files, tests, **more):
        return {"title": "text", "workers": 2, "epochs": 1, "blockSize": 8,
                "model": {"preset": "ngram", "params": {"width": 4, "hidden": 8}},
                "data": {"name": "ngram", "params": {"cutoff": 1}, "files": files,
                         "testFiles": tests}, **more}

    def local(self, spec, code=OK):
        with open(self.folder / "job.json", "w", encoding="utf-8") as f:
            json.dump(spec, f)
        return self.psgd("--format", "json", "train", "job.json", "-o", "out", "--data-path",
                         self.data, code=code)

    def test_a_pattern_and_a_folder_stand_for_their_files(self):
        self.folder = self.cluster(workers=0, pservers=0).folder
        names = [f"train.txt-{i:05}" for i in range(self.COUNT)]
        job = json.loads(self.local(self.spec(["train.txt-*"], ["held"])))
        self.assertEqual(job["spec"]["data"]["files"], ["train.txt-*"])
        self.assertEqual(job["spec"]["data"]["train_limit"], self.COUNT * 8 * 5)
        self.assertEqual(job["spec"]["data"]["test_limit"], 2 * 8 * 5)
        # In the order of their names, as if some were named before the others.
        again = json.loads(self.local(self.spec([*names[:60], "train.txt-*"],
                                                ["held/test-1", "held/test-*"])))
        self.assertEqual(again["result"], job["result"])
        said = self.local(self.spec(["train-*"], ["held"]), code=ARGUMENTS)
        self.assertIn('"train-*" stands for no file in ', said)
        said = self.local(self.spec(names, ["held"]), code=ARGUMENTS)
        self.assertIn('a pattern ("part-*") or a folder is one name for many', said)

    def test_every_node_has_the_files_of_the_coordinator(self):
        """Those of a node that has one file more are others."""
        other = self.enterContext(tempfile.TemporaryDirectory())
        self.write(f"{other}/text", self.COUNT + 1)
        c = self.cluster(workers=2, pservers=1, data=self.data, node_data=other)
        job = c.wait(c.submit(self.spec(["train.txt-*"], ["held"],
                                        assignment={"name": "modulo"})).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(job.spec.data.train_limit, self.COUNT * 8 * 5)
        for worker in c.workers:
            self.assertIn("data set received", worker.log())
        self.folder = c.folder
        local = json.loads(self.local(self.spec(["train.txt-*"], ["held"],
                                                assignment={"name": "modulo"})))
        self.assertAlmostEqual(local["result"]["loss"], job.result["loss"], places=12)


class Vocabulary(ManyFiles):
    """word_dict.pickle: words have the same ids in every job that is given their list."""

    test_a_pattern_and_a_folder_stand_for_their_files = None
    test_every_node_has_the_files_of_the_coordinator = None

    def test_a_job_leaves_its_words_and_another_has_their_ids(self):
        c = self.cluster(workers=2, pservers=1, data=self.data)
        self.folder = c.folder
        job = c.wait(c.submit(self.spec(["train.txt-*"], ["held"])).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        files = c.files(job.id)
        words = files["VOCAB-text-N(0).txt"].decode().splitlines()
        self.assertEqual(len(words), job.spec.data.params["words"])
        self.assertEqual(words[-1], "<unk>")
        self.assertEqual(set(words), {"<s>", "<e>", "<unk>", *(f"w{i}" for i in range(9))})
        # Another text, in which another word is the most frequent.
        with open(f"{self.data}/text/w8", "w", encoding="utf-8") as f:
            f.write("w8 w8 w8 w0 w8 new\n" * 30)
        for place in (f"{self.data}/text", self.folder):
            with open(f"{place}/words.txt", "w", encoding="utf-8") as f:
                f.write("\n".join(words) + "\n")
        again = self.spec(["w8"], ["held"], initFrom=f"job:{job.id}")
        again["data"]["vocabulary"] = "words.txt"
        job = c.wait(c.submit(again).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        files = c.files(job.id)
        self.assertEqual(files["VOCAB-text-N(0).txt"].decode().splitlines(), words)
        # A model that was trained on them predicts with them, whatever the text.
        (self.folder / "m.safetensors").write_bytes(files["MODEL-text-N(0).safetensors"])
        self.psgd("predict", "-m", "m.safetensors", "--data-path", self.data, "-o", "p.csv")
        with open(self.folder / "p.csv", encoding="utf-8") as rows:
            targets = [int(row["target"]) for row in csv.DictReader(rows)]
        with open(f"{self.data}/text/held/test-1", encoding="utf-8") as f:
            first = f.readline().split()
        self.assertEqual(targets[0], words.index(first[3]))  # <s> and three words before it


class Word2vec(Fidelity):
    """The recipe of docs/presets.md, as it stands there, on a small text and for two epochs."""

    def recipe(self):
        text = (pathlib.Path(__file__).parents[2] / "docs/presets.md").read_text(encoding="utf-8")
        text = text[text.index("### Word2vec"):]
        blocks = re.findall(r"(?:^    .*\n)+", text, re.M)
        return [re.sub(r"^    ", "", block, flags=re.M) for block in blocks]

    def test_the_recipe_runs(self):
        self.folder = self.cluster(workers=0, pservers=0).folder
        rng = random.Random(1)
        for name, lines in (("ptb.train.txt", 1600), ("ptb.valid.txt", 100)):
            with open(self.folder / name, "w", encoding="utf-8") as f:
                for _ in range(lines):
                    start = rng.randrange(12)
                    f.write(" ".join(f"w{(start + i) % 12}" for i in range(9)) + "\n")
        commands, job = self.recipe()[:2]
        (self.folder / "job.yaml").write_text(job)
        for line in commands.splitlines():
            line = line.replace("psgd train", f"{BIN / 'psgd'} train --epochs 2")
            p = subprocess.run(line, shell=True, cwd=self.folder, capture_output=True, text=True,
                               timeout=120 * PATIENCE)
            self.assertEqual(p.returncode, OK, f"{line}: {p.stderr}")
        words = (self.folder / "word2vec/VOCAB-word2vec-N(0).txt").read_text().splitlines()
        self.assertEqual(len(words), 15)  # 12, both marks and <unk>
        summary = json.loads((self.folder / "word2vec/summary.json").read_text())
        self.assertLess(summary["result"]["perplexity"], 10)  # 15 words, of which 13 follow


class TrainerCount(Fidelity):
    """Threads of a trainer: as many as its user says, and the same model."""

    def test_the_model_does_not_depend_on_the_threads_of_a_worker(self):
        c = self.cluster(workers=2, pservers=1)
        self.folder = c.folder
        spec = {**SMALL, "workers": 2, "epochs": 1, "blockSize": 256,
                "model": {"widths": [1024, 512]}}
        models = []
        for threads in (1, 2, 3):
            job = c.wait(c.submit({**spec, "workerThreads": threads}).id)
            self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
            models.append(c.files(job.id)["MODEL-small-N(ps).safetensors"])
            (self.folder / "job.json").write_text(json.dumps(spec))
            self.psgd("train", "job.json", "--trainer_count", threads, "-o", f"out{threads}")
        weights = [m[8 + int.from_bytes(m[:8], "little"):] for m in models]
        self.assertEqual(weights[0], weights[1])
        self.assertEqual(weights[0], weights[2])
        for threads in (1, 2, 3):
            m = (self.folder / f"out{threads}/MODEL-small-N(ps).safetensors").read_bytes()
            self.assertEqual(m[8 + int.from_bytes(m[:8], "little"):], weights[0])
        said = self.psgd("train", "job.json", "--worker-threads", 65, code=ARGUMENTS)
        self.assertIn("spec.worker_threads: is 65; 1 to 64 are allowed", said)


class Rows(Fidelity):
    """Entries and shrink of Fleet's tables, in numbers."""

    def test_rows_met_admitted_and_removed_are_counted(self):
        data = data_path()
        if not data or not os.path.exists(os.path.join(data, "ctr/adult.csv")):
            self.skipTest("PSGD_DATA has no ctr/adult.csv")
        c = self.cluster(workers=2, pservers=2, data=data, node_data=data)
        self.folder = c.folder
        spec = {"preset": "fleet_ctr", "workers": 2, "pservers": 2, "epochs": 1,
                "consistency": {"name": "bsp"}, "data": {"trainLimit": 6400, "testLimit": 640}}
        counts = {}
        for name, numbers in (("all", {}), ("count", {"admit_count": 100}),
                              ("aged", {"tick": 20, "unseen_max": 1})):
            more = {**spec, "title": name, "model": {"table": {"name": "sparse",
                                                               "params": numbers}}}
            job = c.wait(c.submit(more).id, seconds=120)
            self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
            counts[name] = job.progress
            servers = [n["counters"] for n in json.loads(c.files(job.id)["summary.json"])["nodes"]
                       if n["role"] == "pserver"]
            for counter in ("rows", "rows_met", "rows_admitted", "rows_removed"):
                self.assertEqual(sum(s[counter] for s in servers), getattr(job.progress, counter))
            said = self.psgd("get", job.id, coordinator=c.coordinator.address)
            self.assertIn(f"rows      {job.progress.rows} there, "
                          f"{job.progress.rows_admitted} admitted, "
                          f"{job.progress.rows_removed} removed", said)
            with open(self.folder / "job.json", "w", encoding="utf-8") as f:
                json.dump(more, f)
            local = json.loads(self.psgd("--format", "json", "train", "job.json", "-o", name,
                                         "--data-path", data))
            self.assertEqual(local["progress"]["rows_met"], job.progress.rows_met)
            self.assertEqual(local["progress"]["rows_removed"], job.progress.rows_removed)
        self.assertEqual(counts["all"].rows, counts["all"].rows_admitted)
        self.assertEqual(counts["all"].rows_removed, 0)
        self.assertGreater(counts["all"].rows_met, counts["all"].rows)
        self.assertEqual(counts["count"].rows_met, counts["all"].rows_met)
        self.assertLess(counts["count"].rows_admitted, counts["all"].rows_admitted - 20)
        self.assertGreater(counts["aged"].rows_removed, 0)
        self.assertEqual(counts["aged"].rows,
                         counts["aged"].rows_admitted - counts["aged"].rows_removed)


class TablesByCall(Fidelity):
    """shrink() and save() of Fleet while a job trains."""

    def setUp(self):
        self.data = data_path()
        if not self.data or not os.path.exists(os.path.join(self.data, "ctr/adult.csv")):
            self.skipTest("PSGD_DATA has no ctr/adult.csv")
        self.c = self.cluster(workers=2, pservers=2, data=self.data, node_data=self.data)
        self.folder = self.c.folder

    def call(self, job, action, code=OK):
        return self.psgd("tables", job, action, code=code, coordinator=self.c.coordinator.address)

    def endless(self, **numbers):
        spec = {"preset": "fleet_ctr", "title": "ctr", "epochs": 1000,
                "consistency": {"name": "bsp"},
                "data": {"trainLimit": 6400, "testLimit": 640},
                "model": {"table": {"name": "sparse", "params": numbers}}}
        job = self.c.submit(spec)
        self.c.wait(job.id, lambda j: j.progress.step >= 20)
        return job.id

    def step_of(self, said):
        found = re.search(r"after step (\d+)", said)
        self.assertTrue(found, said)
        return int(found.group(1))

    def logged(self, words):
        return [server.log() for server in self.c.pservers if words in server.log()]

    def test_rows_are_removed_and_saved_while_the_job_trains(self):
        job = self.endless(unclicked=0.1, least_score=3)
        shrunk = self.step_of(self.call(job, "shrink"))
        self.c.wait(job, lambda j: j.progress.step > shrunk + 1)
        self.assertEqual(len(self.logged(f"shrink before step {shrunk + 1}: ")), 2)
        saved = self.step_of(self.call(job, "save"))
        self.assertGreater(saved, shrunk)
        said = self.call(job, "save", code=SERVER)
        self.assertIn(f"another call on the tables is due at step {saved}", said)
        self.c.wait(job, lambda j: j.progress.step > saved + 1)
        self.psgd("cancel", job, coordinator=self.c.coordinator.address)
        end = self.c.wait(job)
        self.assertGreater(end.progress.rows_removed, 0)
        files = self.c.files(job)
        names = [f"MODEL-ctr-N(ps{rank}).table0.psgdtab.step{saved}" for rank in (0, 1)]
        for name in names:
            self.assertTrue(files[name].startswith(b"PSGDTAB1"))
        # The copies are whole files, which a later job starts from.
        (self.folder / "d").mkdir()
        shutil.copytree(os.path.join(self.data, "ctr"), self.folder / "d/ctr")
        for name in names:
            (self.folder / "d" / name).write_bytes(files[name])
        (self.folder / "job.json").write_text(json.dumps({
            "preset": "fleet_ctr", "epochs": 1, "data": {"trainLimit": 640, "testLimit": 640},
            "initTables": names}))
        self.psgd("train", "job.json", "-o", "out", "--data-path", self.folder / "d")

    def test_refusals_say_why(self):
        job = self.c.submit({**ENDLESS, "workers": 2, "pservers": 2}).id
        self.c.wait(job, lambda j: j.progress.step >= 20)
        self.assertIn("has no sparse tables", self.call(job, "shrink", code=SERVER))
        self.assertIn("shrink and save are allowed", self.call(job, "drop", code=ARGUMENTS))
        self.psgd("cancel", job, coordinator=self.c.coordinator.address)
        self.c.wait(job)
        self.assertIn("does not train", self.call(job, "save", code=SERVER))


class WorkerJson(Fidelity):
    """The quick starts of Parallel-SGD name workers alone."""

    def setUp(self):
        self.c = self.cluster(workers=2, pservers=0)
        self.c.wait_nodes(2)
        self.folder = self.c.folder
        a, b = (w.address for w in self.c.workers)
        self.forms = {
            "v0.9": {"Worker": [a, b]},
            "r0.4": [["Worker", a], ["Worker", b]],
            "before": [[0, "uuid-0", a], [1, "uuid-1", b]],
        }

    def write(self, form):
        (self.folder / "worker.json").write_text(json.dumps(form))

    def submit(self, *args, code=OK):
        return self.psgd("submit", *args, code=code, coordinator=self.c.coordinator.address)

    def test_workers_alone_exchange_among_themselves(self):
        for name, form in self.forms.items():
            with self.subTest(form=name):
                self.write(form)
                out = self.submit("--preset", "plain", "--workers", "worker.json", "-n", 2,
                                  "-E", 1, "--watch")
                self.assertIn("DONE", out)
        out = self.submit("--preset", "bsp", "--exchange", "ring", "-P", 0, "-W", "worker.json",
                          "-E", 1, "--watch")
        self.assertIn("DONE", out)

    def test_a_job_that_needs_servers_says_what_to_do(self):
        self.write(self.forms["v0.9"])
        said = self.submit("--preset", "sgq", "-W", "worker.json", code=ARGUMENTS)
        for words in ("names no server", '"PS" in a worker.json', "--exchange ring"):
            self.assertIn(words, said)
        self.assertEqual(len(said.splitlines()), 1, said)
        said = self.submit("--preset", "sgq", "-W", "worker.json", "-P", 0, code=ARGUMENTS)
        self.assertIn("1 or more are needed, or an exchange among workers", said)
        self.assertEqual(len(said.splitlines()), 1, said)


class Evaluations(Fidelity):
    """The submitting console of Parallel-SGD showed each epoch."""

    def setUp(self):
        self.c = self.cluster(workers=2, pservers=1)
        self.folder = self.c.folder
        (self.folder / "job.json").write_text(json.dumps({**SMALL, "workers": 2, "epochs": 10}))

    def test_every_epoch_is_a_line(self):
        said = self.psgd("submit", "job.json", "--watch", coordinator=self.c.coordinator.address)
        self.assertEqual(said.count("test set:"), 10, said)
        said = self.psgd("train", "job.json", "-o", "out")
        self.assertEqual(said.count("test set:"), 10, said)
        with open(self.folder / "out/EV-small-N(0).csv", encoding="utf-8") as rows:
            accuracy = [row["accuracy"] for row in csv.DictReader(rows)]
        lines = [line for line in said.splitlines() if "test set:" in line]
        for line, value in zip(lines, accuracy):
            self.assertIn(f"accuracy {float(value):.4f}", line)


class StepMetrics(Fidelity):
    def test_a_step_has_all_metrics_of_the_job(self):
        """In the TR file: with one class allowed, top_k is accuracy."""
        self.folder = self.cluster(workers=0, pservers=0).folder
        for preset in ("bsp", "losp"):
            with self.subTest(preset=preset):
                spec = {"preset": preset, "title": "m", "workers": 2, "epochs": 1,
                        "data": {"trainLimit": 1024, "testLimit": 100},
                        "metrics": [{"name": "accuracy"}, {"name": "mse"},
                                    {"name": "top_k", "params": {"k": 1}}]}
                (self.folder / "job.json").write_text(json.dumps(spec))
                self.train("job.json")
                with open(self.folder / "out/TR-m-N(1).csv") as f:
                    steps = list(csv.DictReader(f))
                self.assertGreater(len(steps), 3)
                self.assertEqual([s["top_k"] for s in steps], [s["accuracy"] for s in steps])
                self.assertTrue(all(0 < float(s["mse"]) < 1 for s in steps))


class Cancelled(Fidelity):
    """A job that is stopped gives what there is."""

    def setUp(self):
        self.c = self.cluster(workers=2, pservers=2, data=data_path(), node_data=data_path())
        self.folder = self.c.folder

    def cancel(self, spec, step=20):
        job = self.c.submit(spec)
        self.c.wait(job.id, lambda j: j.progress.step >= step)
        self.psgd("cancel", job.id, coordinator=self.c.coordinator.address)
        job = self.c.wait(job.id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_CANCELLED, job.message)
        self.assertEqual(job.message, "cancelled by a client")
        return job, self.c.files(job.id)

    def test_model_and_curves_are_there(self):
        job, files = self.cancel({**ENDLESS, "workers": 2, "pservers": 2})
        model = self.folder / "m.safetensors"
        model.write_bytes(files["MODEL-endless-N(ps).safetensors"])
        said = json.loads(self.psgd("--format", "json", "eval", "-m", model))
        self.assertGreater(said["metrics"]["accuracy"], 0.05)
        for rank in (0, 1):
            self.assertGreater(len(files[f"TR-endless-N({rank}).csv"].splitlines()), 10)
        self.c.wait_idle()
        # Another job goes on from there.
        again = self.c.wait(self.c.submit({**SMALL, "epochs": 1, "initFrom": f"job:{job.id}"}).id)
        self.assertEqual(again.state, job_pb2.JOB_STATE_DONE, again.message)

    def test_workers_alone_leave_their_model(self):
        """As it was after a step that is whole; also when a worker is lost."""
        for exchange in ("ring", "plain"):
            with self.subTest(exchange=exchange):
                spec = {**ENDLESS, "workers": 2, "exchange": {"name": exchange}}
                job, files = self.cancel(spec, step=100)
                self.assertGreater(len(files["TR-endless-N(1).csv"].splitlines()), 90)
                model = self.folder / "m.safetensors"
                model.write_bytes(files["MODEL-endless-N(0).safetensors"])
                said = json.loads(self.psgd("--format", "json", "eval", "-m", model))
                self.assertGreater(said["metrics"]["accuracy"], 0.5)
                self.c.wait_idle()
        job = self.c.submit(spec)
        self.c.wait(job.id, lambda j: j.progress.step >= 100)
        ranks = {p.rank: p.node_id for p in self.c.get(job.id).placements}
        next(w for w in self.c.workers if w.name == ranks[1]).kill()
        job = self.c.wait(job.id)
        self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_FAILED, "NODE_LOST"))
        model.write_bytes(self.c.files(job.id)["MODEL-endless-N(0).safetensors"])
        said = json.loads(self.psgd("--format", "json", "eval", "-m", model))
        self.assertGreater(said["metrics"]["accuracy"], 0.5)

    def test_sparse_tables_are_there(self):
        if not data_path() or not os.path.exists(os.path.join(data_path(), "ctr/adult.csv")):
            self.skipTest("PSGD_DATA has no ctr/adult.csv")
        _, files = self.cancel({"preset": "fleet_ctr", "epochs": 1000})
        self.assertIn("MODEL-fleet_ctr-N(ps).safetensors", files)
        self.assertTrue([f for f in files if f.endswith(".psgdtab")], list(files))


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
                self.assertEqual([row["steps_0"] for row in rounds[:-1]],
                                 ["1"] * (len(rounds) - 1))
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
                c.pservers = [c.add("pserver", 0, ("--advertise", link.address))]
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


class Messages(Fidelity):
    """A refusal is whole: its beginning says what is wrong, its end what is allowed or what to
    do. Only values are shortened, in their middle."""

    LONG = "x" * 400

    def setUp(self):
        self.folder = self.cluster(workers=0, pservers=0).folder

    def test_refusals_have_an_end(self):
        long = self.LONG
        train = ("train", "--preset", "bsp")
        for args, begin, end in (
                (("train", "--preset", long), "spec.preset: is \"xxx", "psgd presets lists all"),
                ((*train, "-D", long), "spec.data.name: is \"xxx", "criteo, slots, ngram, skipgram"),
                ((*train, "-D", f"/{long}"), "spec.data.name: is \"/xxx",
                 "as 'psgd info data' lists them"),
                ((*train, "--codec-up", long), "spec.codec.up.name: is \"xxx",
                 "intsum, dgc, powersgd"),
                ((*train, "-s", f"model.layers[0].kind={long}"),
                 "spec.model.layers[0].kind: is \"xxx", "dropout, channel_dropout"),
                ((*train, "-s", f"optimizer.side={long}"), "optimizer.side=xxx",
                 "OPTIMIZER_SIDE_WORKER"),
                ((*train, "-s", f"optimizer.rule.params.{long}=1"), "spec.optimizer.rule.params.xxx",
                 "allowed: lr, beta1, beta2, epsilon"),
                ((*train, "-t", long), "spec.title: is \"xxx", "no dot in front"),
                ((*train, "--lr", long), "--lr: ", "is not a number"),
                ((*train, f"--{long}"), "unknown flag --xxx", "See 'psgd train --help'."),
                (("train", f"{long}.yaml"), "open xxx", ".yaml: File name too long"),
                (("submit", "-W", f"{long}.json"), "--workers: open xxx",
                 ".json: File name too long"),
                (("--format", long, "list"), "--format: \"xxx",
                 "one of text|json|jsonl is allowed\nSee 'psgd --help'.")):
            with self.subTest(args=args):
                said = self.psgd(*args, code=ARGUMENTS).strip()
                self.assertTrue(said.startswith(f"psgd: {begin}"), said)
                self.assertTrue(said.endswith(end), said)
                self.assertIn("\N{HORIZONTAL ELLIPSIS}", said)
                self.assertLess(len(said), 800)

    def test_a_refusal_helps(self):
        """It names what was probably meant, what there is, and whose number is refused."""
        for args, words in (
                (("--preset", "lospp"), 'did you mean "losp"?'),
                (("--preset", "bsp", "--codec-up", "int88"), 'did you mean "int8"?'),
                (("--preset", "bsp", "-O", "adamm"), 'did you mean "adam"?'),
                (("--preset", "bsp", "-M", "accurcy"), 'did you mean "accuracy"?'),
                (("--preset", "bsp", "-m", "cn"), 'did you mean "cnn"?'),
                (("--preset", "bsp", "-D", "mnst"), 'did you mean "mnist"?'),
                (("--preset", "bsp", "--consistency", "bps"), 'did you mean "bsp"?'),
                (("--preset", "bsp", "--activation", "tan"), 'did you mean "tanh"?'),
                (("--preset", "bsp", "-s", "optimizer.rul.name=sgd"), 'did you mean "rule"?'),
                (("--preset", "bsp", "-s", "optimizer.rule.params.epsilo=3"), 'did you mean "epsilon"?'),
                (("--epoch", 3), "did you mean --epochs?"),
                (("--preset", "bsp", "-s", "codec.variables[0].match=conv*"),
                 "which are dense0.weight, dense0.bias, dense2.weight, dense2.bias, dense4.weight, "
                 "dense4.bias; psgd train --plan lists them"),
                (("--preset", "osp", "--train-limit", 2000),
                 "(preset osp sets it; -s optimizer.schedule.params.warmup=VALUE gives another)"),
                (("--preset", "ccdc", "-W", 1),
                 "(preset ccdc sets it; -s assignment.params.redundancy=VALUE gives another)")):
            with self.subTest(args=args):
                self.assertIn(words, self.psgd("train", *args, code=ARGUMENTS))
        said = self.psgd("train", "--preset", "ccdc", "-W", 1, "-r", 3, code=ARGUMENTS)
        self.assertNotIn("preset", said)

    def test_a_plan_lists_the_variables(self):
        said = self.psgd("train", "--preset", "bsp", "--plan")
        self.assertRegex(said, r"dense0.weight +128x784 +100352\n")
        plan = json.loads(self.psgd("--format", "json", "train", "--preset", "bsp", "--plan"))
        self.assertEqual(plan["variables"][5], {"name": "dense4.bias", "shape": [10], "size": 10})
        self.assertEqual(sum(v["size"] for v in plan["variables"]), plan["parameters"])

    def test_a_job_is_shown_whole(self):
        c = self.cluster(workers=1, pservers=1)
        self.folder = c.folder
        job = c.submit({**ENDLESS})
        c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        self.psgd("cancel", job.id, coordinator=c.coordinator.address)
        c.wait(job.id)
        said = self.psgd("get", job.id, coordinator=c.coordinator.address)
        self.assertRegex(said, r"state +CANCELLED: cancelled by a client")
        self.assertIn('"epochs": 100000', said)

    def test_a_busy_node_refuses_a_job_if_that_is_wanted(self):
        c = self.cluster(workers=1, pservers=1)
        self.folder = c.folder
        job = c.submit(ENDLESS)
        c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        small = ("submit", "--preset", "bsp", "-W", 1, "--pservers", 1, "--epochs", 1, "--no-queue")
        said = self.psgd(*small, code=SERVER, coordinator=c.coordinator.address)
        self.assertIn(f"worker-0 (job {job.id})", said)
        self.assertIn("submit it later, or let it wait in the queue", said)
        self.psgd("cancel", job.id, coordinator=c.coordinator.address)
        c.wait(job.id)
        c.wait_idle()
        self.psgd(*small, "--watch", coordinator=c.coordinator.address)

    def test_a_coordinator_s_refusal_is_whole(self):
        c = self.cluster(workers=0, pservers=0)
        said = self.psgd("submit", "--preset", "bsp", "-M", self.LONG, code=ARGUMENTS,
                         coordinator=c.coordinator.address)
        self.assertIn("perplexity, binary_sum_cross_entropy", said)
        missing = "j" * 90
        said = self.psgd("get", missing, code=SERVER, coordinator=c.coordinator.address)
        self.assertIn("there is no job", said)


if __name__ == "__main__":
    main()
