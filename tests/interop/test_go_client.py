#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_go_client.py - clients/examples/go against a real coordinator with its nodes, and against one that lies.

    PSGD_BIN=build/test/bin PSGD_GO_CLIENT=build/test/go/psgd-client test_go_client.py
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc

import test_clients
from harness import ENDLESS, PATIENCE, SMALL, ClusterTest, coordinator_pb2, coordinator_pb2_grpc, job_pb2, main
from test_clients import chunk, files_below, read_until
from tls_cluster import TlsTest, psgd

CLIENT = pathlib.Path(os.environ["PSGD_GO_CLIENT"]).resolve()
DONE, FAILED, CONNECTION, BAD_JOB = 0, 1, 2, 4


def paced(spec, ms):
    """With a pause in each step. Jobs that evaluate all the time have no events of progress: evaluations supersede them."""
    return {**spec, "straggler": {"name": "fixed", "params": {"ms": ms}}}


def start(folder, address, spec, *flags, token=None):
    """The client in a folder, with this job file's text or specification."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_")}
    if token:
        env["PSGD_TOKEN"] = token
    (folder / "job.json").write_text(spec if isinstance(spec, str) else json.dumps(spec))
    return subprocess.Popen([CLIENT, "-coordinator", address, "-output", "saved", *map(str, flags), "job.json"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=folder)


def finish(process, seconds=60):
    """(exit code, stdout, stderr)"""
    try:
        out, err = process.communicate(timeout=seconds * PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


def run(*args, **options):
    return finish(start(*args, **options))


class Jobs(ClusterTest):
    @staticmethod
    def cancel(cluster, job):
        cluster.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job), timeout=10 * PATIENCE)

    def test_a_job_is_submitted_and_watched_and_its_models_are_saved(self):
        c = self.cluster(workers=1, pservers=1)
        code, out, err = run(c.folder, c.coordinator.address, paced(SMALL, 3))
        self.assertEqual((code, err), (DONE, ""), out)
        job = c.get(re.match(r"job (small-\S+)\n", out).group(1))
        self.assertLess(out.index("QUEUED"), out.index("RUNNING"))
        self.assertRegex(out, r"\nstep \d+/\d+  loss \d\.\d{4}  accuracy [01]\.\d{3}  \d+ samples/s\n")
        self.assertIn(f"test set: accuracy {job.result['accuracy']:.4f}  loss ", out)
        models = {a.name: a for a in job.artifacts if a.kind == job_pb2.ARTIFACT_KIND_MODEL}
        self.assertGreaterEqual(len(models), 3)
        self.assertEqual(files_below(c.folder / "saved"), set(models))
        self.assertEqual(out[out.index("DONE"):], "DONE\n" + "".join(
            f"saved saved/{a.name} ({a.size} bytes)\n" for a in models.values()))
        for name, a in models.items():
            self.assertEqual(hashlib.sha256((c.folder / "saved" / name).read_bytes()).hexdigest(), a.sha256)

    def test_a_refused_job_is_told_whole(self):
        c = self.cluster(workers=0, pservers=0)

        def told(spec):
            code, out, err = run(c.folder, c.coordinator.address, spec)
            self.assertEqual((code, out), (BAD_JOB, ""), err)
            return err

        call = f"psgd-client: submit to {c.coordinator.address}: rpc error: code = InvalidArgument desc = "
        one = "spec.workers: is 100000; 1 to 256 are allowed"
        self.assertEqual(told({**SMALL, "workers": 100000}), f"{call}{one}\n")
        lines = told({**SMALL, "workers": 100000, "pservers": 1000, "epochs": 0, "title": "a b"}).splitlines()
        with self.assertRaises(grpc.RpcError) as refused:
            c.submit(SMALL, workers=100000, pservers=1000, epochs=0, title="a b")
        self.assertEqual(lines[0], call + refused.exception.details())
        self.assertEqual(len(lines) - 1, int(refused.exception.details().split()[0]))
        self.assertIn(f"  {one}", lines)
        self.assertTrue(any(line.startswith("  spec.title: ") for line in lines), lines)
        self.assertRegex(told({**SMALL, "wrokers": 1}), r"^psgd-client: job\.json: .*wrokers")
        told("{")
        (c.folder / "job.json").unlink()
        p = subprocess.run([CLIENT, "none.json"], capture_output=True, text=True, cwd=c.folder, timeout=20 * PATIENCE)
        self.assertEqual((p.returncode, p.stderr), (BAD_JOB, "psgd-client: open none.json: no such file or directory\n"))

    def test_the_exit_code_is_of_the_last_state(self):
        c = self.cluster(workers=1, pservers=1)
        p = start(c.folder, c.coordinator.address, paced(ENDLESS, 20))
        job = re.search(r"job (endless-\S+)", read_until(p.stdout, "step ")).group(1)
        self.cancel(c, job)
        code, out, err = finish(p)
        self.assertEqual((code, err), (FAILED, f"psgd-client: job {job} is CANCELLED: {c.get(job).message}\n"), out)
        # Who leaves by Ctrl-C leaves the job alone.
        p = start(c.folder, c.coordinator.address, paced(ENDLESS, 20))
        job = re.search(r"job (endless-\S+)", read_until(p.stdout, "step ")).group(1)
        p.send_signal(signal.SIGINT)
        code, out, err = finish(p)
        self.assertEqual((code, err), (FAILED, f"psgd-client: interrupted; job {job} goes on\n"), out)
        self.assertEqual(c.wait_state(job, job_pb2.JOB_STATE_RUNNING).state, job_pb2.JOB_STATE_RUNNING)
        self.cancel(c, job)  # nodes that train would end later

    def test_a_watch_outlives_a_restart_of_the_coordinator(self):
        c = self.cluster(workers=0, pservers=0)
        p = start(c.folder, c.coordinator.address, SMALL)
        job = re.search(r"job (small-\S+)", before := read_until(p.stdout, "QUEUED")).group(1)
        c.coordinator.kill()
        said = read_until(p.stderr, "trying again")
        c.restart_coordinator()
        self.cancel(c, job)
        code, out, err = finish(p)
        self.assertEqual(code, FAILED, err)
        self.assertEqual((said + err).count("lost"), 1)
        # It went on after the last event that it had seen.
        events = c.api.WatchJob(coordinator_pb2.WatchJobRequest(job_id=job), timeout=10 * PATIENCE)
        states = [job_pb2.JobState.Name(e.job.state).removeprefix("JOB_STATE_") for e in events]
        self.assertEqual([line.split()[0] for line in (before + out).splitlines()[1:]], states)

    def test_waits_for_a_coordinator_have_an_end(self):
        c = self.cluster(workers=0, pservers=0)
        code, out, err = finish(start(c.folder, "127.0.0.1:1", SMALL), 4)  # sooner than -timeout
        self.assertEqual((code, out), (CONNECTION, ""))
        self.assertRegex(err, r"^psgd-client: submit to 127\.0\.0\.1:1: .*connection refused")
        seconds = 1 * PATIENCE
        p = start(c.folder, c.coordinator.address, SMALL, "-timeout", f"{seconds}s")
        read_until(p.stdout, "QUEUED")
        c.coordinator.kill()
        with socket.create_server(("127.0.0.1", c.coordinator.port)):  # which says nothing
            code, _, err = finish(p, 5 * seconds / PATIENCE)
        self.assertEqual(code, CONNECTION, err)
        self.assertIn(f"{c.coordinator.address} was away for {seconds:g}s: ", err)
        c.restart_coordinator()
        c.coordinator.freeze()  # the kernel takes connections
        try:
            code, out, err = finish(start(c.folder, c.coordinator.address, SMALL, "-timeout", "1s"), 3)
        finally:
            c.coordinator.thaw()
        self.assertEqual((code, out), (CONNECTION, ""), err)
        self.assertIn(f"submit to {c.coordinator.address}", err)


class Tls(TlsTest):
    def test_certificates_and_tokens(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-go-"))
        self.addCleanup(shutil.rmtree, folder, True)
        made = psgd("token", "create", "submitter/sue", "--tokens", folder / "tokens", "--format", "json")
        token = json.loads(made.stdout)["token"]
        c = self.tls_cluster(workers=1, pservers=1, coordinator_args=["--tokens", folder / "tokens"])
        root = folder / "root"
        root.mkdir()
        shutil.copy(c.admin / "root.pem", root)
        spec = {**SMALL, "epochs": 1}
        address = c.coordinator.address
        for flags, owner, more in ((["-tls-dir", c.admin], "admin/anna", {}),
                                   (["-tls-dir", root], "submitter/sue", {"token": token})):
            code, out, err = run(folder, address, spec, *flags, **more)
            self.assertEqual((code, err), (DONE, ""), out)
            self.assertEqual(c.get(out.split()[1]).owner, owner)
        for expected, text, flags, more in (
                (FAILED, "the token is not known", ["-tls-dir", root], {"token": "psgd_wrong"}),
                (BAD_JOB, "identity.pem: ", ["-tls-dir", root], {}),
                (BAD_JOB, "root.pem: no such file", ["-tls-dir", folder], {}),
                (CONNECTION, f"submit to {address}", [], {})):
            code, out, err = run(folder, address, spec, *flags, **more)
            self.assertEqual((code, out), (expected, ""), err)
            self.assertIn(text, err)
        stranger = self.tls_cluster(workers=0, pservers=0)
        code, out, err = run(folder, address, spec, "-tls-dir", stranger.admin)
        self.assertEqual((code, out), (CONNECTION, ""), err)
        self.assertIn("certificate signed by unknown authority", err)


class Liar(test_clients.Coordinator):
    """Its only job is done at once; ReclaimLogs answers as its base does."""

    def __init__(self, artifacts, calls):
        super().__init__(*calls)
        self.over = threading.Event()  # what waits for it is silent
        self.job = job_pb2.Job(id="job-1", state=job_pb2.JOB_STATE_DONE, artifacts=artifacts)
        self.offsets = []

    def SubmitJob(self, request, context):
        if not self.calls:
            self.over.wait()
        return coordinator_pb2.SubmitJobResponse(job=self.job)

    def WatchJob(self, request, context):
        yield coordinator_pb2.WatchJobResponse(sequence=1, job=self.job, kind=coordinator_pb2.JOB_EVENT_KIND_STATE)

    def GetJob(self, request, context):
        return coordinator_pb2.GetJobResponse(job=self.job)

    def ReclaimLogs(self, request, context):
        self.offsets.append(request.offset)
        yield from super().ReclaimLogs(request, context)


class Damaged(unittest.TestCase):
    def download(self, *calls, name="a", data=b"abcdef", flags=()):
        """(exit code, stderr, files) of a download of this file, which is answered by these calls."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-go-"))
        self.addCleanup(shutil.rmtree, folder, True)
        artifact = job_pb2.Artifact(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest(),
                                    kind=job_pb2.ARTIFACT_KIND_MODEL)
        self.liar = Liar([artifact], calls)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor())
        coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server(self.liar, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            code, _, err = run(folder, f"127.0.0.1:{port}", SMALL, *flags)
        finally:
            self.liar.over.set()
            server.stop(None)
        saved = folder / "saved"
        return code, err, {name: (saved / name).read_bytes() for name in files_below(saved)}

    def test_damaged_and_dangerous_files_are_not_saved(self):
        for why, chunks, name in (("the chunk at offset 0 has a wrong CRC-32", [chunk("a", b"abcdef", crc=1)], "a"),
                                  ("the SHA-256 is", [chunk("a", b"abcdeg")], "a"),
                                  ("it ends after 3 of 6 bytes", [chunk("a", b"abc")], "a"),
                                  ("3 bytes at offset 4 came, of 3 bytes at offset 3",
                                   [chunk("a", b"abc", last=False), chunk("a", b"efg", 4)], "a"),
                                  ("7 bytes at offset 0 came, of 6", [chunk("a", b"abcdefg")], "a"),
                                  ("0 bytes at offset 0 came", [chunk("a", b"", last=False)] * 3, "a"),
                                  ('"../a" is no name', [chunk("../a", b"abcdef")], "../a"),
                                  ('".a" is no name', [chunk(".a", b"abcdef")], ".a"),
                                  (r'"a\x1b" is no name', [chunk("a\x1b", b"abcdef")], "a\x1b")):
            code, err, files = self.download(chunks, name=name)
            self.assertEqual((code, files), (FAILED, {}), why)
            self.assertIn(why, err)

    def test_a_broken_download_goes_on_at_the_next_byte(self):
        lost = grpc.StatusCode.UNAVAILABLE
        for calls, offsets in (([[chunk("a", b"abc", last=False), lost], [chunk("a", b"def", 3)]], [0, 3]),
                               ([[lost], [lost], [chunk("a", b"abcdef")]], [0, 0, 0]),
                               ([[chunk("a", b"abcdef"), lost]], [0])):
            code, err, files = self.download(*calls)
            self.assertEqual((code, files), (DONE, {"a": b"abcdef"}), err)
            self.assertEqual(self.liar.offsets, offsets)

    def test_what_is_silent_is_given_up(self):
        def begin(*chunks):
            yield from chunks
            self.liar.over.wait()

        for calls, why in (((), "submit to .*: rpc error: code = DeadlineExceeded"),
                           ([begin()], "download a: rpc error: code = DeadlineExceeded desc = nothing came for 1s"),
                           ([begin(chunk("a", b"abc", last=False))], "desc = nothing came for 1s")):
            code, err, files = self.download(*calls, flags=["-timeout", "1s"])
            self.assertEqual((code, files), (CONNECTION, {}), err)
            self.assertRegex(err, why)

    def test_a_file_may_be_empty(self):
        code, err, files = self.download([], data=b"")
        self.assertEqual((code, files), (DONE, {"a": b""}), err)


if __name__ == "__main__":
    main()
