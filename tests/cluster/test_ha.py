# SPDX-License-Identifier: Apache-2.0
"""test_ha.py - several coordinators on one etcd: one leads, the others take over.

The campaign kills and freezes leaders while jobs are submitted; one seed decides which and when.
By hand, longer, on a machine at rest:

    PSGD_HA_STRICT=1 PSGD_HA_DISTURBANCES=200 PSGD_HA_SEED=7 tests/cluster/test_ha.py Campaign
"""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import grpc
from google.protobuf import json_format

import harness
from ha_cluster import CANCELLED, DONE, LEASE_S, PACED, SHORT, TAKEOVER_S, Certificates, HaTest, Submitter
from harness import (ENDLESS, PATIENCE, SLOW, SMALL, coordinator_pb2, coordinator_pb2_grpc, free_ports,
                     job_pb2, main)

# Two workers train it for 20 s: it goes on while coordinators notice that one is gone, and take over.
LONG_PACED = {**PACED, "epochs": 20}
# What a member of etcd counts: the transactions that it has answered, and those of them that it has carried out.
ANSWERED = 'grpc_server_handled_total{', 'grpc_method="Txn"'
TXNS = *ANSWERED, 'grpc_code="OK"'


class Relay:
    """Carries connections to a member of etcd. When a client sends the bytes `late`, it freezes the member
    by `freeze` before they come there. It lets through what comes within `window` seconds of them, and
    drops all behind it, the client's good-bye too: for the member the client still waits. While it is
    `mute`, answers are dropped."""

    window = 0.5  # less than the client waits for an answer

    def __init__(self, address):
        self.to, self.late, self.mute = address.rsplit(":", 1), b"", False
        self.freeze = lambda: None
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.open, self.carried = [], threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self.socket.accept()
                far = socket.create_connection((self.to[0], int(self.to[1])))
                self.open += [near, far]
                threading.Thread(target=self.carry, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self.carry, args=(far, near, False), daemon=True).start()

    def carry(self, a, b, is_request):
        until = None
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                if until and time.monotonic() > until:
                    return
                if is_request and self.late and self.late in data:
                    self.freeze()
                    until = until or time.monotonic() + self.window
                    self.carried.set()
                if is_request or not self.mute:
                    b.sendall(data)
            if not self.late:
                b.shutdown(socket.SHUT_WR)

    def close(self):
        for s in (self.socket, *self.open):
            s.close()


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
        etcd = self.etcd()
        c = self.cluster(etcd, workers=0, pservers=0)
        first = c.leader()
        job_id = c.submit(SMALL, "handed over").id
        leases = lambda: etcd.ctl("lease", "list").stdout.split()[3:]  # after "found N leases"
        key = json.loads(etcd.ctl("get", "psgd/leader", "--write-out=json").stdout)["kvs"][0]
        lease = f"{key['lease']:016x}"
        self.assertIn(lease, leases())
        self.assertEqual(first.stop(), 0)
        self.assertNotIn(lease, leases())  # it was given back: nobody waits until it ends
        c.leader(but=first)
        self.assertEqual(c.get(job_id).state, job_pb2.JOB_STATE_QUEUED)
        self.assertEqual(c.submit(SMALL, "handed over").id, job_id)  # the request id is known

    def test_etcd_refuses_what_a_former_leader_stores(self):
        etcd = self.etcd()
        c = self.cluster(etcd, workers=0, pservers=0)
        request = coordinator_pb2.SubmitJobRequest(
            spec=json_format.ParseDict(SMALL, job_pb2.JobSpec()), request_id="once")

        def is_refused():
            first = c.leader()
            lost = first.log().count("leads no longer")
            # its lease goes on, so it does not know that its key is another's now, until it puts the key anew
            self.assertIn("1", etcd.ctl("del", "psgd/leader").stdout)
            with self.assertRaises(grpc.RpcError):
                c.stub(first).SubmitJob(request, timeout=10 * PATIENCE)
            # it may be elected again, before the other one looks
            c.poll("it leads no longer", lambda: first.log().count("leads no longer") > lost)
            return "etcd refused to store: another coordinator leads" in first.log()

        c.poll("etcd has to refuse, as the leader stores before it puts its key anew", is_refused)
        jobs = lambda: c.call("ListJobs", coordinator_pb2.ListJobsRequest()).jobs
        self.assertEqual(len(jobs()), 0)
        job_id = c.submit(SMALL, "once").id
        self.assertEqual([j.id for j in jobs()], [job_id])

    def test_a_key_counts_as_long_as_its_leader_puts_it(self):
        """Not as long as its lease, which etcd prolongs when its own leader changes."""
        etcd = self.etcd()
        lease = etcd.ctl("lease", "grant", str(LEASE_S)).stdout.split()[1]
        renewal = subprocess.Popen(["etcdctl", "--endpoints", etcd.clients[0], "lease", "keep-alive", lease],
                                   env={**os.environ, "ETCDCTL_API": "3"}, stdout=subprocess.DEVNULL)
        self.addCleanup(lambda: (renewal.kill(), renewal.wait()))
        put = lambda: etcd.ctl("put", "psgd/leader", "127.0.0.1:1", "--lease", lease)
        self.assertEqual(put().stdout, "OK\n")
        c = self.cluster(etcd, coordinators=1, workers=0, pservers=0, is_led=False)
        until = time.monotonic() + 3 * LEASE_S * SLOW
        while time.monotonic() < until:
            put()
            time.sleep(LEASE_S / 8)
            self.assertFalse(c.leads(c.coordinators[0]))
        c.leader()
        self.assertEqual(renewal.poll(), None)
        self.assertIn(c.coordinators[0].address, etcd.ctl("get", "psgd/leader").stdout)

    def relayed(self):
        """A coordinator that reaches three members of etcd through relays; the member that it asks."""
        etcd = self.etcd(3)
        relays = [Relay(address) for address in etcd.clients]
        for relay in relays:
            self.addCleanup(relay.close)
        etcd.url = "etcd://" + ",".join(f"127.0.0.1:{r.port}" for r in relays)
        c = self.cluster(etcd, coordinators=1, workers=0, pservers=0)
        c.submit(SMALL, "first")
        handled = [etcd.metric(i, *TXNS) for i in range(3)]
        asked = handled.index(max(handled))
        return c, etcd, relays[asked], asked, handled[asked]

    def test_a_transaction_that_etcd_carries_out_late_changes_nothing(self):
        """A member freezes with a submission in its socket; the leader makes it again at the next
        member and stores a later change there. Then the first member wakes."""
        c, etcd, relay, asked, handled = self.relayed()
        relay.freeze = lambda: etcd.members[asked].send_signal(signal.SIGSTOP)
        relay.late = b"carried out late"
        answered = etcd.metric(asked, *ANSWERED)
        try:
            job_id = c.submit(SMALL, relay.late.decode()).id
            self.assertTrue(relay.carried.is_set())
            try:
                c.call("CancelJob", coordinator_pb2.CancelJobRequest(job_id=job_id))
            except grpc.RpcError as again:  # the answer to the first call came too late
                self.assertIn("is CANCELLED already", again.details())
            self.assertEqual(c.get(job_id).state, CANCELLED)
        finally:
            etcd.members[asked].send_signal(signal.SIGCONT)
        # It carries the call out, or refuses it, as its client has given it up.
        c.poll("the member has answered the first call", lambda: etcd.metric(asked, *ANSWERED) > answered)
        c.coordinator.kill()
        c.coordinator.start()  # reads what is in etcd
        c.leader()
        self.assertEqual(c.get(job_id).state, CANCELLED)
        self.assertNotEqual(c.submit(SMALL, "after").id, job_id)

    def test_a_transaction_whose_answer_is_lost_is_known_to_be_stored(self):
        c, etcd, relay, asked, handled = self.relayed()
        relay.mute = True
        job_id = c.submit(SMALL, "mute").id
        self.assertGreater(etcd.metric(asked, *TXNS), handled)  # it was stored there
        c.call("CancelJob", coordinator_pb2.CancelJobRequest(job_id=job_id))
        self.assertNotIn("leads no longer", c.coordinator.log())
        self.assertEqual(len(c.call("ListJobs", coordinator_pb2.ListJobsRequest()).jobs), 2)

    def test_changes_of_the_leader_do_not_count_against_a_job(self):
        """Each leader dies while it starts the job: more often than a job may be interrupted."""
        c = self.cluster(self.etcd(), workers=1, extra=["--fault", "exit-at:CAN_COMMIT"])
        c.wait_nodes(2)
        job_id = c.submit(SHORT).id
        for _ in range(4):
            victim = c.poll("a leader dies", lambda: next(
                (p for p in c.coordinators if p.process.poll() is not None), None))
            victim.wait()
            if _ == 3:
                for p in c.coordinators:
                    p.args = [a for a in p.args if a != "--fault" and not a.startswith("exit-at")]
            victim.start()
        job = c.wait(job_id)
        self.assertEqual((job.state, job.interrupted), (DONE, 0), f"{job.reason} {job.message}")
        self.assertGreater(job.attempt, 3)

    def taken_over(self, disturb, undo, takes=TAKEOVER_S):
        """The leader is disturbed while a job trains: it goes on, and another one leads."""
        c = self.cluster(self.etcd(), workers=2)
        c.wait_nodes(3)
        job_id = c.submit(LONG_PACED, workers=2).id
        queued = [c.submit(ENDLESS, title=f"queued{i}", workers=2).id for i in range(3)]
        before = c.wait(job_id, lambda j: j.progress.step > 3)
        self.assertEqual(before.state, job_pb2.JOB_STATE_RUNNING)
        first = c.leader()  # a busy machine may have changed it meanwhile
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

    def test_the_next_leader_has_read_the_jobs_before(self):
        """What was stored, changed and deleted before and after it read is as the leader before had it."""
        etcd = self.etcd()
        c = self.cluster(etcd, workers=1, extra=["--log-level", "debug"])
        c.wait_nodes(2)
        leader = c.leader()
        (other,) = [p for p in c.coordinators if p is not leader]

        def events(job_id):
            return [e.SerializeToString() for e in c.stub(c.leader()).WatchJob(
                coordinator_pb2.WatchJobRequest(job_id=job_id), timeout=20 * PATIENCE)]

        def jobs(count):
            ids = [c.submit(SHORT, title=f"short{i}").id for i in range(count)]
            for job_id in ids:
                self.assertEqual(c.wait(job_id).state, DONE)
            return ids

        early = jobs(3)
        newest = etcd.ctl("get", "psgd/order", "--write-out=json").stdout
        revision = json.loads(newest)["kvs"][0]["mod_revision"]
        c.poll("the other one has read them", lambda: any(
            int(r) >= revision for r in re.findall(r"read ahead to revision (\d+)", other.log())))
        late = jobs(1)
        for gone in (early[1], late[0]):
            c.call("DeleteJob", coordinator_pb2.DeleteJobRequest(job_id=gone))
        late += jobs(1)
        kept = [early[0], early[2], late[1]]
        told = {job_id: events(job_id) for job_id in kept}
        leader.kill()
        self.assertIs(c.leader(but=leader), other)
        self.assertIn("read what is new from etcd", other.log())
        self.assertEqual({job_id: events(job_id) for job_id in kept}, told)
        self.assertEqual([j.id for j in c.call("ListJobs", coordinator_pb2.ListJobsRequest()).jobs], kept[::-1])
        self.assertEqual(c.wait(c.submit(SMALL).id).state, DONE)

    def test_what_was_read_of_an_etcd_that_was_replaced_is_forgotten(self):
        """The jobs of the etcd before are not those of the new one, which has fewer revisions, or more."""
        for puts in (0, 60):
            with self.subTest(puts=puts):
                self.replace(puts)

    def replace(self, puts):
        def fill(count):
            for i in range(count):
                etcd.ctl("put", "another program's", str(i))

        etcd = self.etcd()
        fill(puts)
        c = self.cluster(etcd, workers=1, extra=["--log-level", "debug"])
        c.wait_nodes(2)
        for i in range(3):
            self.assertEqual(c.wait(c.submit(SHORT, title=f"before{i}").id).state, DONE)
        first = c.leader()
        (other,) = [p for p in c.coordinators if p is not first]
        c.poll("the other one has read them", lambda: any(
            int(r) > puts for r in re.findall(r"read ahead to revision (\d+)", other.log())))
        other.freeze()
        etcd.kill()
        shutil.rmtree(etcd.folder / "m0")
        etcd.start(0)
        etcd.wait()
        submitted = c.submit(SHORT, title="after").id
        if puts > 0:
            self.assertEqual(c.wait(submitted).state, DONE)
        fill(2 * puts)
        other.thaw()
        first.kill()
        c.leader(but=first)
        self.assertEqual([j.id for j in c.call("ListJobs", coordinator_pb2.ListJobsRequest()).jobs], [submitted])

    def test_a_frozen_leader_wakes_as_a_follower(self):
        c, first = self.taken_over(lambda p: p.freeze(), lambda p: p.thaw())
        self.assertIn("leads no longer", first.log())
        woken = first.log().index("leads no longer")
        # it follows, or a busy machine has made it lead once more
        c.poll("the first one follows", lambda: "follows" in self.refusal(c, first)
               or "leads from now on" in first.log()[woken:])

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
        (job,) = c.poll("an evaluation", lambda: [j for j in jobs() if j.evaluations > 1])
        first.kill()
        out, err = watch.communicate(timeout=60 * PATIENCE)
        self.assertEqual(watch.returncode, 0, out + err)
        self.assertIn("DONE", out)
        self.assertEqual(out.count("test set:"), PACED["epochs"], out)
        self.assertIn(f"lost the coordinator at {first.address};", err)
        get = subprocess.run([*psgd, "get", job.id], capture_output=True, text=True)
        self.assertEqual(get.returncode, 0, get.stderr)

    def test_users_do_not_wait_for_a_dead_leader(self):
        """A third of --timeout is what one call may take: far longer than this needs."""
        c = self.cluster(self.etcd(), workers=0, pservers=0)
        psgd = [harness.BIN / "psgd", "--coordinator", c.list, "--timeout", "1h"]
        first, seen = c.leader(), []
        for _ in range(2):  # the leader is the first of the list, then the second, or the reverse
            first.kill()
            began = time.monotonic()
            listing = subprocess.run([*psgd, "list"], capture_output=True, text=True, timeout=30 * PATIENCE)
            took = time.monotonic() - began
            self.assertEqual(listing.returncode, 0, listing.stderr)
            (second,) = [p for p in c.coordinators if p is not first]
            print(f"psgd list took {took:.2f} s", flush=True)
            first.start()
            c.poll("it follows", lambda: "follows" in self.refusal(c, first))
            seen.append(first)
            first = second
        self.assertEqual(len(set(seen)), 2)

    def test_training_goes_on_without_etcd_and_submissions_are_refused(self):
        etcd = self.etcd()
        c = self.cluster(etcd, workers=2)
        c.wait_nodes(3)
        job_id = c.submit(LONG_PACED, workers=2).id
        before = c.wait(job_id, lambda j: j.progress.step > 3)
        etcd.kill()
        c.poll("no coordinator leads", lambda: all(
            "does not answer" in self.refusal(c, p) for p in c.coordinators))
        with self.assertRaises(grpc.RpcError) as e:
            c.stub(c.coordinators[0]).SubmitJob(coordinator_pb2.SubmitJobRequest(
                spec=json_format.ParseDict(SMALL, job_pb2.JobSpec())), timeout=5 * PATIENCE)
        self.assertIn(f"no coordinator leads: etcd at {etcd.clients[0]} does not answer: ", e.exception.details())
        step = c.status(c.workers[0]).progress[0].step
        c.poll("training goes on", lambda: c.status(c.workers[0]).progress[0].step > step + 3)
        # psgd says so, too, though it has asked a coordinator last that cannot be reached
        leader, other = sorted(c.coordinators, key=lambda p: "leads no longer" not in p.log())
        held = socket.socket()  # bound, so that no other program listens there
        self.addCleanup(held.close)
        held.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{held.getsockname()[1]}"
        # and whenever its time ends, also in the middle of a last, short try
        asking = [subprocess.Popen([harness.BIN / "psgd", "--coordinator", f"{other.address},{dead}", "--timeout",
                                    f"{ms}ms", "list"], stderr=subprocess.PIPE, text=True)
                  for ms in (2000, *range(600, 800, 10))]
        for psgd in asking:
            _, said = psgd.communicate(timeout=20 * PATIENCE)
            self.assertEqual(psgd.returncode, 2, said)
            self.assertRegex(said, f"no coordinator leads: etcd at {etcd.clients[0]} does not answer: .*; "
                                   f"({dead}|{other.address}): cannot be reached.*\n$")
        # the loop may see the end of the lease before the thread that renews it knows why
        self.assertRegex(leader.log(), "leads no longer: (its lease was not renewed in time|"
                                       f"etcd at {etcd.clients[0]} does not answer: )")
        self.assertEqual(other.log().count("does not answer"), 1, other.log())
        etcd.start(0)
        c.leader()
        end = c.wait(job_id)
        self.assertEqual((end.state, end.attempt), (DONE, before.attempt), end.message)
        self.assertEqual(other.log().count(f"etcd at {etcd.clients[0]} answers"), 1, other.log())


