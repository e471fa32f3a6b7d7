# SPDX-License-Identifier: Apache-2.0
"""Jobs that compute: code of the job over partitions, on real processes. What plain Python computes
is what they must give, for any number of workers and also when a worker is killed."""
import collections
import csv
import io
import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

import grpc
from google.protobuf import json_format

import harness
from code_jobs import only_one
from harness import BIN, PATIENCE, ROOT, ClusterTest, job_pb2

CODE = ROOT / "clients/examples/code"
MASK = (1 << 64) - 1


def code(name):
    return [{"file": f"{name}.lua", "text": (CODE / f"{name}.lua").read_text()}]


def job(name, workers=4, data=None, pservers=0, **compute):
    spec = {"title": name, "workers": workers, "pservers": pservers, "code": code(name), "compute": compute}
    return {**spec, "data": data} if data else spec


def own(text, workers=2, pservers=0, **compute):
    """A job of other code, in whose text N is the start of the plugin's table."""
    text = text.replace("N", "kind = 'compute', name = 'own', ")
    return {"title": "own", "workers": workers, "pservers": pservers, "code": [{"file": "own.lua", "text": text}],
            "compute": compute}


def table(content):
    return list(csv.reader(io.StringIO(content.decode())))


def draw(i):
    """SplitMix64, as pi.lua has it."""
    x = (i + 1) * 0x9E3779B97F4A7C15 & MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return ((x ^ (x >> 31)) >> 11) * 2.0 ** -53


# Each partition takes long enough for a worker to be killed meanwhile.
SLOW = """return {N map = function(part, params, emit)
    local s = 0
    for i = 1, 3000000 do s = s + i % 7 end
    emit(part.number, s) emit('all', 1)
end, reduce = function(key, a, b) return a + b end}"""
# What is left shows in which order the values of a key were reduced, also in the last bit of numbers.
ORDER = """return {N map = function(part, params, emit)
    for k = 1, 200 do
        emit('w' .. k, string.char(96 + part.number))
        emit(k, 1 / (7 * part.number * k) - 0.1 * k)
    end
end, reduce = function(key, a, b)
    if math.type(a) then return a + b end
    return a .. b
end, finish = function(key, value) if key ~= 7 then return value end end}"""
SLOW_SUM = sum(i % 7 for i in range(1, 3000001))


