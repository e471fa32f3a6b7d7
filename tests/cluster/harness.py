# SPDX-License-Identifier: Apache-2.0
"""harness.py - a cluster of real processes on loopback, for the tests here.

Programs come from $PSGD_BIN (the build's bin folder), messages from the .proto
files alone. Every wait ends on an event or at a deadline; nothing sleeps to let
things happen: a poll asks a status call until it says what is waited for. A job that is
disturbed while it runs is ENDLESS or has a pace (straggler `fixed`), so that no machine
is too fast for it, and a log is read from where it ended before the job.
"""
import atexit
import contextlib
import csv
import hashlib
import io
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
from google.protobuf import json_format

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PSGD_BIN", ROOT / "build" / "bin"))
# Sanitizers make everything slower; what a job is told of times grows with them.
SLOW = float(os.environ.get("PSGD_TEST_SLOW", "1"))
# So much longer than on a machine that is at rest a wait may last before what it is for
# counts as lost: only a test that fails takes so long.
PATIENCE = 6 * SLOW
# Where coordinators keep their jobs: in jobs.db, or each cluster in an etcd of its own.
REGISTRY = os.environ.get("PSGD_TEST_REGISTRY", "sqlite")


def _messages():
    """A folder with the modules of proto/psgd/v1: the build's, or one that is removed when the program ends."""
    if "PSGD_TEST_MESSAGES" in os.environ:
        return os.environ["PSGD_TEST_MESSAGES"]
    from messages import compile_to

    folder = tempfile.mkdtemp(prefix="psgd-proto-")
    atexit.register(shutil.rmtree, folder, True)
    compile_to(folder)
    return folder


sys.path.insert(0, _messages())
from psgd.v1 import (coordinator_pb2, coordinator_pb2_grpc, job_pb2,  # noqa: E402
                     node_pb2, node_pb2_grpc)

LONG = os.environ.get("PSGD_TEST_LONG", "0") == "1"


def seed(variable):
    """The seed of a test that draws: what `variable` says, else a new one in long runs and always the
    same in those by which a change is judged."""
    return int(os.environ.get(variable) or (random.SystemRandom().randrange(10 ** 6) if LONG else 20261127))


def same_with_any_registry(test):
    """A test of what no registry has a part in: with one in etcd it is only run by --long."""
    return unittest.skipIf(REGISTRY == "etcd" and not LONG, "what it tests is the same with any registry")(test)


_held = []


