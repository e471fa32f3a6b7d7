#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_join.py - nodes that have nothing but a join token become members, and stay members by renewals."""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import grpc

from harness import BIN, PATIENCE, SLOW, SMALL, Process, coordinator_pb2 as pb, job_pb2, main, tensors
from tls_cluster import DENIED, Authority, TlsTest, credentials

SERVES_S = 10 * SLOW  # from the start of a bare node to its registration
LIFE = "20s"  # of certificates; the least that is allowed
HEX = "[0-9a-f]{64}"


def node(c, role, token, name, **options):
    """Starts a node with an empty folder and a token."""
    return Process(f"psgd-{role}", name, c.folder, ["--coordinator", c.coordinator.address, "--join", token,
                                                    "--tls-dir", c.folder / name / "tls"], **options)


def refused(c, role, *args):
    """Starts a node that must not get in; what it says."""
    with tempfile.TemporaryDirectory(prefix="psgd-join-") as folder:
        done = subprocess.run([BIN / f"psgd-{role}", "--data-dir", folder, "--coordinator", c.coordinator.address,
                               *map(str, args)], capture_output=True, text=True, timeout=30 * PATIENCE, env={})
        if done.returncode == 0 or (pathlib.Path(folder) / "tls" / "identity.pem").exists():
            raise AssertionError(f"it got in: {args}")
    return done.stderr


def join_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["psgd-join/1"])
    return context


def shakes_hands(port, source):
    """Whether the port where nodes join speaks with this address."""
    with socket.create_connection(("127.0.0.1", port), timeout=20 * PATIENCE, source_address=(source, 0)) as plain:
        try:
            join_context().wrap_socket(plain).close()
            return True
        except (ssl.SSLError, ConnectionError):
            return False


def raw(port, message, head=None):
    """Sends bytes to the port where nodes join; the answer, or None if there is none."""
    with socket.create_connection(("127.0.0.1", port), timeout=20 * PATIENCE) as plain:
        try:
            with join_context().wrap_socket(plain) as s:
                s.sendall((len(message).to_bytes(4, "big") if head is None else head) + message)
                answer = b""
                while (got := s.recv(1 << 16)):
                    answer += got
                return answer[4:] or None
        except (ssl.SSLError, ConnectionError):
            return None