class ExecutorTest(ClusterTest):
    def result(self, cluster, spec, name=None, seconds=120):
        made = cluster.submit(spec)
        done = cluster.wait(made.id, seconds=seconds)
        self.assertEqual(job_pb2.JobState.Name(done.state), "JOB_STATE_DONE", done.message)
        self.assertEqual(done.progress.step, done.progress.total_steps)
        files = cluster.files(made.id)
        self.assertEqual([n for n in files if n.endswith(".records")], [])
        self.assertIn("summary.json", files)
        return files[name or f"RESULT-{spec['title']}.csv"]

    def failure(self, cluster, spec, seconds=120):
        made = cluster.submit(spec)
        done = cluster.wait(made.id, seconds=seconds)
        self.assertEqual(job_pb2.JobState.Name(done.state), "JOB_STATE_FAILED", done.message)
        self.assertFalse([n for n in cluster.files(made.id) if n.startswith("RESULT")])
        return done

    def text_folder(self, text):
        folder = tempfile.TemporaryDirectory(prefix="psgd-text-")
        self.addCleanup(folder.cleanup)
        (pathlib.Path(folder.name) / "books").mkdir()
        half = text.index("\n", len(text) // 2) + 1
        (pathlib.Path(folder.name) / "books/a.txt").write_text(text[:half])
        (pathlib.Path(folder.name) / "books/b.txt").write_text(text[half:])
        return folder.name

    def test_ranks_compute_for_those_whose_sandbox_cannot_be_started(self):
        """Of a worker's three ranks one has a sandbox; the ranks of another worker have none, so that it fails."""
        folder = tempfile.TemporaryDirectory(prefix="psgd-one-")
        self.addCleanup(folder.cleanup)
        c = self.cluster(workers=2, node_env=lambda name: {
            "PSGD_SANDBOX": only_one(folder.name) if name == "worker-1" else "/nonexistent/sandbox"})
        c.wait_nodes(3)
        spec = {**own(SLOW, workers=6, partitions=9), "workerProcesses": 2}
        self.assertEqual({k: v for k, v in table(self.result(c, spec))[1:]},
                         {**{str(p): str(SLOW_SUM) for p in range(1, 10)}, "all": "9"})
        self.assertIn("the other ranks here compute for rank", c.workers[1].log())
        self.assertRegex(c.workers[0].log(), r"own\.lua: /nonexistent/sandbox cannot be started")

    def test_words_sums_settings_and_greetings(self):
        text = "".join(f"It's line {i % 37} of the Text, and word{i % 11}-ish\n" for i in range(5000))
        given = os.environ.get("PSGD_DATA", "")
        if os.path.isfile(os.path.join(given, "text/tinyshakespeare.txt")):
            text = pathlib.Path(given, "text/tinyshakespeare.txt").read_text()
        c = self.cluster(workers=4, pservers=3, data=self.text_folder(text))
        c.wait_nodes(7)
        words = collections.Counter(re.findall(r"[a-z']+", text.lower()))
        data = {"name": "text", "folder": "books", "files": ["*.txt"]}
        results = [self.result(c, job("wordcount", workers=w, data=data, pservers=s, partitions=p))
                   for w, s, p in ((4, 0, 13), (1, 0, 13), (3, 0, 1), (4, 0, 64), (4, 3, 13), (2, 1, 64))]
        self.assertEqual(len(set(results)), 1)
        expected = sorted(words.items(), key=lambda item: item[0].encode())
        self.assertEqual(table(results[0]), [["key", "value"]] + [[w, str(n)] for w, n in expected])
        often = self.result(c, job("wordcount", data=data, params={"least": 100}, pservers=2,
                                   columns=["word", "count"], format="json"), "RESULT-wordcount.json")
        self.assertEqual(json.loads(often), [{"word": w, "count": n} for w, n in expected if n >= 100])

        points = 200000
        inside = sum(draw(2 * i) ** 2 + draw(2 * i + 1) ** 2 < 1 for i in range(1, points + 1))
        pi = self.result(c, job("pi", **{"from": 1, "to": points, "partitions": 23}))
        (header, row) = table(pi)
        self.assertEqual(row[:3], ["pi", str(inside), str(points)])
        self.assertEqual(float(row[3]), 4 * inside / points)

        hello = self.result(c, job("hello", partitions=6))
        self.assertEqual(table(hello)[1:], [[str(i), f"hello from partition {i} of 6"]
                                            for i in range(1, 7)])

        grid = self.result(c, job("grid", **{"from": 1, "to": 12, "partitions": 12},
                                  columns=["setting", "rate", "decay", "loss"]))
        rows = table(grid)
        self.assertEqual(rows[0], ["setting", "rate", "decay", "loss"])
        self.assertEqual([(float(r[1]), float(r[2])) for r in rows[1:]],
                         [(rate, decay) for decay in (0, 0.001, 0.01) for rate in (0.01, 0.03, 0.1, 0.3)])
        losses = {(float(r[1]), float(r[2])): float(r[3]) for r in rows[1:]}
        self.assertEqual(min(losses, key=losses.get), (0.3, 0))
        self.assertEqual(grid, self.result(c, job("grid", workers=2, **{
            "from": 1, "to": 12, "partitions": 5}, columns=["setting", "rate", "decay", "loss"])))

    def test_servers_reduce_in_the_order_of_partitions(self):
        c = self.cluster(workers=3, pservers=3)
        c.wait_nodes(6)
        (reduced,) = {self.result(c, own(ORDER, workers=w, pservers=s, partitions=23))
                      for w, s in ((1, 0), (3, 1), (3, 3), (2, 2))}
        rows = table(reduced)
        self.assertEqual(len(rows), 1 + 399)
        self.assertEqual(rows[-1], ["w99", "abcdefghijklmnopqrstuvw"])
        for k in (1, 8, 200):
            total = 1 / (7 * k) - 0.1 * k
            for number in range(2, 24):
                total += 1 / (7 * number * k) - 0.1 * k
            self.assertIn([str(k), "%.17g" % total], [[key, "%.17g" % float(v)] for key, v in rows[1:200]])
        self.assertEqual(self.result(c, own("return {N map = function() end}", pservers=3)), b"key,value\n")

    def check_a_loss(self, kill, attempts):
        """A job with servers gives each partition once, also if a process is killed meanwhile."""
        c = self.cluster(workers=2, pservers=2)
        c.wait_nodes(4)
        made = c.submit(own(SLOW, workers=2, pservers=2, partitions=40))
        c.wait(made.id, lambda j: j.progress.step >= 6)
        kill(c)
        done = c.wait(made.id, seconds=180)
        self.assertEqual(job_pb2.JobState.Name(done.state), "JOB_STATE_DONE", done.message)
        self.assertEqual(done.attempt, attempts)
        self.check_slow(c.files(made.id)["RESULT-own.csv"], 40)
        return c

    def test_with_servers_a_killed_worker_costs_its_partition_alone(self):
        self.check_a_loss(lambda c: c.workers[1].kill(), 1)

    def test_a_killed_server_has_all_partitions_done_again(self):
        def kill(c):
            c.pservers[1].kill()
            c.pservers[1].start()

        self.assertNotIn("partitions are done", self.check_a_loss(kill, 2).coordinator.log())

    def test_with_servers_a_killed_coordinator_goes_on(self):
        def kill(c):
            c.coordinator.kill()
            c.restart_coordinator()

        self.assertRegex(self.check_a_loss(kill, 1).coordinator.log(),
                         r"goes on: [0-9]+ of 40 partitions are done")

    def psgd(self, *args, code=0, **options):
        run = subprocess.run([BIN / "psgd", *map(str, args)], capture_output=True, text=True,
                             timeout=300, **options)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def test_one_process_gives_the_bytes_of_the_cluster(self):
        text = "".join(f"line {i % 37} of the text, and word{i % 11}\n" for i in range(5000))
        folder = self.text_folder(text)
        os.rename(os.path.join(folder, "books"), os.path.join(folder, "text"))
        c = self.cluster(workers=4, pservers=0, data=folder)
        c.wait_nodes(4)
        out = tempfile.TemporaryDirectory(prefix="psgd-train-")
        self.addCleanup(out.cleanup)
        env = {**os.environ, "PSGD_DATA": folder}
        said = self.psgd("train", CODE / "wordcount.yaml", "--threads", 3, "--out", out.name, env=env)
        self.assertIn("plan      3 threads, 16 partitions", said)
        self.assertIn("RESULT-words.csv", said)
        self.assertEqual(sorted(os.listdir(out.name)),
                         ["RESULT-words.csv", "manifest.json", "summary.json"])
        shown = self.psgd("--coordinator", c.coordinator.address, "submit", CODE / "wordcount.yaml",
                          "--watch")
        self.assertRegex(shown, "(?s)DONE.*RESULT-words.csv")
        (listed,) = c.api.ListJobs(harness.coordinator_pb2.ListJobsRequest(), timeout=10).jobs
        content = c.files(listed.id)["RESULT-words.csv"]
        self.assertEqual(content, pathlib.Path(out.name, "RESULT-words.csv").read_bytes())
        words = collections.Counter(re.findall(r"[a-z']+", text))
        self.assertEqual(table(content), [["word", "count"]] + [
            [w, str(n)] for w, n in sorted(words.items()) if n >= 2])
        failing = pathlib.Path(out.name, "failing.lua")
        failing.write_text("return {kind = 'compute', name = 'f', map = function(p) error('no', 0) end}")
        spec = pathlib.Path(out.name, "failing.yaml")
        spec.write_text("title: f\ncode: [failing.lua]\ncompute: {partitions: 3}\n")
        said = self.psgd("train", spec, "--out", pathlib.Path(out.name, "f"), code=1)
        self.assertRegex(said, r"failing.lua: map of partition \d: no")
        self.check_unwritten(pathlib.Path(out.name, "unwritten"), env)

    def check_unwritten(self, out, env):
        """A folder is where a file of the job should be."""
        for name in ("RESULT-words.csv", "summary.json", "manifest.json"):
            folder = out / name / name
            folder.mkdir(parents=True)
            said = self.psgd("--format", "json", "train", CODE / "wordcount.yaml", "--out", folder.parent, env=env,
                             code=1)
            job = json.loads(said[:said.rindex("}") + 1])
            self.assertEqual((job["state"], job["reason"]), ("JOB_STATE_FAILED", "STORE_FAILED"), said)
            self.assertIn(name, job["message"])

    def check_slow(self, content, partitions):
        self.assertEqual(table(content)[1:], [[str(i), str(SLOW_SUM)] for i in range(1, partitions + 1)]
                         + [["all", str(partitions)]])

    def test_a_killed_worker_costs_its_partition_alone(self):
        c = self.cluster(workers=4, pservers=0)
        c.wait_nodes(4)
        made = c.submit(own(SLOW, workers=4, partitions=60))
        c.wait(made.id, lambda j: j.progress.step >= 8)
        shown = self.psgd("--coordinator", c.coordinator.address, "get", made.id)
        self.assertRegex(shown, r"progress .* partition [0-9]+/60 +4/4 workers\n")
        c.workers[1].kill()
        done = c.wait(made.id, seconds=180)
        self.assertEqual(job_pb2.JobState.Name(done.state), "JOB_STATE_DONE", done.message)
        self.assertEqual(done.attempt, 1)
        self.check_slow(c.files(made.id)["RESULT-own.csv"], 60)

    def test_a_job_that_loses_all_its_workers_goes_on_with_what_is_left(self):
        c = self.cluster(workers=1, pservers=0)
        c.wait_nodes(1)
        made = c.submit(own(SLOW, workers=1, partitions=40))
        c.wait(made.id, lambda j: j.progress.step >= 6)
        c.workers[0].kill()
        c.workers[0].start()
        c.wait(made.id, lambda j: j.attempt == 2 and j.progress.step >= 6)
        done = c.wait(made.id, seconds=180)
        self.assertEqual(job_pb2.JobState.Name(done.state), "JOB_STATE_DONE", done.message)
        self.assertRegex(c.coordinator.log(), r"goes on: [0-9]+ of 40 partitions are done")
        self.check_slow(c.files(made.id)["RESULT-own.csv"], 40)

    def test_a_killed_coordinator_goes_on(self):
        c = self.cluster(workers=2, pservers=0)
        c.wait_nodes(2)
        made = c.submit(own(SLOW, workers=2, partitions=40))
        c.wait(made.id, lambda j: j.progress.step >= 6)
        c.coordinator.kill()
        c.restart_coordinator()
        done = c.wait(made.id, seconds=180)
        self.assertEqual(job_pb2.JobState.Name(done.state), "JOB_STATE_DONE", done.message)
        self.assertEqual(done.attempt, 1)
        self.check_slow(c.files(made.id)["RESULT-own.csv"], 40)

    def test_failing_code_ends_the_job_by_name(self):
        c = self.cluster(workers=2, pservers=2)
        c.wait_nodes(4)
        failed = self.failure(c, own("""return {N map = function(part, params, emit)
            if part.number == 5 then
                local t = nil + 1
            end
            emit('n', 1) end, reduce = function(k, a, b) return a + b end}"""))
        self.assertEqual(failed.reason, "CODE_FAILED")
        self.assertIn("own.lua: map of partition 5: code:3: attempt to perform arithmetic on a nil",
                      failed.message)
        bomb = self.failure(c, own("return {N map = function() local s = 'x' "
                                   "while true do s = s .. s end end}"))
        self.assertIn("not enough memory", bomb.message)
        late = self.failure(c, own("return {N map = function() while true do end end}", seconds=0.5))
        self.assertIn("takes longer than the 0.5 s of its budget", late.message)
        for servers in (0, 2):
            merged = self.failure(c, own("return {N map = function(p, n, emit) emit(1, p.number) end, "
                                         "finish = function(k, v) return v .. {} end, "
                                         "reduce = function(k, a, b) return a + b end}", pservers=servers))
            self.assertEqual(merged.reason, "CODE_FAILED")
            self.assertIn("own.lua: reduce and finish: code:1: attempt to concatenate", merged.message)
        # the nodes are as they were
        self.check_slow(self.result(c, own(SLOW, pservers=2, partitions=3)), 3)

    def test_a_cancelled_job_leaves_servers_that_reduce_at_once(self):
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        made = c.submit(own("return {N map = function(p, n, emit) emit(1, 1) end, "
                            "reduce = function() while true do end end}", workers=1, pservers=1,
                            partitions=2, seconds=500, instructions="1000000000000000"))
        c.wait(made.id, lambda j: j.progress.step == 2)
        c.poll("the sandbox of the server", lambda: "reduces the records of 2" in c.pservers[0].log(), 20)
        c.api.CancelJob(harness.coordinator_pb2.CancelJobRequest(job_id=made.id), timeout=10)
        self.assertEqual(c.wait(made.id).state, job_pb2.JOB_STATE_CANCELLED)
        c.wait_idle()
        self.check_slow(self.result(c, own(SLOW, workers=1, pservers=1, partitions=2)), 2)

    def test_a_cancelled_job_leaves_its_workers_at_once(self):
        c = self.cluster(workers=2, pservers=0)
        c.wait_nodes(2)
        made = c.submit(own("return {N map = function() while true do end end}", seconds=500,
                            instructions="1000000000000000"))
        c.wait(made.id, lambda j: j.state == job_pb2.JOB_STATE_RUNNING)
        c.api.CancelJob(harness.coordinator_pb2.CancelJobRequest(job_id=made.id), timeout=10)
        done = c.wait(made.id)
        self.assertEqual(done.state, job_pb2.JOB_STATE_CANCELLED)
        c.wait_idle()
        self.check_slow(self.result(c, own(SLOW, partitions=2)), 2)

    def test_wrong_specifications_name_their_fields(self):
        c = self.cluster(workers=0, pservers=0)
        wrong = {**own(SLOW, partitions=5000, seconds=0.01, memoryMib=9999, format="xml",
                       instructions="5", columns=["a b"], code="other", params={"x": 1}),
                 "epochs": 3, "optimizer": {"rule": {"name": "adam"}}, "pservers": 65,
                 "data": {"name": "mnist"}}
        with self.assertRaises(grpc.RpcError) as refused:
            c.submit(wrong)
        details = str(dict(refused.exception.trailing_metadata()))
        for field in ("partitions", "seconds", "memory_mib", "format", "instructions", "columns[0]",
                      "code"):
            self.assertIn(f"spec.compute.{field}", details)
        for field in ("epochs", "optimizer", "pservers", "data.name"):
            self.assertIn(f"spec.{field}", details)
        with self.assertRaises(grpc.RpcError) as refused:
            c.submit(own(SLOW, params={"x": 1}, **{"from": 5, "to": 3}))
        details = str(dict(refused.exception.trailing_metadata()))
        self.assertIn("spec.compute.params.x", details)
        self.assertIn("spec.compute.to", details)
        with self.assertRaises(grpc.RpcError) as refused:
            c.submit({"data": {"name": "text", "folder": "x", "files": ["a.txt"]}})
        self.assertIn("text", refused.exception.details())

    def test_a_stranger_brings_no_records(self):
        c = self.cluster(workers=2, pservers=0)
        c.wait_nodes(2)
        pb = harness.coordinator_pb2
        with c.dial(c.workers[0].address) as channel:
            node = harness.node_pb2_grpc.NodeServiceStub(channel)
            asked = node.CanCommit(harness.node_pb2.CanCommitRequest(
                job_id="other", attempt=1, role=job_pb2.NODE_ROLE_WORKER, coordinator=c.coordinator.address,
                reserve_ms=60000), timeout=10)
            node.Abort(harness.node_pb2.AbortRequest(job_id="other", attempt=1), timeout=10)
        incarnation = asked.incarnation
        self.assertGreater(incarnation, 0)
        c.wait_idle()
        made = c.submit(own(SLOW, partitions=40))
        rank = {p.node_id: p.rank for p in c.wait(made.id, lambda j: j.progress.step >= 2).placements}
        good = {"node_id": "worker-0", "incarnation": incarnation, "job_id": made.id, "attempt": 1,
                "rank": rank["worker-0"]}
        for change, code in (({"incarnation": incarnation + 1}, grpc.StatusCode.ABORTED),
                             ({"attempt": 2}, grpc.StatusCode.ABORTED),
                             ({"node_id": "nobody"}, grpc.StatusCode.ABORTED),
                             ({"rank": rank["worker-1"]}, grpc.StatusCode.INVALID_ARGUMENT),
                             ({"done": 41}, grpc.StatusCode.INVALID_ARGUMENT),
                             ({"done": 40, "records": b"\1\2\3"}, grpc.StatusCode.INVALID_ARGUMENT)):
            with self.assertRaises(grpc.RpcError) as refused:
                c.api.TakePartition(pb.TakePartitionRequest(**{**good, **change}), timeout=10)
            self.assertEqual(refused.exception.code(), code, change)
        done = c.wait(made.id, seconds=180)
        self.assertEqual(job_pb2.JobState.Name(done.state), "JOB_STATE_DONE", done.message)
        self.check_slow(c.files(made.id)["RESULT-own.csv"], 40)

    def test_servers_take_the_records_of_their_keys_from_workers_alone(self):
        from psgd.v1 import parameter_pb2, parameter_pb2_grpc

        c = self.cluster(workers=1, pservers=2)
        c.wait_nodes(3)
        made = c.submit(own(SLOW, workers=1, pservers=2, partitions=20))
        running = c.wait(made.id, lambda j: j.progress.step >= 2)
        spec = re.sub(r': "(\d+)"', r": \1", json_format.MessageToJson(running.spec))
        plan = subprocess.run([BIN.parent / "tests/layout_hash"], capture_output=True, input=spec.encode())
        who = {"job_id": made.id, "rank": 0, "incarnation": 1, "layout_hash": int(plan.stdout, 16)}
        (first,) = [p for p in running.placements if p.role == job_pb2.NODE_ROLE_PSERVER and p.rank == 0]
        keys = b"".join(b"\1" + struct.pack("<q", i) + b"\4" for i in range(20))  # of both servers
        good = {"worker": who, "attempt": 1, "partition": 20}
        with c.dial(first.address) as channel:
            server = parameter_pb2_grpc.RecordServiceStub(channel)

            def push(**change):
                server.PushRecords(parameter_pb2.PushRecordsRequest(**{**good, **change}),
                                   timeout=10 * PATIENCE)

            for change, code in (({"worker": {**who, "job_id": "other"}}, grpc.StatusCode.FAILED_PRECONDITION),
                                 ({"worker": {**who, "rank": 1}}, grpc.StatusCode.INVALID_ARGUMENT),
                                 ({"worker": None}, grpc.StatusCode.INVALID_ARGUMENT),
                                 ({"attempt": 2}, grpc.StatusCode.ABORTED),
                                 ({"partition": 0}, grpc.StatusCode.INVALID_ARGUMENT),
                                 ({"partition": 21}, grpc.StatusCode.INVALID_ARGUMENT),
                                 ({"records": b"\1\2\3"}, grpc.StatusCode.INVALID_ARGUMENT),
                                 ({"records": keys}, grpc.StatusCode.INVALID_ARGUMENT)):
                with self.assertRaises(grpc.RpcError) as refused:
                    push(**change)
                self.assertEqual(refused.exception.code(), code, change)
            push(partition=1)  # it is there already, and stays
            with self.assertRaises(grpc.RpcError) as refused:
                c.api.TakePartition(harness.coordinator_pb2.TakePartitionRequest(
                    node_id="worker-0", incarnation=1, job_id=made.id, attempt=1, done=20, records=keys), timeout=10)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.ABORTED)
        done = c.wait(made.id, seconds=180)
        self.assertEqual(job_pb2.JobState.Name(done.state), "JOB_STATE_DONE", done.message)
        self.check_slow(c.files(made.id)["RESULT-own.csv"], 20)


if __name__ == "__main__":
    harness.main()
