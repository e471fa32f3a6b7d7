# SPDX-License-Identifier: Apache-2.0
"""test_queue.py - thousands of jobs wait.

Prints what the queue costs; $PSGD_QUEUE_JOBS is its length. What is asserted is how the work grows,
as CPU time of the coordinator, not how fast the machine is.
"""
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from harness import (SLOW, SMALL, ClusterTest, coordinator_pb2, job_pb2, json_format,  # noqa: E402
                     main)

JOBS = int(os.environ.get("PSGD_QUEUE_JOBS", "3000"))
CHUNK = 500
CALL_S = 0.005 * SLOW  # of CPU for a submission, or a page of 50 jobs, at most


class QueueTest(ClusterTest):
    def cpu(self, c):
        """Seconds of CPU that the coordinator has used."""
        fields = pathlib.Path(f"/proc/{c.coordinator.process.pid}/stat").read_text().split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def timed(self, name, count, call):
        took = []
        for i in range(count):
            began = time.perf_counter()
            call(i)
            took.append(1000 * (time.perf_counter() - began))
        took.sort()
        print(f"{name}: median {took[len(took) // 2]:.1f} ms, p99 {took[int(len(took) * .99)]:.1f} ms, "
              f"all {sum(took) / 1000:.1f} s", file=sys.stderr)

    def list_page(self, c):
        return c.api.ListJobs(coordinator_pb2.ListJobsRequest(page_size=50))

    def test_a_long_queue(self):
        c = self.cluster(workers=0, pservers=0)
        request = coordinator_pb2.SubmitJobRequest(
            spec=json_format.ParseDict(SMALL, job_pb2.JobSpec()))
        ids, costs = [], []
        for _ in range(JOBS // CHUNK):
            before = self.cpu(c)
            self.timed(f"submit behind {len(ids)}", CHUNK,
                       lambda i: ids.append(c.api.SubmitJob(request).job.id))
            costs.append(self.cpu(c) - before)
        self.assertLess(costs[-1], 4 * costs[0] + 0.5, costs)  # it was proportional to the queue
        self.assertLess(max(costs), CHUNK * CALL_S)
        before = self.cpu(c)
        self.timed("list 50", 100, lambda i: self.list_page(c))
        cost = self.cpu(c) - before
        print(f"CPU: submit {1000 * max(costs) / CHUNK:.2f} ms, list 50 {10 * cost:.2f} ms", file=sys.stderr)
        self.assertLess(cost, 100 * CALL_S)
        self.assertEqual(len(self.list_page(c).jobs), 50)
        before, began = self.cpu(c), time.monotonic()
        c.poll("seconds at rest", lambda: time.monotonic() > began + 5)
        idle = (self.cpu(c) - before) / (time.monotonic() - began)
        print(f"at rest: {100 * idle:.1f} % of a core", file=sys.stderr)
        self.assertLess(idle, 0.01 * SLOW)

        first, last = c.get(ids[0]), c.get(ids[-1])
        self.assertIn("0 idle of 0 known", first.message)
        self.assertEqual(last.reason, "WAITING_FOR_NODES")
        self.assertIn("behind other jobs", last.message)

        began = time.monotonic()
        c.coordinator.kill()
        c.restart_coordinator()
        self.list_page(c)
        print(f"restart: {time.monotonic() - began:.1f} s, CPU {self.cpu(c):.1f} s", file=sys.stderr)
        self.assertLess(self.cpu(c), 2 * SLOW)
        before = self.cpu(c)
        self.timed("cancel", 1000, lambda i: c.api.CancelJob(
            coordinator_pb2.CancelJobRequest(job_id=ids[CHUNK + i])))
        self.assertLess(self.cpu(c) - before, 5 * SLOW)

        # The first in the queue begin when nodes come, the cancelled ones do not.
        c.pservers.append(c.add("pserver", 0))
        c.workers.append(c.add("worker", 0))
        job = c.wait(ids[0])
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(c.get(ids[CHUNK]).state, job_pb2.JOB_STATE_CANCELLED)


if __name__ == "__main__":
    main()
