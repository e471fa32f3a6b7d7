#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_slurm.py - deploy/slurm/psgd.sbatch on a real Slurm of one host: a job trains, in one group or in two, and one
that meets its time limit takes a checkpoint, is requeued and ends with the bits of the straight job.

    PSGD_BIN=build/test/bin test_slurm.py

It needs root. munged, slurmctld and slurmd are processes of the test, with ports and a folder of its own.
"""
import hashlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cluster")]
from harness import tensors  # noqa: E402

BIN = pathlib.Path(os.environ.get("PSGD_BIN", ROOT / "build" / "bin")).resolve()
SCRIPT = ROOT / "deploy/slurm/psgd.sbatch"
SLOW = float(os.environ.get("PSGD_TEST_SLOW", "1"))
# One task for the server and two for the workers. Its bits do not depend on how slow the workers are.
JOB = """
title: slurm
epochs: 1000
block_size: 16
data: {name: glyphs, train_limit: 640, test_limit: 10}
model: {preset: mlp, widths: [8]}
optimizer: {rule: {name: adam, params: {lr: 0.01}}}
straggler: {name: fixed, params: {ms: 0}}
eval_every_steps: 100
max_steps: 500
"""
CONF = """
ClusterName=psgd
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={at}/munge.sock,cred_expire=6
SlurmUser=root
SlurmdUser=root
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool.%n
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SwitchType=switch/none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=16 State=UNKNOWN
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=16 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    """Ports on which nobody listens, and which the kernel gives to no connection: those are from 32768 on."""
    ports = []
    while len(ports) < count:
        port = random.randrange(20000, 32000)
        with socket.socket() as s:
            if port not in ports and s.connect_ex(("127.0.0.1", port)) != 0:
                ports.append(port)
    return ports


@unittest.skipIf(os.geteuid() != 0, "slurmd needs root")
class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="psgd-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.work.chmod(0o755)
        host = socket.gethostname()
        nodes = [host, "localhost"]  # two, because no host takes two groups of a heterogeneous job in Slurm's backfill
        for folder in ["state", *(f"spool.{n}" for n in nodes)]:
            (cls.work / folder).mkdir()
        key = cls.work / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        conf = cls.work / "slurm.conf"
        conf.write_text(CONF.format(host=host, ports=free_ports(3), at=cls.work))
        cls.env = {**{k: v for k, v in os.environ.items() if not k.startswith(("PSGD_", "SLURM_"))},
                   "SLURM_CONF": str(conf), "PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin"}
        cls.daemon("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={cls.work}/munge.sock",
                   f"--pid-file={cls.work}/munge.pid", f"--log-file={cls.work}/munge.log",
                   f"--seed-file={cls.work}/munge.seed")
        cls.until(lambda: (cls.work / "munge.sock").exists(), "munged")
        cls.daemon("slurmctld", "-D", "-c")
        for node in nodes:
            cls.daemon("slurmd", "-D", "-N", node)
        cls.until(lambda: cls.ask("sinfo", "-h", "-N", "-o", "%t").split() == ["idle", "idle"], "idle nodes", 120)
        (cls.work / "job.yaml").write_text(JOB)

    @classmethod
    def daemon(cls, *command):
        with open(cls.work / f"{command[0]}.out", "a") as out:
            process = subprocess.Popen(command, env=cls.env, stdout=out, stderr=subprocess.STDOUT)

        def end():
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        cls.addClassCleanup(end)

    @classmethod
    def ask(cls, *command):
        done = subprocess.run(command, env=cls.env, cwd=cls.work, text=True, capture_output=True, timeout=30 * SLOW)
        return done.stdout + done.stderr

    @classmethod
    def until(cls, happened, what, seconds=30):
        deadline = time.monotonic() + seconds * SLOW
        while not happened():
            if time.monotonic() > deadline:
                logs = "".join(f"\n{p.name}: {p.read_text()[-1500:]}" for p in cls.work.glob("*.out"))
                raise AssertionError(f"no {what} within {seconds * SLOW:g} s{logs}")
            time.sleep(0.2)

    def sbatch(self, *args, options=(), script=SCRIPT):
        """Submits the script; its Slurm id."""
        port = free_ports(1)[0]
        said = self.ask("env", f"PSGD_PORT={port}", "sbatch", "--parsable", "-o", "psgd-%j.out", *options, script,
                        "job.yaml", *args)
        self.assertRegex(said, r"^\d+\n$")
        self.addCleanup(self.cancel, said.strip())
        return said.strip()

    def cancel(self, job):
        self.ask("scancel", job)  # one that is over says so
        self.until(lambda: not self.ask("squeue", "-h").strip(), "empty queue")

    def end(self, job, seconds):
        """What the script has printed when the Slurm job is over."""
        def over():
            return "JobState=COMPLETED" in (state := self.ask("scontrol", "show", "job", job)) or \
                "JobState=FAILED" in state or "JobState=TIMEOUT" in state
        try:
            self.until(over, f"end of Slurm job {job}", seconds)
        finally:
            text = (self.work / f"psgd-{job}.out").read_text()
            if not over():
                print(text, self.ask("scontrol", "show", "job", job))
        self.assertIn("JobState=COMPLETED", self.ask("scontrol", "show", "job", job), text)
        return text

    def model(self, job):
        path = self.work / f"psgd-{job}/files/MODEL-slurm-N(ps).safetensors"
        return hashlib.sha256(repr(sorted(tensors(path.read_bytes()).items())).encode()).hexdigest()  # not its job's id

    def test_a_heterogeneous_job_has_servers_in_its_first_group(self):
        script = self.work / "groups.sbatch"
        script.write_text(SCRIPT.read_text().replace("#SBATCH --ntasks=3\n", "#SBATCH --ntasks=2\n#SBATCH hetjob\n#SBATCH --ntasks=3\n"))
        job = self.sbatch("--epochs", "1", script=script)
        text = self.end(job, 60)
        self.assertRegex(text, r"(?m)^DONE")
        ran = {p.name for p in (self.work / f"psgd-{job}").glob("*.[0-9].log")}
        self.assertEqual(ran, {"server.0.log", "server.1.log", "worker.0.log", "worker.1.log", "worker.2.log"})

    def test_the_time_limit_ends_no_job_and_changes_no_bit(self):
        # A minute is Slurm's shortest limit. It looks at limits every half minute, and so signals up to that much early.
        slow = self.sbatch("--set", "straggler.params.ms=60", options=["--time=1", "--signal=B:USR1@29"])
        straight = self.sbatch()
        text = self.end(straight, 40)
        self.assertRegex(text, r"(?m)^DONE")
        self.assertNotIn("start 1", text)
        text = self.end(slow, 200)
        self.assertIn("the time limit is near; a checkpoint of", text)
        self.assertRegex(text, r"psgd\.sbatch: job \S+, start 1")
        self.assertRegex(self.ask("scontrol", "show", "job", slow), "Restarts=[1-9]")  # each start may be signalled early
        self.assertEqual(self.model(slow), self.model(straight))

    def test_a_signal_before_the_job_is_submitted_is_not_lost(self):
        job = self.sbatch("--set", "straggler.params.ms=20")
        self.until((self.work / f"psgd-{job}/pki").exists, "authority")
        self.ask("scancel", "--batch", "--signal=USR1", job)
        text = self.end(job, 100)
        self.assertIn("the time limit is near; a checkpoint of", text)
        self.assertRegex(text, r"psgd\.sbatch: job \S+, start 1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
