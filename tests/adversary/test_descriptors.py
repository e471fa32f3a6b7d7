# SPDX-License-Identifier: Apache-2.0
"""test_descriptors.py - somebody opens more connections than a service may have descriptors.

Each service refuses what is too much, goes on with those whom it knows, and answers new clients as
soon as there is room again."""
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc  # noqa: E402
from harness import (PATIENCE, SMALL, ClusterTest, coordinator_pb2,  # noqa: E402
                     coordinator_pb2_grpc, job_pb2, main, node_pb2, node_pb2_grpc)

LIMIT = 96  # descriptors of each service, which it cannot raise
PRLIMIT = ["prlimit", f"--nofile={LIMIT}:{LIMIT}"]


def connect(address, count):
    """So many connections that say nothing."""
    host, port = address.rsplit(":", 1)
    found = []
    for _ in range(count):
        s = socket.socket()
        s.settimeout(1)
        try:
            s.connect((host, int(port)))
        except OSError:
            s.close()
            continue
        found.append(s)
    return found


def are_open(sockets):
    """How many of them the other side has not closed."""
    count = 0
    for s in sockets:
        s.setblocking(False)
        try:
            while s.recv(4096):
                pass
        except BlockingIOError:
            count += 1
        except OSError:
            pass
    return count


class Descriptors(ClusterTest):
    def ask(self, process, seconds):
        """One call on a new connection."""
        with grpc.insecure_channel(process.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            if process.program == "psgd-coordinator":
                return coordinator_pb2_grpc.CoordinatorServiceStub(channel).GetServerInfo(
                    coordinator_pb2.GetServerInfoRequest(), timeout=seconds, wait_for_ready=True)
            return node_pb2_grpc.NodeServiceStub(channel).GetStatus(
                node_pb2.GetStatusRequest(), timeout=seconds, wait_for_ready=True)

    def test_a_service_listens_again_when_there_is_room(self):
        c = self.cluster(workers=1, pservers=1, place=lambda name: {"within": PRLIMIT})
        c.wait_nodes(2)
        for process in (c.coordinator, *c.nodes):
            with self.subTest(process.name):
                held = connect(process.address, 3 * LIMIT)
                # It refuses what is too much, at once, and keeps some descriptors for itself.
                c.poll("connections are refused", lambda: are_open(held) < LIMIT, seconds=5)
                self.assertGreater(are_open(held), LIMIT // 4)
                for s in held:
                    s.close()
                began = time.monotonic()
                self.ask(process, 5 * PATIENCE)
                print(f"{process.name}: served {time.monotonic() - began:.2f} s after the last was closed")
                self.assertIn("too many connections", process.log())
        job = c.wait(c.submit(SMALL, epochs=1).id, seconds=30)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")

    def test_who_says_nothing_is_closed_after_a_while(self):
        c = self.cluster(workers=0, pservers=0)
        held = connect(c.coordinator.address, 4)
        held[1].sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")  # and no settings
        held[2].sendall(b"PRI *")
        c.poll("the silent are closed", lambda: are_open(held) == 0, seconds=5)

    def test_a_service_takes_the_descriptors_that_it_may_have(self):
        c = self.cluster(workers=0, pservers=0,
                         place=lambda name: {"within": ["prlimit", "--nofile=64:512"]})
        limits = pathlib.Path(f"/proc/{c.coordinator.process.pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
        self.assertEqual(line.split()[3:5], ["512", "512"])

    def test_those_who_are_known_are_served_meanwhile(self):
        c = self.cluster(workers=1, pservers=1, place=lambda name: {"within": PRLIMIT})
        c.wait_nodes(2)
        held = [s for process in (c.coordinator, *c.nodes) for s in connect(process.address, 2 * LIMIT)]
        began = {n.id: n.last_seen.ToNanoseconds() for n in c.node_list()}
        c.poll("heartbeats go on for longer than a lease", lambda: all(
            n.alive and n.last_seen.ToNanoseconds() > began[n.id] + 4 * 10**9 for n in c.node_list()))
        for s in held:
            s.close()
        job = c.wait(c.submit(SMALL, epochs=1).id, seconds=30)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")


if __name__ == "__main__":
    main()
