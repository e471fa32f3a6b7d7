# SPDX-License-Identifier: Apache-2.0
"""test_floods.py - somebody floods a service with HTTP/2 frames, requests or connections.

While a job trains, each kind of flood goes to the coordinator, to the server and to a worker, from
two connections that are opened again as soon as they are closed, of an address that has not been
seen before. Meanwhile other clients are answered and the job goes on; the memory that a flood takes
is bounded and given back.

The cluster has one processor, the flooder and other clients have another, as if it were another
machine. The job's rate during a flood is compared with its rate beside the flooder's twin, which
sends the same with as much time of the processor, but to itself. So what is measured is the harm
that the service does to the job, and not that of a processor that is busy.

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
# The flooder and other clients have a processor, the cluster has another.
THEIRS, OURS = [*sorted(os.sched_getaffinity(0)), *sorted(os.sched_getaffinity(0))][:2]
TICKS = os.sysconf("SC_CLK_TCK")
RATE = 0.9  # of the job, at least; asked of 10 s, as the bursts that are allowed weigh more in 2 s
TURNS = 3  # of flood and twin, at most, whose sums are compared


def memory(process, field="VmRSS"):
    text = pathlib.Path(f"/proc/{process.process.pid}/status").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith(field + ":")]
    return int(line.split()[1]) << 10


def forget_peak(process):
    pathlib.Path(f"/proc/{process.process.pid}/clear_refs").write_text("5")


class Moment:
    """How far the job is, and what took the cluster's processor until then, in seconds."""

    def __init__(self, c):
        self.time = time.monotonic()
        self.step = c.status(c.workers[0]).progress[0].step
        self.own = sum(self.used(p) for p in (c.coordinator, *c.nodes))
        (line,) = [line for line in pathlib.Path("/proc/stat").read_text().splitlines()
                   if line.startswith(f"cpu{OURS} ")]
        user, nice, system, _, _, _, _, steal = map(int, line.split()[1:9])
        self.busy = (user + nice + system + steal) / TICKS

    @staticmethod
    def used(process):
        fields = pathlib.Path(f"/proc/{process.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


class Rate:
    """Steps of the job, and the seconds in which the cluster could have its processor: strangers on
    this machine, and what they take, count for nothing."""

    def __init__(self):
        self.steps, self.seconds = 0, 0

    def add(self, began, ended):
        self.steps += ended.step - began.step
        strangers = max(0, ended.busy - began.busy - (ended.own - began.own))
        self.seconds += ended.time - began.time - strangers

    def a_second(self):
        return self.steps / self.seconds


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
        return self

    def p99(self):
        return self.took[len(self.took) * 99 // 100]


class Floods(ClusterTest):
    def flood(self, kind, source, *target):
        """Has another process flood a target, on a processor of its own; what it did."""
        done = subprocess.run(["taskset", "-c", str(THEIRS), sys.executable, flooder.__file__, kind, *target,
                               str(SECONDS), source],
                              capture_output=True, check=False, timeout=SECONDS + 20 * PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(done.stdout)

    def test_floods(self):
        os.sched_setaffinity(0, {THEIRS})  # of the clients too
        c = self.cluster(workers=1, pservers=1, place=lambda name: {"within": ["taskset", "-c", str(OURS)]})
        c.wait_nodes(2)
        sources = (f"127.0.{i}.2" for i in range(1, 255))
        for process in (c.coordinator, *c.nodes):
            job = c.submit(ENDLESS)  # it has steps for a quarter of an hour
            c.wait(job.id, lambda j: j.progress.step > 20)
            asker = Asker(process)
            asker.over.wait(1)
            print(f"{process.name}: p99 {asker.stop().p99() * 1e3:.1f} ms at rest, {memory(process) / MIB:.0f} MiB")
            for kind in KINDS:
                with self.subTest(kind, process=process.name):
                    self.one(c, job, process, kind, next(sources))
            self.assertRegex(process.log(), r"a connection from 127.0.[0-9]+.2:[0-9]+ is closed: it ")
            self.assertGreater(self.closed(c, process), 0)
            c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
            c.wait(job.id)

    def closed(self, c, process):
        """The connections that the process has closed for what was sent on them."""
        if process.program == "psgd-coordinator":
            return c.api.GetServerInfo(coordinator_pb2.GetServerInfoRequest()).connections_closed
        status = c.status(process)
        ((counts,),) = [part for part in (status.progress, [status.counters]) if part][:1]
        return counts.connections_closed

    def measured(self, c, rate, *flood):
        """Floods, and adds what the job did meanwhile to a rate; what the flooder says."""
        began = Moment(c)
        did = self.flood(*flood)
        rate.add(began, Moment(c))
        return did

    def rates(self, c, process, kind, source):
        """What the flooder says, the asker that asked meanwhile, and the job's rate as a part of that
        beside a twin, if there is time for one."""
        flooded, alone, turns = Rate(), Rate(), []
        while len(turns) < TURNS:
            asker = Asker(process)
            turns.append((self.measured(c, flooded, kind, source, *process.address.rsplit(":", 1)), asker))
            asker.stop()
            if not LONG:
                return *turns[0], None
            calm = Asker(process)
            self.measured(c, alone, kind, source, "twin", str(turns[-1][0]["share"]))
            calm.stop()
            if flooded.a_second() / alone.a_second() >= RATE:
                break
        return *turns[0], flooded.a_second() / alone.a_second()

    def one(self, c, job, process, kind, source):
        before = memory(process)
        forget_peak(process)
        did, asker, part = self.rates(c, process, kind, source)
        p99 = asker.p99()
        most = memory(process, "VmHWM") - before
        end = time.monotonic() + 30
        while memory(process) - before > LEFT and time.monotonic() < end:
            c.pause()
        left = memory(process) - before
        print(f"{process.name}, {kind}: {did['bytes'] / MIB:.1f} MiB sent, {did['connections']} connections; "
              f"memory {most / MIB:+.0f} MiB, then {left / MIB:+.0f}; {len(asker.took)} calls, p99 "
              f"{p99 * 1e3:.1f} ms, slowest {asker.took[-1] * 1e3:.0f} ms; the flooder took {did['share']:.2f} of a processor; "
              f"rate of the job {part or 0:.2f}", flush=True)
        if part and SLOW == 1:
            self.assertGreaterEqual(part, RATE)
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
        step = c.get(job.id).progress.step
        c.wait(job.id, lambda j: j.progress.step > step)


if __name__ == "__main__":
    main()
