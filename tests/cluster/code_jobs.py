# SPDX-License-Identifier: Apache-2.0
"""code_jobs.py - jobs that bring code along: what test_code.py and test_code_mesh.py share."""
import hashlib
import json
import os
import pathlib
import signal
import subprocess

from harness import BIN, ClusterTest, job_pb2, tensors

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "clients/examples/code"
JOB = {"preset": "tutorial-glyphs", "title": "code", "workers": 2, "pservers": 2, "epochs": 1}
SLOW = {"straggler": {"name": "fixed", "params": {"rank": -1, "ms": 20}}}


def example(name):
    return {"file": name, "text": (EXAMPLES / name).read_text()}


def codec(name, way="up", **params):
    return {"codec": {way: {"name": name, "params": params}}}


ONLY_ONE = """#!/bin/sh
running={folder}/$PPID
exec 9> "$running.lock"
/usr/bin/flock 9 || exit 9
[ -e "$running" ] && kill -0 "$(/bin/cat "$running")" && exit 9
echo $$ > "$running"
exec 9>&-
exec {sandbox}
"""


def only_one(folder):
    """A program for PSGD_SANDBOX: of each service it runs one sandbox at a time, and no more."""
    path = pathlib.Path(folder) / "only-one"
    path.write_text(ONLY_ONE.format(folder=folder, sandbox=BIN / "psgd-sandbox"))
    path.chmod(0o755)
    return str(path)


class CodeTest(ClusterTest):
    def model(self, c, job):
        """Shapes and hashes of the servers' model, or of that of all workers of a mesh."""
        owner = "ps" if job.spec.pservers > 0 else "0"
        return self.hashes(c.files(job.id)[f"MODEL-{job.spec.title}-N({owner}).safetensors"])

    def hashes(self, file):
        return {name: (shape, hashlib.sha256(data).hexdigest()) for name, (shape, data) in tensors(file).items()}

    def done(self, c, spec):
        job = c.wait(c.submit(spec).id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_DONE", job.message)
        return job

    def local(self, c, spec):
        """psgd train of the job, and the folder with its files."""
        path, folder = pathlib.Path(c.folder) / "job.json", pathlib.Path(c.folder) / "local"
        path.write_text(json.dumps(spec))
        return subprocess.run([BIN / "psgd", "train", path, "-o", folder], capture_output=True, text=True, timeout=120,
                              check=False), folder

    def sandboxes(self, process):
        """The sandboxes of a service."""
        found = subprocess.run(["pgrep", "-P", str(process.process.pid), "psgd-sandbox"], capture_output=True, text=True,
                               check=False)
        return [int(pid) for pid in found.stdout.split()]

    def must_fail_without_its_sandboxes(self, c, spec, node, calls):
        """The node's sandboxes are killed while the job trains, which ends with the name of one of the calls."""
        job = c.submit(spec)
        c.wait(job.id, lambda job: job.progress.step >= 5)
        for pid in self.sandboxes(node):
            os.kill(pid, signal.SIGKILL)
        job = c.wait(job.id)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        self.assertRegex(job.message, rf"sgq\.lua: {calls}: the sandbox was ended by signal 9")
        self.assertEqual(job.attempt, 1)
