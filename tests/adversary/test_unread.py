# SPDX-License-Identifier: Apache-2.0
"""test_unread.py - clients make as many calls with long answers as they may, and read none of them.

What they leave unread is bounded in bytes. Who reads gets its answers all the same.
"""
import pathlib
import select
import socket
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc  # noqa: E402
import flooder  # noqa: E402
from harness import (PATIENCE, SLOW, SMALL, ClusterTest, coordinator_pb2, job_pb2,  # noqa: E402
                     json_format, main)
from test_floods import MIB, forget_peak, memory  # noqa: E402

CLIENTS, CALLS = 20, 512
MORE = 192 * MIB  # that they may take together: 64 MiB of answers, and what 10,240 calls take beside them
ROWS = 20000  # of the registry, so that to read them takes longer than to refuse a call
QUIET_S = 3  # a service that takes nothing for so long has taken all that it takes
LIST = b"/psgd.v1.CoordinatorService/ListJobs"


def message(request):
    """A request as DATA carries it."""
    packed = request.SerializeToString()
    return b"\0" + len(packed).to_bytes(4, "big") + packed


class UnreadTest(ClusterTest):
    def leave(self, address, path, body, source="127.0.0.1"):
        """Connects so many clients, sends all calls of each, and reads nothing; the sockets."""
        host, port = address.rsplit(":", 1)
        streams = flooder.Streams(path, lambda i: flooder.frame(
            flooder.DATA, flooder.END_STREAM, i, body), CALLS)
        calls = streams()
        left = {}
        for _ in range(CLIENTS):
            s = socket.create_connection((host, int(port)), source_address=(source, 0))
            self.addCleanup(s.close)
            s.setblocking(False)
            left[s] = memoryview(flooder.PREFACE + flooder.frame(flooder.SETTINGS, 0, 0)
                                 + flooder.SETTINGS_ACK + calls)
        held = list(left)
        moved = time.monotonic()
        while left and time.monotonic() < moved + QUIET_S * PATIENCE:
            for s in select.select([], list(left), [], QUIET_S)[1]:
                try:
                    left[s] = left[s][s.send(left[s]):]
                    moved = time.monotonic()
                except OSError:  # closed
                    left[s] = b""
                if not left[s]:
                    del left[s]
        return held

    def settled(self, c, process):
        """Returns when the process takes no more memory."""
        most, since = memory(process), time.monotonic()
        while time.monotonic() < since + QUIET_S:
            c.pause()
            if memory(process) > most + MIB:
                most, since = memory(process), time.monotonic()

    def is_bounded(self, c, process, path, body, when_over=lambda: None):
        before = memory(process)
        forget_peak(process)
        held = self.leave(process.address, path, body)
        self.settled(c, process)
        when_over()
        more = memory(process, "VmHWM") - before
        print(f"{process.name}: {more / MIB:+.0f} MiB for {CLIENTS} clients with {CALLS} calls of {path.decode()}",
              flush=True)
        if SLOW == 1:
            self.assertLess(more, MORE)
        self.assertIsNone(process.process.poll())
        return held

    def jobs_of(self, c, ask):
        """The number of jobs in an answer; None if too many calls wait."""
        try:
            return len(c.api.ListJobs(ask).jobs)
        except grpc.RpcError as refused:
            self.assertEqual(refused.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertIn("try again later", refused.details())
            return None

    def jobs_at_once(self, c, ask, calls):
        """The numbers of jobs in so many answers; None if one was refused."""
        try:
            return {len(answer.result(20 * PATIENCE).jobs) for answer in [c.api.ListJobs.future(ask) for _ in range(calls)]}
        except grpc.RpcError as refused:
            self.assertEqual(refused.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            return None

    def test_unary_answers(self):
        c = self.cluster(workers=0, pservers=0)
        request = coordinator_pb2.SubmitJobRequest(spec=json_format.ParseDict(SMALL, job_pb2.JobSpec()))
        for _ in range(300):
            c.api.SubmitJob(request)
        ask = coordinator_pb2.ListJobsRequest(page_size=1000)
        size = c.api.ListJobs(ask).ByteSize()
        print(f"an answer has {size / 1024:.0f} KiB")
        # While many calls wait for the registry, others are told to try again.
        self.is_bounded(c, c.coordinator, LIST, message(ask), lambda: c.poll(
            "the calls are answered or refused", lambda: self.jobs_of(c, ask)))
        # From the same address; a client that reads has them all, one after the other.
        for _ in range(20):
            self.assertEqual(self.jobs_of(c, ask), 300)
        # When the others are gone, it has as many at once as it need not have read.
        c.poll("answers at once", lambda: self.jobs_at_once(c, ask, 3 * MIB // size) == {300})

    def answers(self, sockets, rest):
        """Reads what has arrived, and adds what is no whole frame to `rest`; how many messages of DATA
        have arrived since the last time."""
        count = 0
        for s in sockets:
            try:
                while more := s.recv(1 << 20):
                    rest[s] = rest.get(s, b"") + more
            except OSError:
                pass
            got, at = rest.get(s, b""), 0
            while at + 9 <= len(got) and at + 9 + int.from_bytes(got[at:at + 3], "big") <= len(got):
                count += got[at + 3] == flooder.DATA
                at += 9 + int.from_bytes(got[at:at + 3], "big")
            rest[s] = got[at:]
        return count

    def test_addresses_take_turns_at_the_registry(self):
        """One address has as many calls waiting for the registry as it may. A call of another one
        waits for none of them but the one that is being read."""
        c = self.cluster(workers=0, pservers=0)
        job = c.submit(SMALL)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
        c.coordinator.stop()
        db = sqlite3.connect(c.folder / "coordinator/jobs.db")
        names = [row[1] for row in db.execute("PRAGMA table_info(jobs)")]
        others = ", ".join(n for n in names if n not in ("number", "id", "request_id"))
        db.execute(f"INSERT INTO jobs (id, {others}) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                   f"FROM n LIMIT {ROWS}) SELECT 'old-' || i, {others} FROM jobs, n")
        db.commit()
        db.close()
        c.restart_coordinator()
        # All rows are looked at, and the answer is short.
        ask = coordinator_pb2.ListJobsRequest(states=[job_pb2.JOB_STATE_DONE])
        rest, later = {}, 0
        crowd = self.leave(c.coordinator.address, LIST, message(ask), "127.0.9.1")
        c.api.ListJobs(ask, timeout=60 * PATIENCE)  # it is not told to try again
        answered = self.answers(crowd, rest)
        moved = time.monotonic()
        while time.monotonic() < moved + QUIET_S:
            c.pause()
            if more := self.answers(crowd, rest):
                later, moved = later + more, time.monotonic()
        print(f"{answered} calls of the crowd were answered before, {later} after", flush=True)
        self.assertGreater(later, 100)

    def test_streamed_answers(self):
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        for process in (c.coordinator, *c.nodes):
            with self.subTest(process.name):
                self.is_bounded(c, process, flooder.REFLECT, flooder.ASK)
        job = c.wait(c.submit(SMALL).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)

    def test_who_reads_late_is_told_and_goes_on(self):
        c = self.cluster(workers=0, pservers=0)
        request = coordinator_pb2.SubmitJobRequest(spec=json_format.ParseDict(SMALL, job_pb2.JobSpec()))
        for _ in range(300):
            c.api.SubmitJob(request)
        ask = coordinator_pb2.ListJobsRequest(page_size=1000)
        # More than a connection may leave unread, and none can be sent before the client reads.
        answers = [c.api.ListJobs.future(ask) for _ in range(CALLS)]
        codes = {answer.exception(20 * PATIENCE).code() for answer in answers if answer.exception(20 * PATIENCE)}
        self.assertLessEqual(codes, {grpc.StatusCode.RESOURCE_EXHAUSTED})
        self.assertEqual(len(c.api.ListJobs(ask).jobs), 300)


if __name__ == "__main__":
    main()
