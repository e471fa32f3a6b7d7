#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_users.py - users of a coordinator with TLS: whose a job is, who may see and change it, and tokens."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import grpc
from google.protobuf import json_format

from harness import BIN, PATIENCE, ROOT, SMALL, coordinator_pb2 as pb, coordinator_pb2_grpc, job_pb2, main
from test_clients import node_example
from tls_cluster import DENIED, TlsTest, psgd

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
              "ScaleJob": lambda: api.ScaleJob(pb.ScaleJobRequest(job_id=job_id, pservers=1), **WAIT),
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
        check(["TakeCheckpoint", "ScaleJob", "ChangeTables", "DeleteJob", "CancelJob"])
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


UNKNOWN = grpc.StatusCode.UNAUTHENTICATED


class Tokens(TlsTest):
    """A coordinator that takes tokens, and clients that have only its root certificate."""

    def setUp(self):
        super().setUp()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-tokens-"))
        self.addCleanup(shutil.rmtree, folder, True)
        self.file = folder / "tokens"
        self.token = self.create(SUE)

    def create(self, who, *args):
        return self.manage("create", who, *args)["token"]

    def manage(self, *args):
        told = psgd("token", *args, "--tokens", self.file, "--format", "json")
        self.assertEqual(told.returncode, 0, told.stderr)
        return json.loads(told.stdout)

    def with_token(self, c, token):
        credentials = grpc.ssl_channel_credentials((c.admin / "root.pem").read_bytes())
        if token is not None:
            credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(token))
        channel = grpc.secure_channel(c.coordinator.address, credentials)
        self.addCleanup(channel.close)
        return coordinator_pb2_grpc.CoordinatorServiceStub(channel)

    def start(self, **options):
        return self.tls_cluster(coordinator_args=["--tokens", self.file], **options)

    def test_a_user_calls_with_a_token(self):
        c = self.start(workers=0, pservers=0)
        sue = self.with_token(c, self.token)
        job = submit(sue)
        self.assertEqual(job.owner, SUE)
        self.denied(sue.GetNodeLog, pb.GetNodeLogRequest(node_id="n"), "submitter/sue may not call GetNodeLog")
        self.assertEqual([j.id for j in self.stub(c, SUE).ListJobs(pb.ListJobsRequest(), **WAIT).jobs], [job.id])
        otto = self.with_token(c, self.create(OTTO))
        c.poll("the file is read again", lambda: self.code_of(otto) == grpc.StatusCode.OK)
        self.denied(otto.CancelJob, pb.CancelJobRequest(job_id=job.id), "observer/otto may not call CancelJob")
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        self.assertNotIn(self.token.removeprefix("psgd_"), self.file.read_text())
        self.assertRegex(self.token, "^psgd_[0-9a-f]{64}$")
        self.assertNotIn(self.token, c.coordinator.log())
        node = self.stub(c, "node/worker-9")  # a certificate counts, also beside a token
        self.refused(lambda: node.ListJobs(pb.ListJobsRequest(), metadata=[
            ("authorization", "Bearer " + self.token)], **WAIT), DENIED)

    def denied(self, method, request, text):
        told = self.refused(lambda: method(request, **WAIT), DENIED)
        self.assertIn(text, told)

    @staticmethod
    def code_of(api):
        try:
            api.ListJobs(pb.ListJobsRequest(), **WAIT)
        except grpc.RpcError as e:
            return e.code()
        return grpc.StatusCode.OK

    def test_without_a_good_token_nothing_is_answered(self):
        short = self.create(BOB, "--valid", "1s")
        c = self.start(workers=0, pservers=0)
        wrong = self.token[:-1] + ("0" if self.token[-1] != "0" else "1")
        c.poll("the token has ended", lambda: self.code_of(self.with_token(c, short)) == UNKNOWN)
        for token, why in ((None, "neither a certificate nor a token"), (wrong, "the token is not known"),
                           ("", "neither a certificate nor a token"), (short, "was revoked or has ended"),
                           (self.token + "0", "the token is not known"), ("x", "the token is not known"),
                           ("x" * 5000, "the token is not known")):
            told = self.refused(lambda: self.with_token(c, token).ListJobs(pb.ListJobsRequest(), **WAIT), UNKNOWN)
            self.assertIn(why, told)
        self.assertNotIn(wrong, c.coordinator.log())

    def test_a_revoked_token_ends_what_it_has_open(self):
        c = self.start(workers=0, pservers=0)
        sue = self.with_token(c, self.token)
        watch = sue.WatchJob(pb.WatchJobRequest(job_id=submit(sue).id))
        next(watch)
        began = time.monotonic()
        self.assertEqual(self.manage("revoke", SUE), {"revoked": 1})
        self.assertIn("was revoked or has ended", self.refused(lambda: list(watch), UNKNOWN))
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(self.code_of(sue), UNKNOWN)
        self.assertEqual(self.manage("list"), [])

    def test_without_the_flag_a_certificate_is_needed(self):
        c = self.tls_cluster(workers=0, pservers=0)
        self.refused(lambda: self.with_token(c, self.token).ListJobs(pb.ListJobsRequest(), **WAIT),
                     grpc.StatusCode.UNAVAILABLE)

    def test_the_file_is_checked(self):
        told = psgd("token", "create", "node/n", "--tokens", self.file)
        self.assertEqual(told.returncode, 4)
        self.assertIn("node/n has no tokens; admin, submitter and observer have them", told.stderr)
        told = psgd("token", "revoke", "deadbeef", "--tokens", self.file)
        self.assertIn("has no token deadbeef", told.stderr)
        c = self.start(workers=0, pservers=0)
        good = self.file.read_text()
        for mode, text, why in ((0o622, good, "others may write it, mode 0622; 0600 is allowed"),
                                (0o600, good + "x", "tokens:3: KIND/NAME, seconds since 1970 and 64 digits"),
                                (0o600, good.replace("submitter/", "node/"), "node/sue: admin, submitter and")):
            new = self.file.with_suffix(".new")
            new.write_text(text)
            new.chmod(mode)
            new.rename(self.file)
            api = self.with_token(c, self.token)
            c.poll("the reason is logged", lambda: self.code_of(api) == grpc.StatusCode.OK and
                   why in c.coordinator.log())
            self.assertIn("the tokens before stay", c.coordinator.log())
        told = subprocess.run([BIN / "psgd-coordinator", "--tokens", self.file, "--listen", "127.0.0.1:0"],
                              capture_output=True, text=True, timeout=20 * PATIENCE, env={"HOME": str(c.folder)})
        self.assertEqual(told.returncode, 4, told.stderr)
        self.assertIn("--tokens needs --tls-dir", told.stderr)

    def test_psgd_itself_takes_a_token(self):
        c = self.start(workers=0, pservers=0)
        at = c.folder / "root"
        at.mkdir()
        shutil.copy(c.admin / "root.pem", at)
        file = c.folder / "sue.token"
        file.touch(0o600)

        def told(token, *args, address=c.coordinator.address):
            file.write_text(token + "\n")
            return psgd("--tls-dir", at, "--coordinator", address, "--token-file", file, *args)
        made = told(self.token, "submit", "--preset", "tutorial-glyphs", "--format", "json")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual([j.owner for j in c.api.ListJobs(pb.ListJobsRequest(), **WAIT).jobs], [SUE])
        self.assertEqual(told(self.token, "list").returncode, 0)
        self.assertIn("submitter/sue may not call GetNodeLog", told(self.token, "logs", "--node", "n").stderr)
        wrong = self.token[:-1] + ("0" if self.token[-1] != "0" else "1")
        for token, why in ((wrong, "the token is not known"), ("x", "one token is expected, psgd_ and 64")):
            done = told(token, "list")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)
            self.assertNotIn(wrong, done.stderr)
        file.chmod(0o644)
        self.assertIn("it has a token and mode 0644; 0600 is allowed", told(self.token, "list").stderr)
        file.chmod(0o600)
        plain = psgd("--coordinator", c.coordinator.address, "--token-file", file, "list")
        self.assertIn("--token-file needs --tls-dir DIR", plain.stderr)
        strict = self.tls_cluster(workers=0, pservers=0)
        shutil.copy(strict.admin / "root.pem", at)
        self.assertIn("it takes nobody without a certificate: psgd-coordinator --tokens",
                      told(self.token, "list", address=strict.coordinator.address).stderr)

    def check_example(self, *command):
        c = self.start(workers=1, pservers=1)
        c.wait_nodes(2)
        at = c.folder / "root"
        at.mkdir()
        shutil.copy(c.admin / "root.pem", at)
        spec = c.folder / "job.json"
        spec.write_text(json.dumps({**SMALL, "epochs": 1, "workers": 1}))
        for token, code in ((self.token, 0), ("psgd_wrong", 1)):
            done = subprocess.run([*command, "--coordinator", c.coordinator.address, "--tls-dir", at, "--output",
                                   c.folder / "out", spec], capture_output=True, text=True,
                                  timeout=120 * PATIENCE, env={**os.environ, "PSGD_TOKEN": token})
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn("the token is not known", done.stderr)
        self.assertEqual([j.owner for j in c.api.ListJobs(pb.ListJobsRequest(), **WAIT).jobs], [SUE])

    def test_the_example_in_python_has_a_token(self):
        self.check_example("/usr/bin/python3", ROOT / "clients/examples/python/psgd_client.py")

    def test_the_example_in_javascript_has_a_token(self):
        self.check_example(*node_example(self))


if __name__ == "__main__":
    sys.exit(main())
