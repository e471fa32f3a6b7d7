# SPDX-License-Identifier: Apache-2.0
"""test_clients.py - psgd, the command line, and the examples in other languages,
each against a real cluster."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import zlib

import grpc

from harness import (BIN, ENDLESS, PATIENCE, ROOT, SLOW, SMALL, ClusterTest, coordinator_pb2,
                     coordinator_pb2_grpc, job_pb2, main)

PSGD = BIN / "psgd"
OK, SERVER, CONNECTION, TIMEOUT, ARGUMENTS = range(5)


class Cli:
    """psgd against one coordinator."""

    def __init__(self, address, folder):
        self.address, self.folder = address, folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_")}

    def command(self, *args):
        return [str(PSGD), "--coordinator", self.address, *map(str, args)]

    def run(self, *args, seconds=60):
        """(exit code, stdout, stderr)"""
        p = subprocess.run(self.command(*args), capture_output=True, text=True, env=self.env,
                           cwd=self.folder, timeout=seconds * PATIENCE, stdin=subprocess.DEVNULL)
        return p.returncode, p.stdout, p.stderr

    def start(self, *args):
        return subprocess.Popen(self.command(*args), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.folder)


def files_below(folder):
    return {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}


def read_until(stream, text, seconds=60):
    """What a process says until `text` is in it, and what came with that. What is read is read
    from the pipe itself: a buffer may hold a line for which select() would wait."""
    seen = b""
    while text.encode() not in seen:
        ready, _, _ = select.select([stream], [], [], seconds * PATIENCE)
        more = os.read(stream.fileno(), 4096) if ready else b""
        if not more:
            raise AssertionError(f"no {text!r} in {seen!r}")
        seen += more
    return seen.decode()


class CliTest(ClusterTest):
    def cli(self, cluster):
        return Cli(cluster.coordinator.address, cluster.folder)

    def ok(self, cli, *args, **options):
        code, out, err = cli.run(*args, **options)
        self.assertEqual(code, OK, f"{args}: {out}{err}")
        self.assertEqual(err, "", args)
        return out

    def document(self, cli, *args):
        """stdout is one JSON document and nothing else."""
        return json.loads(self.ok(cli, "--format", "json", *args))

    def job_file(self, cli, spec, name="job.json"):
        (cli.folder / name).write_text(json.dumps(spec))
        return name


class Commands(CliTest):
    def test_a_job_from_submission_to_deletion(self):
        c = self.cluster(workers=2, pservers=1)
        cli = self.cli(c)
        out = self.ok(cli, "submit", self.job_file(cli, SMALL), "-n", 2, "--title", "mine", "--watch")
        job = re.search(r"^job +(mine-\S+)$", out, re.M).group(1)
        for text in ["RUNNING", "DONE", "accuracy", "test set:", "took", "MODEL-mine-N(0).safetensors",
                     f"download {job}"]:
            self.assertIn(text, out)
        self.assertNotIn("\r", out)  # no terminal

        self.assertIn(job, self.ok(cli, "list"))
        jobs = self.document(cli, "list", "--limit", 1)
        self.assertEqual([j["id"] for j in jobs], [job])
        self.assertEqual(jobs[0]["spec"]["workers"], 2)
        self.assertEqual(self.document(cli, "list", "--state", "running"), [])
        self.assertEqual(len(self.document(cli, "list", "--state", "done")), 1)

        self.assertIn("DONE", self.ok(cli, "get", job))
        got = self.document(cli, "get", job)
        self.assertEqual(got["state"], "JOB_STATE_DONE")
        self.assertGreater(got["result"]["accuracy"], 0.5)
        # A job that is over can still be watched, and says how it ended.
        self.assertIn("DONE", self.ok(cli, "watch", job))
        events = [json.loads(line) for line in
                  self.ok(cli, "watch", job, "--format", "jsonl").splitlines()]
        self.assertEqual(events[-1]["job"]["state"], "JOB_STATE_DONE")
        self.assertEqual(sorted(e["sequence"] for e in events), [e["sequence"] for e in events])
        self.assertEqual(self.document(cli, "watch", job)["id"], job)

        code, out, err = cli.run("cancel", job)
        self.assertEqual((code, out), (SERVER, ""), err)
        self.assertIn("deleted", self.ok(cli, "delete", job))
        code, _, err = cli.run("get", job)
        self.assertEqual(code, SERVER)
        self.assertIn(job, err)

    def test_submission_says_what_to_do_next_and_those_commands_work(self):
        c = self.cluster(workers=1, pservers=1)
        cli = self.cli(c)
        out = self.ok(cli, "submit", self.job_file(cli, SMALL))
        commands = re.findall(r"^  (.*psgd .*)$", out, re.M)
        self.assertEqual([re.search(r"(watch|get|logs|download|cancel)", line.split("--coordinator")[1])
                          .group(1) for line in commands],
                         ["watch", "get", "logs", "download", "cancel"])
        for line in commands[:4]:
            p = subprocess.run(line.split(), capture_output=True, text=True, cwd=cli.folder,
                               env=cli.env, timeout=60 * PATIENCE)
            self.assertEqual(p.returncode, OK, f"{line}: {p.stdout}{p.stderr}")

    def test_json_is_one_document_also_with_watch(self):
        c = self.cluster(workers=1, pservers=1)
        cli = self.cli(c)
        job = self.document(cli, "submit", self.job_file(cli, SMALL), "--watch")
        self.assertEqual(job["state"], "JOB_STATE_DONE")
        job = self.document(cli, "submit", self.job_file(cli, SMALL), "--request-id", "r1")
        self.assertEqual(self.document(cli, "submit", "job.json", "--request-id", "r1")["id"], job["id"])
        code, out, err = cli.run("submit", "job.json", "-E", 3, "--request-id", "r1", "--format", "json")
        self.assertEqual((code, out), (SERVER, ""))
        self.assertNotEqual(err, "")

    def test_files_are_downloaded_and_verified(self):
        c = self.cluster(workers=1, pservers=1)
        cli = self.cli(c)
        job = self.document(cli, "submit", self.job_file(cli, SMALL), "--watch")
        out = self.ok(cli, "download", job["id"], "--output", "here/all")
        names = {a["name"] for a in job["artifacts"]}
        self.assertEqual(files_below(cli.folder / "here/all"), names)
        for a in job["artifacts"]:
            data = (cli.folder / "here/all" / a["name"]).read_bytes()
            self.assertEqual(hashlib.sha256(data).hexdigest(), a["sha256"])
            self.assertIn(a["name"], out)
        files = self.document(cli, "download", job["id"], "--kind", "model", "--kind", "summary")
        self.assertTrue(all(re.match(r"MODEL-|summary|manifest", f["name"]) for f in files))
        self.assertEqual({f["name"] for f in files},
                         {f.name for f in (cli.folder / job["id"]).iterdir()})
        one = self.document(cli, "download", job["id"], "summary.json", "-o", "one")
        self.assertEqual([f["name"] for f in one], ["summary.json"])
        self.assertTrue(one[0]["verified"])
        self.assertEqual(cli.run("download", job["id"], "nothing.txt")[0], SERVER)

    def test_nodes_info_and_presets(self):
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        cli = self.cli(c)
        out = self.ok(cli, "nodes")
        self.assertIn("worker-0", out)
        self.assertIn("IDLE", out)
        self.assertEqual({n["id"] for n in self.document(cli, "nodes")}, {"worker-0", "pserver-0"})
        info = self.document(cli, "info")
        self.assertEqual(info["max_chunk_bytes"], 1 << 20)
        self.assertIn("buckets = 1000001  [2 .. 16777216]", self.ok(cli, "info", "data"))
        out = self.ok(cli, "info", "codec")
        self.assertIn("int8", out)
        self.assertNotIn("adam", out)
        self.assertEqual({p["kind"] for p in self.document(cli, "info", "optimizer")}, {"optimizer"})
        code, _, err = cli.run("info", "codex")
        self.assertEqual(code, ARGUMENTS)
        self.assertIn("codec", err)
        self.assertIn("tutorial", self.ok(cli, "presets"))
        self.assertTrue(all(p["spec"] for p in self.document(cli, "presets")))

    def test_a_worker_json_says_which_nodes(self):
        c = self.cluster(workers=3, pservers=1)
        cli = self.cli(c)
        workers = [w.address for w in c.workers]
        forms = [{"PS": c.pservers[0].address, "Worker": workers},
                 [["PS", c.pservers[0].address], *(["Worker", a] for a in workers)],
                 [*([i, f"u{i}", a] for i, a in enumerate(workers)), [-2, "u", c.pservers[0].address]]]
        self.job_file(cli, SMALL)
        for form in forms:
            self.job_file(cli, form, "worker.json")
            job = self.document(cli, "submit", "job.json", "--workers", "worker.json", "-n", 2, "--watch")
            self.assertEqual(job["state"], "JOB_STATE_DONE", job["message"])
            self.assertEqual([p["address"] for p in sorted(job["placements"], key=lambda p: p["rank"])
                              if p["role"] == "NODE_ROLE_WORKER"], workers[:2])


class Logs(CliTest):
    def test_logs_follow_until_the_job_is_over(self):
        c = self.cluster(workers=1, pservers=1)
        cli = self.cli(c)
        job = self.document(cli, "submit", self.job_file(cli, ENDLESS))["id"]
        follow = cli.start("logs", "-f", job)
        read_until(follow.stdout, "RUNNING")
        c.wait_state(job, job_pb2.JOB_STATE_RUNNING)
        c.poll("a log of a running job", lambda: cli.run("logs", job)[1])
        self.assertIn(job, self.ok(cli, "cancel", job))
        rest, err = follow.communicate(timeout=60 * PATIENCE)
        self.assertEqual(follow.returncode, OK, err)
        for line in self.ok(cli, "logs", job, "--node", "worker-0", "--format", "jsonl").splitlines():
            self.assertEqual(json.loads(line)["service"], "psgd-worker")
        lines = self.document(cli, "logs", job)
        self.assertEqual({line["node"] for line in lines}, {"worker-0", "pserver-0"})
        self.assertEqual([line["time"] for line in lines], sorted(line["time"] for line in lines))
        self.assertEqual(cli.run("logs", job, "--node", "nobody")[0], SERVER)
        self.assertEqual(cli.run("watch", job)[0], SERVER)  # CANCELLED


class Interrupts(CliTest):
    def test_the_first_ctrl_c_detaches(self):
        c = self.cluster(workers=1, pservers=1)
        cli = self.cli(c)
        p = cli.start("submit", self.job_file(cli, ENDLESS), "--watch")
        job = re.search(r"(endless-\S+)", read_until(p.stdout, "step")).group(1)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20 * PATIENCE)
        self.assertEqual(p.returncode, OK, out + err)
        for text in [f"watch {job}", f"cancel {job}"]:
            self.assertIn(text, err)
        self.assertEqual(c.get(job).state, job_pb2.JOB_STATE_RUNNING)

        def detach(tries=[]):
            p = cli.start("watch", job, "--format", "json")
            for _ in tries:
                c.pause()
            tries.append(p)
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=20 * PATIENCE)
            # What begins just now says nothing of it; then the signal has its usual effect.
            self.assertIn(p.returncode, (OK, -signal.SIGINT, 128 + signal.SIGINT), out + err)
            return p.returncode == OK and out

        self.assertEqual(json.loads(c.poll("a watch that had begun", detach))["id"], job)
        self.assertRegex(self.ok(cli, "cancel", job), rf"^{job} is (being stopped|CANCELLED)(: .+)?\n$")

    def test_a_terminal_gets_a_live_line(self):
        c = self.cluster(workers=1, pservers=1)
        cli = self.cli(c)
        main_end, terminal = pty.openpty()
        p = subprocess.Popen(cli.command("submit", self.job_file(cli, ENDLESS), "--watch"),
                             stdin=terminal, stdout=terminal, stderr=terminal, env=cli.env,
                             cwd=cli.folder)
        os.close(terminal)
        seen = b""
        live = rb"\r\s*\[?.*\d+%.* loss \d"
        while seen.count(b"\r\x1b[K") + seen.count(b"\x1b[K") < 4 or not re.search(live, seen):
            ready, _, _ = select.select([main_end], [], [], 60 * PATIENCE)
            self.assertTrue(ready, seen)
            seen += os.read(main_end, 4096)
        p.send_signal(signal.SIGINT)
        while True:
            try:
                data = os.read(main_end, 4096)
            except OSError:
                break
            if not data:
                break
            seen += data
        self.assertEqual(p.wait(20 * PATIENCE), OK)
        os.close(main_end)
        self.assertIn("Detached", seen.decode())

    def test_a_watch_outlives_a_restart_of_the_coordinator(self):
        c = self.cluster(workers=0, pservers=0)
        cli = self.cli(c)
        job = self.document(cli, "submit", self.job_file(cli, SMALL))["id"]
        p = cli.start("watch", job, "--format", "jsonl")
        first = json.loads(p.stdout.readline())
        self.assertEqual(first["job"]["state"], "JOB_STATE_QUEUED")
        c.coordinator.kill()
        said = read_until(p.stderr, "lost the coordinator")
        c.restart_coordinator()
        c.poll("the job is cancelled", lambda: self.ok(cli, "cancel", job))
        out, err = p.communicate(timeout=60 * PATIENCE)
        self.assertEqual(p.returncode, SERVER, err)
        last = json.loads(out.splitlines()[-1])
        self.assertEqual(last["job"]["state"], "JOB_STATE_CANCELLED")
        self.assertEqual((said + err).count("lost"), 1)

    def test_each_evaluation_is_told_once_over_a_restart_of_the_coordinator(self):
        c = self.cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        cli = self.cli(c)
        spec = {**SMALL, "epochs": 5, "blockSize": 25, "workers": 2, "metrics": [{"name": "accuracy"}],
                "checkpoint": {"everySteps": 1, "keep": 1000, "bestBy": "accuracy"},
                "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 40}}}
        for is_split, seconds in ((False, 0), (True, 0), (True, 2)):  # 2 s: for more than one evaluation
            with self.subTest(is_split=is_split, seconds=seconds):
                job = c.submit({**spec, "splitEvaluation": is_split}).id
                p = cli.start("watch", job, "--format", "jsonl")
                events = []

                def is_evaluation(line):
                    event = json.loads(line)
                    if event["kind"] == "JOB_EVENT_KIND_METRICS":
                        events.append(event)
                    return event["kind"] == "JOB_EVENT_KIND_METRICS"
                while len(events) < 2:
                    is_evaluation(p.stdout.readline())
                c.coordinator.kill()
                self.assertEqual(c.coordinator.process.wait(), -signal.SIGKILL)
                time.sleep(seconds)
                c.restart_coordinator()
                for line in p.communicate(timeout=60 * PATIENCE)[0].splitlines():
                    is_evaluation(line)
                self.assertEqual(p.returncode, OK)
                told = [(e["job"]["attempt"], e["job"]["evaluations"], e["job"]["result_step"]) for e in events]
                whole = [(1, n + 1, (n + 1) * 40) for n in range(5)]
                # Of the evaluations of shares while no coordinator was there only the last is known.
                self.assertEqual(told, [e for e in whole if not is_split or e in told])
                self.assertEqual(told[:2] + told[-1:], whole[:2] + whole[-1:])
                # What is known by evaluations from before the restart is still known.
                stored = c.api.ListCheckpoints(coordinator_pb2.ListCheckpointsRequest(job_id=job)).checkpoints
                late = [s for s in stored if s.step > 80]
                self.assertTrue(late)
                self.assertEqual([s.step for s in late if s.evaluated_step == 0], [])


class ExitCodes(CliTest):
    def test_arguments(self):
        c = self.cluster(workers=0, pservers=0)
        cli = self.cli(c)
        for args in [(), ("sumbit",), ("list", "--state", "odd"), ("get",), ("get", "a", "b"),
                     ("submit", "no-such-file.yaml"), ("submit", "--epochs", "many"),
                     ("submit", "--workers", "no-such-file.json"), ("--format", "xml", "list"),
                     ("download", "../../etc"), ("submit", "--set", "no.such.field=1"),
                     ("submit", "--workers", "100000", "--optimizer", "adma")]:
            code, out, err = cli.run(*args)
            self.assertEqual(code, ARGUMENTS, f"{args}: {out}{err}")
            self.assertTrue(err or not args, args)
        code, out, err = cli.run("submit", "--workers", 100000, "--optimizer", "adma")
        self.assertIn("spec.workers", err)
        self.assertIn("spec.optimizer.rule.name", err)
        self.assertEqual(out, "")
        # One wrong field is said once, and names that are allowed are all said.
        self.assertEqual(cli.run("submit", "--workers", 100000)[2],
                         "psgd: spec.workers: is 100000; 1 to 256 are allowed\n")
        err = cli.run("submit", "--codec", "zip")[2]
        self.assertEqual(err.splitlines()[0], "psgd: 2 fields are wrong")
        self.assertEqual(err.count("powersgd"), 2)
        for args in [("--help",), ("--version",), ("submit", "--help"), ("list", "--version")]:
            self.assertEqual(cli.run(*args)[0], OK, args)

    def test_flags_of_checkpoints_and_recovery(self):
        cli = Cli("127.0.0.1:1", "/")
        self.assertEqual(cli.run("submit", "--recovery", "maybe")[2],
                         "psgd: --recovery: is 'maybe'; allowed: restart, repeat or fail\n")
        for flag, most in (("--max-restarts", 100000), ("--checkpoint-keep", 1000)):
            for wrong in ("0", "-1", "x", str(most + 1), "9" * 30):
                self.assertEqual(cli.run("submit", flag, wrong)[::2], (
                    ARGUMENTS, f"psgd: {flag}: is '{wrong}'; allowed: a whole number from 1 to {most}\n"))
            self.assertIn("no coordinator", cli.run("submit", flag, most)[2])
        shown = cli.run("train", "--help")[1]
        for flag in ("--checkpoint-every", "--checkpoint-seconds", "--checkpoint-keep",
                     "--recovery", "--max-restarts"):
            self.assertNotIn(flag, shown)
            code, _, err = cli.run("train", flag, "1", "--plan")
            self.assertEqual(code, ARGUMENTS)
            self.assertRegex(err, rf"^psgd: {flag}: psgd train runs in one process, .* psgd submit\n$")

    def test_a_service_names_the_flag_that_is_wrong(self):
        for program, args in [("psgd-worker", ("--listen", "15387")),
                              ("psgd-pserver", ("--listen", "127.0.0.1:99999")),
                              ("psgd-worker", ("--coordinator", "a b")),
                              ("psgd-pserver", ("--advertise", "::1")),
                              ("psgd-worker", ("--node-id", "a/b")),
                              ("psgd-coordinator", ("--listen", "15386")),
                              ("psgd-coordinator", ("--log-level", "loud"))]:
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([BIN / program, "--data-dir", folder, *args],
                                      capture_output=True, text=True, timeout=20 * PATIENCE)
            self.assertEqual(done.returncode, ARGUMENTS, done.stderr)
            self.assertIn(args[0], done.stderr)
            self.assertIn(args[1], done.stderr)

    def test_nobody_there(self):
        cli = Cli("127.0.0.1:1", pathlib.Path(tempfile.gettempdir()))
        for args in [("list",), ("submit", "--preset", "tutorial"), ("watch", "a")]:
            code, out, err = cli.run(*args)
            self.assertEqual((code, out), (CONNECTION, ""))
            self.assertIn("127.0.0.1:1", err)

    def test_what_is_built_in_needs_nobody(self):
        folder = pathlib.Path(tempfile.gettempdir())
        named = Cli("127.0.0.1:1", folder)

        def alone(*args):
            p = subprocess.run([str(PSGD), *args], capture_output=True, text=True, env=named.env,
                               cwd=folder, timeout=60 * PATIENCE)
            self.assertEqual(p.returncode, OK, p.stderr)
            return p.stdout
        self.assertIn("tutorial", alone("presets"))
        self.assertTrue(all(p["spec"] for p in json.loads(alone("--format", "json", "presets"))))
        self.assertIn("int8", alone("info", "codecs"))
        self.assertIn("codec", {p["kind"] for p in json.loads(alone("--format", "json", "info"))["plugins"]})
        text, plugins = alone("info"), json.loads(alone("--format", "json", "info"))["plugins"]
        self.assertEqual(alone("info", "codecs").count("error_feedback = 0"), 1)  # what most have: once
        self.assertEqual({f"{n['name']} = {n['default_value']:.15g}  " for p in plugins for n in p["params"]
                          if f"{n['name']} = {n['default_value']:.15g}  " not in text}, set())
        for args in [("presets",), ("info", "codecs")]:  # whom one names has to answer
            self.assertEqual(named.run(*args)[:2], (CONNECTION, ""))

    def test_codecs_are_measured_here(self):
        def psgd(*args):
            return subprocess.run([str(PSGD), *args], capture_output=True, text=True, timeout=60 * PATIENCE)
        short = ("bench", "--for", "1ms", "--values", "50000")
        rows = {row["codec"]: row for row in json.loads(psgd(*short, "--format", "json").stdout)}
        plugins = json.loads(psgd("--format", "json", "info", "codecs").stdout)
        self.assertEqual(set(rows), {p["name"] for p in plugins if p["kind"] == "codec"})
        self.assertEqual((rows["f32"]["error"], rows["f32"]["pays_below_bits_per_s"]), (0, 0))
        for name, size, error in [("f16", 2, 0.0002), ("int8", 1, 0.0149), ("topk", 0.06, 0.95)]:
            self.assertAlmostEqual(rows[name]["bytes_per_value"], size, delta=0.02)
            self.assertAlmostEqual(rows[name]["error"], error, delta=0.15 * error)
            self.assertGreater(rows[name]["encode_ns"] * rows[name]["decode_ns"], 0)
        lines = psgd(*short, "topk:fraction=0.5", "int8").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["CODEC", "topk:fraction=0.5", "int8"])
        wrong = psgd("bench", "int8", "topk:fraction=7")
        self.assertEqual((wrong.returncode, wrong.stdout, wrong.stderr), (
            ARGUMENTS, "", "psgd: topk:fraction=7: topk.fraction: is 7; numbers 0.0001 to 0.5 are allowed\n"))

    def test_an_answer_that_does_not_come(self):
        class Silent(grpc.GenericRpcHandler):
            def service(self, details):
                return grpc.unary_unary_rpc_method_handler(lambda request, context: over.wait())

        over = threading.Event()
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(), handlers=[Silent()])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        cli = Cli(f"127.0.0.1:{port}", pathlib.Path(tempfile.gettempdir()))
        try:
            code, out, err = cli.run("list", "--timeout", f"{3 * SLOW:g}s")
        finally:
            over.set()
            server.stop(None)
        self.assertEqual((code, out), (TIMEOUT, ""), err)

    def test_a_coordinator_that_stands_still(self):
        c = self.cluster(workers=0, pservers=0)
        cli = self.cli(c)
        c.coordinator.freeze()
        try:
            code, out, err = cli.run("list", "--timeout", "1s")
        finally:
            c.coordinator.thaw()
        # The kernel takes the connection; gRPC's own handshake does not end.
        self.assertEqual((code, out), (CONNECTION, ""), err)

    def test_a_job_that_is_not_there(self):
        c = self.cluster(workers=0, pservers=0)
        cli = self.cli(c)
        for args in [("get", "x"), ("watch", "x"), ("cancel", "x"), ("delete", "x"), ("logs", "x"),
                     ("download", "x")]:
            code, out, err = cli.run(*args)
            self.assertEqual((code, out), (SERVER, ""), f"{args} {err}")
            self.assertNotEqual(err, "")


class Coordinator(coordinator_pb2_grpc.CoordinatorServiceServicer):
    """One in Python. Answers ReclaimLogs with what a test hands it: lists of chunks, one for each
    call; a status code in a list breaks the stream there."""

    def __init__(self, *calls):
        self.calls = list(calls)

    def GetJob(self, request, context):
        return coordinator_pb2.GetJobResponse(job=job_pb2.Job(id=request.job_id))

    def ListJobs(self, request, context):
        """Seven jobs, three a page however many are asked for."""
        at = int(request.page_token or 0)
        n = min(request.page_size, 3)
        return coordinator_pb2.ListJobsResponse(
            jobs=[job_pb2.Job(id=f"job-{i}") for i in range(at, min(at + n, 7))],
            next_page_token=str(at + n) if at + n < 7 else "")

    def ListNodes(self, request, context):
        at = int(request.page_token or 0)
        return coordinator_pb2.ListNodesResponse(
            nodes=[coordinator_pb2.Node(id=f"node-{at}")],
            next_page_token=str(at + 1) if at < 2 else "")

    def ReclaimLogs(self, request, context):
        for item in self.calls.pop(0):
            if isinstance(item, grpc.StatusCode):
                context.abort(item, "as told")
            yield item


def chunk(name, payload, offset=0, last=True, crc=None, sha=None, size=None, node="n"):
    artifact = job_pb2.Artifact(name=name, node_id=node, size=len(payload) if size is None else size,
                                sha256=hashlib.sha256(payload).hexdigest() if sha is None else sha)
    return coordinator_pb2.ReclaimLogsResponse(
        artifact=artifact, offset=offset, last=last, payload=payload,
        crc32=zlib.crc32(payload) if crc is None else crc)


class Hostile(unittest.TestCase):
    """A coordinator that is odd, damaged or malicious: nothing wrong becomes a file."""

    def run_against(self, *calls, args=("download", "job", "-o", "out")):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-hostile-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor())
        coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server(Coordinator(*calls), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            return Cli(f"127.0.0.1:{port}", self.folder).run(*args)
        finally:
            server.stop(None)

    def files(self):
        return {str(f.relative_to(self.folder)): f.read_bytes()
                for f in self.folder.rglob("*") if f.is_file()}

    def test_damaged_and_dangerous_files_are_refused_without_a_trace(self):
        whole = hashlib.sha256(b"abcdef").hexdigest()
        for why, chunks in {
            "wrong CRC-32": [chunk("a", b"abc", crc=1)],
            "SHA-256": [chunk("a", b"abc", sha=whole)],
            "announced": [chunk("a", b"abc", size=4)],
            "missing": [chunk("a", b"abc", last=False, sha=whole), chunk("a", b"ef", offset=4, sha=whole)],
            "missing ": [chunk("a", b"abc", last=False, sha=whole), chunk("b", b"abc")],
            "incomplete": [chunk("a", b"abc", last=False, sha=whole)],
            "not safe": [chunk("../a", b"abc")],
            "not safe ": [chunk("/tmp/a", b"abc")],
            "not safe  ": [chunk(".bashrc", b"abc")],
            "not safe   ": [chunk("", b"abc")],
            "not safe    ": [chunk("a\x1b[2J", b"abc")],
        }.items():
            code, out, err = self.run_against(chunks)
            self.assertEqual((code, out), (SERVER, ""), f"{why}: {err}")
            self.assertIn(why.strip(), err)
            self.assertEqual(self.files(), {}, why)

    def test_lists_go_through_all_pages(self):
        def ids(*args):
            code, out, err = self.run_against(args=("--format", "json", *args))
            self.assertEqual(code, OK, err)
            return [x["id"] for x in json.loads(out)]

        jobs = [f"job-{i}" for i in range(7)]
        self.assertEqual(ids("list"), jobs)
        self.assertEqual(ids("list", "--limit", "0"), jobs)
        self.assertEqual(ids("list", "--limit", "4"), jobs[:4])
        self.assertEqual(ids("nodes"), ["node-0", "node-1", "node-2"])

    def test_a_download_goes_on_after_a_loss(self):
        whole = hashlib.sha256(b"abcdef").hexdigest()
        parts = [chunk("b", b"abc", last=False, sha=whole, size=6), chunk("b", b"def", 3, sha=whole, size=6)]
        code, out, err = self.run_against(
            [chunk("a", b"1"), parts[0], grpc.StatusCode.UNAVAILABLE], [chunk("a", b"1"), *parts])
        self.assertEqual(code, OK, err)
        self.assertEqual(self.files(), {"out/a": b"1", "out/b": b"abcdef"})
        self.assertEqual(err.count("lost the coordinator"), 1)
        self.assertIn("2 files", out)

    def test_the_lines_of_a_log_come_once_after_a_loss(self):
        text = b'{"time":"2026-01-01T00:00:01Z","level":"info","msg":"one"}\n{"msg":"two"}\nthree'
        code, out, err = self.run_against(
            [chunk("l", text[:70], last=False), grpc.StatusCode.UNAVAILABLE],
            [chunk("l", text[:20], last=False), chunk("l", text[20:], 20)], args=("logs", "-f", "job"))
        self.assertEqual(code, OK, err)
        self.assertEqual([line.split()[-1] for line in out.splitlines()], ["one", "two", "three"])

    def test_a_log_cannot_steer_the_terminal(self):
        text = '{"msg":"\\u001b[2Jx","k":"\\u009b"}\n\x1b]0;t\x07\n\n{"msg":5}\n'.encode() + b"\xff\xfe\n"
        for args in [("logs", "job"), ("logs", "-f", "job")]:
            code, out, err = self.run_against([chunk("l", text, node="\x1b[1m")], args=args)
            self.assertEqual(code, OK, err)
            self.assertNotRegex(out, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
            self.assertEqual(len(out.splitlines()), 4)


def node_example(test):
    """The command of the example in JavaScript; skips the test where npm cannot bring what it needs."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        test.skipTest("no node or npm")
    # What npm brings stays in the build's folder for the next time.
    home = BIN.parent / "tests" / "node-example"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "index.js"):
        shutil.copy(ROOT / "clients/examples/node" / name, home)
    if not (home / "node_modules/@grpc/grpc-js").is_dir():
        p = subprocess.run([npm, "install", "--silent", "--no-audit", "--no-fund",
                            "--ignore-scripts", "--no-package-lock"], cwd=home,
                           capture_output=True, text=True, timeout=300)
        if p.returncode != 0:
            test.skipTest("npm cannot get @grpc/grpc-js: " + (p.stdout + p.stderr)[-300:])
    return [node, str(home / "index.js"), "--proto", str(ROOT / "proto")]


