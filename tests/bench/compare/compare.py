#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same thing with psgd and with PyTorch and prints both results.

    PSGD_BIN=build/bin PSGD_DATA=... /usr/bin/python3 tests/bench/compare/compare.py WHAT [--seeds 1,2,3] [NAME...]

Both begin with the same weights and see the same samples in the same order.

`steps` trains 200 steps without dropout, by plain SGD at a rate at which training does not
enlarge roundings (steps.py says why), and compares the training loss of the last 20; exit code
1 if one differs by more than 1 %, or by much more than roundings make of it. `usual` does the
same with the rule that each is usually trained by, where PyTorch may be as far from itself as
from us, and prints the mean over seeds and its error. `real` trains as long as people do, with
dropout, and prints accuracy (or what else counts) on the test set for each seed.
"""
import argparse
import sys
import tempfile
import time

import pair
import steps
import tasks


def run_real(task, seed):
    """What psgd and PyTorch come to in the task's metric, and the seconds that each took."""
    with tempfile.TemporaryDirectory() as folder:
        ours = pair.Pair(folder, pair.job_of(task, seed, True))
        began = time.monotonic()
        ours.train()
        took = [time.monotonic() - began]
        facts = ours.facts()
        began = time.monotonic()
        result = [float(ours.rows("EV")[-1][task.metric]),
                  tasks.train_and_evaluate(task, facts, seed)]
        return result, took + [time.monotonic() - began]


def compare_real(task, seeds):
    both = []
    for seed in seeds:
        (a, b), took = run_real(task, seed)
        both.append((a, b))
        print(f"{task.name:<12} seed {seed}: {task.metric} psgd {a:.4f} ({took[0]:.0f} s)  "
              f"PyTorch {b:.4f} ({took[1]:.0f} s)", flush=True)
    a, b = (sum(x) / len(seeds) for x in zip(*both))
    print(f"{task.name:<12} mean: {task.metric} psgd {a:.4f}  PyTorch {b:.4f}  "
          f"difference {a - b:+.4f}", flush=True)


WHAT = {"steps": steps.compare_calm, "usual": steps.compare_usual, "real": compare_real}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=list(WHAT))
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--seeds", default="1", type=lambda text: [int(s) for s in text.split(",")])
    args = p.parse_intermixed_args()
    names = args.names or list(tasks.TASKS)
    for name in names:
        if name not in tasks.TASKS:
            p.error(f"NAME: {name}: there are {', '.join(tasks.TASKS)}")
    good = [WHAT[args.what](tasks.TASKS[name], args.seeds) is not False for name in names]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
