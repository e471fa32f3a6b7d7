#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_audit.py - the audit: who has called what, as far as it changes something."""
import datetime
import json
import os
import re
import sys
import time

import grpc

from harness import PATIENCE, coordinator_pb2 as pb, job_pb2, main
from tls_cluster import DENIED, TlsTest

WAIT = {"timeout": 20 * PATIENCE}
FILE_MAX = 16 << 20


class Audit(TlsTest):
    def lines(self, c, count):
        """The lines of users, when there are so many."""
        def read():
            text = (c.coordinator.folder / c.coordinator.name / "audit.jsonl").read_text()
            found = [json.loads(line) for line in text.splitlines()]
            found = [line for line in found if line["method"] != "RegisterNode"]
            return found if len(found) >= count else None
        return c.poll(f"{count} lines", read)

    def test_every_change_is_a_line(self):
        c = self.tls_cluster(workers=1, pservers=0)
        c.wait_nodes(1)
        began = datetime.datetime.now(datetime.timezone.utc)
        sue, bob = self.stub(c, "submitter/sue"), self.stub(c, "submitter/bob")
        job = sue.SubmitJob(pb.SubmitJobRequest(spec=job_pb2.JobSpec(title="audited", workers=2)), **WAIT).job.id
        self.refused(lambda: sue.SubmitJob(pb.SubmitJobRequest(spec=job_pb2.JobSpec(title="a", workers=100000)),
                                           **WAIT), grpc.StatusCode.INVALID_ARGUMENT)
        about = {"job_id": job}
        for api in (sue, bob):  # what only reads is no line
            for method, request in (("GetJob", pb.GetJobRequest(**about)), ("ListJobs", pb.ListJobsRequest()),
                                    ("ListNodes", pb.ListNodesRequest())):
                try:
                    getattr(api, method)(request, **WAIT)
                except grpc.RpcError as e:
                    self.assertEqual(e.code(), DENIED)
        self.refused(lambda: bob.CancelJob(pb.CancelJobRequest(**about), **WAIT), DENIED)
        otto = self.stub(c, "observer/otto")
        self.refused(lambda: otto.CancelJob(pb.CancelJobRequest(**about), **WAIT), DENIED)
        self.refused(lambda: sue.TakeCheckpoint(pb.TakeCheckpointRequest(**about), **WAIT),
                     grpc.StatusCode.FAILED_PRECONDITION)
        self.refused(lambda: sue.ChangeTables(pb.ChangeTablesRequest(action=job_pb2.TABLES_ACTION_SAVE, **about),
                                              **WAIT), grpc.StatusCode.FAILED_PRECONDITION)
        sue.CancelJob(pb.CancelJobRequest(**about), **WAIT)
        self.refused(lambda: sue.CancelJob(pb.CancelJobRequest(job_id='"\n\x01é' + "x" * 200), **WAIT),
                     grpc.StatusCode.NOT_FOUND)
        sue.DeleteJob(pb.DeleteJobRequest(**about), **WAIT)
        lines = self.lines(c, 9)
        shown = [(x["who"], x["method"], x.get("about"), x["result"], x.get("reason")) for x in lines]
        self.assertEqual(shown, [
            ("submitter/sue", "SubmitJob", job, "OK", None),
            ("submitter/sue", "SubmitJob", None, "INVALID_ARGUMENT", "BAD_JOB_SPEC"),
            ("submitter/bob", "CancelJob", job, "PERMISSION_DENIED", "NOT_OWNER"),
            ("observer/otto", "CancelJob", None, "PERMISSION_DENIED", "NOT_ALLOWED"),
            ("submitter/sue", "TakeCheckpoint", job, "FAILED_PRECONDITION", "NO_CHECKPOINT"),
            ("submitter/sue", "ChangeTables", job, "FAILED_PRECONDITION", "JOB_DOES_NOT_TRAIN"),
            ("submitter/sue", "CancelJob", job, "OK", None),
            ("submitter/sue", "CancelJob", ('"\n\x01é' + "x" * 200).encode()[:95].decode(), "NOT_FOUND",
             "JOB_NOT_FOUND"),
            ("submitter/sue", "DeleteJob", job, "OK", None)])
        serials = {x["principal"]: x["serial"] for x in c.authority.run("list", "--pki", c.authority.pki)["certificates"]}
        for line in lines:
            self.assertRegex(line["from"], r"^ipv4:127\.0\.0\.1:\d+$")
            self.assertEqual(line["credential"], serials[line["who"]])
            at = datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%f%z")
            self.assertLess(abs((at - began).total_seconds()), 60 * PATIENCE)
        path = c.coordinator.folder / c.coordinator.name / "audit.jsonl"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        nodes = [json.loads(x) for x in path.read_text().splitlines() if "RegisterNode" in x]
        self.assertEqual({(x["who"], x["about"], x["result"]) for x in nodes}, {("node/worker-0", "worker-0", "OK")})

    def test_the_file_is_bounded(self):
        c = self.cluster(workers=0, pservers=0)
        path = c.coordinator.folder / c.coordinator.name / "audit.jsonl"
        for i in range(6):
            with open(path, "ab") as file:
                file.truncate(FILE_MAX - 1)
            job = c.api.SubmitJob(pb.SubmitJobRequest(spec=job_pb2.JobSpec(title=f"round{i}")), **WAIT).job
            c.poll("the file has its next name", lambda: not path.exists())
            first = (path.parent / "audit.jsonl.1").read_bytes()
            self.assertIn(job.id.encode(), first[-400:])
            self.assertEqual(json.loads(first[FILE_MAX - 1:])["who"], "nobody")
        self.assertEqual(sorted(p.name for p in path.parent.glob("audit.jsonl*")),
                         [f"audit.jsonl.{i}" for i in range(1, 5)])

    def test_no_call_waits_for_the_file(self):
        c = self.cluster(workers=0, pservers=0)
        path = c.coordinator.folder / c.coordinator.name / "audit.jsonl"
        os.mkfifo(path)
        with open(os.open(path, os.O_RDWR | os.O_NONBLOCK), "wb"):  # a file that nobody reads
            for _ in range(20):
                began = time.monotonic()
                c.api.SubmitJob(pb.SubmitJobRequest(spec=job_pb2.JobSpec(title="waits")), **WAIT)
                self.assertLess(time.monotonic() - began, 5 * PATIENCE)
        c.poll("the failure is logged", lambda: re.search("calls are not audited: .*it is no regular file",
                                                          c.coordinator.log()))
        path.unlink()
        c.api.SubmitJob(pb.SubmitJobRequest(spec=job_pb2.JobSpec(title="again")), **WAIT)
        c.poll("the audit goes on", lambda: path.exists() and "again-" in path.read_text())

    def test_a_line_that_was_cut_off_spoils_no_other(self):
        c = self.cluster(workers=0, pservers=0)
        path = c.coordinator.folder / c.coordinator.name / "audit.jsonl"
        path.write_text('{"time":"2026-11')  # as a full disk leaves it
        jobs = [c.api.SubmitJob(pb.SubmitJobRequest(spec=job_pb2.JobSpec(title="next")), **WAIT).job.id
                for _ in range(3)]
        self.assertEqual(c.coordinator.stop(), 0)
        cut, *lines = path.read_text().splitlines()
        self.assertEqual(cut, '{"time":"2026-11')
        self.assertEqual([json.loads(x)["about"] for x in lines], jobs)

    def test_what_waits_is_written_at_the_end(self):
        c = self.cluster(workers=0, pservers=0)
        path = c.coordinator.folder / c.coordinator.name / "audit.jsonl"
        jobs = [c.api.SubmitJob(pb.SubmitJobRequest(spec=job_pb2.JobSpec(title="last")), **WAIT).job.id
                for _ in range(20)]
        self.assertEqual(c.coordinator.stop(), 0)
        self.assertEqual([json.loads(x)["about"] for x in path.read_text().splitlines()], jobs)


if __name__ == "__main__":
    sys.exit(main())
