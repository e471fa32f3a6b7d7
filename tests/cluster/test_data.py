# SPDX-License-Identifier: Apache-2.0
"""test_data.py - a data set travels to a node once, and only when it has none."""
import gzip
import os
import random
import struct
import tempfile

from harness import SLOW, SMALL, ClusterTest, job_pb2, main


def write_mnist(folder, seed=1):
    """Four small IDX files in MNIST's shape would be refused for their counts: real counts, cheap pixels."""
    rng = random.Random(seed)
    os.makedirs(folder)
    for split, count in (("train", 60000), ("t10k", 10000)):
        labels = bytes(rng.randrange(10) for _ in range(count))
        rows = [bytes([25 * d]) * 784 for d in range(10)]
        with gzip.open(f"{folder}/{split}-images-idx3-ubyte.gz", "wb", compresslevel=1) as f:
            f.write(struct.pack(">IIII", 0x803, count, 28, 28) + b"".join(rows[d] for d in labels))
        with gzip.open(f"{folder}/{split}-labels-idx1-ubyte.gz", "wb", compresslevel=1) as f:
            f.write(struct.pack(">II", 0x801, count) + labels)


class Data(ClusterTest):
    def test_it_travels_once(self):
        with tempfile.TemporaryDirectory() as folder:
            write_mnist(f"{folder}/mnist")
            c = self.cluster(workers=1, pservers=1, data=folder)
            spec = {**SMALL, "data": {"name": "mnist", "trainLimit": 2000, "testLimit": 500},
                    "timeouts": {"preCommitFloorMs": int(30000 * SLOW)}}
            for _ in range(2):
                job = c.wait(c.submit(spec).id, seconds=120)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
            stored = os.listdir(c.folder / "worker-0" / "datasets")
            self.assertEqual(len(stored), 1, stored)
            log = c.workers[0].log() + c.coordinator.log()
            self.assertEqual(log.count("data set received"), 1, log)
            # After a restart of the worker it is still there.
            c.workers[0].stop()
            c.workers[0].start()
            c.wait_nodes(2)
            self.assertEqual(c.wait(c.submit(spec).id, seconds=120).state, job_pb2.JOB_STATE_DONE)
            self.assertEqual(c.workers[0].log_path.read_text().count("data set received"), 1)

    def test_a_set_that_nobody_has_is_a_reason(self):
        c = self.cluster(workers=1, pservers=1)
        job = c.wait(c.submit({**SMALL, "data": {"name": "mnist"}}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
        self.assertIn("mnist", job.message)


if __name__ == "__main__":
    main()