def free_ports(count, host="127.0.0.1"):
    """Ports that nobody else on this machine is given while this program runs, also not while a service
    that had one is dead: a socket that does not listen holds each."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((host, 0))
    _held.extend(sockets)
    return [s.getsockname()[1] for s in sockets]


FINAL = (job_pb2.JOB_STATE_DONE, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED)


def data_path():
    """Folder with mnist/, or None."""
    path = os.environ.get("PSGD_DATA")
    return path if path and os.path.isdir(os.path.join(path, "mnist")) else None


class Process:
    """One service. `address` is where it listens; `within`: a command that runs it elsewhere;
    `bin`: the folder of its program; `data_dir`: its folder, if that is shared."""

    def __init__(self, program, name, folder, args, env=None, port=0, host="127.0.0.1", within=(),
                 bin=BIN, data_dir=None):
        self.program, self.name, self.folder = program, name, folder
        self.args, self.env, self.port = list(args), env or {}, port
        self.host, self.within, self.bin = host, list(within), bin
        self.data_dir = data_dir or folder / name
        if port == 0 and not within:  # which has a network of its own
            (self.port,) = free_ports(1, host)
        self.process = None
        self.start()

    def start(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_")}
        env["PSGD_WEB"] = "off"  # its usual port is one for all
        env.update(self.env)
        self.log_path = self.folder / f"{self.name}.log"
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [*self.within, self.bin / self.program, "--listen", f"{self.host}:{self.port}", "--data-dir",
             self.data_dir, *map(str, self.args),
             *([] if self.host.startswith("127.") or "--tls-dir" in self.args else ["--insecure"])],
            stdout=subprocess.PIPE, stderr=log, env=env)
        log.close()
        self.first_line = line = self._first_line(20 * PATIENCE)
        match = re.search(r"listening on (\S+:(\d+))", line)
        if not match:
            raise RuntimeError(f"{self.name} did not start: {line!r}\n{self.log()[-6000:]}")
        self.address = match.group(1)
        self.port = int(match.group(2))

    def _first_line(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return self.process.stdout.readline().decode() if ready else ""

    def log(self, since=0):
        """What it has logged, all its lives long, or after the place that log_end() gave:
        a poll must not be met by what was said of the job before."""
        with open(self.log_path, "rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace")

    def log_end(self):
        return self.log_path.stat().st_size

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self, seconds=30):
        """For its end by itself."""
        self.process.wait(seconds * PATIENCE)
        self.process.stdout.close()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def is_frozen(self):
        return pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"

    def stop(self, seconds=20):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {seconds * PATIENCE} s of SIGTERM\n{self.log()[-6000:]}")
        finally:
            self.process.stdout.close()


class SlowLink:
    """A listener that carries connections to another address, each way at `rate` bytes a second."""

    def __init__(self, rate):
        self.rate, self.to = rate, None
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self.socket.accept()
                host, port = self.to.rsplit(":", 1)
                far = socket.create_connection((host, int(port)))
                self.open += [near, far]
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(a, b), daemon=True).start()

    def _carry(self, a, b):
        free = time.monotonic()  # when the link has sent what it was given
        with contextlib.suppress(OSError):
            while data := a.recv(16384):
                free = max(free, time.monotonic()) + len(data) / self.rate
                time.sleep(max(0, free - time.monotonic()))
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)

    def close(self):
        for s in (self.socket, *self.open):
            s.close()


class Cluster:
    """A coordinator with its nodes, below a temporary folder; `place(name)` says with what
    further arguments of Process each is made, if it is not to be on loopback; `prepare(folder)`
    is called before anything is in the folder."""

    def __init__(self, workers=2, pservers=1, coordinator_args=(), node_args=(), data=None,
                 node_data=None, place=lambda name: {}, bin=BIN, coordinator_env=None,
                 prepare=lambda folder: None, node_env=lambda name: {}):
        self.place = lambda name: {"bin": bin, **place(name)}
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-cluster-"))
        self.node_args, self.node_data, self.node_env = list(node_args), node_data, node_env
        prepare(self.folder)
        self.etcd = None
        if REGISTRY == "etcd":
            import ha_cluster  # which imports this

            if not shutil.which("etcd"):
                raise unittest.SkipTest("no etcd-server")
            self.etcd = ha_cluster.Etcd()
            coordinator_args = ["--registry", self.etcd.url, *coordinator_args]
        self.coordinator = Process(
            "psgd-coordinator", "coordinator", self.folder,
            ["--heartbeat", "200ms", "--lease", f"{int(3000 * SLOW)}ms", *coordinator_args],
            {**({"PSGD_DATA": data} if data else {}), **(coordinator_env or {})},
            **self.place("coordinator"))
        self.pservers = [self.add("pserver", i) for i in range(pservers)]
        self.workers = [self.add("worker", i) for i in range(workers)]
        self.connect()

    @staticmethod
    def dial(address):
        """A channel to one of its services."""
        return grpc.insecure_channel(address)

    def connect(self):
        self.channel = self.dial(self.coordinator.address)
        self.api = coordinator_pb2_grpc.CoordinatorServiceStub(self.channel)
        if self.etcd:
            self.poll("the coordinator leads", lambda: self.api.GetServerInfo(
                coordinator_pb2.GetServerInfoRequest(), timeout=2 * PATIENCE))

    def add(self, role, i, extra=(), env=None):
        merged = {"PSGD_DATA": self.node_data} if self.node_data else {}
        merged.update(self.node_env(f"{role}-{i}"))
        merged.update(env or {})
        return Process(f"psgd-{role}", f"{role}-{i}", self.folder,
                       ["--coordinator", self.coordinator.address, "--node-id", f"{role}-{i}",
                        *self.node_args, *extra], merged, **self.place(f"{role}-{i}"))

    @property
    def nodes(self):
        return self.pservers + self.workers

    def restart_coordinator(self):
        self.channel.close()
        self.coordinator.start()
        self.connect()

    def close(self, failed=False):
        self.channel.close()
        errors = []
        for p in [*self.workers, *self.pservers, self.coordinator]:
            if p.process.poll() is None:
                try:
                    p.stop()
                except AssertionError as e:
                    errors.append(str(e))
        report = r"(?s)[^\n]*(ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:).{,6000}"
        sanitizer = [found.group() for found in
                     (re.search(report, p.log()) for p in [*self.nodes, self.coordinator]) if found]
        if failed or sanitizer:
            for p in [self.coordinator, *self.nodes]:
                print(f"--- {p.name}\n{p.log()[-1500:]}", file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.etcd:
            self.etcd.close()
        if sanitizer:
            raise AssertionError("a sanitizer reported:\n" + sanitizer[0])
        if errors:
            raise AssertionError("\n".join(errors))

    # --- calls ---------------------------------------------------------------

    def submit(self, spec=None, request_id="", no_queue=False, **fields):
        """A JobSpec from a dict in proto's JSON form, answered with the job."""
        spec = json_format.ParseDict({**(spec or {}), **fields}, job_pb2.JobSpec())
        request = coordinator_pb2.SubmitJobRequest(spec=spec, request_id=request_id,
                                                   no_queue=no_queue)
        return self.api.SubmitJob(request, timeout=10 * PATIENCE).job

    def get(self, job_id):
        return self.api.GetJob(coordinator_pb2.GetJobRequest(job_id=job_id), timeout=10 * PATIENCE).job

    def node_list(self):
        return self.api.ListNodes(coordinator_pb2.ListNodesRequest(), timeout=10 * PATIENCE).nodes

    def wait(self, job_id, until=lambda job: job.state in FINAL, seconds=60):
        """Watches a job until `until(job)` is true; the job then."""
        deadline = time.monotonic() + seconds * PATIENCE
        after = 0
        job = None
        while time.monotonic() < deadline:
            try:
                stream = self.api.WatchJob(
                    coordinator_pb2.WatchJobRequest(job_id=job_id, after_sequence=after),
                    timeout=max(0.1, deadline - time.monotonic()))
                for event in stream:
                    after = event.sequence
                    job = event.job
                    if until(job):
                        stream.cancel()
                        return self.get(job_id)
                break  # the job is over
            except grpc.RpcError as e:
                if e.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise
                self.pause()
        job = self.get(job_id)
        if until(job):
            return job
        raise AssertionError(f"job {job_id} is {job_pb2.JobState.Name(job.state)} {job.reason} "
                             f"{job.message} after {seconds * PATIENCE} s, step {job.progress.step}")

    def wait_state(self, job_id, state, seconds=60):
        """Until the job is in `state` or past it."""
        return self.wait(job_id, lambda job: job.state >= state, seconds)

    @staticmethod
    def pause():
        """Between two polls of something that has no event."""
        select.select([], [], [], 0.05)

    def poll(self, what, ask, seconds=20):
        """Asks until the answer is true; the answer."""
        deadline = time.monotonic() + seconds * PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(grpc.RpcError):
                answer = ask()
                if answer:
                    return answer
            self.pause()
        raise AssertionError(f"after {seconds * PATIENCE} s still not: {what}")

    def wait_nodes(self, count, seconds=20):
        return self.poll(f"{count} live nodes",
                         lambda: sum(n.alive for n in self.node_list()) >= count, seconds)

    def wait_idle(self, nodes=None, seconds=20):
        """Until these processes (default: all that run) say themselves that they are idle."""
        for p in nodes or [n for n in self.nodes if n.process.poll() is None]:
            with self.dial(p.address) as channel:
                stub = node_pb2_grpc.NodeServiceStub(channel)
                self.poll(f"{p.name} idle",
                          lambda: stub.GetStatus(node_pb2.GetStatusRequest(), timeout=2 * PATIENCE).node.phase ==
                          coordinator_pb2.NODE_PHASE_IDLE, seconds)

    def status(self, process, dials_again=False):
        """dials_again: a connection that is refused is tried again, until the deadline of the call."""
        with self.dial(process.address) as channel:
            return node_pb2_grpc.NodeServiceStub(channel).GetStatus(
                node_pb2.GetStatusRequest(), timeout=10 * PATIENCE, wait_for_ready=dials_again)

    def files(self, job_id, **request):
        """{name: bytes} of ReclaimLogs, chunks and checksums verified."""
        import zlib

        content, sums = {}, {}
        for chunk in self.api.ReclaimLogs(
                coordinator_pb2.ReclaimLogsRequest(job_id=job_id, **request), timeout=60 * PATIENCE):
            name = chunk.artifact.name
            assert len(chunk.payload) <= 1 << 20
            assert zlib.crc32(chunk.payload) == chunk.crc32, name
            data = content.setdefault(name, bytearray())
            assert chunk.offset == len(data) + request.get("offset", 0), name
            data += chunk.payload
            sums[name] = chunk.artifact.sha256
        for name, data in content.items():
            if sums[name] and not request.get("offset"):
                assert hashlib.sha256(data).hexdigest() == sums[name], name
        return {k: bytes(v) for k, v in content.items()}


