# SPDX-License-Identifier: Apache-2.0
"""ha_cluster.py - several coordinators on one etcd, for the tests of them.

etcd is Debian's (etcd-server), started here with its data in a temporary folder.
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

import grpc
from google.protobuf import json_format

import harness
from harness import (FINAL, PATIENCE, SLOW, SMALL, ClusterTest, coordinator_pb2, coordinator_pb2_grpc,
                     free_ports, job_pb2)

LEASE_S = 2
# The next leader: the lease, a look of each candidate, and the time to read the registry. On a
# machine at rest; this one may have other work, and PSGD_HA_STRICT says that it has none.
TAKEOVER_S = 3 * SLOW * (1 if os.environ.get("PSGD_HA_STRICT") else PATIENCE)
DONE, CANCELLED = job_pb2.JOB_STATE_DONE, job_pb2.JOB_STATE_CANCELLED
SHORT = {**SMALL, "epochs": 1, "data": {"name": "glyphs", "trainLimit": 200, "testLimit": 50}}
# Trains for some ten seconds, whatever the machine.
PACED = {**SMALL, "title": "paced", "epochs": 5,
         "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 50}}}


class Certificates:
    """An authority and certificates for loopback, by openssl, in a folder."""

    def __init__(self, folder):
        self.folder, self.ca, self.known = folder, folder / "ca.pem", {}
        folder.mkdir()
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                     "2", "-subj", "/CN=authority", "-keyout", folder / "ca.key", "-out", self.ca)

    @staticmethod
    def openssl(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)

    def of(self, name, days=2):
        """(certificate, key) of this name, made when it is first asked for."""
        if name not in self.known:
            cert, key, request, more = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr", "ext"))
            more.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n")
            self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                         f"/CN={name}", "-keyout", key, "-out", request)
            self.openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key",
                         "-CAcreateserial", "-days", days, "-extfile", more, "-out", cert)
            self.known[name] = (cert, key)
        return self.known[name]

    def args(self, name):
        """What a coordinator of this name is told."""
        return ["--etcd-ca", self.ca, "--etcd-cert", self.of(name)[0], "--etcd-key", self.of(name)[1]]


def quiet_folder():
    """Where etcd's files are to be: in memory, if there is room. Else a second in which other tests
    have the disk, as when packages are installed, takes the leadership from a coordinator."""
    memory = "/dev/shm"
    has_room = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30
    return memory if has_room else None


class Etcd:
    """A cluster of etcd with `count` members; `place(i)`: the host of a member, and a command that
    runs it there, if it is not to be on loopback; `tls`: the Certificates of TLS with its clients."""

    def __init__(self, count=1, place=None, tls=None):
        self.tls, self.scheme = tls, "https" if tls else "http"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-etcd-", dir=quiet_folder()))
        ports = free_ports(2 * count) if place is None else [2379] * count + [2380] * count
        place = place or (lambda i: ("127.0.0.1", []))
        hosts = [place(i)[0] for i in range(count)]
        self.within = [place(i)[1] for i in range(count)]
        self.clients, self.peers = ([f"{h}:{p}" for h, p in zip(hosts, some)]
                                    for some in (ports[:count], ports[count:]))
        self.members = [None] * count
        for i in range(count):
            self.start(i)
        self.url = ("etcds://" if tls else "etcd://") + ",".join(self.clients)
        self.wait()

    def metric(self, i, *parts):
        """The sum of the figures that member `i` shows of itself in lines with all of these parts."""
        with urllib.request.urlopen(f"http://{self.clients[i]}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line[0] != "#" and all(p in line for p in parts))

    def start(self, i):
        peer, client = f"http://{self.peers[i]}", f"{self.scheme}://{self.clients[i]}"
        tls = ["--client-cert-auth", "--trusted-ca-file", self.tls.ca, "--cert-file", self.tls.of("etcd")[0],
               "--key-file", self.tls.of("etcd")[1]] if self.tls else []
        log = open(self.folder / f"etcd-{i}.log", "ab")
        self.members[i] = subprocess.Popen(
            [*self.within[i], "etcd", "--name", f"m{i}", "--data-dir", self.folder / f"m{i}", "--logger", "zap",
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--listen-client-urls", client, "--advertise-client-urls", client,
             "--initial-cluster", ",".join(f"m{k}=http://{p}" for k, p in enumerate(self.peers)),
             *tls],
            stdout=log, stderr=log)
        log.close()

    def ctl(self, *args):
        return subprocess.run(
            ["etcdctl", "--endpoints", ",".join(f"{self.scheme}://{c}" for c in self.clients),
             *(["--cacert", self.tls.ca, "--cert", self.tls.of("user")[0], "--key", self.tls.of("user")[1]]
               if self.tls else []), *args],
            env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, text=True)

    def wait(self, seconds=20):
        deadline = time.monotonic() + seconds * PATIENCE
        while self.ctl("endpoint", "health").returncode != 0:
            if time.monotonic() > deadline:
                raise AssertionError("etcd does not start: " + (self.folder / "etcd-0.log").read_text()[-2000:])
            harness.Cluster.pause()

    def signal(self, signo):
        for m in self.members:
            m.send_signal(signo)

    def kill(self):
        for m in self.members:
            if m.poll() is None:
                m.kill()
            m.wait()

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class HaCluster(harness.Cluster):
    """Several coordinators on one etcd, with nodes that follow the leader. `place` is as for
    harness.Cluster."""

    def __init__(self, etcd, coordinators=2, workers=2, pservers=1, extra=(), place=None, is_led=True):
        self.place, self.node_args, self.node_data, self.node_env = (
            place or (lambda name: {}), [], None, lambda name: {})
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-cluster-"))
        self.coordinators = [harness.Process(
            "psgd-coordinator", f"coordinator-{i}", self.folder,
            ["--registry", etcd.url, "--leader-lease", f"{LEASE_S}s", "--heartbeat", "200ms",
             "--lease", f"{int(5000 * SLOW)}ms", *extra], port=port,
            data_dir=self.folder / "shared", **self.place(f"coordinator-{i}"))
            for i, port in enumerate([15386] * coordinators if place else free_ports(coordinators))]
        self.list = ",".join(c.address for c in self.coordinators)
        self.channels = {c.address: self.dial(c.address) for c in self.coordinators}
        if is_led:
            self.leader()
        self.pservers = [self.add("pserver", i) for i in range(pservers)]
        self.workers = [self.add("worker", i) for i in range(workers)]

    def add(self, role, i, extra=(), env=None):
        return harness.Process(f"psgd-{role}", f"{role}-{i}", self.folder,
                               ["--coordinator", self.list, "--node-id", f"{role}-{i}", *extra],
                               **self.place(f"{role}-{i}"))

    def stub(self, coordinator):
        return coordinator_pb2_grpc.CoordinatorServiceStub(self.channels[coordinator.address])

    def leads(self, coordinator):
        if coordinator.process.poll() is not None:
            return False
        try:
            self.stub(coordinator).GetServerInfo(coordinator_pb2.GetServerInfoRequest(),
                                                 timeout=0.3 * PATIENCE)
            return True
        except grpc.RpcError:
            return False

    def leader(self, seconds=20, but=None):
        """The coordinator that leads; also sets `api` to it."""
        end = time.monotonic() + seconds * PATIENCE
        while time.monotonic() < end:
            for c in self.coordinators:
                if c is not but and self.leads(c):
                    self.coordinator, self.api = c, self.stub(c)
                    return c
            self.pause()
        raise AssertionError(f"nobody leads after {seconds * PATIENCE} s\n" +
                             "\n".join(c.log()[-2000:] for c in self.coordinators))

    def call(self, method, request, seconds=20):
        """Calls whoever leads, until it answers."""
        end = time.monotonic() + seconds * PATIENCE
        while True:
            for c in self.coordinators:
                try:
                    return getattr(self.stub(c), method)(request, timeout=2 * PATIENCE)
                except grpc.RpcError as e:
                    if e.code() not in (grpc.StatusCode.UNAVAILABLE,
                                        grpc.StatusCode.DEADLINE_EXCEEDED,
                                        grpc.StatusCode.CANCELLED):
                        raise
                    if time.monotonic() > end:
                        raise
            self.pause()

    def get(self, job_id):
        return self.call("GetJob", coordinator_pb2.GetJobRequest(job_id=job_id)).job

    def node_list(self):
        return self.call("ListNodes", coordinator_pb2.ListNodesRequest()).nodes

    def submit(self, spec=None, request_id="", no_queue=False, **fields):
        spec = json_format.ParseDict({**(spec or {}), **fields}, job_pb2.JobSpec())
        return self.call("SubmitJob", coordinator_pb2.SubmitJobRequest(
            spec=spec, request_id=request_id, no_queue=no_queue)).job

    def wait(self, job_id, until=lambda job: job.state in FINAL, seconds=60):
        return self.poll(f"job {job_id}", lambda: (lambda j: j if until(j) else None)(
            self.get(job_id)), seconds)

    def close(self, failed=False):
        for channel in self.channels.values():
            channel.close()
        for p in [*self.workers, *self.pservers, *self.coordinators]:
            if p.process.poll() is None:
                with contextlib.suppress(AssertionError):
                    p.stop()
            p.process.stdout.close()
        if failed:
            for p in [*self.coordinators, *self.nodes]:
                print(f"--- {p.name}\n{p.log()[-2500:]}", file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)


@unittest.skipUnless(shutil.which("etcd") and shutil.which("etcdctl"), "no etcd-server, etcd-client")
class HaTest(ClusterTest):
    def etcd(self, count=1, place=None, tls=None):
        etcd = Etcd(count, place, tls)
        self.addCleanup(etcd.close)
        return etcd

    def cluster(self, etcd, **options):
        c = HaCluster(etcd, **options)
        self.addCleanup(lambda: c.close(bool(self._outcome.result.failures + self._outcome.result.errors)))
        return c

    def must_have_run_once(self, c, job_id):
        """Events of a job: numbers ascend, one attempt trained, and it ended once."""
        sequence, running, final = 0, set(), 0
        for event in c.stub(c.leader()).WatchJob(
                coordinator_pb2.WatchJobRequest(job_id=job_id), timeout=20 * PATIENCE):
            self.assertGreater(event.sequence, sequence)
            sequence = event.sequence
            if event.kind == coordinator_pb2.JOB_EVENT_KIND_STATE:
                final += event.job.state in FINAL
                if event.job.state == job_pb2.JOB_STATE_RUNNING:
                    running.add(event.job.attempt)
        self.assertEqual((len(running), final), (1, 1), job_id)

    def must_have_kept(self, c, acknowledged, others=()):
        """Each acknowledged submission ran once and is done, and there is nothing else."""
        self.assertEqual(len(set(acknowledged.values())), len(acknowledged))
        for job_id in acknowledged.values():
            job = c.wait(job_id)
            self.assertEqual(job.state, DONE, f"{job_id}: {job.reason} {job.message}")
            self.must_have_run_once(c, job_id)
        listed, token = [], ""
        while True:
            page = c.call("ListJobs", coordinator_pb2.ListJobsRequest(page_size=500, page_token=token))
            listed += [j.id for j in page.jobs]
            token = page.next_page_token
            if not token:
                break
        self.assertEqual(sorted(listed), sorted([*others, *acknowledged.values()]))

    @staticmethod
    def nap(seconds):
        """The time between two disturbances, which is part of the schedule."""
        threading.Event().wait(seconds)


class Submitter(threading.Thread):
    """Submits short jobs, one after the other. `acknowledged` has the ids that it was answered."""

    def __init__(self, c, seed, every=0.4):
        super().__init__(daemon=True)
        self.c, self.seed, self.every, self.over = c, seed, every, threading.Event()
        self.acknowledged, self.failed = {}, None

    def run(self):
        try:
            while not self.over.wait(self.every * SLOW):
                request = f"campaign-{self.seed}-{len(self.acknowledged)}"
                job = self.c.submit(SHORT, request, title=f"short{len(self.acknowledged)}")
                self.acknowledged[request] = job.id
        except Exception as e:
            self.failed = e

    def stop(self):
        self.over.set()
        self.join(60 * PATIENCE)
        if self.failed:
            raise self.failed
