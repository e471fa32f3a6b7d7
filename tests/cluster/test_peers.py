# SPDX-License-Identifier: Apache-2.0
"""test_peers.py - exchanges among workers, between real processes and without a server:
the same bits on all workers, bytes as the exchange says, and ends with a reason."""
import json
import math
import pathlib
import re
import struct
import subprocess
import tempfile

import grpc

from harness import BIN, ENDLESS, FRAGILE, PATIENCE, SLOW, SMALL, ClusterTest, evaluated, job_pb2, main

WORKERS = 4
JOB = {**SMALL, "workers": WORKERS}
STEP = {"rule": {"name": "sgd", "params": {"lr": 1}}}


def shape(exchange, redundancy=1, assignment="iid", **params):
    return {"exchange": {"name": exchange, "params": params},
            "assignment": {"name": assignment, "params": {"redundancy": redundancy}}}


def codec(name, **params):
    return {"codec": {"up": {"name": name, "params": params}}}


# Half a byte a value for the large variable, with feedback; the rest as it is.
MIXED = {"codec": {"variables": [{"match": "dense0.weight", "up": {
    "name": "intn", "params": {"bits": 4, "error_feedback": 1}}}]}}


def tensors(safetensors):
    """The values of a model file, as bytes."""
    (n,) = struct.unpack("<Q", safetensors[:8])
    return bytes(safetensors[8 + n:])


def floats(raw):
    return struct.unpack(f"<{len(raw) // 4}f", raw)


