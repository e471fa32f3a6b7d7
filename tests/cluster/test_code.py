# SPDX-License-Identifier: Apache-2.0
"""test_code.py - jobs that bring code along, on real clusters and by psgd train."""
import csv
import io
import pathlib
import subprocess
import tempfile

import grpc
from code_jobs import EXAMPLES, JOB, SLOW, CodeTest, codec, example, only_one
from harness import BIN, job_pb2, main

# Codecs that fail where the coordinator does not try them: with slices of ten values, the last bias.
BAD = """
return { kind = "codec", name = "bad", bits = 32,
    encode = function(x, params, key, out) out:floats(x) end,
    decode = function(bytes, n)
        local x = bytes:floats(n)
        if n == 10 then error("value of " .. tostring(n == 10)) end
        return x
    end }
"""
ENDLESS = """
return { kind = "codec", name = "endless", bits = 32,
    encode = function(x, params, key, out) while #x == 10 do end out:floats(x) end,
    decode = function(bytes, n) return bytes:floats(n) end }
"""
# As many steps as equal bits need: what error feedback leaves out of a step goes with later ones.
FEW = {**JOB, "maxSteps": 100}
# Weights come down by it, and what was left out of one version goes with the next.
DOWN = {"down": {"name": "int8_lua", "params": {"error_feedback": 1}}}

OWN_ACCURACY = """
return { kind = "metric", name = "own_accuracy",
    add = function(outputs, targets, n)
        local width, right = #outputs // n, 0
        for i = 0, n - 1 do
            if outputs:part(i * width, width):argmax() == math.floor(targets[i + 1]) + 1 then right = right + 1 end
        end
        return right, 0
    end,
    value = function(right, _, samples) return right / samples end }
"""


