#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tls_step.py - what TLS costs training: the rate of a job of preset `tutorial` on two workers, in plaintext and
with mutual TLS on all links, in turns. Prints the median of the samples a second of each, of the rounds' ratios,
and of the processor time of all nodes."""
import argparse
import csv
import io
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from harness import Cluster, job_pb2  # noqa: E402
from tls_cluster import TlsCluster  # noqa: E402

SKIP = 10  # steps at the beginning


def spent(nodes):
    """Seconds of processor time of these processes so far: Linux's clock of another process."""
    return sum(time.clock_gettime((~node.process.pid << 3) | 2) for node in nodes)


def run(cluster, o):
    """(samples a second over all workers, seconds of processor time)"""
    cluster.wait_idle()
    before = spent(cluster.nodes)
    job = cluster.wait(cluster.submit({
        "title": "step", "seed": 3, "workers": 2, "pservers": o.servers, "maxSteps": o.steps, "epochs": 1000,
        "blockSize": o.block, "model": {"preset": "mlp", "widths": [128, 128]}, "evalEverySteps": o.steps,
        "data": {"name": "glyphs", "testLimit": 100},
        "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.001}}}}).id, seconds=300)
    if job.state != job_pb2.JOB_STATE_DONE:
        sys.exit(f"tls_step.py: {job.reason} {job.message}")
    processor = spent(cluster.nodes) - before
    text = cluster.files(job.id)["TR-step-N(0).csv"].decode()
    at = [float(row["time_s"]) for row in csv.DictReader(io.StringIO(text))][SKIP:]
    return 2 * o.block * (len(at) - 1) / (at[-1] - at[0]), processor


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--steps", type=int, default=600)
    options.add_argument("--block", type=int, default=64, help="samples a step of a worker")
    options.add_argument("--servers", type=int, default=1)
    o = options.parse_args()
    clusters = {"plaintext": Cluster(workers=2, pservers=o.servers), "TLS": TlsCluster(workers=2, pservers=o.servers)}
    rows = {name: [] for name in clusters}
    try:
        for cluster in clusters.values():
            cluster.wait_nodes(2 + o.servers)
            run(cluster, o)
        for i in range(o.rounds):
            for name in list(clusters)[::1 - 2 * (i % 2)]:
                rows[name].append(run(clusters[name], o))
    finally:
        for cluster in clusters.values():
            cluster.close()
    for name, row in rows.items():
        rate, processor = (statistics.median(column) for column in zip(*row))
        print(f"{name:10} {rate:9.0f} samples/s  {processor:6.2f} s of processor time")
    ratio = [statistics.median(tls[k] / plain[k] for tls, plain in zip(rows["TLS"], rows["plaintext"])) for k in (0, 1)]
    print(f"ratio      {ratio[0]:9.2f}             {ratio[1]:9.2f}")


if __name__ == "__main__":
    main()
