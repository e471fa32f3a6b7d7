#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_launch.py - psgd launch: whole jobs in one command, and that nothing of them stays.

    PSGD_BIN=build/test/bin test_launch.py

Each launch has a TMPDIR of its own. Every process that it starts inherits it, and every folder
that it makes is below it, so what is left can be found.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PSGD_BIN", ROOT / "build" / "bin"))
PATIENCE = 6 * float(os.environ.get("PSGD_TEST_SLOW", "1"))
ENDLESS = """
title: endless
workers: 2
pservers: 1
epochs: 100000
block_size: 16
data: {name: glyphs, train_limit: 640, test_limit: 10}
model: {preset: mlp, widths: [8]}
optimizer: {rule: {name: sgd, params: {lr: 0.01}}}
straggler: {name: fixed, params: {ms: 5}}
"""


def environment_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or is not ours
        return b""


class Launch:
    """A launch, and the folder in which it runs."""

    def __init__(self, *args, job=None, env=None, within=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-test-launch-"))
        self.temp = self.folder / "tmp"
        self.temp.mkdir()
        if job:
            (self.folder / "job.yaml").write_text(job)
            args = [*args, "job.yaml"]
        base = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_")}
        self.text = ""
        self.process = subprocess.Popen(
            [*within, BIN / "psgd", "launch", "-o", "out", *args], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**base, "TMPDIR": str(self.temp), **(env or {})})

    def read_until(self, pattern):
        """Reads its output until a line matches."""
        for line in self.process.stdout:
            self.text += line
            if re.search(pattern, line):
                return line
        raise AssertionError(f"no line matches {pattern!r}:\n{self.text}")

    def end(self, seconds=20):
        """Its exit code; its output is complete then."""
        try:
            more, _ = self.process.communicate(timeout=seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended:\n{self.text}\n{self.processes()}")
        self.text += more
        return self.process.returncode

    def processes(self):
        """Command lines of what it has started, by pid."""
        mark = f"TMPDIR={self.temp}\0".encode()
        return {int(p.name): (p / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                for p in pathlib.Path("/proc").iterdir()
                if p.name.isdigit() and int(p.name) != self.process.pid and mark in environment_of(p.name) + b"\0"}

    def find(self, name):
        """Pids of its processes whose command line has `name`."""
        return [pid for pid, line in self.processes().items() if name in line]

    def left(self, seconds=10):
        """What is still there, which it has so long to remove: processes and folders."""
        deadline = time.monotonic() + seconds * PATIENCE
        while (found := [*self.processes().values(), *map(str, self.temp.iterdir())]) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def log(self, name):
        return (self.folder / "log" / name).read_text()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class LaunchTest(unittest.TestCase):
    def launch(self, *args, **more):
        launch = Launch(*args, **more)
        self.addCleanup(launch.close)
        return launch

    def assert_code(self, launch, code):
        got = launch.end()
        self.assertEqual(got, code, launch.text)

    def assert_nothing_left(self, launch):
        self.assertEqual(launch.left(), [])


class OnThisHost(LaunchTest):
    def test_a_job_from_nothing_to_its_files(self):
        launch = self.launch("--preset", "tutorial-glyphs", "--workers", "4", "--pservers", "2",
                             "--epochs", "1", "--train-limit", "2000", "--test-limit", "200")
        self.assert_code(launch, 0)
        self.assertEqual(launch.left(0), [])  # all of it has ended before
        self.assertRegex(launch.text, r"launch +4 workers and 2 servers on this host")
        self.assertRegex(launch.text, r"(?m)^DONE$")
        self.assertNotIn("Next:", launch.text)  # there is nobody to ask any more
        self.assertEqual({p.name for p in (launch.folder / "log").iterdir()},
                         {"coordinatorlog", "serverlog.0", "serverlog.1", *(f"workerlog.{i}" for i in range(4))})
        self.assertIn("psgd-worker", launch.log("workerlog.3"))
        files = json.loads((launch.folder / "out" / "manifest.json").read_text())["files"]
        self.assertGreater(len(files), 10)
        for one in files:
            self.assertTrue((launch.folder / "out" / one["name"]).exists(), one)
        summary = json.loads((launch.folder / "out" / "summary.json").read_text())
        self.assertEqual(summary["state"], "JOB_STATE_DONE")

    def test_ctrl_c_cancels_and_leaves_files_and_nothing_else(self):
        launch = self.launch(job=ENDLESS)
        launch.read_until(r"step \d+/")
        launch.process.send_signal(signal.SIGINT)
        self.assert_code(launch, 130)
        self.assertEqual(launch.left(0), [])
        self.assertRegex(launch.text, r"(?m)^CANCELLED")
        self.assertIn("files ", launch.text)
        self.assertTrue((launch.folder / "out" / "TR-endless-N(1).csv").exists())

    def test_ctrl_c_before_the_job_and_twice(self):
        launch = self.launch(job=ENDLESS)
        launch.read_until("^logs ")
        launch.process.send_signal(signal.SIGTERM)
        self.assert_code(launch, 143)
        self.assertEqual(launch.left(0), [])
        launch = self.launch(job=ENDLESS)
        launch.read_until("^RUNNING")
        launch.process.send_signal(signal.SIGINT)
        launch.read_until("once more")
        launch.process.send_signal(signal.SIGINT)
        self.assert_code(launch, 130)
        self.assertEqual(launch.left(0), [])

    def test_a_killed_launcher_leaves_nothing(self):
        launch = self.launch(job=ENDLESS)
        launch.read_until("^RUNNING")
        self.assertEqual(len(launch.find("psgd-worker")), 2)
        launch.process.kill()
        self.assert_nothing_left(launch)

    def test_a_killed_keeper_ends_the_launch(self):
        launch = self.launch(job=ENDLESS)
        launch.read_until("^RUNNING")
        [keeper] = launch.find("--keep-host")
        os.kill(keeper, signal.SIGKILL)
        self.assert_code(launch, 1)
        self.assertIn("host localhost is lost: its keeper ended with signal 9 (Killed)", launch.text)
        self.assertEqual(launch.processes(), {})

    def test_a_killed_worker_is_started_again_and_the_job_ends_well(self):
        launch = self.launch("--max-steps", "200", job=ENDLESS)
        launch.read_until("^RUNNING")
        os.kill(launch.find("--node-id worker-1")[0], signal.SIGKILL)
        self.assert_code(launch, 0)
        self.assertIn("worker-1 on host localhost has ended with signal 9 (Killed); it is started again", launch.text)
        self.assertEqual(launch.left(0), [])

    def test_a_job_that_fails_is_not_zero(self):
        launch = self.launch("--recovery", "fail", job=ENDLESS)
        launch.read_until("^RUNNING")
        os.kill(launch.find("--node-id worker-1")[0], signal.SIGKILL)
        self.assert_code(launch, 1)
        self.assertRegex(launch.text, r"(?m)^FAILED: NODE_LOST")
        self.assertIn("files ", launch.text)
        self.assertEqual(launch.left(0), [])

    def test_messages_before_anything_starts(self):
        for args, job, text in (
                (["--workers", "0"], ENDLESS, "--workers: is '0'"),
                (["--hosts", "-oProxyCommand=x"], ENDLESS, "--hosts: host \"-oProxyCommand=x\""),
                (["--hostfile", "/nowhere"], ENDLESS, "--hostfile"),
                (["--hosts", "a", "--hostfile", "b"], ENDLESS, "exclude each other"),
                (["-c", "10.0.0.1"], ENDLESS, "launch starts a coordinator of its own"),
                ([], ENDLESS + "nodes: [{address: '10.0.0.1:1', role: WORKER}]\n", "the job names nodes")):
            launch = self.launch(*args, job=job)
            self.assert_code(launch, 4)
            self.assertIn(text, launch.text)
            self.assertFalse((launch.folder / "log").exists())

    def test_what_the_coordinator_refuses_and_what_does_not_start(self):
        launch = self.launch(job=ENDLESS.replace("train_limit: 640", "train_limit: 70000000"))
        self.assert_code(launch, 4)
        self.assertRegex(launch.text, r"job\.yaml:7: spec\.data\.train_limit: ")
        self.assertEqual(launch.left(0), [])
        launch = self.launch(job=ENDLESS, env={"PSGD_DATA_CACHE": "junk"})
        self.assert_code(launch, 1)
        self.assertRegex(launch.text, r"(worker|pserver)-\d on host localhost has ended before it listened, with exit code 4")
        self.assertIn("PSGD_DATA_CACHE: \"junk\"", "".join(launch.log(f) for f in ("serverlog.0", "workerlog.0", "workerlog.1")))
        self.assertEqual(launch.left(0), [])


if __name__ == "__main__":
    unittest.main()
