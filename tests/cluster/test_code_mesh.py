# SPDX-License-Identifier: Apache-2.0
"""test_code_mesh.py - a job's own codec in exchanges among workers, on real clusters and by psgd train."""
import os
import signal

import grpc
import harness
from code_jobs import JOB, SLOW, CodeTest, codec, example
from harness import job_pb2, main

MESH = {**JOB, "workers": 3, "pservers": 0, "maxSteps": 40}
# Slices of 1, 2, 1000 and 16,384 values are tried; cells of a mesh have others too.
UNTRIED = """
return { kind = "codec", name = "untried", bits = 32,
    encode = function(x, params, key, out)
        CALL(ENCODE, #x)
        out:floats(x)
    end,
    decode = function(bytes, n)
        CALL(DECODE, n)
        return bytes:floats(n)
    end }
"""


class CodeMesh(CodeTest):
    def exchanges(self):
        """Exchanges among workers with a codec of code, the built-in one of the same values, numbers, and files."""
        for exchange in ("plain", "ndc", "ring", "tree"):
            ways = ("up", "down") if exchange in ("ring", "tree") else ("up",)
            for file, own, builtin, params in (
                    ("sgq.lua", "sgq", "cot", {}),
                    ("sgq.lua", "sgq", "cot", {"bits": 4, "error_feedback": 1, "lossless": 2}),
                    ("topk_lua.lua", "topk_lua", "topk", {"error_feedback": 1, "fraction": 0.05})):
                spec = {**MESH, "exchange": {"name": exchange}}
                yield exchange, params, {**spec, "code": [example(file)], "codec": {
                    way: {"name": own, "params": params} for way in ways}}, {**spec, "codec": {
                        way: {"name": builtin, "params": params} for way in ways}}

    def test_workers_without_a_server_have_the_bits_of_built_in_codecs(self):
        """In each exchange, with error feedback and without, on a cluster and in one process."""
        c = self.cluster(workers=3, pservers=0)
        for exchange, params, spec, builtin in self.exchanges():
            with self.subTest(exchange, **params):
                mine, theirs = self.done(c, spec), self.done(c, builtin)
                self.assertEqual(self.model(c, mine), self.model(c, theirs))
                self.assertEqual(mine.progress.step, 40)
                self.assertTrue(0.9 < mine.progress.bytes_up / theirs.progress.bytes_up < 1.1, mine.progress)
                run, folder = self.local(c, spec)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertEqual(self.hashes((folder / "MODEL-code-N(0).safetensors").read_bytes()), self.model(c, mine))

    def must_fail(self, c, spec, says):
        """The job fails at once, and its workers and their sandboxes are free again."""
        job = c.wait(c.submit(spec).id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        self.assertRegex(job.message, says)
        self.assertEqual(job.attempt, 1)
        c.wait_idle()
        for node in c.workers + c.pservers:
            c.poll("the end of the sandboxes", lambda n=node: not self.sandboxes(n))

    def test_failures_of_code_end_a_job_without_servers_by_name(self):
        """In each exchange: an error, and more instructions than a call may take, in encode and in decode."""
        c = self.cluster(workers=3, pservers=0)
        fails = {"error": ("error('of ' .. n)", "code:1: of (128|10)"), "endless": ("while true do end", "20 million")}
        for exchange in ("plain", "ndc", "ring", "tree"):
            for call in ("encode", "decode"):
                for what, (statement, says) in fails.items():
                    text = (f"local function fail(n) if n > 2 and n < 1000 then {statement} end end" +
                            UNTRIED.replace("CALL(" + call.upper() + ",", "fail(").replace("CALL(ENCODE,", "type(")
                            .replace("CALL(DECODE,", "type("))
                    with self.subTest(exchange, call=call, what=what):
                        spec = {**MESH, "exchange": {"name": exchange},
                                "code": [{"file": "untried.lua", "text": text}], **codec("untried", error_feedback=1)}
                        says = rf"untried\.lua: {call}: .*{says}"
                        self.must_fail(c, spec, says)
                        run, _ = self.local(c, spec)
                        self.assertNotEqual(run.returncode, 0)
                        self.assertRegex(run.stderr, says)
        self.done(c, {**MESH, "exchange": {"name": "plain"}})

    def test_a_killed_sandbox_ends_a_job_without_servers_by_name(self):
        c = self.cluster(workers=3, pservers=0)
        for exchange in ("plain", "ring"):
            for node in c.workers[:2]:
                with self.subTest(exchange, node=node.name):
                    self.must_fail_without_its_sandboxes(
                        c, {**MESH, **SLOW, "maxSteps": 1000, "epochs": 100, "exchange": {"name": exchange},
                            "code": [example("sgq.lua")], **codec("sgq")}, node, "(en|de)code")

    def test_a_call_that_takes_longer_than_a_lease_does_not_lose_the_worker(self):
        """The sandboxes of a worker are stopped, so that its next call lasts as long as it may: 5 seconds for each slice."""
        c = self.cluster(workers=3, pservers=0)
        job = c.submit({**MESH, **SLOW, "maxSteps": 1000, "epochs": 100, "exchange": {"name": "ring"},
                        "timeouts": {"leaseMs": min(4500, int(2000 * harness.SLOW))}, "code": [example("sgq.lua")], **codec("sgq")})
        c.wait(job.id, lambda job: job.progress.step >= 5)
        for pid in self.sandboxes(c.workers[0]):
            os.kill(pid, signal.SIGSTOP)
        job = c.wait(job.id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        self.assertRegex(job.message, r"sgq\.lua: (en|de)code: takes longer than the 5 s of its budget")
        self.assertEqual((job.attempt, len(job.recoveries)), (1, 0))

    def test_a_killed_worker_of_a_job_without_servers_changes_no_bit(self):
        """Without error feedback the step under way is done again, with it those since the last checkpoint."""
        c = self.cluster(workers=4, pservers=0)
        for exchange, params in (("plain", {}), ("ring", {}), ("tree", {}), ("ring", {"error_feedback": 1})):
            spec = {**MESH, **SLOW, "maxSteps": 120, "exchange": {"name": exchange}, "checkpoint": {"everySteps": 7},
                    "code": [example("sgq.lua")], **codec("sgq", **params)}
            with self.subTest(exchange, **params):
                quiet = self.done(c, spec)
                c.wait_nodes(4)
                job = c.submit(spec)
                c.wait(job.id, lambda job: job.progress.step >= 20)
                victim = next(n for n in c.workers if self.sandboxes(n))
                victim.kill()
                job = c.wait(job.id)
                self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_DONE", job.message)
                loss, = job.recoveries
                self.assertEqual(loss.node_ids[0], victim.name)
                if params:
                    self.assertEqual(loss.from_step % 7, 0)
                else:
                    self.assertLessEqual(loss.step - loss.from_step, 1)
                self.assertEqual(self.model(c, job), self.model(c, quiet))
                victim.start()

    def test_ccdc_refuses_it(self):
        c = self.cluster(workers=1, pservers=0)
        with self.assertRaises(grpc.RpcError) as caught:
            c.submit({**MESH, "exchange": {"name": "ccdc"}, "code": [example("sgq.lua")], **codec("sgq")})
        self.assertRegex(caught.exception.details(), "spec.exchange.name: .*codec sgq of .* cannot be used: f32 is allowed")


if __name__ == "__main__":
    main()
