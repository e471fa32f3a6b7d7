# SPDX-License-Identifier: Apache-2.0
"""rogue.py - a node that an attacker wrote: it joins a cluster, takes part in the commit, and then
says and leaves what it likes."""
import concurrent.futures
import hashlib
import pathlib
import sys
import threading
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc  # noqa: E402
from harness import coordinator_pb2 as C, coordinator_pb2_grpc, job_pb2, node_pb2 as N  # noqa: E402
from harness import node_pb2_grpc  # noqa: E402

WORKER, PSERVER = job_pb2.NODE_ROLE_WORKER, job_pb2.NODE_ROLE_PSERVER


class Rogue(node_pb2_grpc.NodeServiceServicer):
    """A node of any role. `leaves` are (name, kind, bytes) that Collect sends; `claims` are the
    fields of Heartbeat beside who it is; `sent` counts bytes of files that were taken from it."""

    def __init__(self, coordinator, node_id="rogue", role=WORKER, address=None):
        self.node_id, self.role = node_id, role
        self.incarnation = int(time.time() * 1e6)
        self.phase, self.job_id, self.attempt = C.NODE_PHASE_IDLE, "", 0
        self.leaves, self.claims, self.sent, self.settings = [], {}, 0, None
        self.ends_as = C.NODE_PHASE_FINISHED
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(16))
        node_pb2_grpc.add_NodeServiceServicer_to_server(self, self.server)
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.address = address or f"127.0.0.1:{port}"
        self.channel = grpc.insecure_channel(coordinator)
        self.api = coordinator_pb2_grpc.CoordinatorServiceStub(self.channel)
        self.stopped = threading.Event()
        self.changed = threading.Event()
        self.register()
        self.beats = threading.Thread(target=self.beat, daemon=True)
        self.beats.start()

    def register(self):
        return self.api.RegisterNode(C.RegisterNodeRequest(
            node_id=self.node_id, incarnation=self.incarnation, role=self.role,
            address=self.address, kernels="none"), timeout=20)

    def heartbeat(self, **fields):
        return self.api.Heartbeat(C.HeartbeatRequest(**{
            "node_id": self.node_id, "incarnation": self.incarnation, "phase": self.phase,
            "job_id": self.job_id, "attempt": self.attempt, **self.claims, **fields}), timeout=20)

    def beat(self):
        while not self.stopped.is_set():
            self.changed.wait(0.2)
            self.changed.clear()
            try:
                answer = self.heartbeat()
                if answer.directive == C.NODE_DIRECTIVE_ABORT:
                    self.enter(C.NODE_PHASE_IDLE, "", 0)
            except grpc.RpcError:
                pass

    def enter(self, phase, job_id=None, attempt=None):
        self.phase = phase
        self.job_id = self.job_id if job_id is None else job_id
        self.attempt = self.attempt if attempt is None else attempt
        self.changed.set()

    def close(self):
        self.stopped.set()
        self.changed.set()
        self.beats.join()
        self.server.stop(0).wait()
        self.channel.close()

    # --- what the coordinator asks ---------------------------------------------

    def CanCommit(self, q, context):
        self.enter(C.NODE_PHASE_RESERVED, q.job_id, q.attempt)
        return N.CanCommitResponse(ready=True, node_id=self.node_id, incarnation=self.incarnation,
                                   version="0.0.0")

    def PreCommit(self, requests, context):
        self.enter(C.NODE_PHASE_PREPARING)
        for q in requests:
            kind = q.WhichOneof("package")
            if kind == "settings":
                self.settings = q.settings
                yield N.PreCommitResponse(package=N.PACKAGE_KIND_SETTINGS)
            elif kind == "data":
                yield N.PreCommitResponse(package=N.PACKAGE_KIND_DATA)
            elif kind == "seal":
                self.enter(C.NODE_PHASE_PREPARED)
                yield N.PreCommitResponse(package=N.PACKAGE_KIND_SEAL)
                return

    def DoCommit(self, q, context):
        def run():
            try:
                self.api.Ready(C.ReadyRequest(
                    node_id=self.node_id, incarnation=self.incarnation, job_id=q.job_id,
                    attempt=q.attempt), timeout=60)
                self.enter(C.NODE_PHASE_RUNNING)
                self.run()
                self.enter(self.ends_as)
            except grpc.RpcError:
                pass

        self.enter(C.NODE_PHASE_READY)
        threading.Thread(target=run, daemon=True).start()
        return N.DoCommitResponse()

    def run(self):
        """What it does instead of training."""

    def Abort(self, q, context):
        self.enter(C.NODE_PHASE_IDLE, "", 0)
        return N.AbortResponse()

    def GetStatus(self, q, context):
        return N.GetStatusResponse(
            node=C.Node(id=self.node_id, role=self.role, address=self.address, alive=True,
                        job_id=self.job_id, attempt=self.attempt, phase=self.phase),
            progress=self.claims.get("progress", []))

    def Collect(self, q, context):
        self.sent = 0
        for name, kind, content in self.leaves:
            digest = hashlib.sha256(content).hexdigest()
            for at in range(0, max(1, len(content)), 1 << 20):
                part = content[at:at + (1 << 20)]
                yield N.CollectResponse(name=name, kind=kind, size=len(content), sha256=digest,
                                        offset=at, crc32=zlib.crc32(part), payload=part)
                self.sent += len(part)

    def DescribeNode(self, q, context):
        return N.DescribeNodeResponse()
