#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tracing.py - what a timeline costs the job that it shows: two workers and a server on a cluster. In
each round the job runs without a timeline, with one of 20 steps, and with one of a third of its steps, in
turn, to the same bits. Printed are medians over the rounds:
  step       the median time of a step of rank 0 within those steps, and that of the steps before and after
             them in the same run. The ratio of the two is divided by that of the run without a timeline.
  processor  of all nodes, with the making of their parts at the end, and its ratio to the run without."""
import argparse
import csv
import io
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from harness import Cluster, job_pb2, tensors  # noqa: E402

STEPS = 450
WINDOWS = {"none": None, "20": range(216, 236), f"{STEPS // 3}": range(STEPS // 3 + 1, 2 * STEPS // 3 + 1)}


def spent(nodes):
    """Seconds of processor time of these processes so far: Linux's clock of another process."""
    return sum(time.clock_gettime((~node.process.pid << 3) | 2) for node in nodes)


def run(cluster, o, window):
    """({step: ms}, ms of processor time a step, model)"""
    cluster.wait_idle()
    before = spent(cluster.nodes)
    job = cluster.wait(cluster.submit({
        "title": "cost", "seed": 3, "workers": 2, "pservers": 1, "maxSteps": STEPS, "epochs": 1000,
        "blockSize": o.block, "model": {"preset": "mlp", "widths": [o.width, o.width]},
        "data": {"name": "glyphs", "trainLimit": 4000, "testLimit": 100}, "evalEverySteps": STEPS,
        **({"trace": {"fromStep": window[0], "steps": len(window)}} if window else {})}).id, seconds=600)
    if job.state != job_pb2.JOB_STATE_DONE:
        sys.exit(f"{job.reason} {job.message}")
    processor = (spent(cluster.nodes) - before) * 1000 / STEPS
    files = cluster.files(job.id)
    at = {int(row["step"]): float(row["time_s"]) for row in
          csv.DictReader(io.StringIO(files["TR-cost-N(0).csv"].decode()))}
    steps = {step: (at[step] - at[step - 1]) * 1000 for step in at if step - 1 in at}
    return steps, processor, tensors(files["MODEL-cost-N(ps).safetensors"])


def split(steps, window):
    """The median step within the window, and outside of it."""
    within = set(window)
    return (statistics.median(ms for step, ms in steps.items() if step in within),
            statistics.median(ms for step, ms in steps.items() if step not in within))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=45)
    options.add_argument("--width", type=int, default=256, help="of both hidden layers")
    options.add_argument("--block", type=int, default=64)
    options.add_argument("--require", type=float, default=0, help="fail if a step takes longer by this ratio")
    o = options.parse_args()
    rows = {name: [] for name in WINDOWS if WINDOWS[name]}
    cluster = Cluster(workers=2, pservers=1)
    try:
        cluster.wait_nodes(3)
        run(cluster, o, None)
        for i in range(o.rounds):
            names = list(WINDOWS)
            names = names[i % 3:] + names[:i % 3]
            got = {name: run(cluster, o, WINDOWS[name]) for name in names}
            plain, plain_processor, model = got["none"]
            for name, row in rows.items():
                steps, processor, same = got[name]
                if same != model:
                    sys.exit("the models differ")
                within, outside = split(steps, WINDOWS[name])
                chance = split(plain, WINDOWS[name])
                row.append((outside, within, within / outside / (chance[0] / chance[1]), plain_processor, processor,
                            processor / plain_processor))
    finally:
        cluster.close()
    print(f"| recorded of {STEPS} steps | step, ms: without, with | ratio | processor, ms a step: without, with | "
          "ratio |\n| --- | --- | --- | --- | --- |")
    middle = {name: [statistics.median(column) for column in zip(*row)] for name, row in rows.items()}
    for name, m in middle.items():
        print("| %s | %.3f, %.3f | %.3f | %.3f, %.3f | %.3f |" % (name, *m))
    worst = max(m[2] for m in middle.values())
    if o.require and worst > o.require:
        sys.exit(f"{worst:.3f} is more than {o.require}")


if __name__ == "__main__":
    main()