def evaluated(report):
    """An EV file without what was measured, as text: equal on all workers of a synchronous job."""
    rows = csv.DictReader(io.StringIO(report.decode()))
    names = [name for name in rows.fieldnames if name not in ("time_s", "bytes_up", "bytes_down")]
    return "".join(f"{','.join(line)}\n" for line in (names, *([row[n] for n in names] for row in rows)))


def tensors(model):
    """{name: (shape, bytes)} of a safetensors file."""
    (n,) = struct.unpack_from("<Q", model)
    header = json.loads(model[8:8 + n])
    header.pop("__metadata__", None)
    return {name: (e["shape"], model[8 + n + e["data_offsets"][0]:8 + n + e["data_offsets"][1]])
            for name, e in header.items()}


def rows_of(files):
    """{(table, key): all else of its row} of the table files among these."""
    rows = {}
    for name, bytes_ in files.items():
        if name.endswith(".psgdtab"):
            _, width, slots, table, _, _, sections = struct.unpack_from("<8s6I", bytes_)
            at, size = 80, 32 + 4 * width * (1 + slots)
            for _ in range(sections):
                _, count, removed, candidates = struct.unpack_from("<4I", bytes_, at)
                for i in range(count):
                    row = bytes_[at + 16 + i * size:at + 16 + (i + 1) * size]
                    rows[table, row[:8]] = row[8:]
                at += 16 + count * size + 8 * removed + 16 * candidates + 8
            assert at == len(bytes_)
    return rows