class Code(CodeTest):
    def evaluation(self, c, job):
        """The metrics of the last evaluation."""
        rows = csv.DictReader(io.StringIO(c.files(job.id)[f"EV-{job.spec.title}-N(0).csv"].decode()))
        return {name: float(value) for name, value in list(rows)[-1].items()}

    def test_codecs_of_code_train_to_the_bits_of_built_in_ones(self):
        c = self.cluster(workers=2, pservers=2)
        for file, own, builtin, params in (("sgq.lua", "sgq", "cot", {}),
                                           ("topk_lua.lua", "topk_lua", "topk", {"error_feedback": 1, "fraction": 0.05})):
            with self.subTest(file):
                mine = self.done(c, {**FEW, "code": [example(file)], **codec(own, **params)})
                theirs = self.done(c, {**FEW, **codec(builtin, **params)})
                self.assertEqual(self.model(c, mine), self.model(c, theirs))
                said = mine.spec.code[0]
                self.assertEqual((said.kind, said.name, len(said.sha256)), ("codec", own, 64))

    def test_codecs_of_code_bring_weights_with_the_bits_of_built_in_ones(self):
        """Weights, weights of which each version makes up for the last, and changes of weights."""
        c = self.cluster(workers=2, pservers=2)
        for file, own, builtin, params, more in (
                ("sgq.lua", "sgq", "cot", {}, {}),
                ("sgq.lua", "sgq", "cot", {"error_feedback": 1, "lossless": 2, "bits": 4}, {}),
                ("topk_lua.lua", "topk_lua", "topk", {"error_feedback": 1, "fraction": 0.1},
                 {"update": {"name": "dqlosp", "params": {"steps": 2}}, "optimizer": {}})):
            with self.subTest(file, **params):
                mine = self.done(c, {**FEW, **more, "code": [example(file)], **codec(own, "down", **params)})
                theirs = self.done(c, {**FEW, **more, **codec(builtin, "down", **params)})
                self.assertEqual(self.model(c, mine), self.model(c, theirs))
                self.assertTrue(0.9 < mine.progress.bytes_down / theirs.progress.bytes_down < 1.1, mine.progress)

    def test_a_cluster_and_one_process_have_the_same_bits(self):
        c = self.cluster(workers=2, pservers=2)
        job = self.done(c, {**JOB, "code": [example("sgq.lua"), example("int8_lua.lua")],
                            "codec": {**codec("sgq", bits=3)["codec"], **DOWN}})
        folder = pathlib.Path(c.folder) / "local"
        run = subprocess.run([BIN / "psgd", "train", "--preset", "tutorial-glyphs", "-t", "code", "-W", "2", "-E", "1",
                              "--code", EXAMPLES / "sgq.lua", "--codec-up", "sgq", "-s", "codec.up.params.bits=3",
                              "--code", EXAMPLES / "int8_lua.lua", "--codec-down", "int8_lua",
                              "-s", "codec.down.params.error_feedback=1",
                              "-o", folder], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.hashes((folder / "MODEL-code-N(ps).safetensors").read_bytes()), self.model(c, job))

    def test_schedules_metrics_and_transforms_of_code(self):
        """Schedule, transform and metrics on a cluster; a metric in Lua counts what the built-in one counts."""
        c = self.cluster(workers=2, pservers=2)
        spec = {**JOB, "code": [example(f + ".lua") for f in ("sawtooth", "noise", "confidence")] +
                [{"file": "own_accuracy.lua", "text": OWN_ACCURACY}],
                "optimizer": {"schedule": {"name": "sawtooth", "params": {"teeth": 3, "warmup": 5}}},
                "metrics": [{"name": "accuracy"}, {"name": "own_accuracy"}, {"name": "confidence"}],
                "data": {"transforms": [{"name": "noise", "params": {"deviation": 0.05}}]}}
        job = self.done(c, spec)
        values = self.evaluation(c, job)
        self.assertEqual(values["own_accuracy"], values["accuracy"])
        self.assertTrue(0.4 < values["confidence"] < values["accuracy"] + 0.2, values)
        run, folder = self.local(c, spec)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.hashes((folder / "MODEL-code-N(ps).safetensors").read_bytes()), self.model(c, job))
        plain = self.done(c, {**JOB, "optimizer": spec["optimizer"] | {"schedule": {"name": "constant"}}})
        self.assertNotEqual(self.model(c, plain), self.model(c, job))

    def test_a_policy_of_code(self):
        c = self.cluster(workers=2, pservers=1)
        job = self.done(c, {**JOB, "pservers": 1, "code": [example("damped.lua")], "consistency": {"name": "damped"}})
        self.assertGreater(self.evaluation(c, job)["accuracy"], 0.7)

    def test_failures_of_other_kinds_end_the_job_by_name(self):
        c = self.cluster(workers=2, pservers=1)
        for kind, functions, field in (
                ("schedule", "factor = function(s) if s == 21 then error('over') end return 1 end",
                 {"optimizer": {"schedule": {"name": "wrong"}}}),
                ("metric", "add = function() return 0, 0 end, value = function() error('over') end",
                 {"metrics": [{"name": "wrong"}]}),
                ("transform", "sample = function(x) error('over') end", {"data": {"transforms": [{"name": "wrong"}]}}),
                ("consistency", "admit = function() return true end, scale = function(s, worker) if worker == 0 then error('over') end return 1 end",
                 {"consistency": {"name": "wrong"}})):
            with self.subTest(kind):
                text = f"return {{ kind = '{kind}', name = 'wrong', {functions} }}"
                job = c.wait(c.submit({**JOB, "pservers": 1, "code": [{"file": "wrong.lua", "text": text}], **field}).id)
                self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
                self.assertRegex(job.message, r"wrong\.lua: \w+: code:1: over")

    def test_a_killed_worker_or_server_changes_no_bit(self):
        """Gradients and weights both go by codecs of code. The server's weights are computed anew, or are those of a copy."""
        c = self.cluster(workers=3, pservers=3)
        spec = {**JOB, **SLOW, "maxSteps": 60, "code": [example("sgq.lua"), example("int8_lua.lua")],
                "codec": {**codec("sgq")["codec"], **DOWN}}
        quiet = self.done(c, spec)
        for nodes, more in ((c.workers, {}), (c.pservers, {}), (c.pservers, {"recovery": {"replicas": 2}})):
            with self.subTest(nodes=nodes[0].name, **more):
                c.wait_nodes(6)
                job = c.submit({**spec, **more})
                c.wait(job.id, lambda job: job.progress.step >= 10)
                victim = next(n for n in nodes if self.sandboxes(n))
                victim.kill()
                job = c.wait(job.id)
                self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_DONE", job.message)
                self.assertGreater(job.restarts, 0)
                self.assertEqual([(r.node_ids[0], r.step - r.from_step <= 1) for r in job.recoveries], [(victim.name, True)])
                self.assertEqual(self.model(c, job), self.model(c, quiet))
                victim.start()

    def test_failures_of_code_end_the_job_by_name(self):
        c = self.cluster(workers=2, pservers=1)
        changes = {"update": {"name": "dqlosp", "params": {"steps": 2}}, "optimizer": {}}
        for name, way, text, says, more in (
                ("bad", "up", BAD, r"bad\.lua: decode: code:6: value of true", {}),
                ("bad", "down", BAD, r"weights from pserver-0: .*bad\.lua: decode: code:6: value of true", {}),
                ("bad", "down", BAD, r"bad\.lua: decode: code:6: value of true", changes),
                ("endless", "up", ENDLESS, r"endless\.lua: encode: .*instructions", {}),
                ("endless", "down", ENDLESS, r"endless\.lua: encode: .*instructions", {"maxSteps": 1}),
                ("endless", "down", ENDLESS, r"endless\.lua: encode: .*instructions", changes)):
            with self.subTest(name, way=way, **more):
                job = c.wait(c.submit({**JOB, **more, "pservers": 1, "code": [{"file": name + ".lua", "text": text}],
                                       **codec(name, way)}).id)
                self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
                self.assertRegex(job.message, says)
                self.assertEqual(job.attempt, 1)
        for node in c.workers + c.pservers:
            c.poll("the end of the sandboxes", lambda n=node: not self.sandboxes(n))
        self.done(c, {**JOB, "pservers": 1})

    def test_a_killed_sandbox_ends_the_job_by_name(self):
        c = self.cluster(workers=2, pservers=1)
        for way, node, call in (("up", c.workers[0], "encode"), ("down", c.pservers[0], "encode"),
                                ("down", c.workers[0], "decode")):
            with self.subTest(way, call=call):
                self.must_fail_without_its_sandboxes(
                    c, {**JOB, **SLOW, "pservers": 1, "code": [example("sgq.lua")], **codec("sgq", way)}, node, call)

    def test_threads_of_a_node_share_the_one_sandbox_that_it_can_start(self):
        """Two ranks of a worker call the same code."""
        folder = tempfile.TemporaryDirectory(prefix="psgd-one-")
        self.addCleanup(folder.cleanup)
        c = self.cluster(workers=1, pservers=1, node_env=lambda name: {"PSGD_SANDBOX": only_one(folder.name)})
        spec = {**FEW, "pservers": 1, "code": [example("noise.lua")],
                "data": {"transforms": [{"name": "noise", "params": {"deviation": 0.05}}]}}
        job = self.done(c, {**spec, "workerProcesses": 1})
        self.assertEqual(job.restarts, 0, job.recoveries)
        run, made = self.local(c, spec)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.hashes((made / "MODEL-code-N(ps).safetensors").read_bytes()), self.model(c, job))

    def test_a_node_that_can_start_no_sandbox_is_replaced(self):
        """By worker and by server: another node has the part of the first one, with the same bits."""
        for way, role in (("up", "worker"), ("down", "pserver")):
            with self.subTest(way, role=role):
                c = self.cluster(workers=3, pservers=2, node_env=lambda name, lacks=role + "-0": (
                    {"PSGD_SANDBOX": "/nonexistent/sandbox"} if name == lacks else {}))
                c.wait_nodes(5)
                spec = {**JOB, "pservers": 1, "code": [example("sgq.lua")], **codec("sgq", way)}
                job = self.done(c, spec)
                self.assertEqual([(r.reason, r.from_step) for r in job.recoveries], [("NODE_FAILED", 0)])
                self.assertRegex(job.recoveries[0].message,
                                 role + r"-0 .*sgq\.lua: /nonexistent/sandbox cannot be started: No such file or directory")
                self.assertNotIn(role + "-0", [p.node_id for p in job.placements])
                self.assertEqual(self.model(c, self.done(c, spec)), self.model(c, job))

    def test_a_job_that_no_node_can_start_a_sandbox_for_ends_with_the_cause(self):
        c = self.cluster(workers=1, pservers=1, node_env=lambda name: {"PSGD_SANDBOX": "/nonexistent/sandbox"})
        job = c.wait(c.submit({**JOB, "workers": 1, "pservers": 1, "code": [example("sgq.lua")], **codec("sgq")}).id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        self.assertRegex(job.message, r"worker-0 .*sgq\.lua: /nonexistent/sandbox cannot be started")

    def test_wrong_code_is_refused_with_the_field(self):
        c = self.cluster(workers=1, pservers=1)
        for text, says in (("return {", "near <eof>"), ("while true do end", "instructions"),
                           ("return { kind = 'codec', name = 'int8', encode = print, decode = print }", "encode"),
                           (BAD.replace("n == 10", "n == 1000"), "a slice of 1000, normal draws: a.lua: decode")):
            with self.assertRaises(grpc.RpcError) as caught:
                c.submit({**JOB, "code": [{"file": "a.lua", "text": text}]})
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("spec.code[0]", caught.exception.details())
            self.assertIn(says, caught.exception.details())
        with self.assertRaises(grpc.RpcError) as caught:
            c.submit({**JOB, "code": [example("topk_lua.lua")], **codec("topk_lua", "down")})
        self.assertIn('spec.codec.down.name: is "topk_lua", which leaves out most of a slice', caught.exception.details())

    def test_psgd_waits_for_the_trial_of_code(self):
        c = self.cluster(workers=1, pservers=1)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.lua").write_text("while true do end")  # takes some seconds, nearly all of them pauses
            pathlib.Path(folder, "job.yaml").write_text("preset: tutorial-glyphs\ncode: [a.lua]\n")
            run = subprocess.run([BIN / "psgd", "submit", "--coordinator", c.coordinator.address, "--timeout", "1s",
                                  f"{folder}/job.yaml"], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 4, run.stderr)
        self.assertIn("the call takes more instructions than the 20 million of its budget", run.stderr)

    def test_a_coordinator_may_take_no_code(self):
        c = self.cluster(workers=1, pservers=1, coordinator_args=("--code", "off"))
        with self.assertRaises(grpc.RpcError) as caught:
            c.submit({**JOB, "code": [example("sgq.lua")]})
        self.assertEqual(caught.exception.code(), grpc.StatusCode.PERMISSION_DENIED)
        self.assertIn("--code", caught.exception.details())


if __name__ == "__main__":
    main()
