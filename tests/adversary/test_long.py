# SPDX-License-Identifier: Apache-2.0
"""test_long.py - a job of very many steps: its files grow with them, and little else (docs/monitoring.md)."""
import csv
import ctypes
import io
import pathlib
import re
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from harness import FINAL, SLOW, ClusterTest, job_pb2, main  # noqa: E402

MIB = 1 << 20
PR_SET_THP_DISABLE = 41
# A sanitizer keeps what is freed, up to 256 MiB.
GROWN_MAX = 2 * MIB if SLOW == 1 else 300 * MIB
# 20,000 steps of next to no work, each an exchange with the server; 100 evaluations.
STEPS = 20000
# A server keeps the rows that ranks report, 90 bytes a step here. What they took before they grew stays in its heap.
ROWS_MAX = 2 * 90 * STEPS
WHOLE = 16384  # so many steps have a row each
MANY = {
    "title": "many", "model": {"preset": "mlp", "widths": [2]}, "epochs": 100, "blockSize": 1,
    "data": {"name": "simlin", "trainLimit": STEPS // 100, "testLimit": 10},
}


class LongTest(ClusterTest):
    def setUp(self):
        # The kernel may put huge pages in place of small ones at any time, of which less was touched.
        self.assertEqual(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0)  # inherited
        super().setUp()

    def size(self, process):
        """Bytes in memory."""
        text = pathlib.Path(f"/proc/{process.process.pid}/smaps_rollup").read_text()
        return 1024 * int(re.search(r"Rss:\s+(\d+) kB", text).group(1))

    def registry(self, c):
        """Bytes of events, and of the job's row, in the registry."""
        db = sqlite3.connect(f"file:{c.folder}/coordinator/jobs.db?mode=ro", uri=True)
        try:
            return (db.execute("SELECT count(*), sum(length(event)) FROM events").fetchone(),
                    db.execute("SELECT max(length(detail)) FROM jobs").fetchone()[0])
        finally:
            db.close()

    def test_only_files_grow_with_steps(self):
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        job = c.submit(MANY)
        job = c.wait(job.id, lambda j: j.state in FINAL or j.progress.step >= STEPS // 10)
        self.assertNotIn(job.state, FINAL, job.message)
        processes = [c.coordinator, *c.nodes]
        before, message = [self.size(p) for p in processes], job.ByteSize()
        job = c.wait(job.id, lambda j: j.state in FINAL or j.progress.step >= STEPS * 9 // 10, 180)
        self.assertNotIn(job.state, FINAL, job.message)
        for process, size in zip(processes, before):
            grown = self.size(process) - size
            print(f"{process.name}: {grown / MIB:.1f} MiB more after {STEPS * 8 // 10} steps")
            self.assertLess(grown, GROWN_MAX + (ROWS_MAX if process in c.pservers else 0), process.name)
        self.assertLess(job.ByteSize(), message + 256)
        job = c.wait(job.id, seconds=180)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_DONE", job.message)
        self.assertEqual(job.progress.total_steps, STEPS)
        (events, event_bytes), row_bytes = self.registry(c)
        print(f"{events} events of {event_bytes} bytes, a row of {row_bytes} bytes")
        self.assertLess(events, 200)
        self.assertLess(row_bytes, 8192)
        rows = list(csv.DictReader(io.StringIO(c.files(job.id)["TR-many-N(0).csv"].decode())))
        steps = [int(row["step"]) for row in rows]
        print(f"{len(rows)} rows of {STEPS} steps")
        self.assertEqual(steps[:WHOLE], list(range(1, WHOLE + 1)))
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[-1], STEPS)
        # Of the others two of four are kept, or one that is both the least and the greatest.
        self.assertLessEqual(len(steps), WHOLE + (STEPS - WHOLE) // 2 + 1)
        self.assertGreater(len(steps), WHOLE + (STEPS - WHOLE) // 4 - 1)


if __name__ == "__main__":
    main()