class Peers(ClusterTest):
    def train(self, c, **fields):
        job = c.wait(c.submit({**JOB, **fields}).id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        return job

    def logs(self, files):
        return "".join(text.decode() for name, text in files.items() if name.endswith(".jsonl"))

    def must_be_alike(self, c, job):
        """EV of all workers the same results, weights the same bits; all files."""
        files = c.files(job.id)
        workers = job.spec.workers
        evaluations = {evaluated(files[f"EV-{job.spec.title}-N({i}).csv"]) for i in range(workers)}
        self.assertEqual(len(evaluations), 1)
        sums = re.findall(r"checksum of the weights is ([0-9a-f]{16})", self.logs(files))
        self.assertEqual(len(sums), workers)
        self.assertEqual(len(set(sums)), 1)
        return files

    def weights(self, files, job):
        return tensors(files[f"MODEL-{job.spec.title}-N(0).safetensors"])

    def test_every_exchange_gives_all_workers_the_same_bits(self):
        c = self.cluster(workers=WORKERS, pservers=0)
        for name, fields in {
            "plain": shape("plain"),
            "plain, copies": shape("plain", 2, "duplicate"),
            "plain, top-k": {**shape("plain"), **codec("topk", fraction=0.1, error_feedback=0)},
            "plain, mixed": {**shape("plain"), **MIXED},
            "ndc": shape("ndc", 2),
            "ndc, int8": {**shape("ndc", 3), **codec("int8")},
            "ccdc": shape("ccdc", 2),
            "ccdc, 3": shape("ccdc", 3),
            "ring": shape("ring"),
            "ring, int8": {**shape("ring"), **codec("int8")},
            "ring, top-k": {**shape("ring"), **codec("topk", fraction=0.3, error_feedback=1)},
            "tree": shape("tree"),
            "tree, f16": {**shape("tree", 2), **codec("f16")},
            "tree, int8 both ways": {**shape("tree"), "codec": {"up": {"name": "int8"},
                                                                "down": {"name": "int8"}}},
            "plain, workers step": {**shape("plain"), "optimizer": {
                "side": "OPTIMIZER_SIDE_WORKER", "rule": SMALL["optimizer"]["rule"]}},
            "ring, gradient_average": {**shape("ring"), "update": {"name": "gradient_average"}},
        }.items():
            with self.subTest(exchange=name):
                job = self.train(c, **fields)
                self.must_be_alike(c, job)
                p = job.progress
                print(f"{name}: accuracy {job.result['accuracy']:.3f}, {p.bytes_up >> 10} KiB said, "
                      f"{p.seconds_waiting:.2f} s waited")
                self.assertEqual(p.step, p.total_steps)
                self.assertGreater(job.result["accuracy"], 0.5)

    def test_methods_with_local_steps_exchange_once_a_round(self):
        c = self.cluster(workers=WORKERS, pservers=0)
        local = {"local": {"name": "sgd", "params": {"lr": 0.1}}}
        each = self.train(c, **shape("ring"), update={"name": "parameter_average",
                                                      "params": {"steps": 1}}, optimizer=local)
        for name in ("localsgd", "losp", "scaffold", "easgd", "geo_average"):
            with self.subTest(update=name):
                job = self.train(c, **shape("ring"),
                                 update={"name": name, "params": {"steps": 8}}, optimizer=local)
                self.must_be_alike(c, job)
                self.assertEqual(8 * job.progress.bytes_up_float32, each.progress.bytes_up_float32)

    def test_plain_and_ndc_have_the_bits_of_a_parameter_server(self):
        c = self.cluster(workers=WORKERS, pservers=1)
        for fields in (shape("plain"), shape("ndc", 2), {**shape("plain"), **MIXED},
                       {**shape("ndc"), **codec("topk", fraction=0.1, error_feedback=1)}):
            job = self.train(c, **fields)
            mine = self.weights(self.must_be_alike(c, job), job)
            job = self.train(c, **{**fields, "exchange": {"name": "pserver"}})
            self.assertEqual(mine, self.weights(c.files(job.id), job))

    def test_psgd_train_leaves_the_model_of_a_cluster(self):
        c = self.cluster(workers=WORKERS, pservers=0)
        for fields in (shape("ccdc", 2), {**shape("ring"), **codec("int8")}):
            job = self.train(c, **fields)
            with tempfile.TemporaryDirectory() as folder:
                spec = pathlib.Path(folder, "job.json")
                spec.write_text(json.dumps({**JOB, **fields}))
                subprocess.run([BIN / "psgd", "train", spec, "--out", folder], check=True,
                               stdout=subprocess.DEVNULL, timeout=120 * PATIENCE)
                mine = pathlib.Path(folder, "MODEL-small-N(0).safetensors").read_bytes()
            self.assertEqual(tensors(mine), self.weights(c.files(job.id), job))

    def test_ccdc_is_plain_to_a_ten_millionth(self):
        c = self.cluster(workers=WORKERS, pservers=0)
        one = {"epochs": 1, "optimizer": STEP, "data": {**SMALL["data"], "trainLimit": 300}}
        for redundancy in (1, 2, 3):
            blocks = math.comb(WORKERS, redundancy)
            fields = {**one, "blockSize": 300 // blocks}
            both = []
            for exchange in ("plain", "ccdc"):
                job = self.train(c, **fields, **shape(exchange, redundancy))
                self.assertEqual(job.progress.total_steps, 1)
                both.append(floats(self.weights(self.must_be_alike(c, job), job)))
            apart = max(abs(a - b) for a, b in zip(*both))
            print(f"redundancy {redundancy}: at most {apart:.2g} apart after a step of rate 1")
            self.assertLess(apart, 1e-7)
            self.assertGreater(max(map(abs, both[0])), 0.01)

    def test_ccdc_with_five_and_six_workers(self):
        c = self.cluster(workers=6, pservers=0)
        for workers, multicasts in ((5, 20), (6, 60)):
            blocks = math.comb(workers, 3)
            fields = {"workers": workers, "epochs": 1, "blockSize": 300 // blocks,
                      "optimizer": STEP, "data": {**SMALL["data"], "trainLimit": 300}}
            job = self.train(c, **fields, **shape("plain", 3))
            plain = floats(self.weights(self.must_be_alike(c, job), job))
            job = self.train(c, **fields, **shape("ccdc", 3))
            files = self.must_be_alike(c, job)
            apart = max(abs(a - b) for a, b in zip(plain, floats(self.weights(files, job))))
            said = re.findall(r"exchange ccdc: (\d+) packets, ", self.logs(files))
            print(f"{workers} workers: at most {apart:.2g} apart after a step of rate 1")
            self.assertEqual(job.progress.total_steps, 1)
            self.assertEqual(sum(map(int, said)), multicasts)
            self.assertLess(apart, 1e-7)
            self.assertGreater(max(map(abs, plain)), 0.01)

    def test_bytes_are_those_of_the_multicasts(self):
        c = self.cluster(workers=WORKERS, pservers=0)
        n, steps = 28 * 28 * 16 + 16 + 16 * 10 + 10, None
        for fields, multicasts, values in (
                (shape("plain"), 4 * 4, 4 * 3 * n),  # a packet for each variable
                (shape("plain", 2), None, 6 * 2 * n),
                (shape("ndc", 2), None, 6 * 2 * n),
                (shape("ccdc", 1), 12, 12 * n),
                (shape("ccdc", 2), 12, 12 * 2 * math.ceil(n / 2)),
                (shape("ccdc", 3), 4, 4 * 3 * math.ceil(n / 3)),
                (shape("ring"), None, 2 * 3 * n),
                (shape("tree"), None, 2 * 3 * n)):
            name = fields["exchange"]["name"]
            with self.subTest(exchange=name, assignment=fields["assignment"]):
                job = self.train(c, **fields)
                p, steps = job.progress, job.progress.total_steps
                text = self.logs(c.files(job.id))
                said = re.findall(rf"exchange {name}: (\d+) packets, (\d+) copies sent, "
                                  r"(\d+) bytes without heads; \d+ came twice, 0 repairs", text)
                self.assertEqual(len(said), WORKERS)
                if multicasts:
                    self.assertEqual(sum(int(s[0]) for s in said), multicasts * steps)
                self.assertEqual(sum(int(s[2]) for s in said), 4 * values * steps)
                self.assertEqual(p.bytes_up_float32, 4 * values * steps)
                self.assertEqual(p.bytes_down_float32, 4 * values * steps)
                for carried in (p.bytes_up, p.bytes_down):
                    self.assertGreaterEqual(carried, 4 * values * steps)
                    self.assertLess(carried, 4 * values * steps * 1.02)

    def test_a_worker_that_dies_ends_the_job(self):
        c = self.cluster(workers=3, pservers=0)
        for exchange in ("plain", "ring"):
            job = c.submit({**ENDLESS, "workers": 3}, **shape(exchange))
            c.wait(job.id, lambda j: j.progress.step > 20)
            victim = next(p for p in c.get(job.id).placements if p.rank == 1)
            process = next(w for w in c.workers if w.address == victim.address)
            process.kill()
            job = c.wait(job.id)
            self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
            self.assertEqual(job.reason, "NODE_LOST")
            self.assertIn(victim.node_id, job.message)
            process.start()
        job = self.train(c, workers=3, **shape("plain"))  # the others are free again
        self.assertEqual(job.progress.workers_alive, 3)

    def process_of(self, c, job, rank):
        node = next(p for p in c.get(job.id).placements if p.rank == rank)
        return next(w for w in c.workers if w.address == node.address)

    def log_ends(self, c):
        return {w.name: w.log_end() for w in c.workers}

    def test_a_worker_that_freezes_ends_the_job_and_is_named(self):
        c = self.cluster(workers=3, pservers=0)
        window_ms = int(700 * SLOW)
        for exchange in ("plain", "ccdc"):
            before = self.log_ends(c)
            job = c.submit({**ENDLESS, "workers": 3}, **shape(exchange, window_ms=window_ms),
                           timeouts={"leaseMs": 6 * window_ms})
            c.wait(job.id, lambda j: j.progress.step > 5)
            frozen = self.process_of(c, job, 2)
            frozen.freeze()
            job = c.wait(job.id)
            frozen.thaw()
            self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
            self.assertEqual(job.reason, "NODE_LOST")
            self.assertIn(frozen.address, job.message)
            for rank in (0, 1):  # they did not wait for that; one may be a step ahead of the other
                waited = self.process_of(c, job, rank)
                self.assertRegex(waited.log(before[waited.name]),
                                 rf"nothing for 2 x {window_ms} ms from (worker \d, )?worker 2\b")
            c.wait_nodes(3)
            c.wait_idle()

    def test_copies_speak_for_a_worker_that_freezes_and_it_catches_up(self):
        """It freezes itself where a job begins to run, so has said nothing of a step in which it is
        silent: whom it had told a part of that would have no reason to say it to the others."""
        c = self.cluster(workers=WORKERS - 1, pservers=0)
        frozen = c.add("worker", WORKERS - 1, ["--fault", "stop-at:RUNNING"])
        c.workers.append(frozen)
        c.wait_nodes(WORKERS)
        stat = pathlib.Path(f"/proc/{frozen.process.pid}/stat")
        for exchange, assignment in (("plain", "duplicate"), ("ndc", "iid"), ("ccdc", "iid")):
            before = self.log_ends(c)
            # Its lease holds for as long as the others need to be late four times.
            job = c.submit({**JOB, "epochs": 10}, timeouts={"leaseMs": 120000},
                           **shape(exchange, 2, assignment, window_ms=int(1000 * SLOW)))
            c.poll("a frozen worker", lambda: stat.read_text().split()[2] == "T")
            for other in c.workers[:-1]:
                c.poll("the others go on without it", lambda: len(set(re.findall(
                    r"step (\d+) waits for [^:]*\b" + frozen.name + r"\b",
                    other.log(before[other.name])))) > 3)
            self.assertEqual(c.get(job.id).state, job_pb2.JOB_STATE_RUNNING)
            frozen.thaw()
            job = c.wait(job.id, seconds=120)
            self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
            self.must_be_alike(c, job)

    def test_a_worker_that_says_nothing_is_named(self):
        c = self.cluster(workers=3, pservers=0)
        window_ms = int(700 * SLOW)
        job = c.wait(c.submit({**JOB, **FRAGILE, "workers": 3}, **shape("plain", window_ms=window_ms),
                              straggler={"name": "fixed", "params": {"rank": 2, "ms": 20000}}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
        self.assertIn(f"step 0: nothing for 2 x {window_ms} ms from worker 2", job.message)

    def test_what_cannot_work_is_refused_with_the_reason(self):
        c = self.cluster(workers=0, pservers=0)
        for fields, field, reason in (
                (shape("ccdc", 2, "duplicate"), "spec.exchange.name", "assignment iid is allowed"),
                ({**shape("ccdc", 2), **codec("f16")}, "spec.exchange.name", "f32 is allowed"),
                ({**shape("ring"), **codec("sign", error_feedback=0)}, "spec.exchange.name",
                 "unbiased"),
                ({**shape("ring"), **codec("int8", momentum=0.9)}, "spec.exchange.name",
                 "not of sums"),
                ({**shape("plain", 2), **codec("topk", error_feedback=1)},
                 "spec.codec.up.params.error_feedback", "with redundancy 2"),
                ({**shape("ccdc"), **MIXED}, "spec.exchange.name", "of dense0.weight"),
                ({**shape("plain"), "codec": {"down": {"name": "f16"}}}, "spec.codec.down.name",
                 "nothing comes down"),
                ({**shape("plain"), "consistency": {"name": "ssp"}}, "spec.consistency.name",
                 "bsp is allowed"),
                ({**shape("plain"), "update": {"name": "dqlosp"}}, "spec.update.name",
                 "only sum are allowed"),
                ({**shape("ndc", 2), "update": {"name": "gradient_average"}},
                 "spec.assignment.params.redundancy", "1 is allowed"),
                (shape("star"), "spec.exchange.name", "pserver, plain, ndc, ccdc, ring, tree")):
            with self.assertRaises(grpc.RpcError) as caught:
                c.submit({**JOB, **fields})
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(field, caught.exception.details())
            self.assertIn(reason, caught.exception.details())


if __name__ == "__main__":
    main()
