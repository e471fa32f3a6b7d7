# SPDX-License-Identifier: Apache-2.0
"""test_floods.py - somebody floods a service with HTTP/2 frames, requests or connections.

While a job trains, each kind of flood goes to the coordinator, to the server and to a worker, from
two connections that are opened again as soon as they are closed. Meanwhile other clients are
answered and the job goes on; the memory that a flood takes is bounded and given back.

    PSGD_FLOOD_SECONDS=1   how long each flood lasts (10 when PSGD_TEST_LONG=1)
    PSGD_FLOOD_KINDS=...   only these kinds, separated by commas
"""
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc  # noqa: E402
import flooder  # noqa: E402
from harness import (ENDLESS, PATIENCE, SLOW, ClusterTest, coordinator_pb2,  # noqa: E402
                     coordinator_pb2_grpc, job_pb2, main, node_pb2, node_pb2_grpc)

LONG = os.environ.get("PSGD_TEST_LONG", "0") == "1"
SECONDS = float(os.environ.get("PSGD_FLOOD_SECONDS", "10" if LONG else "1"))
KINDS = [k for k in os.environ.get("PSGD_FLOOD_KINDS", "").split(",") if k] or list(flooder.KINDS)
MIB = 1 << 20
MORE = 256 * MIB  # that a flood may take
LEFT = 32 * MIB  # of it that may be left after half a minute
# The 99th percentile of what others wait is 0.1 s where there is a processor for each process. Here
# the flooder, the clients and all services may share one; without bounds it is 0.3 to 50 s.
P99 = 2.0 * SLOW
FROM = "127.0.0.2"


def memory(process, field="VmRSS"):
    text = pathlib.Path(f"/proc/{process.process.pid}/status").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith(field + ":")]
    return int(line.split()[1]) << 10


def forget_peak(process):
    pathlib.Path(f"/proc/{process.process.pid}/clear_refs").write_text("5")


class Asker(threading.Thread):
    """A client that asks a service one thing after the other, and how long each took."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.took, self.errors, self.over = process, [], [], threading.Event()
        self.start()

    def run(self):
        with grpc.insecure_channel(self.process.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            if self.process.program == "psgd-coordinator":
                call, request = (coordinator_pb2_grpc.CoordinatorServiceStub(channel).GetServerInfo,
                                 coordinator_pb2.GetServerInfoRequest())
            else:
                call, request = (node_pb2_grpc.NodeServiceStub(channel).GetStatus,
                                 node_pb2.GetStatusRequest())
            while not self.over.wait(0.005):
                began = time.monotonic()
                try:
                    call(request, timeout=10 * PATIENCE, wait_for_ready=True)
                except grpc.RpcError as e:
                    self.errors.append(f"{e.code()} {e.details()}")
                self.took.append(time.monotonic() - began)

    def stop(self):
        self.over.set()
        self.join()
        self.took.sort()
        return self.took[len(self.took) * 99 // 100]


class Floods(ClusterTest):
    def flood(self, kind, process):
        host, port = process.address.rsplit(":", 1)
        done = subprocess.run([sys.executable, flooder.__file__, kind, host, port, str(SECONDS), FROM],
                              capture_output=True, check=False, timeout=SECONDS + 20 * PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(done.stdout)

    def step(self, c, job):
        return c.get(job.id).progress.step, time.monotonic()

    def test_floods(self):
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        job = c.submit(ENDLESS)
        c.wait(job.id, lambda j: j.progress.step > 20)
        began = self.step(c, job)
        for process in (c.coordinator, *c.nodes):
            asker = Asker(process)
            asker.over.wait(1)
            print(f"{process.name}: p99 {asker.stop() * 1e3:.1f} ms at rest, {memory(process) / MIB:.0f} MiB")
        ended = self.step(c, job)
        rate = (ended[0] - began[0]) / (ended[1] - began[1])
        for process in (c.coordinator, *c.nodes):
            for kind in KINDS:
                with self.subTest(kind, process=process.name):
                    self.one(c, job, process, kind, rate)
            self.assertRegex(process.log(), rf"a connection from {FROM}:[0-9]+ is closed: it ")
            self.assertGreater(self.closed(c, process), 0)

    def closed(self, c, process):
        """The connections that the process has closed for what was sent on them."""
        if process.program == "psgd-coordinator":
            return c.api.GetServerInfo(coordinator_pb2.GetServerInfoRequest()).connections_closed
        status = c.status(process)
        ((counts,),) = [part for part in (status.progress, [status.counters]) if part][:1]
        return counts.connections_closed

    def one(self, c, job, process, kind, rate):
        before = memory(process)
        forget_peak(process)
        asker, began = Asker(process), self.step(c, job)
        did = self.flood(kind, process)
        ended, p99 = self.step(c, job), asker.stop()
        most = memory(process, "VmHWM") - before
        end = time.monotonic() + 30
        while memory(process) - before > LEFT and time.monotonic() < end:
            c.pause()
        left = memory(process) - before
        print(f"{process.name}, {kind}: {did['bytes'] / MIB:.1f} MiB sent, {did['connections']} connections; "
              f"memory {most / MIB:+.0f} MiB, then {left / MIB:+.0f}; {len(asker.took)} calls, p99 "
              f"{p99 * 1e3:.1f} ms, slowest {asker.took[-1] * 1e3:.0f} ms; rate of the job "
              f"{(ended[0] - began[0]) / (ended[1] - began[1]) / rate:.2f}", flush=True)
        self.assertGreater(did["connections"], 0)
        self.assertEqual(asker.errors, [])
        self.assertLess(p99, P99)
        if SLOW == 1:  # sanitizers keep freed memory
            self.assertLess(most, MORE)
            self.assertLess(left, LEFT)
        self.assertIsNone(process.process.poll())
        after = Asker(process)  # it listens: this is a new connection
        after.over.wait(0.1)
        after.stop()
        self.assertEqual(after.errors, [])
        self.assertEqual(c.get(job.id).attempt, 1)
        c.wait(job.id, lambda j: j.progress.step > ended[0])


if __name__ == "__main__":
    main()
