# SPDX-License-Identifier: Apache-2.0
"""junk.py - hostile bytes against every service, method and port of a running cluster.

While a job trains, threads send random bytes, mutated valid messages, messages
of the right type with absurd contents, and broken HTTP/2 to the coordinator, a
parameter server and a worker. Afterwards, and all the while: no process has
died, honest calls are answered, and an honest job runs to its end. In a build
with sanitizers their reports, leaks included, fail the test.

    PSGD_JUNK_SECONDS=8   how long (60 when PSGD_TEST_LONG=1)
    PSGD_SEED=N           the seed; printed, and drawn when PSGD_TEST_LONG=1
"""
import contextlib
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import grpc
from google.protobuf import json_format

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import (BIN, ENDLESS, FINAL, LONG, PATIENCE, SLOW, SMALL, ClusterTest, coordinator_pb2,  # noqa: E402
                     job_pb2, main, node_pb2, node_pb2_grpc, seed)
import junk_bytes  # noqa: E402
import junk_http2  # noqa: E402
from psgd.v1 import parameter_pb2, peer_pb2  # noqa: E402

SECONDS = float(os.environ.get("PSGD_JUNK_SECONDS", "60" if LONG else "8"))
SEED = seed("PSGD_SEED")
THREADS = 4
# The same among workers; and with rows of a sparse table, of a text that the test writes.
AMONG = {**ENDLESS, "workers": 2, "exchange": {"name": "plain"}}
ROWS = {**ENDLESS, "workers": 2, "blockSize": 10,
        "model": {"preset": "ngram", "table": {"name": "sparse"},
                  "params": {"width": 4, "hidden": 4, "rows": 1000, "dropout": 0}},
        "data": {"name": "ngram", "folder": "text", "files": ["train"], "testFiles": ["test"],
                 "params": {"n": 3, "cutoff": 0}}}
PARTS = [ENDLESS, AMONG, ROWS]


def raw(message):
    """Serialised, or already bytes."""
    return message if isinstance(message, bytes) else message.SerializeToString()


class Method:
    def __init__(self, service, name, request=None, streams_in=False, streams_out=False):
        self.path = f"/{service}/{name}"
        self.request, self.streams_in, self.streams_out = request, streams_in, streams_out

    def call(self, channel, messages, seconds, answers=3):
        """Sends the messages as they are; None, or the failure."""
        kind = {(False, False): channel.unary_unary, (False, True): channel.unary_stream,
                (True, False): channel.stream_unary, (True, True): channel.stream_stream}[
                    self.streams_in, self.streams_out]
        stub = kind(self.path)  # no serialisers: bytes in, bytes out
        request = iter(messages) if self.streams_in else messages[0]
        try:
            reply = stub(request, timeout=seconds)
            if self.streams_out:
                for _ in range(answers):
                    if next(reply, None) is None:
                        break
                reply.cancel()
        except grpc.RpcError as e:
            return e
        return None


def methods_of(file):
    for service in file.DESCRIPTOR.services_by_name.values():
        for m in service.methods:
            # Flags of a method are not members in every release of protobuf.
            proto = next(p for s in junk_bytes.file_proto(file).service if s.name == service.name
                         for p in s.method if p.name == m.name)
            yield Method(service.full_name, m.name, m.input_type, proto.client_streaming,
                         proto.server_streaming)


def foreign_methods():
    """What is served beside ours; and what is not served."""
    yield Method("grpc.health.v1.Health", "Check")
    yield Method("grpc.health.v1.Health", "Watch", streams_out=True)
    for version in ("v1", "v1alpha"):
        yield Method(f"grpc.reflection.{version}.ServerReflection", "ServerReflectionInfo",
                     streams_in=True, streams_out=True)
    yield Method("psgd.v1.CoordinatorService", "NoSuchMethod")
    yield Method("no.such.Service", "Method", streams_in=True)


class Target:
    """A service that is given junk."""

    def __init__(self, process, files):
        self.process = process
        self.methods = [m for f in files for m in methods_of(f)] + list(foreign_methods())


