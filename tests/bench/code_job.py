#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""code_job.py - what a codec of code costs a job beside the built-in one with the same values: SGQ of
clients/examples/code beside `cot`, topk_lua beside `topk`, two workers and a server on a cluster, or
with --exchange two workers without a server. Each codec has a cluster of its own. Their nodes run in turn, a window
of a second each, while those of the other cluster are stopped (SIGSTOP), so that both codecs meet the same machine.
A cluster may be slower than an equal one by some hundredths as long as it lives, and so may the first of two, so there
are several runs with new clusters, and in turn the one and the other codec is first. Printed are the medians of the
steps a second of all windows; the median of the ratios of neighbouring windows of each run, from least to greatest;
and the geometric mean of these with its standard error. The models have to be equal. --same runs the built-in codec on
both clusters: its ratio says how exact the others are. --mbit: each worker has a link of so many Mbit/s in a network
namespace of its own (root), in place of memory that it shares with the server."""
import argparse
import csv
import hashlib
import io
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
import slow_links  # noqa: E402
from harness import FINAL, Cluster, job_pb2, tensors  # noqa: E402

PAIRS = {
    "sgq": ("cot", {}),
    "topk_lua": ("topk", {"error_feedback": 1}),
}
JOBS = {
    "tutorial": {"preset": "tutorial-glyphs"},
    "cnn": {"model": {"preset": "cnn"}, "data": {"name": "glyphs", "trainLimit": 8000, "testLimit": 100},
            "blockSize": 32},
    "mlp": {"model": {"preset": "mlp", "widths": [1024, 1024]}, "blockSize": 128,
            "data": {"name": "glyphs", "trainLimit": 20000, "testLimit": 100}},
}
STEPS = {"tutorial": 8000, "cnn": 250, "mlp": 250}
PAUSE = 0.3  # seconds; a step that takes longer tells that the nodes were stopped during it
INSIDE = "PSGD_CODE_JOB_NETWORK"  # in the hub's namespace: name of the network
EDGE = 0.1  # share of a window's steps that is left out at its beginning, when caches have other things


class Side:
    """A cluster that runs one job, with one of the codecs."""

    def __init__(self, o, job, codec, code, steps):
        self.has_servers = o.exchange == "pserver"
        network = os.environ.get(INSIDE)
        self.cluster = Cluster(workers=2, pservers=int(self.has_servers),
                               place=slow_links.place(network) if network else lambda name: {})
        self.cluster.wait_nodes(2 + self.has_servers)
        self.job = self.cluster.submit({
            **job, "title": "code", "seed": 3, "workers": 2, "pservers": int(self.has_servers),
            "exchange": {"name": o.exchange}, "maxSteps": steps, "epochs": 100000, "evalEverySteps": steps,
            "codec": {o.way: {"name": codec, "params": PAIRS[o.codec][1]}}, "code": code})
        self.cluster.wait(self.job.id, lambda job: job.progress.step > 0 or job.state in FINAL)

    def freeze(self):
        for node in self.cluster.nodes:
            node.freeze()

    def thaw(self):
        for node in self.cluster.nodes:
            node.thaw()

    def is_over(self):
        return self.cluster.get(self.job.id).state in FINAL

    def end(self):
        """(times of the steps of rank 0, SHA-256 of the model)"""
        done = self.cluster.wait(self.job.id, seconds=600)
        if done.state != job_pb2.JOB_STATE_DONE:
            sys.exit(f"{done.reason} {done.message}")
        files = self.cluster.files(done.id)
        rows = csv.DictReader(io.StringIO(files["TR-code-N(0).csv"].decode()))
        model = repr(sorted(tensors(files[f"MODEL-code-N({'ps' if self.has_servers else 0}).safetensors"]).items())).encode()
        return [float(row["time_s"]) for row in rows], hashlib.sha256(model).hexdigest()


def rates(times):
    """steps a second of each window"""
    windows = [[times[0]]]
    for before, now in zip(times, times[1:]):
        if now - before > PAUSE:
            windows.append([])
        windows[-1].append(now)
    found = []
    for window in windows[1:]:  # the first one began before its cluster was alone
        rest = window[1 + int(len(window) * EDGE):]
        found.append((len(rest) - 1) / (rest[-1] - rest[0]) if len(rest) > 5 else None)
    return found


def compare(o, job, codecs, steps):
    """(rates of the windows of the first and of the second codec, models)"""
    sides = []
    try:
        for codec, code in codecs:
            sides.append(Side(o, job, codec, code, steps))
            sides[-1].freeze()
        while not any(side.is_over() for side in sides):
            for side in sides:
                side.thaw()
                time.sleep(o.seconds)
                side.freeze()
        for side in sides:
            side.thaw()
        ends = [side.end() for side in sides]
    finally:
        for side in sides:
            side.thaw()
            side.cluster.close()
    # the last two windows of each may be short, or without the other one
    return [rates(times)[:-2] for times, _ in ends], {model for _, model in ends}


def within_links(mbit):
    """Runs this program again where each of two workers has a link; returns how it exits."""
    network = f"psgd-{os.getpid()}"
    try:
        slow_links.build(network, 2, mbit)
        return subprocess.run([*slow_links.within(network, "hub"), sys.executable, __file__, *sys.argv[1:]],
                              env={**os.environ, INSIDE: network}, check=False).returncode
    finally:
        slow_links.tear_down(network, 2)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("jobs", nargs="*", default=[], choices=[*JOBS, []])
    options.add_argument("--codec", default="sgq", choices=PAIRS)
    options.add_argument("--exchange", default="pserver", choices=("pserver", "plain", "ndc", "ring", "tree"))
    options.add_argument("--way", default="up", choices=("up", "down"), help="gradients or weights")
    options.add_argument("--steps", type=int, default=0, help="of each job; 0: by the job")
    options.add_argument("--runs", type=int, default=16, help="an even number")
    options.add_argument("--seconds", type=float, default=1, help="of a window")
    options.add_argument("--same", action="store_true", help="the built-in codec on both clusters")
    options.add_argument("--mbit", type=int, help="rate of each worker's link")
    o = options.parse_args()
    if o.mbit and not os.environ.get(INSIDE):
        sys.exit(within_links(o.mbit))
    builtin, _ = PAIRS[o.codec]
    text = (ROOT / "clients/examples/code" / f"{o.codec}.lua").read_text()
    codecs = [(builtin, []), (builtin, []) if o.same else (o.codec, [{"file": f"{o.codec}.lua", "text": text}])]
    print(f"| job | {codecs[0][0]} | {codecs[1][0]} | ratio | runs | models |\n| --- | --- | --- | --- | --- | --- |")
    for name in o.jobs or JOBS:
        seen, ratios, models = ([], []), [], set()
        for run in range(o.runs):
            order = (1, 0) if run % 2 else (0, 1)
            found, of_run = compare(o, JOBS[name], [codecs[i] for i in order], o.steps or STEPS[name])
            models |= of_run
            for i, rates_of in zip(order, found):
                seen[i].extend(filter(None, rates_of))
            ratios.append(statistics.median(y / x for x, y in zip(*found) if x and y) ** (-1 if run % 2 else 1))
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        print(f"| {name} | {statistics.median(seen[0]):.0f} | {statistics.median(seen[1]):.0f} | "
              f"{statistics.geometric_mean(ratios):.3f} +- {error:.3f} | {' '.join(f'{ratio:.3f}' for ratio in sorted(ratios))} | "
              f"{'equal' if len(models) == 1 else 'DIFFER'} |", flush=True)
        if len(models) != 1:
            sys.exit(1)


if __name__ == "__main__":
    main()
