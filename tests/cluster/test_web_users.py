#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a coordinator with TLS: who gets in by HTTPS, as whom, and what each may do."""
import http.client
import json
import pathlib
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile

import grpc
from google.protobuf import json_format

from browser import Browser
from harness import BIN, ENDLESS, PATIENCE, coordinator_pb2 as pb, coordinator_pb2_grpc, main
from test_matrix import ANNA, BOB, CHANGE, OTTO, SEE, SUE, methods
from test_web_api import page_of
from tls_cluster import Authority, TlsTest, psgd, s_client

SERVICE = pb.DESCRIPTOR.services_by_name["CoordinatorService"]


class Users(TlsTest):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-web-users-"))
        self.addCleanup(shutil.rmtree, folder, True)
        self.file = folder / "tokens"
        self.tokens = {who: self.token(who) for who in (SUE, BOB, OTTO, ANNA)}
        self.c = self.tls_cluster(workers=1, pservers=1, coordinator_args=[
            "--tokens", self.file, "--web", "127.0.0.1:0", "--log-level", "debug"])
        self.at = page_of(self.c)
        self.tls = ssl.create_default_context(cafile=self.c.admin / "root.pem")

    def token(self, who):
        told = psgd("token", "create", who, "--tokens", self.file)
        return re.search("psgd_[0-9a-f]{64}", told.stdout).group()

    def certificate(self, who):
        """The folder of a member, who joins if it has not."""
        at = self.c.authority.dir_of(who)
        return at if at.exists() else self.c.authority.join(who)

    def ask(self, path, body=None, token=None, headers=None, cert=None):
        """Status, headers and JSON of the answer. cert: a folder with the certificate of the client."""
        tls = self.tls
        if cert:
            tls = ssl.create_default_context(cafile=self.c.admin / "root.pem")
            tls.load_cert_chain(cert / "identity.pem")
        connection = http.client.HTTPSConnection(self.at, context=tls, timeout=30 * PATIENCE)
        try:
            connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), {
                **({} if body is None else {"Content-Type": "application/json"}),
                **({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})})
            answer = connection.getresponse()
            if answer.headers["Content-Type"] == "text/event-stream":
                return answer.status, answer.headers, answer.readline()
            said = answer.read()
            return answer.status, answer.headers, json.loads(said) if said.startswith(b"{") else said
        finally:
            connection.close()

    def submit(self, who, workers=9, **spec):
        """The id of a job; one of 9 workers waits for them."""
        status, _, said = self.ask("/api/v1/SubmitJob", {"spec": {**spec, "workers": workers}}, self.tokens[who])
        self.assertEqual(status, 200, said)
        return said["job"]["id"]

    def test_everybody_asks_for_every_method(self):
        jobs = [self.submit(SUE) for _ in range(2)]
        self.ask("/api/v1/CancelJob", {"job_id": jobs[1]}, self.tokens[SUE])
        entries = methods(*jobs)
        table = dict(re.findall(r"/psgd\.v1\.CoordinatorService/(\w+) may be called by ([a-z, ]+)", self.c.coordinator.log()))
        self.assertEqual(set(table), {m.name for m in SERVICE.methods})
        kinds = {who.split("/")[0] for who in self.tokens}
        gone = self.token("admin/gone")
        self.assertEqual(psgd("token", "revoke", "admin/gone", "--tokens", self.file).returncode, 0)
        callers = [(None, {}), ("wrong", {"token": "psgd_" + "0" * 64}), ("revoked", {"token": gone}),
                   *((who, {"token": token}) for who, token in self.tokens.items()),
                   *((who, {"cert": self.certificate(who)}) for who in self.tokens)]
        self.c.poll("the file is read again", lambda: self.ask("/api/v1/ListJobs", {}, gone)[0] == 401)
        wrong, cells = [], 0
        routes = [(m, table[m], *entries[f"CoordinatorService/{m}"]) for m in table]
        routes.append(("curves", table["GetJob"], SEE, pb.GetJobRequest(job_id=jobs[0])))
        for who, by in callers:
            for name, may, about, request in routes:
                if name == "curves":
                    status, _, said = self.ask(f"/api/v1/curves?job_id={jobs[0]}", **by)
                else:
                    body = json_format.MessageToDict(request, preserving_proto_field_name=True)
                    if name == "ReclaimLogs":
                        body["name"] = "EV-none.csv"
                    status, _, said = self.ask(f"/api/v1/{name}", body, **by)
                if who not in self.tokens:
                    want = {401}
                elif not kinds & set(may.split(", ")):
                    want = {404}  # of nodes
                elif who.split("/")[0] not in may.split(", ") or (who == BOB and about in (SEE, CHANGE)):
                    want = {403}
                else:
                    want = {200, 400, 404, 409, 429}
                cells += 1
                if status not in want or (want == {404} and "no method" not in said["error"]["message"]):
                    wrong.append(f"{who} by {[*by]} {name}: {status} {said}; {want} expected")
        self.assertEqual(wrong, [])
        print(f"{cells} cells", file=sys.stderr)
        for path in ("/", "/app.js"):  # the page itself has nothing of anybody
            self.assertEqual(self.ask(path)[0], 200)

    def test_a_certificate_is_a_user(self):
        authority, other = self.c.authority, Authority()
        self.addCleanup(other.close)
        sue, old, foreign = self.certificate(SUE), authority.join_expiring("admin/old"), other.join("admin/anna")
        status, _, said = self.ask("/api/v1/SubmitJob", {"spec": {"workers": 9}}, cert=sue)
        self.assertEqual((status, said["job"]["owner"]), (200, SUE))
        seen = self.ask("/api/v1/ListJobs", {}, self.tokens[BOB], cert=sue)[2]  # the certificate counts
        self.assertEqual([j["id"] for j in seen["jobs"]], [said["job"]["id"]])
        self.assertEqual(self.ask(f"/api/v1/WatchJob?job_id={said['job']['id']}", cert=sue)[2], b"retry: 1000\n")
        serial = next(m["serial"] for m in authority.run("list", "--pki", authority.pki)["certificates"] if m["principal"] == SUE)
        audit = self.c.coordinator.folder / self.c.coordinator.name / "audit.jsonl"
        self.c.poll("the audit", lambda: f'"who":"{SUE}","credential":"{serial}"' in audit.read_text())
        self.assertEqual(self.ask("/api/v1/ListJobs", {}, cert=sue, headers={"Sec-Fetch-Site": "cross-site"})[0], 403)
        self.c.poll("it ends", lambda: self.ask("/api/v1/ListJobs", {}, cert=old)[0] == 401)
        for at, token, text in ((foreign, self.tokens[ANNA], "unable to get local issuer certificate"), (old, None, "has expired"),
                                (None, "0" * 64 + f"{serial}:{ANNA}", "is needed")):
            status, _, said = self.ask("/api/v1/ListJobs", {}, token, cert=at)
            self.assertEqual((status, text in said["error"]["message"]), (401, True), said)
        with grpc.secure_channel(self.c.coordinator.address, grpc.ssl_channel_credentials(
                (self.c.admin / "root.pem").read_bytes())) as channel:  # what stands for a certificate within the process
            stub = coordinator_pb2_grpc.CoordinatorServiceStub(channel)
            for secret in ("", "0" * 64):
                self.refused(lambda: stub.ListJobs(pb.ListJobsRequest(), timeout=10 * PATIENCE, metadata=[
                    ("authorization", f"Bearer {secret}{serial}:{ANNA}")]), grpc.StatusCode.UNAUTHENTICATED)
        authority.revoke(SUE)
        self.c.poll("it is out", lambda: self.ask("/api/v1/ListJobs", {}, cert=sue)[0] == 401, seconds=5)

    def test_a_browser_logs_in_and_out(self):
        job = self.submit(SUE)
        status, headers, said = self.ask("/api/v1/ListJobs", {})
        self.assertEqual((status, headers["WWW-Authenticate"]), (401, "Bearer"))
        self.assertIn("Authorization: 'Bearer TOKEN' is needed", said["error"]["message"])
        for bad in ({}, {"token": "psgd_1"}, {"token": "x" * 69}, {"token": self.tokens[SUE] + "; x"}):
            status, headers, said = self.ask("/api/v1/login", bad)
            self.assertEqual((status, headers["Set-Cookie"]), (400, None))
            self.assertIn("token: \"psgd_\" and 64 hexadecimal digits", said["error"]["message"])
        _, headers, _ = self.ask("/api/v1/login", {"token": self.tokens[SUE]})
        cookie, *flags = headers["Set-Cookie"].split("; ")
        self.assertEqual((cookie, flags), (f"__Host-psgd={self.tokens[SUE]}",
                                           ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"]))
        seen = self.ask("/api/v1/ListJobs", {}, headers={"Cookie": cookie})[2]
        self.assertEqual([j["id"] for j in seen["jobs"]], [job])
        self.assertEqual(self.ask(f"/api/v1/WatchJob?job_id={job}", headers={"Cookie": cookie})[2], b"retry: 1000\n")
        for name, value in (("Origin", "https://elsewhere.example"), ("Origin", f"http://{self.at}"),
                            ("Sec-Fetch-Site", "cross-site"), ("Host", "elsewhere.example")):
            self.assertEqual(self.ask("/api/v1/ListJobs", {}, headers={"Cookie": cookie, name: value})[0], 403, name)
        out = self.ask("/api/v1/login", {"token": ""})[1]["Set-Cookie"]
        self.assertTrue(out.startswith("__Host-psgd=;") and out.endswith("; Max-Age=0"), out)
        self.assertNotIn(self.tokens[SUE], self.c.coordinator.log())

        b = Browser(self.at, tls=True)
        self.addCleanup(b.close)
        b.open()
        field = self.c.poll("a form", lambda: b.find("#token"))[0]
        field.send_keys("psgd_" + "0" * 64 + "\n")
        self.c.poll("a wrong token", lambda: "the token is not known" in b.text())
        field.clear()
        field.send_keys(self.tokens[BOB] + "\n")
        self.c.poll("the list of nobody's jobs", lambda: not b.find("#token") and "Jobs" in b.text())
        self.assertNotIn(job, b.text())
        b.open(f"#/job/{job}")
        self.c.poll("what is refused", lambda: "is not of submitter/bob" in b.text())
        self.assertEqual(b.run("return document.cookie"), "")
        b.find("#log-out")[0].click()
        self.c.poll("a form again", lambda: b.find("#token"))

    def test_links(self):
        for version in ("-tls1_2", "-tls1_3"):
            self.assertIn("Verify return code: 0 (ok)", s_client(
                self.at, version, "-CAfile", self.c.admin / "root.pem", "-verify_ip", "127.0.0.1"))
        for args in (["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"], ["-tls1_2", "-cipher", "aNULL:RC4:3DES:kRSA:@SECLEVEL=0"]):
            self.assertIn("Cipher is (NONE)", s_client(self.at, *args))
        host, port = self.at.split(":")
        with socket.create_connection((host, int(port)), 10 * PATIENCE) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self.assertNotIn(b"HTTP", plain.recv(1000))
        held = [socket.create_connection((host, int(port))) for _ in range(100)]  # handshakes that do not begin
        try:
            def closed():
                return sum(s in select.select([s], [], [], 0)[0] for s in held)
            self.c.poll("64 of an address stay", lambda: closed() == 36)
            connection = http.client.HTTPSConnection(self.at, context=self.tls, source_address=("127.0.0.2", 0), timeout=1 * PATIENCE)
            connection.request("GET", "/")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
        finally:
            for s in held:
                s.close()

    def test_a_new_certificate_is_shown(self):
        def serial():
            with socket.create_connection(self.at.split(":")) as s, \
                    self.tls.wrap_socket(s, server_hostname="127.0.0.1") as t:
                return t.getpeercert()["serialNumber"].lower()
        before = serial()
        new = self.c.authority.renew("coordinator/main").lower()
        self.assertNotEqual(before, new)
        self.c.poll("the new one", lambda: serial().lstrip("0") == new.lstrip("0"))
        self.assertEqual(self.ask("/api/v1/ListJobs", {}, self.tokens[OTTO])[0], 200)

    def test_a_job_has_curves(self):
        self.c.wait_nodes(2)
        job = self.submit(SUE, **ENDLESS, workers=1)
        self.c.poll("points", lambda: len(self.ask(f"/api/v1/curves?job_id={job}", token=self.tokens[SUE])[2]["step"]) > 1)

    def test_settings(self):
        at = self.c.authority.dir_of("coordinator/main")
        for args, text in ((["--tls-dir", at], "--web 127.0.0.1:0: with --tls-dir it needs --tokens"),
                           (["--web", "0.0.0.0:0"],
                            "--web 0.0.0.0:0: other hosts could connect, and the link is not protected. Get a certificate by "
                            "'psgd pki request coordinator/NAME --host HOST --tls-dir DIR' (docs/tls.md), then start by "
                            "'psgd-coordinator --web 0.0.0.0:0 --tls-dir DIR --tokens FILE'")):
            told = subprocess.run([BIN / "psgd-coordinator", "--listen", "127.0.0.1:0", "--data-dir", self.c.folder / "no",
                                   "--web", "127.0.0.1:0", *args], capture_output=True, text=True, timeout=60, env={})
            self.assertNotEqual(told.returncode, 0)
            self.assertIn(text, told.stderr)


if __name__ == "__main__":
    sys.exit(main())