class Impostor(threading.Thread):
    """A TLS server with a chain of its own; `got` is what it was sent behind a handshake."""

    def __init__(self, chain):
        super().__init__(daemon=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(chain)
        self.context.set_alpn_protocols(["psgd-join/1"])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.got = self.listener.getsockname()[1], b""

    def run(self):
        with contextlib.suppress(OSError):
            plain, _ = self.listener.accept()
            with plain, self.context.wrap_socket(plain, server_side=True) as s:
                self.got = s.recv(1000)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.join(20 * PATIENCE)
        self.listener.close()


class Join(TlsTest):
    def join_cluster(self, **options):
        return self.tls_cluster(workers=0, pservers=0, has_pki=True, **options)

    def add(self, c, role, name):
        p = node(c, role, c.token(f"node/{name}"), name)
        (c.workers if role == "worker" else c.pservers).append(p)
        return p

    def bits(self, c, job):
        job = c.wait(job.id, seconds=600)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(job.attempt, 1)
        (model,) = [data for name, data in c.files(job.id).items() if name.endswith("N(ps).safetensors")]
        return hashlib.sha256(repr(sorted(tensors(model).items())).encode()).hexdigest()

    def test_a_job_goes_through_renewals_and_its_model_has_the_same_bits(self):
        c = self.join_cluster(coordinator_args=["--node-cert-life", LIFE])
        for role, name in (("worker", "a"), ("worker", "b"), ("pserver", "s")):
            self.add(c, role, name)
        c.wait_nodes(3)
        ends = {n.id: n.certificate_expires.seconds for n in c.node_list()}
        for end in ends.values():
            self.assertLess(abs(end - time.time() - 20), 20 * SLOW)
        keys = {p.name: (p.data_dir / "tls" / "identity.pem").read_bytes() for p in c.nodes}
        expected = self.bits(c, c.submit(SMALL, workers=2, pservers=1))
        c.poll("all are idle", lambda: all(n.phase == pb.NODE_PHASE_IDLE for n in c.node_list()))
        # 8 epochs of 20 steps for two workers
        job = c.submit(SMALL, workers=2, pservers=1,
                       straggler={"name": "fixed", "params": {"rank": -1, "ms": 400}})
        self.assertEqual(self.bits(c, job), expected)
        renewed = {p.name: len(re.findall("has a new certificate", p.log())) for p in c.nodes}
        print(f"renewals: {renewed}; SHA-256 {expected[:16]}...", file=sys.stderr)
        self.assertGreaterEqual(min(renewed.values()), 3, "the job must last as long as several certificates")
        for p in c.nodes:
            identity = p.data_dir / "tls" / "identity.pem"
            self.assertNotEqual(identity.read_bytes(), keys[p.name])
            self.assertNotIn(identity.read_bytes().split(b"-----END PRIVATE")[0], keys[p.name], "a new key")
            self.assertEqual(identity.stat().st_mode & 0o777, 0o600)
            self.assertNotRegex(p.log(), "is not renewed|certificate.*refused")
        for n in c.node_list():
            self.assertGreater(n.certificate_expires.seconds, ends[n.id] + 20)
        self.assertRegex(c.psgd("nodes").stdout, "CERT UNTIL")
        methods = [json.loads(line) for line in (c.coordinator.data_dir / "audit.jsonl").read_text().splitlines()]
        self.assertEqual({m["about"] for m in methods if m["method"] == "RenewCertificate"}, {"a", "b", "s"})

    def test_who_must_not_join_is_told_why_and_audited(self):
        c = self.join_cluster()
        token = c.token("node/n")
        scheme, who, port, fingerprint, secret = token.split(":")
        self.assertRegex(fingerprint + secret, f"^[0-9A-F]{{64}}{HEX}$")
        self.add(c, "worker", "m")
        wrong = ":".join((scheme, who, port, "0" * 64, secret))
        self.assertIn("no certificate there has the fingerprint of the token", refused(c, "worker", "--join", wrong))
        guess = token[:-1] + ("0" if token[-1] != "0" else "1")
        self.assertIn("the join token is not known here", refused(c, "worker", "--join", guess))
        other = ":".join((scheme, "node/m", port, fingerprint, secret))
        self.assertIn("the join token is for node/n; the request names node/m", refused(c, "worker", "--join", other))
        short = c.token("node/n", "--valid", "1s")
        time.sleep(1.5)
        self.assertIn("the join token of node/n ended at", refused(c, "pserver", "--join", short))
        self.assertIn("psgd-join:node/NAME:PORT", refused(c, "worker", "--join", "psgd_" + secret))
        self.assertIn("--insecure exclude each other", refused(c, "worker", "--join", token, "--insecure"))
        used = node(c, "worker", token, "n")
        c.workers.append(used)
        self.assertIn("the join token of node/n was used already", refused(c, "worker", "--join", token))
        c.wait_nodes(2)
        audit = [json.loads(line) for line in (c.coordinator.data_dir / "audit.jsonl").read_text().splitlines()]
        joins = [(a["who"], a["about"], a["result"]) for a in audit if a["method"] == "Join"]
        no = "UNAUTHENTICATED"
        self.assertEqual(joins, [("node/m", "node/m", "OK"), ("nobody", "node/n", no),
                                 ("nobody", "node/m", "PERMISSION_DENIED"), ("nobody", "node/n", no),
                                 ("node/n", "node/n", "OK"), ("nobody", "node/n", no)])
        for p in (c.coordinator, *c.nodes):
            self.assertNotIn(secret, p.log())
        self.assertNotIn(secret, pathlib.Path(f"/proc/{used.process.pid}/cmdline").read_text())
        self.assertNotIn(secret, (c.authority.pki / "join-tokens").read_text())
        # The same command again: it has its certificate.
        used.stop()
        used.start()
        self.assertIn("the join token is not used", used.log())

    def test_a_request_for_more_than_the_token_says_is_refused(self):
        c = self.join_cluster()
        secret = c.token("node/n").rsplit(":", 1)[1]
        at = c.folder / "eve"
        for who in ("admin/eve", "coordinator/main", "submitter/n", "node/worker-0"):
            c.authority.run("request", who, "--tls-dir", at)
            answer = raw(c.join_port, f"psgd-join 1 {secret}\n".encode() + (at / "request.pem").read_bytes())
            self.assertEqual(answer, f"refused\nthe join token is for node/n; the request names {who}".encode())
        c.authority.run("request", "node/n", "--host", "coordinator.example", "--tls-dir", at)
        answer = raw(c.join_port, f"psgd-join 1 {secret}\n".encode() + (at / "request.pem").read_bytes())
        self.assertIn(b"names 1 hosts", answer)

    def test_who_listens_there_instead_gets_no_secret(self):
        c = self.join_cluster()
        other = Authority()
        self.addCleanup(other.close)
        for whose, principal, why in ((other, "coordinator/main", "its certificate is not taken: "),
                                      (c.authority, "node/mallory", "its certificate is of node/mallory; a coordinator"),
                                      (c.authority, "admin/mallory", "its certificate is not taken: ")):
            at = whose.join(principal)
            chain = c.folder / "chain.pem"  # with the true root behind it
            chain.write_bytes((at / "identity.pem").read_bytes() + (c.admin / "root.pem").read_bytes())
            with Impostor(chain) as impostor:
                token = c.authority.run("token", "node/n", "--pki", c.authority.pki, "--join-port",
                                        impostor.port)["token"]
                self.assertIn(why, refused(c, "worker", "--join", token))
            self.assertEqual(impostor.got, b"", "it was sent something")

    def test_junk_and_guesses_are_bounded_and_honest_calls_answered(self):
        c = self.join_cluster()
        port, held = c.join_port, []
        for _ in range(20):  # silent ones: eight of an address are kept
            held.append(socket.create_connection(("127.0.0.1", port)))
        time.sleep(0.3)
        self.assertIsNone(raw_or_none(port, b"x"))
        for s in held:
            s.close()
        self.assertIn(b"no request to join", poll_raw(c, port, b"junk"))
        self.assertIsNone(raw(port, b"", (1 << 31).to_bytes(4, "big")))
        self.assertIsNone(raw(port, b"", bytes(4)))
        plain = socket.create_connection(("127.0.0.1", port))
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        plain.settimeout(20 * PATIENCE)
        with contextlib.suppress(ConnectionError):
            while plain.recv(1000):
                pass
        plain.close()
        began = time.monotonic()
        self.assertEqual(c.psgd("list").returncode, 0)
        self.assertLess(time.monotonic() - began, 5 * SLOW)
        for _ in range(10):
            raw(port, b"psgd-join 1 " + b"0" * 64 + b"\n")
        self.assertIsNone(raw(port, b"psgd-join 1 " + b"0" * 64 + b"\n"), "beyond ten refusals an address waits")
        c.poll("it is logged", lambda: "requests to join were refused; the address" in c.coordinator.log())

    def test_an_address_that_connects_again_and_again_is_put_off(self):
        c = self.join_cluster()
        port = c.join_port
        for _ in range(600):
            socket.create_connection(("127.0.0.1", port), source_address=("127.0.9.9", 0)).close()
        c.poll("another address is served", lambda: shakes_hands(port, "127.0.9.8"))
        self.assertFalse(shakes_hands(port, "127.0.9.9"))
        self.assertIn("further ones of the address of 127.0.9.9", c.coordinator.log())

    def test_a_revoked_node_gets_no_other_certificate(self):
        c = self.join_cluster(coordinator_args=["--node-cert-life", LIFE])
        self.add(c, "worker", "n")
        c.wait_nodes(1)
        # At the authority alone: the coordinator's own list would cut the node off at once.
        c.authority.run("revoke", "node/n", "--pki", c.authority.pki)
        c.poll("the renewal is refused", lambda: re.search("is not renewed: the certificate [0-9A-F]+ of node/n was "
                                                           "revoked", c.workers[0].log()), 60 * PATIENCE)
        self.assertNotIn("has a new certificate", c.workers[0].log())

    def test_one_command_beside_the_coordinator_puts_a_node_out(self):
        c = self.join_cluster()
        self.add(c, "worker", "n")
        c.wait_nodes(1)
        began = time.monotonic()
        told = c.authority.run("revoke", "node/n", "--pki", c.authority.pki, "--tls-dir",
                               c.authority.dir_of("coordinator/main"))
        self.assertEqual(told["revoked"], 1)
        c.poll("the node is out", lambda: not any(n.alive for n in c.node_list()))
        self.assertLess(time.monotonic() - began, 5 * SLOW)

    def test_revoking_a_node_ends_the_tokens_that_wait(self):
        c = self.join_cluster()
        token = c.token("node/n")
        told = c.authority.run("revoke", "node/n", "--pki", c.authority.pki, "--tls-dir",
                               c.authority.dir_of("coordinator/main"))
        self.assertEqual((told["revoked"], told["join_tokens"]), (0, 1))
        self.assertIn("the join token of node/n ended at", refused(c, "worker", "--join", token))

    def test_who_has_keys_or_tokens_writes_no_core_dump(self):
        before = resource.getrlimit(resource.RLIMIT_CORE)
        if before[1] == 0:
            self.skipTest("no process here may write a core dump")
        resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, before)
        c = self.join_cluster()
        self.add(c, "worker", "w")
        self.add(c, "pserver", "s")
        c.wait_nodes(2)
        for p in (c.coordinator, *c.nodes):
            limits = pathlib.Path(f"/proc/{p.process.pid}/limits").read_text()
            self.assertRegex(limits, r"Max core file size +0 +0 ", p.name)

    def test_a_node_renews_nothing_but_its_own(self):
        c = self.join_cluster()
        for name in ("n", "m"):
            self.add(c, "worker", name)
        c.wait_nodes(2)
        c.authority.run("request", "node/m", "--tls-dir", c.folder / "m2")
        request = (c.folder / "m2" / "request.pem").read_text()
        with grpc.secure_channel(c.coordinator.address, credentials(c.workers[0].data_dir / "tls")) as channel:
            renew = channel.unary_unary("/psgd.v1.CoordinatorService/RenewCertificate",
                                        pb.RenewCertificateRequest.SerializeToString,
                                        pb.RenewCertificateResponse.FromString)
            for name, text in (("m", "speaks for itself only"), ("n", "renewing it changes neither")):
                why = self.refused(lambda: renew(pb.RenewCertificateRequest(node_id=name, request=request),
                                                 timeout=20 * PATIENCE), DENIED)
                self.assertIn(text, why)
            why = self.refused(lambda: renew(pb.RenewCertificateRequest(node_id="n", request=request), timeout=20),
                               grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertIn("a twentieth of --node-cert-life", why)

    def test_without_tls_there_is_no_authority(self):
        for args in (["--pki", "pki"], ["--join-listen", "127.0.0.1:0", "--pki", "pki"]):
            done = subprocess.run([BIN / "psgd-coordinator", "--listen", "127.0.0.1:0", *args], capture_output=True,
                                  text=True, timeout=20 * PATIENCE, env={"HOME": "/nonexistent"})
            self.assertEqual(done.returncode, 4)
            self.assertIn("--pki needs --tls-dir", done.stderr)


def raw_or_none(port, message):
    with contextlib.suppress(OSError):
        return raw(port, message)
    return None


def poll_raw(c, port, message):
    answer = []

    def ask():
        answer.append(raw_or_none(port, message))
        return answer[-1] is not None
    c.poll("the address may join again", ask)
    return answer[-1]


class TwoHosts(TlsTest):
    """The coordinator on one host and a bare one that joins: two network namespaces, or else two folders."""

    def setUp(self):
        super().setUp()
        self.spaces = [f"psgdjoin{os.getpid()}{side}" for side in "ab"]
        self.addCleanup(self.remove)
        self.has_spaces = os.geteuid() == 0 and all(self.ip(*command.split()) for command in (
            f"netns add {self.spaces[0]}", f"netns add {self.spaces[1]}",
            f"-n {self.spaces[0]} link add eth0 type veth peer name eth0 netns {self.spaces[1]}",
            *(f"-n {space} addr add 10.78.0.{i + 1}/24 dev eth0" for i, space in enumerate(self.spaces)),
            *(f"-n {space} link set {link} up" for space in self.spaces for link in ("lo", "eth0"))))
        if not self.has_spaces:
            print("network namespaces are not permitted: two folders instead", file=sys.stderr)
        self.address = "10.78.0.1" if self.has_spaces else "127.0.0.1"

    @staticmethod
    def ip(*args):
        with contextlib.suppress(OSError):
            return subprocess.run(["ip", *args], capture_output=True).returncode == 0
        return False

    def remove(self):
        for space in self.spaces:
            self.ip("netns", "del", space)

    def on(self, side):
        return ["ip", "netns", "exec", self.spaces[side]] if self.has_spaces else []

    def test_one_pasted_line_on_a_bare_host(self):
        c = self.tls_cluster(workers=0, pservers=0, has_pki=True)  # for its authority
        at = c.authority.dir_of("coordinator/main")
        place = {"within": self.on(0), "host": self.address, "port": 15386 if self.has_spaces else 0}
        port = 15389 if self.has_spaces else 0
        here = Process("psgd-coordinator", "here", c.folder,
                       ["--tls-dir", at, "--pki", c.authority.pki, "--join-listen", f"{self.address}:{port}"], **place)
        self.addCleanup(here.stop)
        join_port = re.search(r"nodes may join on port (\d+)", here.log()).group(1)
        folder, programs = c.folder / "bare", []
        folder.mkdir()

        def stop():
            for p in programs:
                p.terminate()
            for p in programs:
                p.wait(30)
        self.addCleanup(stop)
        for role in ("worker", "pserver"):
            token = c.authority.run("token", f"node/far-{role}", "--pki", c.authority.pki, "--join-port",
                                    join_port)["token"]
            log = open(folder / f"{role}.log", "w+")
            began = time.monotonic()
            programs.append(subprocess.Popen(  # the pasted line, as the manual has it
                [*self.on(1), BIN / f"psgd-{role}", "--join", token, "--coordinator", here.address],
                stdout=log, stderr=log, env={"HOME": str(folder)}))
            self.wait_for(c, here, log.name)
            took = time.monotonic() - began
            print(f"psgd-{role}: a bare host serves after {took:.2f} s", file=sys.stderr)
            self.assertLess(took, SERVES_S)
            log.close()
        keys = list(folder.glob(".local/state/psgd/*/tls/identity.pem"))
        self.assertEqual(len(keys), 2)
        for key in keys:
            self.assertEqual(key.stat().st_mode & 0o777, 0o600)
            self.assertFalse((key.parent / "next.key").exists())
        spec = c.folder / "job.json"
        spec.write_text(json.dumps({**SMALL, "workers": 1, "pservers": 1}))
        told = subprocess.run([*self.on(0), BIN / "psgd", "--tls-dir", c.admin, "--coordinator", here.address,
                               "submit", "--watch", spec], capture_output=True, text=True,
                              timeout=200 * PATIENCE, env={})
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)

    def wait_for(self, c, here, log):
        """Until the node of this log is registered."""
        c.poll("it is registered", lambda: "registered with" in pathlib.Path(log).read_text())


if __name__ == "__main__":
    sys.exit(main())
