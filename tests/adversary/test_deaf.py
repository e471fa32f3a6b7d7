# SPDX-License-Identifier: Apache-2.0
"""test_deaf.py - a service's listener takes no connections any more, while all else of it lives.

It finds that out by itself, says why and ends with status 1. A supervisor starts it again; then a
job goes on, or has ended in the name of the node, and the next one is done.
"""
import concurrent.futures
import ctypes
import os
import pathlib
import resource
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from harness import (ENDLESS, SLOW, SMALL, ClusterTest, coordinator_pb2, job_pb2,  # noqa: E402
                     main)

# Six looks in a row, each 5 s after the one before and with 5 s of patience; docs/security.md.
WITHIN_S = 60
MORE_S = 15 * SLOW  # for a machine with other work
PIDFD_GETFD = 438
PACE = {"name": "fixed", "params": {"rank": -1, "ms": 20}}
LOST = "accepts no connections any more and ends"


def listeners(process):
    """Copies of the listening sockets that a process has."""
    pidfd = os.pidfd_open(process.process.pid)
    found = []
    for link in pathlib.Path(f"/proc/{process.process.pid}/fd").iterdir():
        if not os.readlink(link).startswith("socket:"):
            continue
        fd = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, pidfd, int(link.name), 0)
        if fd < 0:
            raise OSError(ctypes.get_errno(), f"pidfd_getfd of {link}")
        s = socket.socket(fileno=fd)
        if s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            found.append(s)
        else:
            s.detach()
            os.close(fd)
    os.close(pidfd)
    return found


def stop_listening(process):
    for s in listeners(process):
        s.shutdown(socket.SHUT_RDWR)
        s.close()


def take_descriptors(process):
    resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE, (8, 8))


class DeafTest(ClusterTest):
    def one(self, name, harm, why):
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        job = c.submit({**ENDLESS, "straggler": PACE})
        c.wait(job.id, lambda j: j.progress.step > 3)
        process = next(p for p in (c.coordinator, *c.nodes) if p.name == name)
        began = time.monotonic()
        harm(process)
        code = process.process.wait(WITHIN_S + MORE_S)
        took = time.monotonic() - began
        process.process.stdout.close()
        said = process.log()
        print(f"{name}, {harm.__name__}: ended with {code} after {took:.0f} s", flush=True)
        self.assertEqual(code, 1, said[-2000:])
        self.assertIn(LOST, said)
        self.assertRegex(said, why)
        if name == "coordinator":
            c.restart_coordinator()  # as a supervisor does
            step = c.poll("the job", lambda: c.get(job.id)).progress.step
            job = c.wait(job.id, lambda j: j.state == job_pb2.JOB_STATE_FAILED or j.progress.step > step + 20)
            self.assertEqual((job_pb2.JobState.Name(job.state), job.attempt), ("JOB_STATE_RUNNING", 1),
                             job.message)
            c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
            c.wait(job.id)
        else:
            process.start()
            job = c.wait(job.id)
            self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
            self.assertRegex(job.message, rf"^(worker|parameter server) {name} ", job.reason)
        after = c.wait(c.submit(SMALL).id)
        self.assertEqual(after.state, job_pb2.JOB_STATE_DONE, after.message)

    def all_services(self, harm, why):
        """Each in a cluster of its own, at the same time: what takes time is the patience of each."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = {name: pool.submit(self.one, name, harm, why)
                    for name in ("coordinator", "worker-0", "pserver-0")}
            for name, run in runs.items():
                with self.subTest(name):
                    run.result()

    def test_a_listener_that_was_shut_down(self):
        self.all_services(stop_listening, r"cannot connect to 127\.0\.0\.1:\d+: Connection refused")

    def test_no_descriptors_for_ever(self):
        self.all_services(take_descriptors, r"has no descriptor for a connection, and clients have few")


if __name__ == "__main__":
    main()
