#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""checkpoints.py - what taking checkpoints costs a job while it trains: two workers and a server
whose optimizer has about 100 MB of state, by default. The job runs without checkpoints and with
one every EVERY steps, in turn, to the same bits. Printed: how long a rank and a thread of the
server stood still for a checkpoint and computed for it (less, if others had the processors), and by how much the steps with a checkpoint under way are
longer than the others of the same run."""
import argparse
import csv
import io
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from harness import Cluster, job_pb2, tensors  # noqa: E402


def step_times(files):
    """Milliseconds of each step of rank 0, from the second on."""
    report = next(data for name, data in files.items() if name.startswith("TR-") and "(0)" in name)
    at = [float(row["time_s"]) for row in csv.DictReader(io.StringIO(report.decode()))]
    return {step + 1: (at[step] - at[step - 1]) * 1000 for step in range(1, len(at))}


def run(cluster, o, every):
    """(model, step times, milliseconds that ranks and threads stood still, steps of checkpoints)"""
    since = {p: p.log_end() for p in [*cluster.nodes, cluster.coordinator]}
    job = cluster.submit({
        "title": "cost", "seed": 3, "workers": 2, "pservers": 1, "epochs": 1, "blockSize": 16,
        "model": {"preset": "mlp", "widths": [o.width, o.width]},
        "data": {"name": "glyphs", "trainLimit": 32 * o.steps, "testLimit": 100},
        "optimizer": {"rule": {"name": "momentum", "params": {"lr": 0.01}}},
        **({"checkpoint": {"everySteps": every, "keep": 1}} if every else {})})
    done = cluster.wait(job.id, seconds=600)
    if done.state != job_pb2.JOB_STATE_DONE:
        sys.exit(f"{done.reason} {done.message}")
    files = cluster.files(job.id)
    model = tensors(next(data for name, data in files.items() if name.endswith("-N(ps).safetensors")))
    logs = {p: p.log(since[p]) for p in since}
    still = {(kind, what): [float(ms) for p, text in logs.items() if p in nodes
                            for ms in re.findall(what + r" for ([\d.]+) ms", text)]
             for kind, nodes in (("rank", cluster.workers), ("server", cluster.pservers))
             for what in ("stood still", "computed")}
    stored = [int(s) for s in re.findall(r"checkpoint of step (\d+) stored", logs[cluster.coordinator])]
    size = sum(int(f.size) for f in done.artifacts if f.name.endswith("-N(ps).safetensors"))
    return model, step_times(files), still, stored, size


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--width", type=int, default=3200, help="of both hidden layers")
    options.add_argument("--steps", type=int, default=40)
    options.add_argument("--every", type=int, default=10)
    options.add_argument("--require", type=float, default=0, help="fail if a rank or thread computed for longer, in ms")
    o = options.parse_args()
    cluster = Cluster(workers=2, pservers=1, node_args=["--log-level", "info"])
    still = {(kind, what): [] for kind in ("rank", "server") for what in ("stood still", "computed")}
    longer, plain, models = [], [], []
    try:
        cluster.wait_nodes(3)
        for _ in range(o.rounds):
            model, times, *_ = run(cluster, o, 0)
            models.append(model)
            plain.append(statistics.median(times.values()))
            model, times, stood, stored, size = run(cluster, o, o.every)
            models.append(model)
            for kind in still:
                still[kind] += stood[kind]
            # the step that begins at the checkpoint, in which all slices change
            others = statistics.median(ms for step, ms in times.items() if step - 1 not in stored)
            longer += [times[step + 1] - others for step in stored if step + 1 in times]
    finally:
        cluster.close()
    print(f"{size / 1e6:.0f} MB of weights, {2 * size / 1e6:.0f} MB of state at the server; "
          f"{o.rounds} rounds, {len(longer)} checkpoints; the bits are "
          f"{'the same' if all(m == models[0] for m in models) else 'DIFFERENT'}")
    print("| | median | longest |\n| --- | --- | --- |")
    for (kind, what), ms in still.items():
        print(f"| a {kind} {what}, ms | {statistics.median(ms):.1f} | {max(ms):.1f} |")
    print(f"| a step with a checkpoint is longer by, ms | {statistics.median(longer):.0f} | {max(longer):.0f} |")
    print(f"| a step without checkpoints takes, ms | {statistics.median(plain):.0f} | {max(plain):.0f} |")
    if o.require and max(max(still[kind, "computed"]) for kind in ("rank", "server")) > o.require:
        sys.exit(f"longer than {o.require} ms")


if __name__ == "__main__":
    main()
