#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_quotas.py - how much a submitter may have at a time, by the file of --quotas."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import grpc
from google.protobuf import json_format

from harness import BIN, PATIENCE, SMALL, coordinator_pb2 as pb, job_pb2, main
from tls_cluster import Authority, TlsTest

WAIT = {"timeout": 20 * PATIENCE}
FULL = grpc.StatusCode.RESOURCE_EXHAUSTED


class Quotas(TlsTest):
    def setUp(self):
        super().setUp()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-quotas-"))
        self.addCleanup(shutil.rmtree, folder, True)
        self.file = folder / "quotas.yaml"

    def start(self, text, **options):
        self.file.write_text(text)
        c = self.tls_cluster(coordinator_args=["--quotas", self.file], **options)
        self.users = {name: self.stub(c, f"submitter/{name}") for name in ("sue", "bob")}
        return c

    def write(self, text):
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.rename(self.file)

    def submit(self, name, request_id="", **fields):
        spec = json_format.ParseDict({**SMALL, "workers": 1, "pservers": 1, **fields}, job_pb2.JobSpec())
        return self.users[name].SubmitJob(pb.SubmitJobRequest(spec=spec, request_id=request_id), **WAIT).job

    def is_full(self, name, text, **fields):
        told = self.refused(lambda: self.submit(name, **fields), FULL)
        self.assertIn(text, told)
        return told

    def test_each_amount_is_bounded(self):
        c = self.start("default: {jobs: 3, workers: 5}\n", workers=0, pservers=0)
        job = self.submit("bob", workers=4)
        size = job.parameters
        self.is_full("bob", "workers: submitter/bob may have 5, has 4 and asks for 2 more", workers=2)
        self.submit("bob")
        self.is_full("bob", "workers: submitter/bob may have 5, has 5 and asks for 1 more")
        self.submit("sue", request_id="r", workers=2)  # others have their own
        self.write(f"default: {{jobs: 3, workers: 5}}\nsubmitter/sue: {{parameters: {3 * size - 1}}}\n")
        self.submit("sue")
        told = self.is_full("sue", f"parameters: submitter/sue may have {3 * size - 1}, has {2 * size} and asks for "
                                   f"{size} more")
        self.assertIn("ask an admin", told)
        self.submit("sue", request_id="r", workers=2)  # made the job before, so it is that one
        admin = c.submit(workers=20)  # admins have no quotas
        c.api.CancelJob(pb.CancelJobRequest(job_id=admin.id), **WAIT)
        self.users["bob"].CancelJob(pb.CancelJobRequest(job_id=job.id), **WAIT)
        self.submit("bob", workers=4)

    def test_many_at_once_are_counted(self):
        self.start("default: {jobs: 7}\n", workers=0, pservers=0)
        request = pb.SubmitJobRequest(spec=job_pb2.JobSpec(title="many"))
        calls = [self.users["bob"].SubmitJob.future(request, **WAIT) for _ in range(100)]
        codes = [call.code() for call in calls]
        self.assertEqual(codes.count(grpc.StatusCode.OK), 7)
        self.assertEqual(codes.count(FULL), 93)

    def test_files_count_after_the_job(self):
        c = self.start("submitter/sue: {artifact_bytes: 1000}\n", workers=1, pservers=1)
        c.wait_nodes(2)
        first = c.wait(self.submit("sue").id)
        self.assertEqual(first.state, job_pb2.JOB_STATE_DONE, first.message)
        size = sum(a.size for a in first.artifacts)
        self.assertGreater(size, 1000)
        self.is_full("sue", f"artifact_bytes: submitter/sue may have 1000, has {size} and asks for 1 more")
        c.wait(self.submit("bob").id)
        c.coordinator.stop()
        c.restart_coordinator()
        self.is_full("sue", f"artifact_bytes: submitter/sue may have 1000, has {size} and asks for 1 more")
        self.users["sue"].DeleteJob(pb.DeleteJobRequest(job_id=first.id), **WAIT)
        self.submit("sue")

    def test_the_file_is_read_again(self):
        c = self.start("default: {jobs: 1}\n", workers=0, pservers=0)
        self.submit("bob")
        self.is_full("bob", "jobs: submitter/bob may have 1, has 1 and asks for 1 more")

        for text, why in (("default: {jobs: 1", "line"), ("default: {jobs: -1}", "default: jobs: whole numbers"),
                          ("default: {cpus: 1}", "default: cpus: whole numbers"), ("- 1", "a mapping of at most"),
                          ("default: {jobs: 0.5}", "default: jobs: whole numbers"),
                          ("node/a: {jobs: 1}", '"node/a": default and submitter/NAME are allowed'),
                          ("default: 3", "default: a mapping of numbers is expected")):
            since = c.coordinator.log_end()
            self.write(text)
            self.is_full("bob", "jobs: submitter/bob may have 1")
            self.assertRegex(c.coordinator.log(since), re.escape(why) + r".*; the quotas before stay")
        self.write("default: {jobs: 1}\nsubmitter/bob: {jobs: 2}\n")
        self.submit("bob")
        self.is_full("bob", "jobs: submitter/bob may have 2, has 2 and asks for 1 more")

    def test_a_read_that_failed_is_tried_again(self):
        """Also if the file has the time that it had then."""
        c = self.start("default: {jobs: 1}\n", workers=0, pservers=0)
        self.submit("bob")
        since = c.coordinator.log_end()
        text = self.file.read_text()
        self.file.unlink()
        self.file.mkdir()  # of the same time as the file that follows
        self.is_full("bob", "jobs: submitter/bob may have 1")
        self.is_full("bob", "jobs: submitter/bob may have 1")
        self.assertEqual(c.coordinator.log(since).count("the quotas before stay"), 1)
        times = self.file.stat().st_atime_ns, self.file.stat().st_mtime_ns
        self.file.rmdir()
        new = self.file.with_suffix(".new")
        new.write_text(text.replace("1", "2"))
        os.utime(new, ns=times)
        new.rename(self.file)
        self.submit("bob")

    def test_a_file_that_is_wrong_at_the_start_is_refused(self):
        folder = self.file.parent
        authority = Authority()
        self.addCleanup(authority.close)
        tls = ["--tls-dir", authority.join("coordinator/main")]
        self.file.write_text("default: {jobs: many}\n")
        for args, why, code in ((["--quotas", self.file], "--quotas needs --tls-dir", 4),
                                ([*tls, "--quotas", self.file], "default: jobs: whole numbers up to 1e18", 4),
                                ([*tls, "--quotas", folder / "none"], "No such file", 1)):
            told = subprocess.run([BIN / "psgd-coordinator", "--listen", "127.0.0.1:0", *args], text=True,
                                  capture_output=True, timeout=20 * PATIENCE, env={"HOME": str(folder)})
            self.assertEqual(told.returncode, code, told.stderr)
            self.assertIn(why, told.stderr)


if __name__ == "__main__":
    sys.exit(main())
