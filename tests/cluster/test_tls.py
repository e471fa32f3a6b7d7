#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_tls.py - clusters whose links are mutual TLS: what runs over them, and who is kept out."""
import hashlib
import json
import pathlib
import re
import select
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

import grpc
from google.protobuf import json_format

from harness import (BIN, ENDLESS, PATIENCE, ROOT, SMALL, Cluster, Process, coordinator_pb2,
                     coordinator_pb2_grpc, job_pb2, main, tensors)
from tls_cluster import DENIED, Authority, TlsCluster, TlsTest, call_as, credentials, psgd, s_client


class Links(TlsTest):
    def test_the_tutorial_has_the_bits_of_one_in_plaintext(self):
        models = []
        for make in (self.cluster, self.tls_cluster):
            c = make(workers=2, pservers=1)
            c.wait_nodes(3)
            flags = ["--tls-dir", c.admin] if isinstance(c, TlsCluster) else []
            told = psgd(*flags, "--coordinator", c.coordinator.address, "submit", "--preset", "tutorial-glyphs",
                        "--workers", 2, "--pservers", 1, "--epochs", 1, "--format", "json", "--watch")
            self.assertEqual(told.returncode, 0, told.stderr)
            # The job's id is in the metadata of a model, so its tensors are compared.
            models.append({name: hashlib.sha256(repr(sorted(tensors(data).items())).encode()).hexdigest()
                           for name, data in c.files(json.loads(told.stdout)["id"]).items()
                           if name.endswith(".safetensors")})
        self.assertEqual(len(models[0]), 2)
        self.assertEqual(*models)

    def test_workers_of_a_mesh_speak_tls_too(self):
        c = self.tls_cluster(workers=2, pservers=0)
        c.wait_nodes(2)
        job = c.wait(c.submit(SMALL, workers=2, pservers=0, exchange={"name": "ring"}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)

    def test_certificates_change_while_a_job_trains(self):
        c = self.tls_cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        job = c.submit(ENDLESS, workers=2, pservers=1)
        c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        members = {"coordinator/main": c.coordinator, **{f"node/{p.name}": p for p in c.nodes}}
        for _ in range(3):
            for who, process in members.items():
                serial = c.authority.renew(who)
                c.poll(f"{who} shows its new certificate",
                       lambda: self.serial_of(c, process.address) == serial)
        step = c.get(job.id).progress.step
        job = c.wait(job.id, lambda job: job.progress.step > step + 100)
        self.assertEqual(job.state, job_pb2.JOB_STATE_RUNNING, job.message)
        self.assertEqual(job.attempt, 1)
        for p in (c.coordinator, *c.nodes):
            self.assertNotIn("refused", p.log())
        # A node that connects anew does so with the new certificate.
        c.coordinator.stop()
        c.restart_coordinator()
        c.wait(job.id, lambda now: now.progress.step > step + 200)

    @staticmethod
    def serial_of(c, address):
        at = c.admin / "identity.pem"
        shown = s_client(address, "-cert", at, "-key", at, "-CAfile", c.admin / "root.pem", "-showcerts")
        pem = re.search(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", shown, re.S)
        text = subprocess.run(["openssl", "x509", "-noout", "-serial"], input=pem.group() if pem else "",
                              capture_output=True, text=True).stdout
        return text.strip().removeprefix("serial=")

    def test_tls_is_1_2_or_1_3_with_h2(self):
        c = self.tls_cluster(workers=1, pservers=0)
        at = c.admin / "identity.pem"
        for process in (c.coordinator, c.workers[0]):
            for version, expected in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
                shown = s_client(process.address, version, "-cert", at, "-key", at, "-CAfile", c.admin / "root.pem")
                self.assertIn(f"New, {expected}, Cipher is ", shown)
                self.assertIn("ALPN protocol: h2", shown)
                self.assertIn("Verify return code: 0 (ok)", shown)
            for version in ("-tls1", "-tls1_1"):
                self.assertIn("New, (NONE), Cipher is (NONE)",
                              s_client(process.address, version, "-cipher", "ALL:@SECLEVEL=0"))

    def test_the_python_client_speaks_tls(self):
        c = self.tls_cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        spec = c.folder / "job.json"
        spec.write_text(json.dumps({**SMALL, "epochs": 1, "workers": 1}))
        done = subprocess.run(
            ["/usr/bin/python3", ROOT / "clients/examples/python/psgd_client.py", "--coordinator",
             c.coordinator.address, "--tls-dir", c.admin, "--output", c.folder / "out", spec],
            capture_output=True, text=True, timeout=120 * PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("JOB_STATE_DONE", done.stdout)

    def test_a_user_may_call_again_and_again(self):
        c = self.tls_cluster(workers=0, pservers=0)
        for _ in range(60):
            told = c.psgd("list")
            self.assertEqual(told.returncode, 0, told.stderr)


    def test_a_command_makes_one_connection(self):
        c = self.tls_cluster(workers=0, pservers=0)
        host, port = c.coordinator.address.rsplit(":", 1)
        seen = []

        class Relay(socketserver.BaseRequestHandler):
            def handle(self):
                seen.append(self.client_address)
                with socket.create_connection((host, int(port))) as there:
                    ends = {self.request: there, there: self.request}
                    while True:
                        for end in select.select(list(ends), [], [])[0]:
                            if not (some := end.recv(65536)):
                                return
                            ends[end].sendall(some)

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as relay:
            relay.daemon_threads = True
            threading.Thread(target=relay.serve_forever, daemon=True).start()
            told = psgd("--tls-dir", c.admin, "--coordinator", f"127.0.0.1:{relay.server_address[1]}", "list")
            relay.shutdown()
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertEqual(len(seen), 1)

    def test_a_folder_that_is_gone_is_said_once(self):
        c = self.tls_cluster(workers=0, pservers=0)
        folder = pathlib.Path(re.search(r"--tls-dir (\S+)", " ".join(map(str, c.coordinator.args))).group(1))
        shutil.move(folder, c.folder / "moved")
        since = c.coordinator.log_end()
        said = "root.pem and identity.pem in "
        c.poll("the folder is missed", lambda: said in c.coordinator.log(since))
        time.sleep(7)  # three more looks at it
        log = c.coordinator.log(since)
        self.assertEqual((log.count(said), log.count('"room":"grpc"')), (1, 0), log)
        self.assertEqual(c.psgd("list").returncode, 0)  # by those that were read before


class Strangers(TlsTest):
    def test_who_has_no_good_certificate_is_refused_and_told_why(self):
        c = self.tls_cluster(workers=0, pservers=0)
        other = Authority()
        self.addCleanup(other.close)
        eve = other.join("admin/eve")
        old = c.authority.join_expiring("admin/old")
        c.authority.join("admin/known")
        c.poll("the certificate has expired", lambda: c.psgd("list", who=old).returncode)

        told = c.psgd("list", who=eve)
        self.assertEqual(told.returncode, 1, told.stderr)
        self.assertIn("its certificate is not taken here: self-signed certificate in certificate chain", told.stderr)
        told = c.psgd("list", who=old)
        self.assertIn("the certificate expired at 20", told.stderr)
        self.assertIn("'psgd pki renew'", told.stderr)

        # Without psgd's own checks: by a root that is right and a certificate that is not.
        root = c.admin / "root.pem"
        for at, why in ((eve, "unknown ca|verify failed"), (old, "certificate (has )?expired|verify failed")):
            since = c.coordinator.log_end()
            identity = at / "identity.pem"
            s_client(c.coordinator.address, "-cert", identity, "-key", identity, "-CAfile", root)
            line = c.poll("the refusal is logged", lambda: re.search(
                rf"a client at 127\.0\.0\.1:\d+ is refused: .*({why})", c.coordinator.log(since)))
            self.assertTrue(line)
        since = c.coordinator.log_end()
        s_client(c.coordinator.address, "-CAfile", root)
        c.poll("a client without a certificate is logged", lambda: re.search(
            r"a client at 127\.0\.0\.1:\d+ is refused: peer did not return a certificate", c.coordinator.log(since)))

    def test_plaintext_gets_nowhere(self):
        c = self.tls_cluster(workers=0, pservers=0)
        told = psgd("--coordinator", c.coordinator.address, "--timeout", "2s", "list")
        self.assertEqual(told.returncode, 2, told.stderr)
        self.assertIn("If it speaks TLS, say --tls-dir DIR", told.stderr)
        with grpc.insecure_channel(c.coordinator.address) as channel:
            stub = coordinator_pb2_grpc.CoordinatorServiceStub(channel)
            self.refused(lambda: stub.ListJobs(coordinator_pb2.ListJobsRequest(), timeout=10 * PATIENCE),
                         grpc.StatusCode.UNAVAILABLE)

    def test_a_service_without_tls_is_named(self):
        c = self.cluster(workers=0, pservers=0)
        authority = Authority()
        self.addCleanup(authority.close)
        told = psgd("--tls-dir", authority.join("admin/anna"), "--coordinator", c.coordinator.address, "list")
        self.assertEqual(told.returncode, 1)
        self.assertIn(f"coordinator: {c.coordinator.address}: it does not speak TLS; start it with --tls-dir",
                      told.stderr)

    def test_who_was_revoked_is_out(self):
        c = self.tls_cluster(workers=1, pservers=0)
        c.wait_nodes(1)
        c.authority.revoke("node/worker-0")
        c.poll("the node is lost", lambda: not any(n.alive for n in c.node_list()))
        c.poll("it says why", lambda: re.search(
            r"the certificate [0-9A-F]+ of node/worker-0 was revoked", c.workers[0].log()))
        c.authority.join("node/worker-1")
        told = c.psgd("nodes")
        self.assertEqual(told.returncode, 0, told.stderr)  # others are not


class Services(TlsTest):
    def start(self, program, *args):
        folder = tempfile.mkdtemp(prefix="psgd-tls-")
        self.addCleanup(shutil.rmtree, folder, True)
        return subprocess.run([BIN / program, "--data-dir", folder + "/data", *map(str, args)], capture_output=True,
                              text=True, timeout=20 * PATIENCE, env={})

    def test_other_hosts_need_tls(self):
        for program, kind in (("psgd-coordinator", "coordinator"), ("psgd-worker", "node"), ("psgd-pserver", "node")):
            told = self.start(program, "--listen", "0.0.0.0:0")
            self.assertEqual(told.returncode, 4, told.stderr)
            self.assertIn("--listen 0.0.0.0:0: other hosts could connect, and the link is not protected", told.stderr)
            self.assertIn(f"psgd pki request {kind}/NAME --host HOST --tls-dir DIR", told.stderr)
            self.assertIn(f"{program} --listen 0.0.0.0:0 --tls-dir DIR", told.stderr)
            self.assertIn("--insecure does without a certificate", told.stderr)
            self.assertNotIn("\\n", told.stderr)

    def test_insecure_is_shown(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-tls-"))
        self.addCleanup(shutil.rmtree, folder, True)
        coordinator = Process("psgd-coordinator", "c", folder, ["--advertise", "127.0.0.1"], host="0.0.0.0")
        self.addCleanup(coordinator.stop)
        at = f"127.0.0.1:{coordinator.port}"
        worker = Process("psgd-worker", "w", folder, ["--coordinator", at, "--advertise", "127.0.0.1"], host="0.0.0.0")
        self.addCleanup(worker.stop)
        self.assertIn("links       INSECURE", psgd("--coordinator", at, "info").stdout)
        deadline = time.monotonic() + 20 * PATIENCE
        while "INSECURE" not in (shown := psgd("--coordinator", at, "nodes").stdout):
            self.assertLess(time.monotonic(), deadline, shown)
            Cluster.pause()

    def test_a_service_says_what_is_wrong_with_its_folder(self):
        authority = Authority()
        self.addCleanup(authority.close)
        node = authority.join("node/worker-1")
        told = self.start("psgd-coordinator", "--tls-dir", node, "--listen", "127.0.0.1:0")
        self.assertIn("its certificate is of node/worker-1; psgd-coordinator needs one of coordinator/NAME",
                      told.stderr)
        told = self.start("psgd-worker", "--tls-dir", node, "--listen", "127.0.0.1:0", "--node-id", "worker-2")
        self.assertIn("--node-id worker-2: the certificate in --tls-dir is of node/worker-1", told.stderr)
        (node / "identity.pem").chmod(0o644)
        told = self.start("psgd-worker", "--tls-dir", node, "--listen", "127.0.0.1:0")
        self.assertIn("identity.pem: it has a private key and mode 0644; 0600 is allowed", told.stderr)
        told = self.start("psgd-worker", "--tls-dir", authority.folder, "--listen", "127.0.0.1:0")
        self.assertIn("root.pem", told.stderr)
        told = self.start("psgd-worker", "--tls-dir", node, "--insecure", "--listen", "127.0.0.1:0")
        self.assertIn("--tls-dir and --insecure exclude each other", told.stderr)


class Principals(TlsTest):
    def test_each_kind_may_do_what_its_work_needs(self):
        c = self.tls_cluster(workers=0, pservers=0)
        at = c.coordinator.address
        spec = job_pb2.JobSpec()
        submit = coordinator_pb2.SubmitJobRequest(spec=spec)
        list_ = coordinator_pb2.ListJobsRequest()
        log = coordinator_pb2.GetNodeLogRequest(node_id="worker-0")
        beat = coordinator_pb2.HeartbeatRequest(node_id="worker-0")
        allowed = {"admin/anna": "submit list log", "submitter/sue": "submit list", "observer/otto": "list",
                   "node/worker-0": "beat", "coordinator/main": "list"}  # its page follows the curves of all jobs
        for who, may in allowed.items():
            folder = c.authority.dir_of(who)
            if not folder.exists():
                c.authority.join(who)
            with call_as(folder, at) as api:
                for name, call in (("submit", lambda: api.SubmitJob(submit, timeout=10 * PATIENCE)),
                                   ("list", lambda: api.ListJobs(list_, timeout=10 * PATIENCE)),
                                   ("log", lambda: api.GetNodeLog(log, timeout=10 * PATIENCE)),
                                   ("beat", lambda: api.Heartbeat(beat, timeout=10 * PATIENCE))):
                    code = grpc.StatusCode.OK
                    try:
                        call()
                    except grpc.RpcError as e:
                        code = e.code()
                    self.assertEqual(code != DENIED, name in may.split(), f"{who} {name}: {code}")
                if who == "observer/otto":
                    self.assertEqual(self.refused(lambda: api.SubmitJob(submit), DENIED),
                                     "observer/otto may not call SubmitJob; allowed: admin, submitter")

    def test_a_node_speaks_for_itself_only(self):
        c = self.tls_cluster(workers=1, pservers=0)
        c.wait_nodes(1)
        mallory = c.authority.join("node/mallory")
        with call_as(mallory, c.coordinator.address) as api:
            for call in (lambda: api.RegisterNode(coordinator_pb2.RegisterNodeRequest(
                             node_id="worker-0", incarnation=1 << 63, role=job_pb2.NODE_ROLE_WORKER,
                             address="127.0.0.1:1")),
                         lambda: api.Heartbeat(coordinator_pb2.HeartbeatRequest(node_id="worker-0", leaving=True)),
                         lambda: api.Ready(coordinator_pb2.ReadyRequest(node_id="worker-0"))):
                told = self.refused(call, DENIED)
                self.assertEqual(told, "node_id: worker-0; the certificate is of node/mallory, "
                                       "which speaks for itself only")
        self.assertTrue(all(n.alive for n in c.node_list()))

    def test_a_worker_is_who_was_placed_at_its_rank(self):
        from psgd.v1 import parameter_pb2, parameter_pb2_grpc, peer_pb2, peer_pb2_grpc

        c = self.tls_cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        mallory = c.authority.join("node/mallory")
        pushed, exchanged = parameter_pb2.PushGradientRequest, peer_pb2.ExchangeRequest
        for fields, process, call in (
                ({"pservers": 1}, c.pservers[0], lambda channel, who: parameter_pb2_grpc.ParameterServiceStub(
                    channel).PushGradient(iter([pushed(worker=who, attempt=1)]))),
                ({"pservers": 0, "exchange": {"name": "ring"}}, c.workers[1], lambda channel, who:
                 peer_pb2_grpc.PeerServiceStub(channel).Exchange(iter([exchanged(worker=who, attempt=1, to=1)])))):
            job = c.submit(ENDLESS, workers=2, **fields)
            job = c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
            spec = re.sub(r': "(\d+)"', r": \1", json_format.MessageToJson(job.spec))
            plan = subprocess.run([BIN.parent / "tests/layout_hash"], capture_output=True, input=spec.encode())
            who = parameter_pb2.WorkerIdentity(job_id=job.id, rank=0, incarnation=1 << 62,
                                               layout_hash=int(plan.stdout, 16))
            with grpc.secure_channel(process.address, credentials(mallory)) as channel:
                told = self.refused(lambda: list(call(channel, who)), DENIED)
            self.assertRegex(told, r"worker\.rank: 0 is on node/worker-\d; the certificate is of node/mallory")
            step = c.get(job.id).progress.step
            c.wait(job.id, lambda job: job.progress.step > step + 10)  # the honest stream is still there
            c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
            c.wait(job.id)
            c.wait_idle()

    def test_a_node_takes_orders_of_a_coordinator_only(self):
        from harness import node_pb2, node_pb2_grpc

        c = self.tls_cluster(workers=1, pservers=0)
        with c.dial(c.workers[0].address) as channel:
            stub = node_pb2_grpc.NodeServiceStub(channel)
            self.refused(lambda: stub.Abort(node_pb2.AbortRequest(job_id="j", attempt=1)), DENIED)
            stub.GetStatus(node_pb2.GetStatusRequest(), timeout=10 * PATIENCE)


if __name__ == "__main__":
    sys.exit(main())
