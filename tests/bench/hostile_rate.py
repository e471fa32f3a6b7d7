#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""hostile_rate.py - what hostile code that somebody submits costs a job that trains meanwhile: two workers
and a server on a cluster. One job trains all the time. In each round there are two windows in which it is alone,
one while hostile programs are looked at one after the other on the same machine as psgd looks at them (at the
lowest priority), one while jobs with hostile codecs are submitted one after the other to the cluster's
coordinator, which tries them and refuses them, and one while programs compute at the priority of a job.
One sandbox can take one processor. A program has 20 million instructions, 64 MiB, and 5 s; 0.5 s where it is looked at.
Printed are the steps a second of the job in all windows of a kind,
and their ratio to those in all windows alone; the two kinds of these say how much the machine changes by itself.
The job's steps are long, so its rate is steady: with layers of 256 it changed by 16 % from second to second."""
import argparse
import bisect
import contextlib
import csv
import io
import os
import pathlib
import random
import struct
import subprocess
import sys
import threading
import time

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cluster"), str(ROOT / "tests" / "adversary")]
from harness import Cluster, coordinator_pb2  # noqa: E402
from hostile_programs import BOMBS, KNOWN, LOOPS, codec  # noqa: E402

BIN = pathlib.Path(os.environ["PSGD_BIN"])
ALONE = ["alone", "alone again"]
HOSTILE = ["background", "submitted", "foreground"]
EDGE = 0.15  # seconds of a window that are not counted, in which programs start, and between two windows


class Loader:
    """Has hostile programs looked at until it is closed."""

    def __init__(self, way):
        self.process = subprocess.Popen(
            [BIN.parent / "tests" / "sandbox_driver", "20000000", str(64 << 20), "500" if way == "background" else "5000", way],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PSGD_SANDBOX": str(BIN / "psgd-sandbox")})
        self.count = 0
        threading.Thread(target=self._feed, daemon=True).start()

    def _feed(self):
        programs = [program.encode() for program, _ in LOOPS + BOMBS + KNOWN]
        try:
            while True:
                text = programs[self.count % len(programs)]
                self.process.stdin.write(struct.pack("<I", len(text)) + text)
                self.process.stdin.flush()
                if not self.process.stdout.readline():
                    return
                self.count += 1
        except (OSError, ValueError):
            return

    def close(self):
        self.process.kill()
        self.process.wait()
        return self.count


class Submitter:
    """Submits jobs with hostile codecs until it is closed."""

    def __init__(self, cluster):
        self.cluster, self.count, self.is_over = cluster, 0, False
        self.thread = threading.Thread(target=self._submit, daemon=True)
        self.thread.start()

    def _submit(self):
        programs = [codec(program) for program, _ in LOOPS + BOMBS + KNOWN if isinstance(program, str)]
        while not self.is_over:
            with contextlib.suppress(grpc.RpcError):
                self.cluster.submit({
                    "title": "hostile", "workers": 1, "maxSteps": 1, "model": {"preset": "mlp"}, "data": {"name": "glyphs"},
                    "code": [{"file": "a.lua", "text": programs[self.count % len(programs)]}]})
            self.count += 1

    def close(self):
        self.is_over = True
        self.thread.join()
        return self.count


def windows(cluster, o, seconds):
    """(way, begin, end, programs looked at) of each window, in seconds since the epoch, and the job's steps by time"""
    job = cluster.submit({
        "title": "rate", "seed": 3, "workers": 2, "pservers": 1, "maxSteps": 10**6, "epochs": 10**5,
        "blockSize": 128, "model": {"preset": "mlp", "widths": [1024, 1024]},
        "data": {"name": "glyphs", "trainLimit": 4000, "testLimit": 100}, "evalEverySteps": 10**6})
    cluster.wait(job.id, lambda j: j.progress.step > 100)
    found, draw, ways = [], random.Random(1), ALONE + o.ways
    for _ in range(o.rounds):
        for way in draw.sample(ways, len(ways)):  # a window may slow down the next one
            begin = time.time()
            loader = None if way in ALONE else Submitter(cluster) if way == "submitted" else Loader(way)
            time.sleep(seconds)
            end = time.time()
            found.append((way, begin + EDGE, end, loader.close() if loader else 0))
            time.sleep(EDGE)
    cluster.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
    job = cluster.wait(job.id)
    rows = csv.DictReader(io.StringIO(cluster.files(job.id)["TR-rate-N(0).csv"].decode()))
    began = job.start_time.seconds + job.start_time.nanos / 1e9
    return found, [began + float(row["time_s"]) for row in rows]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=30)
    options.add_argument("--seconds", type=float, default=5, help="of a window")
    options.add_argument("--ways", nargs="+", default=HOSTILE, choices=HOSTILE)
    options.add_argument("--require", type=float, default=0,
                         help="fail if the rate beside code that is looked at is below this ratio")
    o = options.parse_args()
    cluster = Cluster(workers=2, pservers=1)
    try:
        cluster.wait_nodes(3)
        found, steps = windows(cluster, o, o.seconds)
    finally:
        cluster.close()
    counted, lasted, looked = (dict.fromkeys(ALONE + o.ways, 0) for _ in range(3))
    for way, begin, end, count in found:
        counted[way] += bisect.bisect(steps, end) - bisect.bisect(steps, begin)
        lasted[way] += end - begin
        looked[way] += count
    alone = sum(counted[way] for way in ALONE) / sum(lasted[way] for way in ALONE)
    print("| hostile code | steps/s | ratio | programs |\n| --- | --- | --- | --- |")
    ratios = {way: counted[way] / lasted[way] / alone for way in counted}
    for way in counted:
        print("| %s | %.0f | %.3f | %d |" % (way, ratios[way] * alone, ratios[way], looked[way]))
    if min(ratios.get(way, 1) for way in ("background", "submitted")) < o.require:
        sys.exit(f"below {o.require}")


if __name__ == "__main__":
    main()
