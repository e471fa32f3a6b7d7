#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""train.py - samples a second of the tutorial network beside PyTorch.

    PSGD_BIN=build/bin tests/bench/train/train.py [--rounds 5] [--require 2.0]

784-128-128-10, tanh, Adam 0.001, block 64, bsp, with 1 and 2 workers and one
parameter server, all real services on loopback; PyTorch alone and under DDP
over gloo with 2 processes, one thread a process, the same batch a worker. Every
round measures all rows; printed are medians, and ratios to PyTorch's best row.

psgd's figure is that of its own TR report: steps of the whole job, without the
first ones of each epoch (the pause before them is the evaluation).
"""
import argparse
import csv
import io
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "cluster"))
import harness  # noqa: E402

BLOCK = 64
SKIP = 20  # steps at the begin of an epoch
PYTHON = "/usr/bin/python3"  # Debian's, where python3-torch is


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def torch(world, settings, steps):
    """Samples a second of one run of `world` processes."""
    env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    env.pop("OPENBLAS_CORETYPE", None)
    if settings["kernels"]:
        env["OPENBLAS_CORETYPE"] = settings["kernels"]
    port = free_port()
    peers = [subprocess.Popen(
        [PYTHON, HERE / "peer.py", "--rank", str(rank), "--world", str(world), "--port", str(port),
         "--steps", str(steps), "--foreach", str(settings["foreach"]),
         "--view", str(settings["view"])],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(world)]
    answers = [p.communicate(timeout=300) for p in peers]
    for p, (_, err) in zip(peers, answers):
        if p.returncode != 0:
            sys.exit(f"train.py: PyTorch failed:\n{err}")
    return json.loads(answers[0][0].splitlines()[-1])["samples_per_s"]


def best_kernels(steps):
    """OpenBLAS's kernels that PyTorch is fastest with: its own choice may be far off."""
    names = ["", "Haswell"]
    if "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text():
        names.append("SkylakeX")
    return max(names, key=lambda name: max(
        torch(1, {"kernels": name, "foreach": 0, "view": 0}, steps) for _ in range(2)))


def settings_of(world, kernels):
    """What may be faster or not: each is tried in every round, the best counts."""
    return [{"kernels": kernels, "foreach": foreach, "view": view}
            for foreach in (0, 1) for view in ((0, 1) if world > 1 else (0,))]


def told(settings):
    return f"kernels {settings['kernels'] or 'default'}, Adam foreach {settings['foreach']}" + \
        f", bucket views {settings['view']}"


def rate_of(rows, samples):
    """Samples a second by the rows of worker 0's TR report, with so many samples a step; share of
    the time in which it waited."""
    seconds = steps = waited = 0
    for epoch in {row["epoch"] for row in rows}:
        part = [row for row in rows if row["epoch"] == epoch][SKIP:]
        seconds += float(part[-1]["time_s"]) - float(part[0]["time_s"])
        waited += float(part[-1]["wait_s"]) - float(part[0]["wait_s"])
        steps += len(part) - 1
    return steps * samples / seconds, waited / seconds


def psgd(cluster, workers, epochs):
    """Samples a second of a job, over all workers; seconds a step spent waiting."""
    spec = {"title": "train", "workers": workers, "pservers": 1, "epochs": epochs,
            "blockSize": BLOCK, "model": {"preset": "mlp", "widths": [128, 128]},
            "data": {"name": "glyphs"}, "consistency": {"name": "bsp"},
            "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.001}}}}
    job = cluster.wait(cluster.submit(spec).id, seconds=300)
    if job.state != harness.job_pb2.JOB_STATE_DONE:
        sys.exit(f"train.py: {job.reason} {job.message}")
    text = cluster.files(job.id, kinds=[harness.job_pb2.ARTIFACT_KIND_REPORT],
                         name="TR-train-N(0).csv")["TR-train-N(0).csv"].decode()
    return rate_of(list(csv.DictReader(io.StringIO(text))), workers * BLOCK)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--epochs", type=int, default=2, help="of a psgd job")
    p.add_argument("--steps", type=int, default=500, help="of a PyTorch run")
    p.add_argument("--require", type=float, default=0,
                   help="fail if psgd with 2 workers is less than so many times DDP with 2")
    a = p.parse_args()

    kernels = best_kernels(a.steps)
    ours = {1: [], 2: []}
    waits = {1: [], 2: []}
    theirs = {world: [[] for _ in settings_of(world, kernels)] for world in (1, 2)}
    cluster = harness.Cluster(workers=2, pservers=1)
    try:
        cluster.wait_nodes(3)
        psgd(cluster, 2, 1)  # draws the data
        for _ in range(a.rounds):
            for workers in (1, 2):
                rate, waited = psgd(cluster, workers, a.epochs)
                ours[workers].append(rate)
                waits[workers].append(waited)
                for i, settings in enumerate(settings_of(workers, kernels)):
                    theirs[workers][i].append(torch(workers, settings, a.steps))
    finally:
        cluster.close()

    def line(what, rates, base, note):
        print(f"{what:<32} {statistics.median(rates):9.0f} samples/s  ratio "
              f"{statistics.median(rates) / base:5.2f}  ({min(rates):.0f}..{max(rates):.0f}; {note})")

    for workers, peer in ((1, "PyTorch alone"), (2, "PyTorch DDP, gloo, 2 processes")):
        best = max(theirs[workers], key=statistics.median)
        base = statistics.median(best)
        for rates, settings in zip(theirs[workers], settings_of(workers, kernels)):
            line(peer, rates, base, told(settings))
        line(f"psgd, {workers} worker{'s' if workers > 1 else ''}, 1 server", ours[workers], base,
             f"waiting {statistics.median(waits[workers]):.0%}")
    ratio = statistics.median(ours[2]) / base
    if ratio < a.require:
        sys.exit(f"train.py: {ratio:.2f} times DDP, {a.require} wanted")


if __name__ == "__main__":
    main()
