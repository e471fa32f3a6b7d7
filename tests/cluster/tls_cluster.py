# SPDX-License-Identifier: Apache-2.0
"""tls_cluster.py - clusters whose links are mutual TLS, with an authority of their own."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from unittest import mock

import grpc

from harness import BIN, PATIENCE, Cluster, ClusterTest, coordinator_pb2_grpc

PSGD = BIN / "psgd"
DENIED = grpc.StatusCode.PERMISSION_DENIED
QUARANTINE_MIB = 16  # see small_quarantine


def psgd(*args, **options):
    return subprocess.run([PSGD, *map(str, args)], capture_output=True, text=True,
                          timeout=60 * PATIENCE, env={}, **options)


def small_quarantine():
    """Within it, services are started that keep QUARANTINE_MIB of what was freed, if AddressSanitizer is in them;
    by itself it keeps 256 MiB."""
    options = f"{os.environ.get('ASAN_OPTIONS', '')}:quarantine_size_mb={QUARANTINE_MIB}"
    return mock.patch.dict(os.environ, ASAN_OPTIONS=options)


class Authority:
    """psgd pki, with all members on this host."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-pki-"))
        self.pki = self.folder / "pki"
        self.fingerprint = self.run("init", "--pki", self.pki)["fingerprint"]

    def run(self, *args):
        done = psgd("pki", *args, "--format", "json")
        if done.returncode != 0:
            raise AssertionError(f"psgd pki {args}: {done.stderr}")
        return json.loads(done.stdout)

    def dir_of(self, principal):
        return self.folder / principal.replace("/", "-")

    def answer(self, principal, *valid):
        """Has the request that waits approved; the answer's file."""
        out = self.folder / "answer.pem"
        self.run("approve", self.dir_of(principal) / "request.pem", principal, "--pki", self.pki, "--out", out,
                 *valid)
        return out

    def join(self, principal, *valid):
        """Makes a member; its folder."""
        at = self.dir_of(principal)
        self.run("request", principal, "--host", "127.0.0.1", "--tls-dir", at)
        self.run("install", self.answer(principal, *valid), "--tls-dir", at, "--fingerprint", self.fingerprint)
        return at

    def join_expiring(self, principal):
        """Makes a member whose certificate ends in a second, which 'install' may not get to; its folder."""
        at = self.dir_of(principal)
        self.run("request", principal, "--tls-dir", at)
        own, root = re.findall("-----BEGIN CERT.*?-----END CERT[^\n]*\n",
                               self.answer(principal, "--valid", "1s").read_text(), re.S)
        (at / "root.pem").write_text(root)
        (at / "next.key").rename(at / "identity.pem")
        with open(at / "identity.pem", "a") as identity:
            identity.write(own)
        return at

    def renew(self, principal):
        """Replaces a member's key and certificate; the new serial number."""
        at = self.dir_of(principal)
        self.run("renew", "--tls-dir", at)
        return self.run("install", self.answer(principal), "--tls-dir", at)["serial"]

    def revoke(self, which):
        """Revokes, and installs the list on all members."""
        self.run("revoke", which, "--pki", self.pki)
        for at in self.folder.iterdir():
            if (at / "identity.pem").exists():
                self.run("install", self.pki / "crl.pem", "--tls-dir", at)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def credentials(at):
    identity = (at / "identity.pem").read_bytes()
    return grpc.ssl_channel_credentials((at / "root.pem").read_bytes(), identity, identity)


def s_client(address, *args):
    """What openssl sees of a handshake. Fails, with the reason, if openssl had no connection."""
    done = subprocess.run(["openssl", "s_client", "-connect", address, "-alpn", "h2", *map(str, args)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=20 * PATIENCE)
    if "CONNECTED(" not in done.stdout:
        raise AssertionError(f"openssl s_client {address}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def call_as(at, address):
    """A stub with a member's certificate, in a context."""
    @contextlib.contextmanager
    def open_():
        with grpc.secure_channel(address, credentials(at)) as channel:
            yield coordinator_pb2_grpc.CoordinatorServiceStub(channel)
    return open_()


class TlsCluster(Cluster):
    """A cluster whose members have certificates of an authority of its own."""

    def __init__(self, coordinator_args=(), has_pki=False, **options):
        self.authority = Authority()
        self.admin = self.authority.join("admin/anna")
        if has_pki:  # nodes may join, and their certificates are renewed
            coordinator_args = ["--pki", self.authority.pki, "--join-listen", "127.0.0.1:0", *coordinator_args]
        super().__init__(coordinator_args=["--tls-dir", self.authority.join("coordinator/main"), *coordinator_args],
                         **options)

    def dial(self, address):
        return grpc.secure_channel(address, credentials(self.admin))

    def add(self, role, i, extra=(), env=None):
        at = self.authority.join(f"node/{role}-{i}")
        return super().add(role, i, [*extra, "--tls-dir", at], env)

    @property
    def join_port(self):
        return int(re.search(r"nodes may join on port (\d+)", self.coordinator.log()).group(1))

    def token(self, principal, *args):
        return self.authority.run("token", principal, "--pki", self.authority.pki, "--join-port", self.join_port,
                                  *args)["token"]

    def psgd(self, *args, who=None):
        return psgd("--tls-dir", who or self.admin, "--coordinator", self.coordinator.address, *args)

    def close(self, failed=False):
        super().close(failed)
        self.authority.close()


class TlsTest(ClusterTest):
    def tls_cluster(self, **options):
        c = TlsCluster(**options)
        self.addCleanup(c.close)
        return c

    def refused(self, call, code):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()

    def stub(self, c, principal):
        """A stub of the coordinator's service as this member, which joins if it has not."""
        at = c.authority.dir_of(principal)
        if not at.exists():
            c.authority.join(principal)
        channel = grpc.secure_channel(c.coordinator.address, credentials(at))
        self.addCleanup(channel.close)
        return coordinator_pb2_grpc.CoordinatorServiceStub(channel)