class ClusterTest(unittest.TestCase):
    """Gives each test clusters that are closed behind it, logs shown on failure."""

    def cluster(self, **options):
        c = Cluster(**options)

        def close():
            # Whether the test failed is known only to its outcome.
            outcome = self._outcome
            result = getattr(outcome, "result", None)
            mine = [test for test, _ in (result.failures + result.errors if result else [])
                    if self in (test, getattr(test, "test_case", None))]
            failed = bool(mine) or any(error for _, error in getattr(outcome, "errors", []) if error)
            c.close(failed)

        self.addCleanup(close)
        return c

    def need_mnist(self):
        if not data_path():
            self.skipTest("PSGD_DATA has no mnist/")
        return data_path()


# A job that ends in about a second: few samples, a small net.
SMALL = {
    "title": "small", "model": {"preset": "mlp", "widths": [16]}, "data": {"name": "glyphs",
    "trainLimit": 2000, "testLimit": 500}, "epochs": 8, "blockSize": 50,
    "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.002}}},
}
# One that goes on until it is stopped, or loses a node: who is to blame for its end can be tested.
FRAGILE = {"recovery": {"onWorkerLoss": "LOSS_ACTION_FAIL", "onServerLoss": "LOSS_ACTION_FAIL"}}
ENDLESS = {**SMALL, **FRAGILE, "title": "endless", "epochs": 100000}


def main():
    # What a shell runs in the background ignores SIGINT, and so would what is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main(verbosity=2)
