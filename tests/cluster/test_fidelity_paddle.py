# SPDX-License-Identifier: Apache-2.0
"""test_fidelity_paddle.py - what users of PaddlePaddle v2 and Paddle Fleet expect: files by
pattern, vocabularies, threads of a trainer, calls on sparse tables."""
import csv
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

from fidelity import ARGUMENTS, OK, SERVER, Fidelity
from harness import BIN, ENDLESS, PATIENCE, SMALL, data_path, job_pb2, main, rows_of, tensors


class Text(Fidelity):
    """A small text in many files."""

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


class ManyFiles(Text):
    """PaddlePaddle split a set into files, whatever their number: train.txt-00000, ..."""

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


class OwnFiles(Text):
    """A trainer of PaddlePaddle v2 has the files of the list whose number modulo the trainers is its own,
    and `word_dict.pickle`: SPLIT_COUNT files, each on the machine that trains on it."""

    COUNT = 4
    WORDS = ["<s>", "<e>", *(f"w{i}" for i in range(9))]

    def setUp(self):
        super().setUp()
        self.give_words(f"{self.data}/text")

    def give_words(self, folder):
        with open(f"{folder}/words.txt", "w", encoding="utf-8") as f:
            f.write("\n".join(self.WORDS) + "\n")

    def own(self, count, **more):
        names = [f"train.txt-{i:05}" for i in range(count)]
        spec = self.spec(names, ["held"], assignment={"name": "modulo"}, epochs=3, **more)
        spec["data"]["vocabulary"] = "words.txt"
        return spec

    def names(self, *numbers):
        return sorted(["held", "words.txt", *(f"train.txt-{i:05}" for i in numbers)])

    def held(self, c, worker, learned=(".learned",)):
        """The files of the only set that a worker was sent, besides what was learned from all."""
        above = c.folder / worker / "datasets"
        [folder] = os.listdir(above)
        names = sorted(os.listdir(above / folder))
        self.assertEqual([n for n in names if n[0] == "."], sorted(learned))
        return [n for n in names if n[0] != "."]

    def train_on(self, c, spec):
        """Trains on a cluster, and gives that the same training in one process has the same result."""
        self.folder = c.folder
        job = c.wait(c.submit(spec).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        local = json.loads(self.local({k: v for k, v in spec.items() if k != "nodes"}))
        self.assertAlmostEqual(local["result"]["loss"], job.result["loss"], places=12)
        if "accuracy" in local["result"]:
            self.assertAlmostEqual(local["result"]["accuracy"], job.result["accuracy"], places=12)
        files = c.files(job.id)
        name = f"MODEL-{spec['title']}-N(ps).safetensors"
        self.assertEqual(tensors(files[name]),
                         tensors((self.folder / "out" / name).read_bytes()))
        return job

    def test_a_worker_is_sent_its_own_files_and_no_others(self):
        c = self.cluster(workers=2, pservers=1, data=self.data)
        job = self.train_on(c, self.own(4))
        self.assertEqual(self.held(c, "worker-0"), self.names(0, 2))
        self.assertEqual(self.held(c, "worker-1"), self.names(1, 3))
        # 8 lines of 7 words are 40 samples, with both marks.
        self.assertEqual(job.spec.data.train_limit, 4 * 40)
        self.assertIn("data set loaded: 2 training files with 80 samples, of workers 0 to 0 of 2",
                      c.workers[0].log())
        self.assertIn("data set loaded: 2 training files with 80 samples, of workers 1 to 1 of 2",
                      c.workers[1].log())
        # An epoch has as many steps as all samples together give.
        rows = c.files(job.id)["TR-text-N(1).csv"].decode().splitlines()[1:]
        self.assertEqual(len(rows), 3 * (4 * 40 // (2 * 8)))

    def test_three_files_on_two_workers(self):
        c = self.cluster(workers=2, pservers=1, data=self.data)
        self.train_on(c, self.own(3))
        self.assertEqual(self.held(c, "worker-0"), self.names(0, 2))
        self.assertEqual(self.held(c, "worker-1"), self.names(1))

    def test_a_process_has_the_files_of_all_of_its_workers(self):
        c = self.cluster(workers=2, pservers=1, data=self.data)
        self.train_on(c, self.own(4, workers=4, workerProcesses=2))
        self.assertEqual(sorted([self.held(c, "worker-0"), self.held(c, "worker-1")]),
                         [self.names(0, 1), self.names(2, 3)])

    def test_files_that_are_where_they_are_needed_are_not_sent(self):
        """Each machine has its own; those of the others are not opened, whatever they are."""
        places = {}
        for i in range(2):
            place = self.enterContext(tempfile.TemporaryDirectory())
            shutil.copytree(f"{self.data}/text", f"{place}/text")
            for number in (1 - i, 3 - i):
                name = f"{place}/text/train.txt-{number:05}"
                if number < 2:
                    os.remove(name)
                else:
                    with open(name, "wb") as f:
                        f.write(b"\0")
            places[f"worker-{i}"] = {"PSGD_DATA": place}
        c = self.cluster(workers=2, pservers=1, data=self.data,
                         node_env=lambda name: places.get(name, {}))
        spec = self.own(4)
        spec["nodes"] = [{"role": "NODE_ROLE_WORKER", "address": w.address} for w in c.workers] + [
            {"role": "NODE_ROLE_PSERVER", "address": c.pservers[0].address}]
        self.train_on(c, spec)
        for worker in c.workers:
            self.assertNotIn("data set received", worker.log())
            self.assertIn("data set loaded: 2 training files", worker.log())

    def test_what_is_learned_from_all_files_comes_to_those_who_have_their_own(self):
        c = self.cluster(workers=3, pservers=1, data=self.data)
        kinds = self.kinds()
        for number, (kind, (data, more)) in enumerate(kinds.items()):
            workers = 2 + number % 2
            with self.subTest(kind, workers=workers):
                self.learns(c, data, workers, more)

    def learns(self, c, data, workers, more):
        """Trains on a set of which each worker is sent its own files."""
        before = set(self.folders(c))
        self.train_on(c, {"title": "own", "workers": workers, "epochs": 2, "blockSize": 4,
                          "assignment": {"name": "modulo"}, "data": data, **more})
        sent = [sorted(os.listdir(f)) for f in set(self.folders(c)) - before]
        learned = [".learned"] + ([] if "testFiles" in data else [".test"])
        rest = data.get("testFiles", []) + [data[k] for k in ("vocabulary",) if k in data]
        self.assertEqual(sorted(sent), sorted(
            sorted([*learned, *rest, *(n for i, n in enumerate(data["files"])
                                       if i % workers == w)]) for w in range(workers)))

    def folders(self, c):
        return [str(f) for w in c.workers for f in (c.folder / w.name / "datasets").glob("*")]

    def kinds(self):
        """Sets of which something is learned from all files."""
        rng = random.Random(5)
        tables = pathlib.Path(self.data, "tables")
        tables.mkdir()
        names = {}
        for ending in ("csv", "svm"):
            names[ending] = [f"part-{i:02}.{ending}" for i in range(6)]
            for i, name in enumerate([*names[ending], f"held.{ending}"]):
                rows = []
                for _ in range(20 + i):
                    x, colour = rng.uniform(i, 9), rng.choice("abcd"[: 2 + i % 3])
                    rows.append(f"{x:.3f},{colour},{'high' if x > 5 else 'low'}" if ending == "csv"
                                else f"{int(x > 5)} 1:{x:.3f} {2 + 'abcd'.index(colour)}:1")
                header = ["x,colour,answer"] if ending == "csv" else []
                (tables / name).write_text("\n".join(header + rows) + "\n", encoding="utf-8")
        text = [f"train.txt-{i:05}" for i in range(4)]
        ngram = {"model": {"preset": "ngram", "params": {"width": 4, "hidden": 8}}}
        skipgram = {"model": {"preset": "skipgram", "params": {"width": 4}}}
        dense = {"model": {"preset": "mlp"}}
        columns = {"columns": [{"name": "x", "kind": "numeric"},
                               {"name": "colour", "kind": "vocabulary", "params": {"one_hot": 1}},
                               {"name": "answer", "kind": "label"}]}
        words = {"name": "ngram", "params": {"cutoff": 1}, "files": text}
        svm = {"name": "libsvm", "folder": "tables", "files": names["svm"]}
        table = {"name": "csv", "folder": "tables", "files": names["csv"], **columns}
        return {
            "words": ({**words, "testFiles": ["held"]}, ngram),
            "words, split": (words, ngram),
            "noise": ({**words, "name": "skipgram", "testFiles": ["held"]}, skipgram),
            "noise of given words, split": ({**words, "name": "skipgram",
                                             "vocabulary": "words.txt"}, skipgram),
            "columns": ({**table, "testFiles": ["held.csv"]}, dense),
            "columns, split": (table, dense),
            "labels": ({**svm, "testFiles": ["held.svm"]}, dense),
            "labels, split": (svm, dense),
            "means, split": ({**svm, "transforms": [{"name": "normalise", "params": {"per": 2}}]},
                             dense),
        }

    def test_one_worker_has_all_files_and_needs_nothing_else(self):
        c = self.cluster(workers=1, pservers=1, data=self.data)
        spec = self.own(4, workers=1)
        del spec["data"]["vocabulary"]
        self.train_on(c, spec)
        self.assertEqual(self.held(c, "worker-0", learned=()),
                         ["held", *(f"train.txt-{i:05}" for i in range(4))])

    def test_words_that_are_counted_for_more_workers_than_processes(self):
        c = self.cluster(workers=2, pservers=1, data=self.data)
        spec = self.own(4, workers=4, workerProcesses=2)
        del spec["data"]["vocabulary"], spec["data"]["testFiles"]
        self.train_on(c, spec)
        self.assertEqual(sorted(self.held(c, f"worker-{i}", learned=(".learned", ".test"))
                                for i in range(2)),
                         [[f"train.txt-{i:05}" for i in two] for two in ((0, 1), (2, 3))])

    def test_who_has_the_files_is_sent_only_what_was_learned(self):
        """Each machine has its own files; the coordinator has all, and has counted their words."""
        places = {}
        for i in range(2):
            place = self.enterContext(tempfile.TemporaryDirectory())
            shutil.copytree(f"{self.data}/text", f"{place}/text")
            for number in (1 - i, 3 - i):
                os.remove(f"{place}/text/train.txt-{number:05}")
            shutil.rmtree(f"{place}/text/held")
            places[f"worker-{i}"] = {"PSGD_DATA": place}
        c = self.cluster(workers=2, pservers=1, data=self.data,
                         node_env=lambda name: places.get(name, {}))
        spec = self.own(4)
        del spec["data"]["vocabulary"], spec["data"]["testFiles"]
        spec["nodes"] = [{"role": "NODE_ROLE_WORKER", "address": w.address} for w in c.workers] + [
            {"role": "NODE_ROLE_PSERVER", "address": c.pservers[0].address}]
        for _ in range(2):
            self.train_on(c, spec)
            shutil.rmtree(self.folder / "out")
        for worker in c.workers:
            self.assertEqual(self.held(c, worker.name, learned=(".learned", ".test")), [])
            self.assertEqual(worker.log().count("learned facts received"), 1)
            self.assertNotIn("data set received", worker.log())
            self.assertIn("data set loaded: 2 training files", worker.log())

    def test_a_worker_without_a_file_is_refused(self):
        self.folder = self.cluster(workers=0, pservers=0).folder
        said = self.local(self.own(4, workers=5), code=ARGUMENTS)
        self.assertIn("data.files: none of 4 files is worker 4's, of the 5 of workers: a number that "
                      "is 4 modulo 5; name more files, or have fewer workers", said)


class SparseGeo(Text):
    """Fleet's geo for sparse tables: a worker trains the rows that it meets for k_steps, and sends what has
    changed."""

    COUNT = 4
    UPDATES = {"geo_sum_lag": {}, "localsgd": {}, "delta": {},
               "parameter_average": {"optimizer": {"local": {"name": "adagrad", "params": {"lr": 0.05}}}}}

    def growing(self, update, steps, **more):
        spec = self.spec(["train.txt-*"], ["held"], **{
            "epochs": 3, "update": {"name": update, "params": {"steps": steps}},
            "optimizer": {"local": {"name": "sgd", "params": {"lr": 0.3}}}, **more})
        spec["model"]["table"] = {"name": "sparse"}
        return spec

    def trained(self, spec):
        """By psgd train: the job, and the rows that it left."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        job = json.loads(self.local(spec))
        self.assertEqual(job["state"], "JOB_STATE_DONE", job["message"])
        return job, rows_of({p.name: p.read_bytes() for p in (self.folder / "out").iterdir()
                             if p.is_file()})

    def test_a_cluster_has_the_bits_of_one_process(self):
        c = self.cluster(workers=2, pservers=2, data=self.data)
        self.folder = c.folder
        for update, more in self.UPDATES.items():
            with self.subTest(update):
                spec = self.growing(update, 4, **more)
                spec["pservers"] = 2
                job = c.wait(c.submit(spec).id)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                files = c.files(job.id)
                local, rows = self.trained(spec)
                self.assertEqual(len(rows), 10)  # 9 words and <s>; <e> is only foretold
                self.assertEqual(rows_of(files), rows)
                name = "MODEL-text-N(ps).safetensors"
                self.assertEqual(tensors(files[name]),
                                 tensors((self.folder / "out" / name).read_bytes()))
                self.assertAlmostEqual(local["result"]["loss"], job.result["loss"], places=12)
                self.assertLess(job.result["loss"], 2.0)  # of 12 words: 2.48 is nothing learned

    def test_rounds_of_one_step_are_steps(self):
        self.folder = self.cluster(workers=0, pservers=0).folder
        rounds, own = self.trained(self.growing("localsgd", 1))
        spec = self.growing("localsgd", 1)
        del spec["update"]
        spec["optimizer"] = {"rule": {"name": "sgd", "params": {"lr": 0.3}}}
        steps, rows = self.trained(spec)
        self.assertEqual(own.keys(), rows.keys())
        self.assertLess(abs(rounds["result"]["loss"] / steps["result"]["loss"] - 1), 1e-4)

    def test_asp_and_the_end_of_a_job(self):
        c = self.cluster(workers=2, pservers=1, data=self.data)
        self.folder = c.folder
        spec = self.growing("geo_sum_lag", 4, consistency={"name": "asp"}, epochs=200,
                            stopAt={"metric": "loss", "value": 1.5})
        job = c.wait(c.submit(spec).id)
        self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_DONE, "STOP_AT"), job.message)
        self.assertEqual(len(rows_of(c.files(job.id))), 10)
        self.assertEqual(self.trained(spec)[0]["reason"], "STOP_AT")

    def test_refusals(self):
        self.folder = self.cluster(workers=0, pservers=0).folder
        said = self.local(self.growing("losp", 4), code=ARGUMENTS)
        self.assertIn('spec.update.name: is "losp"; with sparse tables gradient, localsgd, post_local, '
                      "parameter_average, delta and geo_sum_lag are allowed", said)
        said = self.local(self.growing("localsgd", 4, assignment={"name": "uneven", "params": {
            "ratio_1": 2, "ratio_2": 1}}), code=ARGUMENTS)
        self.assertIn('is "uneven", with which a worker has several blocks; in local steps with sparse '
                      "tables one is allowed", said)


class Vocabulary(Text):
    """word_dict.pickle: words have the same ids in every job that is given their list."""

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

    def test_a_job_that_has_just_begun_is_asked_again(self):
        """Its step is not known yet; the servers are further than what is first asked for."""
        for _ in range(2):
            job = self.c.submit({
                "preset": "fleet_ctr", "epochs": 1000, "consistency": {"name": "bsp"},
                "data": {"trainLimit": 6400, "testLimit": 640}})
            self.c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
            self.step_of(self.call(job.id, "shrink"))
            self.psgd("cancel", job.id, coordinator=self.c.coordinator.address)
            self.c.wait(job.id)
            self.c.wait_idle()

    def test_refusals_say_why(self):
        job = self.c.submit({**ENDLESS, "workers": 2, "pservers": 2}).id
        self.c.wait(job, lambda j: j.progress.step >= 20)
        self.assertIn("has no sparse tables", self.call(job, "shrink", code=SERVER))
        self.assertIn("shrink and save are allowed", self.call(job, "drop", code=ARGUMENTS))
        self.psgd("cancel", job, coordinator=self.c.coordinator.address)
        self.c.wait(job)
        self.assertIn("does not train", self.call(job, "save", code=SERVER))


if __name__ == "__main__":
    main()