class Junk(ClusterTest):
    def test_junk_harms_nobody(self):
        print(f"PSGD_SEED={SEED} PSGD_JUNK_SECONDS={SECONDS:g}", flush=True)
        self.c = self.cluster(workers=2, pservers=1, data=self.write_text())
        self.c.wait_nodes(3)
        self.targets = [Target(self.c.coordinator, [coordinator_pb2]),
                        Target(self.c.pservers[0], [node_pb2, parameter_pb2]),
                        Target(self.c.workers[0], [node_pb2, peer_pb2])]
        self.sent = self.connections = 0
        self.lock = threading.Lock()
        self.codes = {}
        before = self.memory()
        end = time.monotonic() + SECONDS
        part = 0
        while time.monotonic() < end:  # a fresh job now and then: some are killed by junk
            self.one_part(part, min(end, time.monotonic() + 6))
            part += 1
        self.settle()
        job = self.c.wait(self.c.submit(SMALL, title="honest").id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        after = self.memory()
        print(f"{self.sent} calls, {self.connections} raw connections; answers: "
              + ", ".join(f"{n} {code}" for code, n in sorted(self.codes.items(), key=lambda x: -x[1])))
        for name in before:
            print(f"{name}: {before[name]} MiB before, {after[name]} MiB after")
        for p in [*self.c.nodes, self.c.coordinator]:
            self.assertIsNone(p.process.poll(), f"{p.name} died: {p.log()[-6000:]}")
        codes = {p.name: p.stop(seconds=60) for p in [*self.c.nodes, self.c.coordinator]}
        for p in [*self.c.nodes, self.c.coordinator]:
            report = re.search(r"ERROR: \w+Sanitizer[^\n]*|runtime error:[^\n]*",
                               p.log_path.read_text(errors="replace"))
            self.assertIsNone(report, f"{p.name}: {report and report.group(0)}\n{p.log()[-6000:]}")
            self.assertEqual(codes[p.name], 0, p.name)

    def write_text(self):
        """The path of a data set of a few hundred words."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-junk-"))
        self.addCleanup(shutil.rmtree, folder, True)
        (folder / "text").mkdir()
        for name in ("train", "test"):
            (folder / "text" / name).write_text(
                "\n".join(" ".join(f"w{(i * j) % 97}" for j in range(1, 12)) for i in range(60)))
        return folder

    def memory(self):
        """Resident MiB of each process."""
        pages = {p.name: int(pathlib.Path(f"/proc/{p.process.pid}/statm").read_text().split()[1])
                 for p in [self.c.coordinator, *self.c.nodes]}
        return {name: n * os.sysconf("SC_PAGESIZE") >> 20 for name, n in pages.items()}

    def one_part(self, part, end):
        pool = self.facts(PARTS[part % len(PARTS)])
        failures = []

        def guard(send, *args):
            try:
                send(*args)
            except Exception:  # of the test itself: services only make calls fail
                failures.append(traceback.format_exc())

        threads = [threading.Thread(target=guard, args=(self.send_junk, SEED + part * 100 + i, pool, end))
                   for i in range(THREADS)]
        threads.append(threading.Thread(target=guard, args=(self.send_garbage, SEED + part * 100 + 99, end)))
        for t in threads:
            t.start()
        try:
            while any(t.is_alive() for t in threads):
                self.honest_calls()
                threads[0].join(0.5)
        finally:
            for t in threads:
                t.join()
        self.assertEqual(failures, [])

    def honest_calls(self):
        for p in [self.c.coordinator, *self.c.nodes]:
            self.assertIsNone(p.process.poll(), f"{p.name} died: {p.log()[-6000:]}")
        self.c.api.GetServerInfo(coordinator_pb2.GetServerInfoRequest(), timeout=20 * PATIENCE)
        for p in self.c.nodes:
            # Junk comes from the same address, which may open only so many connections a second.
            self.c.status(p, dials_again=True)

    def settle(self):
        """Takes back what junk may have begun: jobs, reservations, nodes that are none."""
        def settled():
            for job in self.c.api.ListJobs(coordinator_pb2.ListJobsRequest(
                    page_size=1000, states=[s for s in range(1, 7)]), timeout=20 * PATIENCE).jobs:
                if job.state not in FINAL:
                    with contextlib.suppress(grpc.RpcError):
                        self.c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id),
                                             timeout=20 * PATIENCE)
            for p in self.c.nodes:
                node = self.c.status(p).node
                if node.phase != coordinator_pb2.NODE_PHASE_IDLE:
                    with grpc.insecure_channel(p.address) as channel:
                        node_pb2_grpc.NodeServiceStub(channel).Abort(node_pb2.AbortRequest(
                            job_id=node.job_id, attempt=node.attempt), timeout=20 * PATIENCE)
                    return False
            alive = {n.id: n.address for n in self.c.node_list() if n.alive}
            return alive == {p.name: p.address for p in self.c.nodes}
        self.c.poll("a cluster at rest", settled, seconds=60)

    def facts(self, spec):
        """A job that runs, and what junk needs to know to look like part of it."""
        self.settle()
        job = self.c.submit(spec)
        job = self.c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        self.assertEqual(job.state, job_pb2.JOB_STATE_RUNNING, job.message)
        spec = re.sub(r': "(\d+)"', r": \1", json_format.MessageToJson(job.spec))  # of 64 bits
        plan = subprocess.run([BIN.parent / "tests/layout_hash"], capture_output=True, check=False,
                              input=spec.encode())
        self.assertEqual(plan.returncode, 0, plan.stderr)
        layout_hash = int(plan.stdout, 16)
        return junk_bytes.Pool(
            job_id=[job.id], attempt=[job.attempt], node_id=[p.name for p in self.c.nodes],
            address=[p.address for p in self.c.nodes], coordinator=[self.c.coordinator.address],
            layout_hash=[layout_hash], spec=[*PARTS, SMALL])

    # --- threads ---------------------------------------------------------------

    def send_junk(self, seed, pool, end):
        r = random.Random(seed)
        channels = {}
        while time.monotonic() < end:
            target = r.choice(self.targets)
            method = r.choice(target.methods)
            if target not in channels or r.random() < 0.02:
                if target in channels:
                    channels.pop(target).close()
                channels[target] = grpc.insecure_channel(
                    target.process.address, options=[("grpc.max_send_message_length", -1)])
            count = r.choice([1, 1, 2, 5]) if method.streams_in else 1
            messages = [raw(junk_bytes.message(r, method.request, pool)) for _ in range(count)]
            error = method.call(channels[target], messages, r.choice([0.05, 0.3, 1.0]) * SLOW)
            with self.lock:
                self.sent += 1
                code = error.code().name if error else "OK"
                self.codes[code] = self.codes.get(code, 0) + 1
        for channel in channels.values():
            channel.close()

    def send_garbage(self, seed, end):
        r = random.Random(seed)
        open_ones = []
        while time.monotonic() < end:
            host, port = r.choice(self.targets).process.address.rsplit(":", 1)
            junk_http2.attack(r, (host, int(port)), open_ones)
            self.connections += 1
        for s in open_ones:
            s.close()


if __name__ == "__main__":
    main()
