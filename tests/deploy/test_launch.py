#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_launch.py - psgd launch: whole jobs in one command, and that nothing of them stays.

    PSGD_BIN=build/test/bin test_launch.py

Each launch has a TMPDIR of its own. Every process that it starts inherits it, and every folder
that it makes is below it, so what is left can be found.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
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


def read_of(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended, or is not ours
        return b""


class Launch:
    """A launch, and the folder in which it runs."""

    def __init__(self, *args, job=None, env=None, within=(), ssh=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-test-launch-"))
        self.temp = self.folder / "tmp"
        self.temp.mkdir()
        if ssh:  # sshd gives it to what it starts
            (self.folder / "ssh").write_text(f"{ssh}SetEnv TMPDIR={self.temp}\n")
            args = ["--ssh-config", self.folder / "ssh", *args]
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
        return {int(p.name): read_of(p.name, "cmdline").replace(b"\0", b" ").decode()
                for p in pathlib.Path("/proc").iterdir()
                if p.name.isdigit() and int(p.name) != self.process.pid and mark in read_of(p.name, "environ") + b"\0"}

    @contextlib.contextmanager
    def held(self):
        """Stops the launcher, so that it cannot end what is looked at, however fast the job is."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

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
            with contextlib.suppress(ProcessLookupError):
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
        with launch.held():
            os.kill(launch.find("--node-id worker-1")[0], signal.SIGKILL)
        self.assert_code(launch, 0)
        self.assertIn("worker-1 on host localhost has ended with signal 9 (Killed); it is started again", launch.text)
        self.assertEqual(launch.left(0), [])

    def test_a_killed_coordinator_is_started_again_too(self):
        launch = self.launch("--max-steps", "150", job=ENDLESS)
        launch.read_until("^RUNNING")
        with launch.held():
            os.kill(launch.find("psgd-coordinator")[0], signal.SIGKILL)
        self.assert_code(launch, 0)
        self.assertIn("coordinator on host localhost has ended with signal 9 (Killed); it is started again", launch.text)
        self.assertRegex(launch.text, "(?m)^DONE")
        self.assertEqual(launch.left(0), [])

    def test_a_job_that_fails_is_not_zero(self):
        launch = self.launch("--recovery", "fail", job=ENDLESS)
        launch.read_until("^RUNNING")
        with launch.held():
            os.kill(launch.find("--node-id worker-1")[0], signal.SIGKILL)
        self.assert_code(launch, 1)
        self.assertRegex(launch.text, r"(?m)^FAILED: NODE_LOST")
        self.assertIn("files ", launch.text)
        self.assertEqual(launch.left(0), [])

    def test_older_command_lines(self):
        launch = self.launch("--server_num=1", "--worker_num=3", "--max-steps", "5", job=ENDLESS, env={
            "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "1"})
        self.assert_code(launch, 0)
        for text in ("psgd: --worker_num 3 is --workers 3 today", "PADDLE_TRAINERS_NUM 2 does not count: --workers is given",
                     "psgd: TRAINING_ROLE TRAINER is needless here: launch starts both roles",
                     "launch    3 workers and 1 server"):
            self.assertIn(text, launch.text)
        # Its services do not take for theirs what was meant for it.
        self.assertNotIn("TRAINING_ROLE", launch.log("serverlog.0") + launch.log("workerlog.0"))
        launch = self.launch("--server_num=2", "--worker_num=2", "train.py")
        self.assert_code(launch, 4)
        self.assertIn("psgd: train.py: psgd runs no programs of its users; describe the job in a file", launch.text)

    def test_older_command_lines_of_the_services(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        for program, args, env in (
                ("psgd-pserver", [f"--port={port}", "--ports_num=2", "--ports_num_for_sparse=1", "--num_gradient_servers=1",
                                  "--comment=paddle_process_by_paddle"], {}),
                ("psgd-worker", ["--trainer_id=0", "--trainer_count=1", "--pservers=127.0.0.1", "--use_gpu=False"],
                 {"TRAINING_ROLE": "TRAINER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(port)})):
            with tempfile.TemporaryDirectory() as folder:
                process = subprocess.Popen([BIN / program, "--data-dir", folder, *args], text=True, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, env={**os.environ, **env})
                line = process.stdout.readline()
                process.terminate()
                _, said = process.communicate(timeout=20 * PATIENCE)
                self.assertIn(f"listening on 127.0.0.1:{port}", line, said)
                self.assertEqual(process.returncode, 0, said)
                self.assertEqual(said.count(" is needless here: ") + said.count(" today\n"), len(args) + len(env), said)

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


class Hosts:
    """Namespaces on one bridge: `hub`, where launches run, and a, b and c, which have an sshd each
    and are known as node-a and so on."""

    IPS = {"hub": "10.79.0.1", "a": "10.79.0.11", "b": "10.79.0.12", "c": "10.79.0.13"}

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-test-sshd-"))
        self.daemons = {}

    def ip(self, *command):
        subprocess.run(["ip", *command], check=True, capture_output=True, text=True)

    def space(self, who):
        return f"psgd-launch-{os.getpid()}-{who}"

    def within(self, who):
        return ["ip", "netns", "exec", self.space(who)]

    def key(self, name):
        path = self.folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        return path, path.with_suffix(".pub").read_text()

    def start(self):
        hub = self.space("hub")
        pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd locks itself up
        self.identity, public = self.key("identity")
        (self.folder / "authorized").write_text(public)
        self.ip("netns", "add", hub)
        self.ip("-n", hub, "link", "set", "lo", "up")
        self.ip("-n", hub, "link", "add", "br0", "type", "bridge")
        self.ip("-n", hub, "addr", "add", f"{self.IPS['hub']}/24", "dev", "br0")
        self.ip("-n", hub, "addr", "add", "fd79::1/64", "dev", "br0", "nodad")
        self.ip("-n", hub, "link", "set", "br0", "up")
        known = []
        for who in ("a", "b", "c"):
            mine = self.space(who)
            self.ip("netns", "add", mine)
            self.ip("-n", mine, "link", "set", "lo", "up")
            self.ip("-n", hub, "link", "add", f"to-{who}", "type", "veth", "peer", "name", "eth0", "netns", mine)
            self.ip("-n", hub, "link", "set", f"to-{who}", "master", "br0", "up")
            self.ip("-n", mine, "addr", "add", f"{self.IPS[who]}/24", "dev", "eth0")
            self.ip("-n", mine, "addr", "add", f"fd79::{who}/64", "dev", "eth0", "nodad")
            self.ip("-n", mine, "link", "set", "eth0", "up")
            host_key, public = self.key(f"host-{who}")
            known.append(f"{self.IPS[who]} {public}fd79::{who} {public}")
            config = self.folder / f"sshd-{who}"
            config.write_text(f"HostKey {host_key}\nAuthorizedKeysFile {self.folder}/authorized\nPidFile none\n"
                              "StrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                              "PermitRootLogin prohibit-password\nAcceptEnv TMPDIR\n")
            self.serve(who)
        self.known = "".join(known)
        (self.folder / "known").write_text(self.known)

    def serve(self, who):
        log = open(self.folder / f"log-{who}", "a")
        self.daemons[who] = subprocess.Popen(
            [*self.within(who), "/usr/sbin/sshd", "-D", "-e", "-f", self.folder / f"sshd-{who}"], stderr=log)
        log.close()
        deadline = time.monotonic() + 5 * PATIENCE
        while "Server listening" not in (self.folder / f"log-{who}").read_text():
            if time.monotonic() > deadline:
                raise AssertionError((self.folder / f"log-{who}").read_text())
            time.sleep(0.02)

    def link(self, who, state):
        self.ip("-n", self.space(who), "link", "set", "eth0", state)

    def config(self, known="known"):
        return "".join(f"Host node-{who}\n  HostName {self.IPS[who]}\n" for who in ("a", "b", "c")) + (
            f"Host six\n  HostName fd79::a\nHost closed\n  HostName {self.IPS['a']}\n  Port 23\n"
            f"Host *\n  User root\n  IdentityFile {self.identity}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder / known}\n  GlobalKnownHostsFile none\n  ")

    def stop(self):
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()
        for who in self.IPS:
            # An sshd whose client is behind a dead link waits for it.
            for pid in subprocess.run(["ip", "netns", "pids", self.space(who)], capture_output=True, text=True).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", self.space(who)], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


@unittest.skipUnless(os.geteuid() == 0, "network namespaces need root")
class OverSsh(LaunchTest):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts()
        cls.addClassCleanup(cls.hosts.stop)
        cls.hosts.start()
        # A silent host is noticed after 10 s and more. Meanwhile the other tests run.
        cls.needs = cls.start_on("--hosts", "node-a,node-c", job=ENDLESS)
        cls.can = cls.start_on("--hosts", "localhost,node-a,node-c", "--workers-min", "1", job=ENDLESS)
        cls.hosts.link("c", "down")

    @classmethod
    def start_on(cls, *args, **more):
        launch = Launch(*args, within=cls.hosts.within("hub"), ssh=cls.hosts.config(), **more)
        cls.addClassCleanup(launch.close)
        launch.read_until("^RUNNING")
        return launch

    def over(self, *args, known="known", **more):
        return self.launch(*args, within=self.hosts.within("hub"), ssh=self.hosts.config(known), **more)

    def test_a_job_on_two_hosts_under_tls(self):
        launch = self.over("--hosts", "node-a,node-b", "--workers", "3", "--max-steps", "100", job=ENDLESS)
        launch.read_until("^RUNNING")
        with launch.held():
            lines = launch.processes().values()
        for program, who in (("pserver", "a"), ("worker", "b"), ("coordinator", "hub")):
            self.assertTrue(any(f"psgd-{program} --listen {Hosts.IPS[who]}:0 " in line and "--tls-dir" in line
                                and "--insecure" not in line for line in lines), (program, who, lines))
        self.assert_code(launch, 0)
        self.assertEqual(launch.left(0), [])
        self.assertRegex(launch.text, r"launch +3 workers and 1 server on node-a, node-b")
        self.assertRegex(launch.text, r"(?m)^DONE")
        self.assertIn("psgd-worker", launch.log("workerlog.2"))
        self.assertTrue((launch.folder / "out" / "EV-endless-N(2).csv").exists())

    def test_places_of_fleetrun_and_no_tls(self):
        """The address of the hub is that of this host, so nothing there goes through ssh."""
        launch = self.over("--servers=10.79.0.12:6170", "--workers=10.79.0.12,10.79.0.1:6171", "--insecure",
                           "--max-steps", "20", job=ENDLESS)
        launch.read_until("^RUNNING")
        with launch.held():
            services = [line for line in launch.processes().values() if "--listen" in line]
            keepers = launch.find("--keep-host")
        self.assertEqual(sorted(re.findall(r"psgd-\w+ --listen \S+", "".join(services)))[1:],
                         ["psgd-pserver --listen 10.79.0.12:6170", "psgd-worker --listen 10.79.0.12:0",
                          "psgd-worker --listen 10.79.0.1:6171"])
        self.assertEqual(len(keepers), 3)  # one here, one there, and its ssh
        for line in services:
            self.assertIn("--insecure", line)
            self.assertNotIn("--tls-dir", line)
        self.assert_code(launch, 0)
        self.assertEqual(launch.left(0), [])

    def test_a_killed_launcher_and_ctrl_c_leave_nothing(self):
        for signo, code, host, address in ((signal.SIGKILL, -9, "node-a", "10.79.0.11"), (signal.SIGINT, 130, "six", "[fd79::a]")):
            launch = self.over("--hosts", f"{host},localhost", job=ENDLESS)
            launch.read_until("^RUNNING")
            self.assertEqual(len(launch.find("psgd-worker")), 2)
            self.assertEqual(len(launch.find(f"psgd-pserver --listen {address}:0")), 1, launch.processes())
            launch.process.send_signal(signo)
            if signo == signal.SIGKILL:
                launch.process.wait()  # what it has started may still hold its stdout
                self.assertEqual(launch.left(), [])
            else:
                self.assert_code(launch, code)
                self.assertEqual(launch.left(0), [])

    def test_z_a_dead_host(self):
        """One job needs it, and another one can go on without. What runs there ends by itself."""
        self.assert_code(self.needs, 1)
        self.assertRegex(self.needs.text, r"host node-c (is lost: it has said nothing for 10 s|does not answer any more)")
        self.can.read_until("host node-c .*; the job goes on without it")
        self.can.process.send_signal(signal.SIGINT)
        self.assert_code(self.can, 130)
        self.assertRegex(self.can.text, "launch +2 workers and 1 server on this host, node-a, node-c")
        self.assertRegex(self.can.text, "goodput .*, 1 restart")
        self.assertEqual(self.needs.left(20) + self.can.left(20), [])

    def test_hosts_that_cannot_be_reached(self):
        (self.hosts.folder / "none").write_text("")
        (self.hosts.folder / "other").write_text(
            self.hosts.known.replace(f"{Hosts.IPS['b']} ", "x ").replace(f"{Hosts.IPS['a']} ", f"{Hosts.IPS['b']} "))
        cases = [(self.over("--hosts", host, *more, known=known, job=ENDLESS), text) for host, more, known, text in (
            ("node-a", [], "none", "the key of host node-a is not known here: log in once (ssh node-a)"),
            ("node-b", [], "other", "host node-b has another key than the one that is known: somebody else"),
            ("node-b", ["--psgd", "/no/psgd"], "known", "host node-b has no psgd there: install psgd"),
            ("10.79.0.77", [], "known", "host 10.79.0.77 cannot be reached: is it up?"),
            ("closed", [], "known", "host closed has no sshd that answers"),
            ("nowhere.invalid", [], "known", "host nowhere.invalid is not known: correct its name"))]
        for launch, text in cases:
            with self.subTest(text=text):
                self.assert_code(launch, 1)
                self.assertIn(text, launch.text)
                self.assertEqual(launch.left(0), [])


if __name__ == "__main__":
    unittest.main()
