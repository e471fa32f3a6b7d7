# SPDX-License-Identifier: Apache-2.0
"""test_ha.py - several coordinators on one etcd: one leads, the others take over.

etcd is Debian's (etcd-server), started here on free ports with its data in a temporary folder.
The campaign kills and freezes leaders while jobs are submitted; one seed decides which and when.
By hand, longer, on a machine at rest:

    PSGD_HA_STRICT=1 PSGD_HA_DISTURBANCES=200 PSGD_HA_SEED=7 tests/cluster/test_ha.py Campaign
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
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
from harness import (ENDLESS, FINAL, PATIENCE, SLOW, SMALL, ClusterTest, coordinator_pb2,
                     coordinator_pb2_grpc, job_pb2, main)

LEASE_S = 2
# The next leader: the lease, a look of each candidate, and the time to read the registry. On a
# machine at rest; this one may have other work, and PSGD_HA_STRICT says that it has none.
TAKEOVER_S = 3 * SLOW * (1 if os.environ.get("PSGD_HA_STRICT") else PATIENCE)
DONE, CANCELLED = job_pb2.JOB_STATE_DONE, job_pb2.JOB_STATE_CANCELLED
# What a member of etcd counts: the transactions that it has answered.
TXNS = 'grpc_server_handled_total{grpc_code="OK",grpc_method="Txn"'
SHORT = {**SMALL, "epochs": 1, "data": {"name": "glyphs", "trainLimit": 200, "testLimit": 50}}
# Trains for some ten seconds, whatever the machine.
PACED = {**SMALL, "title": "paced", "epochs": 5,
         "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 50}}}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Etcd:
    """A cluster of etcd with `count` members."""

    def __init__(self, count=1):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-etcd-"))
        ports = free_ports(2 * count)
        self.clients, self.peers = ports[:count], ports[count:]
        self.members = [None] * count
        for i in range(count):
            self.start(i)
        self.url = "etcd://" + ",".join(f"127.0.0.1:{p}" for p in self.clients)
        self.wait()

    def metric(self, i, text):
        """A figure that member `i` shows of itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.clients[i]}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(text))

    def start(self, i):
        peer, client = (f"http://127.0.0.1:{p[i]}" for p in (self.peers, self.clients))
        log = open(self.folder / f"etcd-{i}.log", "ab")
        self.members[i] = subprocess.Popen(
            ["etcd", "--name", f"m{i}", "--data-dir", self.folder / f"m{i}", "--logger", "zap",
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--listen-client-urls", client, "--advertise-client-urls", client,
             "--initial-cluster", ",".join(f"m{k}=http://127.0.0.1:{p}"
                                           for k, p in enumerate(self.peers))],
            stdout=log, stderr=log)
        log.close()

    def ctl(self, *args):
        return subprocess.run(
            ["etcdctl", "--endpoints", ",".join(f"127.0.0.1:{p}" for p in self.clients), *args],
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


class Relay:
    """Carries connections to a member of etcd. Once `late` is set, it lets through what a client sends
    within `window` seconds of the next byte, and drops all behind it, the client's good-bye too: for
    the member the client still waits. While it is `mute`, answers are dropped."""

    window = 0.2

    def __init__(self, port):
        self.to, self.late, self.mute = port, False, False
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.open, self.carried = [], threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self.socket.accept()
                far = socket.create_connection(("127.0.0.1", self.to))
                self.open += [near, far]
                threading.Thread(target=self.carry, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self.carry, args=(far, near, False), daemon=True).start()

    def carry(self, a, b, is_request):
        until = None
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                if is_request and self.late:
                    until = until or time.monotonic() + self.window
                    if time.monotonic() > until:
                        return
                    self.carried.set()
                if is_request or not self.mute:
                    b.sendall(data)
            if not self.late:
                b.shutdown(socket.SHUT_WR)

    def close(self):
        for s in (self.socket, *self.open):
            s.close()


class HaCluster(harness.Cluster):
    """Several coordinators on one etcd, with nodes that follow the leader."""

    def __init__(self, etcd, coordinators=2, workers=2, pservers=1, extra=()):
        self.place, self.node_args, self.node_data, self.node_env = (
            lambda name: {}, [], None, lambda name: {})
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-cluster-"))
        self.coordinators = [harness.Process(
            "psgd-coordinator", f"coordinator-{i}", self.folder,
            ["--registry", etcd.url, "--leader-lease", f"{LEASE_S}s", "--heartbeat", "200ms",
             "--lease", f"{int(5000 * SLOW)}ms", *extra], port=port,
            data_dir=self.folder / "shared")
            for i, port in enumerate(free_ports(coordinators))]
        self.list = ",".join(c.address for c in self.coordinators)
        self.channels = {c.address: self.dial(c.address) for c in self.coordinators}
        self.leader()
        self.pservers = [self.add("pserver", i) for i in range(pservers)]
        self.workers = [self.add("worker", i) for i in range(workers)]

    def add(self, role, i, extra=(), env=None):
        return harness.Process(f"psgd-{role}", f"{role}-{i}", self.folder,
                               ["--coordinator", self.list, "--node-id", f"{role}-{i}", *extra])

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
        if failed:
            for p in [*self.coordinators, *self.nodes]:
                print(f"--- {p.name}\n{p.log()[-2500:]}", file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)


@unittest.skipUnless(shutil.which("etcd") and shutil.which("etcdctl"), "no etcd-server, etcd-client")
class HaTest(ClusterTest):
    def etcd(self, count=1):
        etcd = Etcd(count)
        self.addCleanup(etcd.close)
        return etcd

    def cluster(self, etcd, **options):
        c = HaCluster(etcd, **options)
        self.addCleanup(lambda: c.close(bool(self._outcome.result.failures + self._outcome.result.errors)))
        return c


class Leadership(HaTest):
    def test_one_leads_and_the_others_name_it(self):
        c = self.cluster(self.etcd(), workers=1)
        leader = c.leader()
        (other,) = [p for p in c.coordinators if p is not leader]
        with self.assertRaises(grpc.RpcError) as e:
            c.stub(other).ListJobs(coordinator_pb2.ListJobsRequest(), timeout=5 * PATIENCE)
        self.assertEqual(e.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertIn(f"{leader.address} leads", e.exception.details())
        c.wait_nodes(2)
        job = c.wait(c.submit(SMALL).id)
        self.assertEqual(job.state, DONE, job.message)

    def test_a_stopped_leader_hands_over_at_once(self):
        c = self.cluster(self.etcd(), workers=0, pservers=0)
        first = c.leader()
        job_id = c.submit(SMALL, "handed over").id
        began = time.monotonic()
        self.assertEqual(first.stop(), 0)
        c.leader(but=first)
        # its lease was given back: nobody waits until it ends
        self.assertLess(time.monotonic() - began, LEASE_S * SLOW)
        self.assertEqual(c.get(job_id).state, job_pb2.JOB_STATE_QUEUED)
        self.assertEqual(c.submit(SMALL, "handed over").id, job_id)  # the request id is known

    def test_etcd_refuses_what_a_former_leader_stores(self):
        etcd = self.etcd()
        c = self.cluster(etcd, workers=0, pservers=0)
        first = c.leader()
        # its lease goes on, so it does not know that its key is another's now
        self.assertIn("1", etcd.ctl("del", "psgd/leader").stdout)
        request = coordinator_pb2.SubmitJobRequest(
            spec=json_format.ParseDict(SMALL, job_pb2.JobSpec()), request_id="once")
        with self.assertRaises(grpc.RpcError):
            c.stub(first).SubmitJob(request, timeout=10 * PATIENCE)
        self.assertIn("etcd refused to store: another coordinator leads", first.log())
        jobs = lambda: c.call("ListJobs", coordinator_pb2.ListJobsRequest()).jobs
        self.assertEqual(len(jobs()), 0)
        job_id = c.submit(SMALL, "once").id
        self.assertEqual([j.id for j in jobs()], [job_id])

    def relayed(self):
        """A coordinator that reaches three members of etcd through relays; the member that it asks."""
        etcd = self.etcd(3)
        relays = [Relay(port) for port in etcd.clients]
        for relay in relays:
            self.addCleanup(relay.close)
        etcd.url = "etcd://" + ",".join(f"127.0.0.1:{r.port}" for r in relays)
        c = self.cluster(etcd, coordinators=1, workers=0, pservers=0)
        c.submit(SMALL, "first")
        handled = [etcd.metric(i, TXNS) for i in range(3)]
        asked = handled.index(max(handled))
        return c, etcd, relays[asked], asked, handled[asked]

    def test_a_transaction_that_etcd_carries_out_late_changes_nothing(self):
        """A member freezes with a submission in its socket; the leader makes it again at the next
        member and stores a later change there. Then the first member wakes."""
        c, etcd, relay, asked, handled = self.relayed()
        relay.late = True
        etcd.members[asked].send_signal(signal.SIGSTOP)
        try:
            job_id = c.submit(SMALL, "late").id
            self.assertTrue(relay.carried.is_set())
            c.call("CancelJob", coordinator_pb2.CancelJobRequest(job_id=job_id))
            self.assertEqual(c.get(job_id).state, CANCELLED)
        finally:
            etcd.members[asked].send_signal(signal.SIGCONT)
        c.poll("the member has answered the first call", lambda: etcd.metric(asked, TXNS) > handled)
        c.coordinator.kill()
        c.coordinator.start()  # reads what is in etcd
        c.leader()
        self.assertEqual(c.get(job_id).state, CANCELLED)
        self.assertNotEqual(c.submit(SMALL, "after").id, job_id)

    def test_a_transaction_whose_answer_is_lost_is_known_to_be_stored(self):
        c, etcd, relay, asked, handled = self.relayed()
        relay.mute = True
        job_id = c.submit(SMALL, "mute").id
        self.assertGreater(etcd.metric(asked, TXNS), handled)  # it was stored there
        c.call("CancelJob", coordinator_pb2.CancelJobRequest(job_id=job_id))
        self.assertNotIn("leads no longer", c.coordinator.log())
        self.assertEqual(len(c.call("ListJobs", coordinator_pb2.ListJobsRequest()).jobs), 2)

    def taken_over(self, disturb, undo, takes=TAKEOVER_S):
        """The leader is disturbed while a job trains: it goes on, and another one leads."""
        c = self.cluster(self.etcd(), workers=2)
        c.wait_nodes(3)
        first = c.leader()
        job_id = c.submit(PACED, workers=2).id
        queued = [c.submit(ENDLESS, title=f"queued{i}", workers=2).id for i in range(3)]
        before = c.wait(job_id, lambda j: j.progress.step > 3)
        self.assertEqual(before.state, job_pb2.JOB_STATE_RUNNING)
        began = time.monotonic()
        disturb(first)
        second = c.leader(but=first)
        took = time.monotonic() - began
        print(f"the next leader after {took:.2f} s", flush=True)
        self.assertLess(took, takes)
        self.assertIn("taken up again in RUNNING", second.log())
        undo(first)
        # all nodes report to the new leader, and the job has not begun anew
        after = c.wait(job_id, lambda j: j.progress.step > before.progress.step + 5)
        self.assertEqual((after.state, after.attempt), (job_pb2.JOB_STATE_RUNNING, before.attempt))
        self.assertEqual({c.get(q).state for q in queued}, {job_pb2.JOB_STATE_QUEUED})
        for q in queued:
            c.call("CancelJob", coordinator_pb2.CancelJobRequest(job_id=q))
        end = c.wait(job_id)
        self.assertEqual((end.state, end.attempt), (DONE, before.attempt), end.message)
        return c, first

    def test_a_killed_leader(self):
        c, first = self.taken_over(lambda p: p.kill(), lambda p: p.start())
        c.poll("the first one follows", lambda: "follows" in self.refusal(c, first) or c.leads(first))

    def refusal(self, c, coordinator):
        try:
            c.stub(coordinator).ListJobs(coordinator_pb2.ListJobsRequest(), timeout=PATIENCE)
            return ""
        except grpc.RpcError as e:
            return e.details()

    def test_a_frozen_leader_wakes_as_a_follower(self):
        c, first = self.taken_over(lambda p: p.freeze(), lambda p: p.thaw())
        self.assertIn("leads no longer", first.log())
        c.poll("the first one follows", lambda: "follows" in self.refusal(c, first))

    def test_psgd_follows_the_leader(self):
        c = self.cluster(self.etcd(), workers=1)
        c.wait_nodes(2)
        first = c.leader()
        # a list whose first address is a follower's
        names = [p.address for p in c.coordinators if p is not first] + [first.address]
        psgd = [harness.BIN / "psgd", "--coordinator", ",".join(names)]
        spec = c.folder / "job.json"
        spec.write_text(json.dumps(PACED))
        watch = subprocess.Popen([*psgd, "submit", str(spec), "--watch"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        jobs = lambda: c.call("ListJobs", coordinator_pb2.ListJobsRequest()).jobs
        (job,) = c.poll("the job trains", lambda: [j for j in jobs() if j.progress.step > 3])
        first.kill()
        out, err = watch.communicate(timeout=60 * PATIENCE)
        self.assertEqual(watch.returncode, 0, out + err)
        self.assertIn("DONE", out)
        self.assertIn("lost the coordinator", err)
        get = subprocess.run([*psgd, "get", job.id], capture_output=True, text=True)
        self.assertEqual(get.returncode, 0, get.stderr)

    def test_training_goes_on_without_etcd_and_submissions_are_refused(self):
        etcd = self.etcd()
        c = self.cluster(etcd, workers=2)
        c.wait_nodes(3)
        job_id = c.submit(PACED, workers=2).id
        before = c.wait(job_id, lambda j: j.progress.step > 3)
        etcd.kill()
        c.poll("no coordinator leads", lambda: all(
            "does not answer" in self.refusal(c, p) for p in c.coordinators))
        with self.assertRaises(grpc.RpcError) as e:
            c.stub(c.coordinators[0]).SubmitJob(coordinator_pb2.SubmitJobRequest(
                spec=json_format.ParseDict(SMALL, job_pb2.JobSpec())), timeout=5 * PATIENCE)
        self.assertIn("no coordinator leads: etcd at", e.exception.details())
        step = c.status(c.workers[0]).progress[0].step
        c.poll("training goes on", lambda: c.status(c.workers[0]).progress[0].step > step + 3)
        etcd.start(0)
        c.leader()
        end = c.wait(job_id)
        self.assertEqual((end.state, end.attempt), (DONE, before.attempt), end.message)


class Submitter(threading.Thread):
    """Submits short jobs, one after the other. `acknowledged` has the ids that it was answered."""

    def __init__(self, c, seed):
        super().__init__(daemon=True)
        self.c, self.seed, self.over = c, seed, threading.Event()
        self.acknowledged, self.failed = {}, None

    def run(self):
        try:
            while not self.over.wait(0.4 * SLOW):
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


class Campaign(HaTest):
    """Three members of etcd and three coordinators; leaders are killed and frozen."""

    def kill_leader(self, c, etcd, rng):
        victim = c.leader()
        victim.kill()
        return lambda: victim.start()

    def freeze_leader(self, c, etcd, rng):
        victim = c.leader()
        victim.freeze()
        return lambda: victim.thaw()

    def kill_member(self, c, etcd, rng):
        i = rng.randrange(len(etcd.members))
        etcd.members[i].kill()
        etcd.members[i].wait()
        return lambda: etcd.start(i)

    def freeze_member(self, c, etcd, rng):
        member = etcd.members[rng.randrange(len(etcd.members))]
        member.send_signal(signal.SIGSTOP)
        return lambda: member.send_signal(signal.SIGCONT)

    def ran_once(self, c, job_id):
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

    def test_nothing_acknowledged_is_lost_and_nothing_runs_twice(self):
        count = int(os.environ.get("PSGD_HA_DISTURBANCES", "5"))
        seed = int(os.environ.get("PSGD_HA_SEED", str(random.randrange(10**6))))
        rng = random.Random(seed)
        print(f"PSGD_HA_SEED={seed} PSGD_HA_DISTURBANCES={count}", flush=True)
        etcd = self.etcd(3)
        c = self.cluster(etcd, coordinators=3, workers=2, pservers=2)
        c.wait_nodes(4)
        long_id = c.submit({**ENDLESS, "straggler": PACED["straggler"]}).id
        c.wait(long_id, lambda j: j.progress.step > 0)
        submitter = Submitter(c, seed)
        submitter.start()
        took = []
        what = [self.kill_leader, self.freeze_leader, self.kill_member, self.freeze_member]
        began, first_step = time.monotonic(), c.get(long_id).progress.step
        for n in range(count):
            disturb = what[n % 2] if n < 2 else rng.choice(what)
            before = c.leader()
            at = time.monotonic()
            undo = disturb(c, etcd, rng)
            after = c.leader(but=before if disturb in what[:2] else None)
            took.append((disturb.__name__, time.monotonic() - at))
            print(f"  {n} {disturb.__name__}: {before.name} -> {after.name} in {took[-1][1]:.2f} s, "
                  f"{len(submitter.acknowledged)} submitted", flush=True)
            self.nap(rng.uniform(0.2, 1.5) * SLOW + (LEASE_S if "freeze" in disturb.__name__ else 0))
            undo()
            self.nap(rng.uniform(0.2, 1.0) * SLOW)
        submitter.stop()
        rate = (c.get(long_id).progress.step - first_step) / (time.monotonic() - began)
        slowest = max([s for name, s in took if "leader" in name])
        print(f"  {len(submitter.acknowledged)} submissions, slowest takeover {slowest:.2f} s, "
              f"{rate:.2f} steps a second", flush=True)
        self.assertLess(slowest, TAKEOVER_S)
        c.call("CancelJob", coordinator_pb2.CancelJobRequest(job_id=long_id))
        c.wait(long_id)
        self.assertEqual(c.get(long_id).attempt, 1)
        self.assertEqual(len(set(submitter.acknowledged.values())), len(submitter.acknowledged))
        for request, job_id in submitter.acknowledged.items():
            job = c.wait(job_id)
            self.assertEqual(job.state, DONE, f"{job_id}: {job.reason} {job.message}")
            self.ran_once(c, job_id)
        listed, token = [], ""
        while True:
            page = c.call("ListJobs", coordinator_pb2.ListJobsRequest(page_size=500, page_token=token))
            listed += [j.id for j in page.jobs]
            token = page.next_page_token
            if not token:
                break
        # nothing is there but what was acknowledged
        self.assertEqual(sorted(listed), sorted([long_id, *submitter.acknowledged.values()]))

    @staticmethod
    def nap(seconds):
        """The time between two disturbances, which is part of the schedule."""
        threading.Event().wait(seconds)


if __name__ == "__main__":
    main()
