#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_users.py - users of a coordinator with TLS: whose a job is, who may see and change it."""
import sys

import grpc
from google.protobuf import json_format

from harness import PATIENCE, SMALL, coordinator_pb2 as pb, job_pb2, main
from tls_cluster import DENIED, TlsTest

SUE, BOB, OTTO, ANNA = "submitter/sue", "submitter/bob", "observer/otto", "admin/anna"
WAIT = {"timeout": 20 * PATIENCE}


def submit(api, request_id="", **fields):
    spec = job_pb2.JobSpec(title=fields.pop("title", "users"), **fields)
    return api.SubmitJob(pb.SubmitJobRequest(spec=spec, request_id=request_id), **WAIT).job


def calls_on(api, job_id):
    """Every call about one job, by whether it changes the job."""
    see = {"GetJob": lambda: api.GetJob(pb.GetJobRequest(job_id=job_id), **WAIT),
           "GetJob with workers": lambda: api.GetJob(pb.GetJobRequest(job_id=job_id, workers=True), **WAIT),
           "WatchJob": lambda: next(api.WatchJob(pb.WatchJobRequest(job_id=job_id), **WAIT)),
           "ReclaimLogs": lambda: list(api.ReclaimLogs(pb.ReclaimLogsRequest(job_id=job_id), **WAIT)),
           "ListCheckpoints": lambda: api.ListCheckpoints(pb.ListCheckpointsRequest(job_id=job_id), **WAIT)}
    change = {"TakeCheckpoint": lambda: api.TakeCheckpoint(pb.TakeCheckpointRequest(job_id=job_id), **WAIT),
              "ChangeTables": lambda: api.ChangeTables(pb.ChangeTablesRequest(
                  job_id=job_id, action=job_pb2.TABLES_ACTION_SAVE), **WAIT),
              "DeleteJob": lambda: api.DeleteJob(pb.DeleteJobRequest(job_id=job_id), **WAIT),
              "CancelJob": lambda: api.CancelJob(pb.CancelJobRequest(job_id=job_id), **WAIT)}
    return see, change


class Owners(TlsTest):
    def denied(self, calls):
        for name, call in calls.items():
            with self.subTest(name):
                self.refused(call, DENIED)

    def test_a_submitter_has_its_own_jobs(self):
        c = self.tls_cluster(workers=0, pservers=0)
        sue, bob, otto, anna = (self.stub(c, who) for who in (SUE, BOB, OTTO, ANNA))
        job = submit(sue)
        self.assertEqual(job.owner, SUE)
        self.assertGreater(job.parameters, 1000)

        def check(changes):
            see, change = calls_on(bob, job.id)
            self.denied({**see, **{name: change[name] for name in changes}})
            self.denied({name: calls_on(otto, job.id)[1][name] for name in changes})
            for api in (sue, otto, anna):
                for name, call in calls_on(api, job.id)[0].items():
                    call()
            listed = {who: [j.owner for j in api.ListJobs(pb.ListJobsRequest(), **WAIT).jobs]
                      for who, api in ((SUE, sue), (BOB, bob), (OTTO, otto), (ANNA, anna))}
            self.assertEqual(listed, {SUE: [SUE], BOB: [], OTTO: [SUE], ANNA: [SUE]})

        def over():
            self.assertEqual(c.get(job.id).state, job_pb2.JOB_STATE_CANCELLED)
            check(["DeleteJob", "CancelJob"])

        self.assertEqual(self.refused(calls_on(bob, job.id)[1]["CancelJob"], DENIED),
                         f"job {job.id} is not of submitter/bob, who may change own jobs only")
        # ReclaimLogs and ListCheckpoints of a queued job have nothing to give, but are answered.
        check(["TakeCheckpoint", "ChangeTables", "DeleteJob", "CancelJob"])
        calls_on(sue, job.id)[1]["CancelJob"]()
        self.assertEqual(c.get(job.id).message, "cancelled by submitter/sue")
        over()
        c.coordinator.stop()
        c.restart_coordinator()
        over()  # the registry has the owner
        text = c.psgd("get", job.id).stdout
        self.assertIn("owner     submitter/sue", text)
        self.assertRegex(c.psgd("list").stdout, rf"{job.id} +CANCELLED +submitter/sue ")
        calls_on(sue, job.id)[1]["DeleteJob"]()
        self.assertEqual(len(anna.ListJobs(pb.ListJobsRequest(), **WAIT).jobs), 0)
        calls_on(anna, submit(bob).id)[1]["CancelJob"]()

    def test_nobody_starts_from_the_model_of_another(self):
        c = self.tls_cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        sue, bob = self.stub(c, SUE), self.stub(c, BOB)
        small = json_format.ParseDict({**SMALL, "workers": 1, "pservers": 1}, job_pb2.JobSpec())

        def start(api, **fields):
            spec = job_pb2.JobSpec(**fields)
            spec.MergeFrom(small)
            return api.SubmitJob(pb.SubmitJobRequest(spec=spec), **WAIT).job.id

        first = start(sue)
        self.assertEqual(c.wait(first).state, job_pb2.JOB_STATE_DONE)
        told = self.refused(lambda: start(bob, init_from=f"job:{first}"), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn(f"job {first} is not of submitter/bob, who may see own jobs only", told)
        again = start(sue, init_from=f"job:{first}")
        self.assertEqual(c.wait(again).state, job_pb2.JOB_STATE_DONE)

    def test_a_request_id_is_of_its_user(self):
        c = self.tls_cluster(workers=0, pservers=0)
        sue, bob = self.stub(c, SUE), self.stub(c, BOB)
        first = submit(sue, request_id="nightly")
        self.assertEqual(submit(sue, request_id="nightly").id, first.id)
        other = submit(bob, request_id="nightly")
        self.assertNotEqual(other.id, first.id)
        self.assertEqual(other.owner, BOB)
        self.assertIn("request_id nightly made job", self.refused(
            lambda: submit(sue, request_id="nightly", title="another"), grpc.StatusCode.ALREADY_EXISTS))

    def test_own_jobs_are_found_behind_many_of_others(self):
        c = self.tls_cluster(workers=0, pservers=0)
        sue, bob = self.stub(c, SUE), self.stub(c, BOB)
        own = [submit(bob).id]
        request = pb.SubmitJobRequest(spec=job_pb2.JobSpec(title="many"))
        for _ in range(21):
            for call in [sue.SubmitJob.future(request, **WAIT) for _ in range(100)]:
                call.result()
        own.insert(0, submit(bob).id)
        pages, token = [], ""
        while True:
            page = bob.ListJobs(pb.ListJobsRequest(page_token=token), **WAIT)
            pages.append([job.id for job in page.jobs])
            token = page.next_page_token
            if not token:
                break
        self.assertEqual(sum(pages, []), own)
        self.assertEqual(len(pages), 2)  # a call reads at most 2,000 jobs of others

    def test_in_plaintext_everybody_is_an_admin(self):
        c = self.cluster(workers=0, pservers=0)
        job = c.api.SubmitJob(pb.SubmitJobRequest(spec=job_pb2.JobSpec(title="open")), **WAIT).job
        self.assertEqual(job.owner, "")
        c.api.CancelJob(pb.CancelJobRequest(job_id=job.id), **WAIT)
        self.assertEqual(c.get(job.id).message, "cancelled by a client")



if __name__ == "__main__":
    sys.exit(main())
