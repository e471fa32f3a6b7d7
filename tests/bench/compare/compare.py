#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same thing with psgd and with PyTorch and prints both results.

    PSGD_BIN=build/bin PSGD_DATA=... /usr/bin/python3 tests/bench/compare/compare.py steps|real [--seeds 1,2,3] [NAME...]

Both begin with the same weights and see the same samples in the same order:
dump_job writes down what psgd starts from, and PyTorch starts from that.

`steps` trains 200 steps without dropout and compares the training loss of
the last 20, its mean over all seeds; exit code 1 if any differs by more than 1 %.
Roundings grow in 200 steps, so it also tells how far PyTorch is from itself when
every weight it starts from is the next float32. `real` trains as long as
people do, with dropout, and prints accuracy (or what else counts) on the test set
for each seed.
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy

import tasks

BIN = pathlib.Path(os.environ.get("PSGD_BIN", "build/bin"))
DATA = os.environ.get("PSGD_DATA", "../shared/data")
STEPS, WINDOW = 200, 20


def job_of(task, seed, steps):
    """The job of a task, as a JobSpec in JSON."""
    job = {"title": task.name, "workers": 1, "pservers": 1, "seed": seed, "blockSize": task.batch,
           "data": dict(task.data), "model": task.model(steps is None), "epochs": task.epochs,
           "optimizer": {"rule": task.rule}, "metrics": [{"name": m} for m in task.metrics]}
    if steps is not None:
        job["epochs"] = 1
        job["data"]["trainLimit"] = steps * task.batch
    return job


def ours(task, job_file, folder):
    """psgd: the rows of its two reports."""
    done = subprocess.run([BIN / "psgd", "train", job_file, "--data-path", DATA, "--out", folder],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"psgd train: {done.stdout}{done.stderr}")
    rows = []
    for prefix in ("TR", "EV"):
        with open(next(folder.glob(f"**/{prefix}-*.csv")), newline="") as file:
            rows.append(list(csv.DictReader(file)))
    return rows


def read(folder):
    facts = json.loads((folder / "facts.json").read_text())
    width = {"x": facts["features"], "y": facts["target_width"]}
    for split in ("train", "test"):
        for part in ("x", "y"):
            facts[split, part] = numpy.memmap(folder / f"{split}.{part}.f32", "<f4", "r").reshape(
                -1, width[part])
    facts["order"] = numpy.memmap(folder / "order.u32", "<u4", "r").reshape(
        -1, facts["train_count"])
    facts["weights"] = numpy.fromfile(folder / "weights.f32", "<f4")
    return facts


def run(task, seed, steps):
    """What psgd and PyTorch come to, and what they took: the mean loss of the last
    steps, PyTorch's from weights one bit away besides; or the task's metric."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job_file = folder / "job.json"
        job_file.write_text(json.dumps(job_of(task, seed, steps)))
        (folder / "out").mkdir()
        (folder / "dump").mkdir()
        began = time.monotonic()
        train, evaluations = ours(task, job_file, folder / "out")
        took = [time.monotonic() - began]
        subprocess.run([BIN.parent / "bench" / "dump_job", job_file, DATA, folder / "dump"],
                       check=True)
        facts = read(folder / "dump")
        began = time.monotonic()
        if steps is not None:
            losses = [float(row["loss"]) for row in train]
            peer = tasks.train(task, facts, drops=False)
            facts["weights"] = numpy.nextafter(facts["weights"], numpy.float32(1))
            other = tasks.train(task, facts, drops=False)
            result = [sum(x[-WINDOW:]) / WINDOW for x in (losses, peer, other)]
            if len(losses) != steps or len(peer) != steps:
                sys.exit(f"{task.name}: {len(losses)} and {len(peer)} steps instead of {steps}")
        else:
            result = [float(evaluations[-1][task.metric]),
                      tasks.train_and_evaluate(task, facts, seed)]
        return result, took + [time.monotonic() - began]


def compare_steps(names, seeds):
    wrong = 0
    for name in names:
        results = [run(tasks.TASKS[name], seed, STEPS)[0] for seed in seeds]
        ours_, peer, other = (sum(x) / len(seeds) for x in zip(*results))
        off = abs(ours_ - peer) / peer
        wrong += off > 0.01
        print(f"{name:<12} loss of steps {STEPS - WINDOW + 1} to {STEPS}: psgd {ours_:.5f}  "
              f"PyTorch {peer:.5f}  {100 * off:.3f} % apart; of each seed",
              ", ".join(f"{100 * abs(a - b) / b:.3f}" for a, b, _ in results),
              "; PyTorch from itself", ", ".join(f"{100 * abs(c - b) / b:.3f}" for _, b, c in results),
              flush=True)
    return wrong


def compare_real(names, seeds):
    for name in names:
        task = tasks.TASKS[name]
        both = []
        for seed in seeds:
            (a, b), took = run(task, seed, None)
            both.append((a, b))
            print(f"{name:<12} seed {seed}: {task.metric} psgd {a:.4f} ({took[0]:.0f} s)  "
                  f"PyTorch {b:.4f} ({took[1]:.0f} s)", flush=True)
        a, b = (sum(x) / len(seeds) for x in zip(*both))
        print(f"{name:<12} mean: {task.metric} psgd {a:.4f}  PyTorch {b:.4f}  "
              f"difference {a - b:+.4f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["steps", "real"])
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--seeds", default="1", type=lambda text: [int(s) for s in text.split(",")])
    args = p.parse_intermixed_args()
    names = args.names or list(tasks.TASKS)
    for name in names:
        if name not in tasks.TASKS:
            p.error(f"NAME: {name}: there are {', '.join(tasks.TASKS)}")
    if args.what == "steps":
        return 1 if compare_steps(names, args.seeds) else 0
    compare_real(names, args.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
