#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""hostile_rate.py - what hostile code that somebody submits costs a job that trains meanwhile: two workers
and a server on a cluster. In each round the job runs alone, while hostile programs are looked at one after
the other on the same machine as psgd looks at them (at the lowest priority), while jobs with hostile codecs
are submitted one after the other to the cluster's coordinator, which tries them and refuses them, and while
programs compute at the priority of a job, in turn. One sandbox can take one processor; each program may take the whole budget
of jobs (20 million instructions, 64 MiB, 5 s). Printed are the medians of the job's steps a second over the
rounds, and the medians of the ratios to the run alone of the same round."""
import argparse
import contextlib
import csv
import io
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import threading

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cluster"), str(ROOT / "tests" / "adversary")]
from harness import Cluster, job_pb2  # noqa: E402
from hostile_programs import BOMBS, KNOWN, LOOPS, codec  # noqa: E402

BIN = pathlib.Path(os.environ["PSGD_BIN"])
WAYS = ["alone", "background", "submitted", "foreground"]


class Loader:
    """Has hostile programs looked at until it is closed."""

    def __init__(self, way):
        self.process = subprocess.Popen(
            [BIN.parent / "tests" / "sandbox_driver", "20000000", str(64 << 20), "5000", way],
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


def run(cluster, o, way):
    """(steps a second of rank 0 after the first tenth, how many programs were looked at)"""
    cluster.wait_idle()
    loader = None if way == "alone" else Submitter(cluster) if way == "submitted" else Loader(way)
    try:
        job = cluster.wait(cluster.submit({
            "title": "rate", "seed": 3, "workers": 2, "pservers": 1, "maxSteps": o.steps, "epochs": 1000,
            "blockSize": 64, "model": {"preset": "mlp", "widths": [256, 256]},
            "data": {"name": "glyphs", "trainLimit": 4000, "testLimit": 100},
            "evalEverySteps": o.steps}).id, seconds=600)
    finally:
        count = loader.close() if loader else 0
    if job.state != job_pb2.JOB_STATE_DONE:
        sys.exit(f"{job.reason} {job.message}")
    rows = csv.DictReader(io.StringIO(cluster.files(job.id)["TR-rate-N(0).csv"].decode()))
    times = [float(row["time_s"]) for row in rows]
    first = len(times) // 10
    return (len(times) - 1 - first) / (times[-1] - times[first]), count


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--steps", type=int, default=1500)
    options.add_argument("--require", type=float, default=0,
                         help="fail if the rate beside code that is looked at is below this ratio")
    o = options.parse_args()
    rates, ratios, looked = {way: [] for way in WAYS}, {way: [] for way in WAYS}, dict.fromkeys(WAYS, 0)
    cluster = Cluster(workers=2, pservers=1)
    try:
        cluster.wait_nodes(3)
        run(cluster, o, "alone")
        for i in range(o.rounds):
            got = {way: run(cluster, o, way) for way in WAYS[i % 4:] + WAYS[:i % 4]}
            for way in WAYS:
                rates[way].append(got[way][0])
                ratios[way].append(got[way][0] / got["alone"][0])
                looked[way] += got[way][1]
    finally:
        cluster.close()
    print("| hostile code | steps/s | ratio | programs |\n| --- | --- | --- | --- |")
    for way in WAYS:
        print("| %s | %.0f | %.3f | %d |" % (
            way, statistics.median(rates[way]), statistics.median(ratios[way]), looked[way]))
    if min(statistics.median(ratios[way]) for way in ("background", "submitted")) < o.require:
        sys.exit(f"below {o.require}")


if __name__ == "__main__":
    main()