class Tls(HaTest):
    """etcd takes only clients with a certificate of its authority."""

    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-etcd-tls-"))
        self.addCleanup(shutil.rmtree, folder)
        self.ours, self.others = Certificates(folder / "ours"), Certificates(folder / "others")

    def test_jobs_train_and_certificates_change(self):
        etcd = self.etcd(tls=self.ours)
        c = self.cluster(etcd, workers=1, extra=self.ours.args("coordinator"))
        c.wait_nodes(2)
        job = c.wait(c.submit(SMALL).id)
        self.assertEqual(job.state, DONE, job.message)
        # etcd asks for a certificate of another authority from now on, and shows one of it; the
        # coordinators' files are replaced.
        for name in ("coordinator", "etcd"):
            for old, new in zip(self.ours.of(name), self.others.of(name)):
                shutil.copy(new, old)
        shutil.copy(self.others.ca, self.ours.ca)
        self.ours.known.pop("user", None)
        shutil.copy(self.others.folder / "ca.key", self.ours.folder / "ca.key")
        etcd.kill()
        etcd.start(0)
        etcd.wait()
        job = c.wait(c.submit(SMALL, "with other files").id)
        self.assertEqual(job.state, DONE, job.message)

    def refused(self, etcd, *args):
        """What a coordinator with these files says while it cannot use etcd."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-refused-"))
        self.addCleanup(shutil.rmtree, folder)
        p = harness.Process("psgd-coordinator", "coordinator", folder,
                            ["--registry", etcd.url, *args], port=free_ports(1)[0])
        self.addCleanup(p.stop)
        with grpc.insecure_channel(p.address) as channel:
            stub = coordinator_pb2_grpc.CoordinatorServiceStub(channel)

            def why():
                try:
                    stub.ListJobs(coordinator_pb2.ListJobsRequest(), timeout=PATIENCE)
                except grpc.RpcError as e:
                    return e.details() if "certificate" in e.details() else None
                raise AssertionError("it leads")
            said = harness.Cluster.poll(harness.Cluster, "it says why", why)
        self.assertIn("no coordinator leads: etcd at " + etcd.clients[0], said)
        self.assertEqual(p.log().count("asking again"), 1, p.log())  # once, not at each try
        return said

    def test_who_is_kept_out_is_told_why(self):
        etcd = self.etcd(tls=self.ours)
        ca, (cert, key) = self.ours.ca, self.ours.of("coordinator")
        self.assertRegex(self.refused(etcd, "--etcd-ca", self.others.ca, "--etcd-cert", cert, "--etcd-key", key),
                         "its certificate is not taken here: .*certificate.*--etcd-ca .*others/ca.pem")
        self.assertIn("it does not take a client without a certificate; set --etcd-cert and --etcd-key",
                      self.refused(etcd, "--etcd-ca", ca))
        other = self.others.of("coordinator")
        self.assertRegex(self.refused(etcd, "--etcd-ca", ca, "--etcd-cert", other[0], "--etcd-key", other[1]),
                         r"it does not take the certificate .*others/coordinator.pem \(--etcd-cert\): ")

    def test_files_that_cannot_be_used_are_named(self):
        ca, (cert, key) = self.ours.ca, self.ours.of("coordinator")
        other = self.others.of("coordinator")[1]
        junk = self.ours.folder / "junk.pem"
        junk.write_text("junk")
        for url, args, why in (
                ("etcds://127.0.0.1:1", [], "--etcd-ca is missing"),
                ("etcds://127.0.0.1:1", ["--etcd-ca", ca, "--etcd-cert", cert], "--etcd-key is missing"),
                ("etcds://127.0.0.1:1", ["--etcd-ca", ca, "--etcd-key", key], "--etcd-cert is missing"),
                ("etcds://127.0.0.1:1", ["--etcd-ca", "/nowhere"], "--etcd-ca: .*/nowhere"),
                ("etcds://127.0.0.1:1", ["--etcd-ca", junk], "--etcd-ca .*junk.pem: "),
                ("etcds://127.0.0.1:1", ["--etcd-ca", ca, "--etcd-cert", cert, "--etcd-key", other],
                 "--etcd-key .*others/coordinator.key: key values mismatch"),
                ("etcd://127.0.0.1:1", ["--leader-lease", "2500ms"],
                 '--leader-lease: "2500ms": whole seconds from 2s to 1m are allowed'),
                ("etcd://127.0.0.1:1", ["--etcd-ca", ca], "etcds://HOST:PORT,... is allowed"),
                ("http://127.0.0.1:1", [], "etcd://HOST:PORT,... or etcds://HOST:PORT,... is allowed")):
            with self.subTest(args=args):
                p = subprocess.run([harness.BIN / "psgd-coordinator", "--listen", "127.0.0.1:1", "--data-dir",
                                    self.ours.folder / "data", "--registry", url, *args],
                                   capture_output=True, text=True, timeout=20 * PATIENCE)
                self.assertNotEqual(p.returncode, 0)
                self.assertRegex(p.stderr, why)


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

    def test_nothing_acknowledged_is_lost_and_nothing_runs_twice(self):
        count = int(os.environ.get("PSGD_HA_DISTURBANCES", "5"))
        seed = harness.seed("PSGD_HA_SEED")
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
        self.must_have_kept(c, submitter.acknowledged, [long_id])


if __name__ == "__main__":
    main()