class Foreign(CliTest):
    SPEC = {"title": "foreign", "epochs": 1, "blockSize": 50, "model": {"preset": "mlp", "widths": [16]},
            "data": {"name": "glyphs", "trainLimit": 2000, "testLimit": 500}}

    def check_example(self, cluster, command):
        """The example does a whole job, and says so when it cannot."""
        folder = cluster.folder
        (folder / "job.json").write_text(json.dumps(self.SPEC))
        (folder / "bad.json").write_text(json.dumps({**self.SPEC, "workers": 100000}))

        def run(address, job):
            return subprocess.run([*command, "--coordinator", address, "--output", "saved", job],
                                  capture_output=True, text=True, cwd=folder, timeout=90 * PATIENCE)

        p = run(cluster.coordinator.address, "job.json")
        self.assertEqual(p.returncode, OK, p.stdout + p.stderr)
        job_id = re.search(r"job (foreign-\S+)", p.stdout).group(1)
        for text in ["RUNNING", "DONE", "accuracy"]:
            self.assertIn(text, p.stdout)
        job = cluster.get(job_id)
        self.assertEqual({a.name for a in job.artifacts},
                         files_below(folder / "saved"))
        for a in job.artifacts:
            self.assertEqual(hashlib.sha256((folder / "saved" / a.name).read_bytes()).hexdigest(),
                             a.sha256, a.name)
        self.assertEqual(run(cluster.coordinator.address, "bad.json").returncode, ARGUMENTS)
        self.assertEqual(run(cluster.coordinator.address, "none.json").returncode, ARGUMENTS)
        self.assertEqual(run("127.0.0.1:1", "job.json").returncode, CONNECTION)

    def test_the_example_in_python(self):
        c = self.cluster(workers=1, pservers=1)
        self.check_example(c, [sys.executable, str(ROOT / "clients/examples/python/psgd_client.py")])

    def test_the_example_in_python_survives_losses_far_apart(self):
        """The coordinator is away twice, one day apart, and no event comes between."""
        sys.path.insert(0, str(ROOT / "clients/examples/python"))
        import psgd_client

        class Lost(grpc.RpcError):
            def code(self):
                return grpc.StatusCode.UNAVAILABLE

        class Clock:
            now = 0

            def monotonic(self):
                return self.now

            def sleep(self, seconds):
                self.now += seconds

        class Api:
            """WatchJob is silent for a day and breaks, twice; GetJob fails before and after, for `away` seconds."""

            def __init__(self, away):
                self.away, self.watches, self.broken_at = away, 0, None

            def WatchJob(self, _):
                self.watches += 1
                if self.watches > 2:
                    return []
                clock.now += 86400
                self.broken_at = clock.now
                raise Lost

            def GetJob(self, _, timeout):
                if clock.now - self.broken_at < self.away:
                    raise Lost
                return coordinator_pb2.GetJobResponse()

        with unittest.mock.patch.object(psgd_client, "time", Clock()) as clock:
            api = Api(away=61)
            psgd_client.watch(api, coordinator_pb2, job_pb2, "job")
            self.assertEqual(api.watches, 3)
            with self.assertRaises(Lost):
                psgd_client.watch(Api(away=3600), coordinator_pb2, job_pb2, "job")

    def test_the_example_in_javascript(self):
        command = node_example(self)
        self.check_example(self.cluster(workers=1, pservers=1), command)

    def test_a_client_by_reflection_alone(self):
        c = self.cluster(workers=1, pservers=1)
        reflect = [sys.executable, str(ROOT / "tests/interop/reflect.py")]

        def ask(*args):
            p = subprocess.run([*reflect, *args], capture_output=True, text=True, timeout=60 * PATIENCE)
            self.assertEqual(p.returncode, 0, p.stderr)
            return p.stdout

        address = c.coordinator.address
        self.assertIn("psgd.v1.CoordinatorService", ask(address).splitlines())
        info = json.loads(ask(address, "psgd.v1.CoordinatorService/GetServerInfo"))
        self.assertEqual(info["max_chunk_bytes"], 1 << 20)
        self.assertIn("int8", {p["name"] for p in info["plugins"]})
        self.assertLessEqual({"psgd.v1.NodeService", "psgd.v1.PeerService"},
                             set(ask(c.workers[0].address).splitlines()))
        self.assertIn("psgd.v1.ParameterService", ask(c.pservers[0].address).splitlines())


if __name__ == "__main__":
    main()
