#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_handshakes.py - clients that never finish a TLS handshake, or send junk instead of one: others are answered
meanwhile, and the memory of the service stays bounded."""
import pathlib
import random
import re
import socket
import sys
import threading
import time

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import SLOW, coordinator_pb2 as pb, coordinator_pb2_grpc, main  # noqa: E402
from tls_cluster import QUARANTINE_MIB, TlsTest, credentials, s_client, small_quarantine  # noqa: E402

SEED = 20261122
SECONDS = 8 * SLOW
ANSWER_S = 1 * SLOW  # in which others are answered
EACH = 40            # connections of each kind at a time
GROWTH_MIB = 64 if SLOW == 1 else 64 + QUARANTINE_MIB


def client_hello():
    """The first record of a true handshake, from Python's own TLS."""
    import ssl

    context = ssl.create_default_context()
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    context.set_alpn_protocols(["h2"])
    try:
        context.wrap_bio(inside, outside, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outside.read()


HELLO = client_hello()
DRAW = random.Random(SEED)
KINDS = {
    "says nothing": b"",
    "half a hello": HELLO[:len(HELLO) // 2],
    "a hello, and nothing more": HELLO,
    "a hello, then junk": HELLO + DRAW.randbytes(3000),
    "junk": DRAW.randbytes(4000),
    "the head of a long record": b"\x16\x03\x01\x3f\xff" + b"\x01\x00\x3f\xfb",
    "records without end": b"\x16\x03\x01\x00\x04\x01\xff\xff\xff" + b"\x16\x03\x01\x3f\xff" + bytes(16383),
    "HTTP/2 in plaintext": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9) * 200,
    "HTTP/1 in plaintext": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
    "alerts": b"\x15\x03\x03\x00\x02\x01\x00" * 500,
}


class Crowd:
    """Connections of every kind, opened again when the service closes them."""

    def __init__(self, port):
        self.port, self.opened, self.over = port, 0, False
        self.threads = [threading.Thread(target=self.run, args=(i, text), daemon=True)
                        for i, text in enumerate(KINDS.values())]
        for t in self.threads:
            t.start()

    def run(self, i, text):
        held = []
        while not self.over:
            while len(held) < EACH and not self.over:
                s = socket.socket()
                s.bind((f"127.0.1.{i + 1}", 0))  # an address of its own
                s.settimeout(1)
                try:
                    s.connect(("127.0.0.1", self.port))
                    s.sendall(text)
                except OSError:
                    s.close()
                    break
                s.setblocking(False)
                held.append(s)
                self.opened += 1
            held = [s for s in held if self.is_open(s)]
            time.sleep(0.02)
        for s in held:
            s.close()

    @staticmethod
    def is_open(s):
        try:
            while s.recv(65536):
                pass
        except BlockingIOError:
            return True
        except OSError:
            pass
        s.close()
        return False

    def end(self):
        self.over = True
        for t in self.threads:
            t.join()


def memory_mib(process):
    text = pathlib.Path(f"/proc/{process.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) / 1024


class Handshakes(TlsTest):
    def test_others_are_answered_meanwhile(self):
        with small_quarantine():
            c = self.tls_cluster(workers=0, pservers=0)
        request = pb.ListJobsRequest()
        c.api.ListJobs(request, timeout=60)
        before = memory_mib(c.coordinator)
        crowd = Crowd(c.coordinator.port)
        self.addCleanup(crowd.end)
        longest = {"an open connection": 0.0, "a new connection": 0.0}
        most, end = before, time.monotonic() + SECONDS
        while time.monotonic() < end:
            began = time.monotonic()
            c.api.ListJobs(request, timeout=30)
            longest["an open connection"] = max(longest["an open connection"], time.monotonic() - began)
            began = time.monotonic()
            options = [("grpc.use_local_subchannel_pool", 1)]
            with grpc.secure_channel(c.coordinator.address, credentials(c.admin), options=options) as channel:
                coordinator_pb2_grpc.CoordinatorServiceStub(channel).ListJobs(request, timeout=30)
            longest["a new connection"] = max(longest["a new connection"], time.monotonic() - began)
            most = max(most, memory_mib(c.coordinator))
            time.sleep(0.05)
        crowd.end()
        print(f"{crowd.opened} connections, answers in {longest}, {most - before:.0f} MiB more", file=sys.stderr)
        self.assertGreater(crowd.opened, len(KINDS) * EACH)
        self.assertLess(most - before, GROWTH_MIB)
        for what, seconds in longest.items():
            self.assertLess(seconds, ANSWER_S, what)
        c.api.ListJobs(request, timeout=30)

    def test_no_weak_suite_is_taken(self):
        c = self.tls_cluster(workers=1, pservers=0)
        at = c.admin / "identity.pem"
        member = ("-cert", at, "-key", at, "-CAfile", c.admin / "root.pem")
        for process in (c.coordinator, c.workers[0]):
            for suites in ("aNULL:eNULL", "RC4:3DES:SEED:CAMELLIA:ARIA", "ALL:!AESGCM:!CHACHA20", "kRSA"):
                shown = s_client(process.address, "-tls1_2", "-cipher", suites + ":@SECLEVEL=0", *member)
                self.assertIn("Cipher is (NONE)", shown, suites)
            self.assertRegex(s_client(process.address, "-tls1_2", "-cipher", "ECDHE+AESGCM", *member),
                             "New, TLSv1.2, Cipher is ECDHE-ECDSA-AES(128|256)-GCM-SHA")
            self.assertIn("No ALPN negotiated", s_client(process.address, "-alpn", "http/1.1", *member))


if __name__ == "__main__":
    sys.exit(main())
