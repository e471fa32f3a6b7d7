#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""armed.py - what it costs a job without a fault that it could recover: its defaults beside one that a loss ends.

    PSGD_BIN=build/bin tests/bench/armed.py [--pairs N] [JOB ...]

The same job runs by turns with the defaults of `recovery` and with FAIL for each loss, on two workers and
two servers. Printed are the medians of the steps a second, the median of the pairs' ratios, and their range; the models have to be equal.
"""
import argparse
import csv
import hashlib
import io
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from harness import Cluster, job_pb2, tensors  # noqa: E402

ADAM = {"optimizer": {"rule": {"name": "adam", "params": {"lr": 0.001}}}}
GLYPHS = {"data": {"name": "glyphs", "trainLimit": 20000, "testLimit": 100}}


def mlp(width, up, block):
    return {"model": {"preset": "mlp", "widths": [width, width]}, "blockSize": block, **GLYPHS, **ADAM, "codec": {"up": up}}


# Steps of a run by job: some seconds each.
JOBS = {
    "tutorial": (2000, {"model": {"preset": "mlp", "widths": [128, 128]}, "blockSize": 64, **GLYPHS, **ADAM}),
    "1.9 M, f32": (250, mlp(1024, {"name": "f32"}, 128)),
    "1.9 M, int8": (250, mlp(1024, {"name": "int8"}, 128)),
    "1.9 M, top-k": (250, mlp(1024, {"name": "topk", "params": {"fraction": 0.01, "error_feedback": 1}}, 128)),
    # Workers keep the contributions of two intervals, 38 MB, and servers are saved every 10 steps.
    "1.9 M, int8, checkpoints": (250, {**mlp(1024, {"name": "int8"}, 128), "checkpoint": {"everySteps": 10}}),
    "cnn": (300, {"model": {"preset": "cnn"}, "blockSize": 32, **GLYPHS, **ADAM}),
}
WAYS = {"fails": {"onWorkerLoss": "LOSS_ACTION_FAIL", "onServerLoss": "LOSS_ACTION_FAIL"}, "recovers": {}}


def run(cluster, job, recovery, steps):
    """(steps a second of rank 0 after the first tenth, SHA-256 of the model)"""
    cluster.wait_idle()
    done = cluster.wait(cluster.submit({**job, "title": "armed", "seed": 3, "workers": 2, "pservers": 2, "maxSteps": steps, "epochs": 1000,
                                        "evalEverySteps": steps, "recovery": recovery}).id, seconds=600)
    if done.state != job_pb2.JOB_STATE_DONE:
        sys.exit(f"{done.reason} {done.message}")
    files = cluster.files(done.id)
    times = [float(row["time_s"]) for row in csv.DictReader(io.StringIO(files["TR-armed-N(0).csv"].decode()))]
    first = len(times) // 10
    model = repr(sorted(tensors(files["MODEL-armed-N(ps).safetensors"]).items())).encode()
    return (len(times) - 1 - first) / (times[-1] - times[first]), hashlib.sha256(model).hexdigest()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    options.add_argument("--pairs", type=int, default=7)
    o = options.parse_args()
    for name in o.jobs:
        if name not in JOBS:
            options.error(f"{name}: no job of this name; {', '.join(JOBS)}")
    print("| job | fails, steps/s | recovers, steps/s | ratio | of the pairs |\n| --- | --- | --- | --- | --- |")
    cluster = Cluster(workers=2, pservers=2)
    try:
        cluster.wait_nodes(4)
        for name in o.jobs or JOBS:
            steps, job = JOBS[name]
            rates, models = {way: [] for way in WAYS}, set()
            run(cluster, job, {}, steps)
            for i in range(o.pairs):
                for way in list(WAYS)[::-1 if i % 2 else 1]:
                    rate, model = run(cluster, job, WAYS[way], steps)
                    rates[way].append(rate)
                    models.add(model)
            ratios = [b / a for a, b in zip(rates["fails"], rates["recovers"])]
            print(f"| {name} | {statistics.median(rates['fails']):.1f} | {statistics.median(rates['recovers']):.1f} | "
                  f"{statistics.median(ratios):.3f} | {min(ratios):.3f} to {max(ratios):.3f} |", flush=True)
            if len(models) != 1:
                sys.exit("the models differ")
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
