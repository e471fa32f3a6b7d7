# SPDX-License-Identifier: Apache-2.0
"""test_fidelity.py - command lines, settings and files of the older systems, as their users
write them, each with what must come of it."""
import csv
import json
import os

from fidelity import ARGUMENTS, OK, SERVER, Fidelity
from harness import ENDLESS, SMALL, data_path, job_pb2, main


class Start(Fidelity):
    def test_a_service_says_its_version_and_its_port(self):
        c = self.cluster(workers=1, pservers=1)
        version = self.psgd("--version").split()[1]
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
    ("--preset losp -W 4 --all_iterations 1001", {"max_steps": 251},
     "--all_iterations 1001 of all workers together is --max-steps 251 of each of the 4 today"),
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
        said = self.psgd("train", "--preset", "losp", "--all_iterations", 64, code=ARGUMENTS)
        self.assertIn("the steps of all workers together: give 1 or more, and the workers (-W N)", said)

    def test_names_of_data_that_is_not_here(self):
        """What is missing is named by today's word."""
        self.folder = self.cluster(workers=0, pservers=0).folder
        for name in ("cifar", "Cifar10", "CIFAR10"):
            p = self.run_psgd("train", "--preset", "bsp", "-D", name, "-m", "ResNet")
            self.assertIn(f"--data {name} is cifar10 today", p.stderr)
            self.assertIn("--model ResNet is resnet today", p.stderr)
            self.assertIn("data set cifar10", p.stderr)


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
                ((*train, "-D", long), "spec.data.name: is \"xxx", "ngram, skipgram, foreign, text"),
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
