#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_tls_floods.py - a member floods a service with frames under TLS: it is closed or paused, others are
answered meanwhile, and the memory stays bounded. Who has no certificate does not get as far as a frame."""
import contextlib
import os
import pathlib
import select
import ssl
import sys
import threading
import time

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import SLOW, coordinator_pb2 as pb, coordinator_pb2_grpc, main, node_pb2, node_pb2_grpc  # noqa: E402
from flooder import KINDS, PREFACE, SETTINGS_ACK, Flood, frame  # noqa: E402
from tls_cluster import QUARANTINE_MIB, TlsTest, credentials, small_quarantine  # noqa: E402

LONG = os.environ.get("PSGD_TEST_LONG", "0") == "1"
SECONDS = (3 if LONG else 2) * SLOW  # a flood opens a closed connection again after a second
ANSWER_S = 1 * SLOW  # in which others are answered
GROWTH_MIB = 64 if SLOW == 1 else 64 + QUARANTINE_MIB
# Floods that a bound of the connection ends, and those that it slows down.
CLOSED = ("pings", "settings", "empty data", "resets", "resets unacknowledged", "continuation", "garbage", "http1")
SLOWED = ("tiny data", "unknown methods")


class Plain:
    """A connection of TLS that is used like one without."""

    def __init__(self, s):
        self.s = s

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()

    def __getattr__(self, name):
        return getattr(self.s, name)

    def send(self, data):
        return self.tried(self.s.send, data)

    def recv(self, n):
        return self.tried(self.s.recv, n)

    @staticmethod
    def tried(call, argument):
        try:
            return call(argument)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as e:
            raise BlockingIOError from e


class TlsFlood(Flood):
    """A flood by a member, whose folder is `at`. None: it has no certificate."""

    def __init__(self, kind, address, source, at, root):
        super().__init__(kind, address, source)
        self.context = ssl.create_default_context(cafile=root / "root.pem")
        self.context.check_hostname = False
        self.context.set_alpn_protocols(["h2"])
        if at is not None:
            self.context.load_cert_chain(at / "identity.pem")

    def connect(self):
        s = super().connect()
        s.settimeout(10 * SLOW)
        try:
            return Plain(self.context.wrap_socket(s))
        except BaseException:
            s.close()
            raise

    def run_for(self, seconds):
        end = time.monotonic() + seconds
        for s, reads, wait in self.run_one(end):
            select.select([s] if reads else [], [s] if s is not None and not wait > 0.1 else [], [], min(wait, 0.1))


def memory_mib(process):
    text = pathlib.Path(f"/proc/{process.process.pid}/status").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


class TlsFloods(TlsTest):
    def asks(self, c, process, at):
        """A function that asks the service something, as a member who is not the flooder."""
        channel = grpc.secure_channel(process.address, credentials(at), [("grpc.use_local_subchannel_pool", 1)])
        self.addCleanup(channel.close)
        if process is c.coordinator:
            stub = coordinator_pb2_grpc.CoordinatorServiceStub(channel)
            return lambda: stub.ListJobs(pb.ListJobsRequest(), timeout=30 * SLOW)
        stub = node_pb2_grpc.NodeServiceStub(channel)
        return lambda: stub.GetStatus(node_pb2.GetStatusRequest(), timeout=30 * SLOW)

    def flood(self, process, kind, source, ask, *who):
        """Floods, and asks meanwhile: how often a connection was opened, and the longest answer."""
        flood = TlsFlood(kind, ("127.0.0.1", process.port), source, *who)
        thread = threading.Thread(target=flood.run_for, args=(SECONDS,), daemon=True)
        thread.start()
        longest = 0.0
        while thread.is_alive():
            began = time.monotonic()
            ask()
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.02)
        return flood, longest

    def test_members_cannot_flood(self):
        with small_quarantine():
            c = self.tls_cluster(workers=1, pservers=0)
        member = c.authority.join("observer/oscar")
        admin, coordinator = c.admin, c.authority.dir_of("coordinator/main")
        for p, process in enumerate((c.coordinator, c.workers[0])):
            ask = self.asks(c, process, admin if process is c.coordinator else coordinator)
            ask()
            before = memory_mib(process)
            for k, kind in enumerate((*CLOSED, *SLOWED)):
                with self.subTest(kind=kind, program=process.program):
                    flood, longest = self.flood(process, kind, f"127.0.{p + 2}.{k + 1}", ask, member, c.admin)
                    grown = memory_mib(process) - before
                    print(f"{process.program}: {kind}: {flood.connections} connections, {flood.bytes >> 10} KiB, "
                          f"answers in {longest:.2f} s, {grown:.0f} MiB more", file=sys.stderr)
                    self.assertLess(longest, ANSWER_S)
                    self.assertLess(grown, GROWTH_MIB)
                    if kind in CLOSED:
                        self.assertGreater(flood.connections, 1, "no connection was closed")
        self.assertGreater(c.api.GetServerInfo(pb.GetServerInfoRequest()).connections_closed, len(CLOSED) - 1)

    def test_no_frame_without_a_certificate(self):
        c = self.tls_cluster(workers=0, pservers=0)
        flood = TlsFlood("pings", ("127.0.0.1", c.coordinator.port), "127.0.4.1", None, c.admin)
        answers = b""
        with contextlib.suppress(OSError), flood.connect() as s:
            s.sendall(PREFACE + frame(4, 0, 0) + SETTINGS_ACK)
            answers = s.recv(4096)  # TLS 1.3: the client learns here that it is refused
        self.assertEqual(answers, b"")
        self.assertEqual(c.api.GetServerInfo(pb.GetServerInfoRequest()).connections_closed, 0)


if __name__ == "__main__":
    sys.exit(main())
