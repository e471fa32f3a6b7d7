#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""train.py - samples a second of the tutorial network beside PyTorch.

    PSGD_BIN=build/bin tests/bench/train/train.py [--rounds 5] [--require 2.0]

784-128-128-10, tanh, Adam 0.001, block 64, bsp, with 1 and 2 workers and one
parameter server, all real services on loopback; PyTorch alone and under DDP
over gloo with 2 processes, one thread a process, the same batch a worker. Every
round measures all rows; printed are medians. PyTorch gets the settings that are
fastest for it here, tried before the first round.

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


def best_settings(world, steps):
    """One setting after the other, as long as it helps."""
    choices = {"kernels": ["", "SkylakeX", "Haswell"], "foreach": [0, 1],
               "view": [0, 1] if world > 1 else [0]}
    if "avx512bw" not in pathlib.Path("/proc/cpuinfo").read_text():
        choices["kernels"].remove("SkylakeX")
    best = {name: values[0] for name, values in choices.items()}
    best_rate = torch(world, best, steps)
    for name, values in choices.items():
        for value in values[1:]:
            rate = torch(world, {**best, name: value}, steps)
            if rate > best_rate:
                best, best_rate = {**best, name: value}, rate
    return best


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
    rows = list(csv.DictReader(io.StringIO(text)))
    seconds = steps = waited = 0
    for epoch in {row["epoch"] for row in rows}:
        part = [row for row in rows if row["epoch"] == epoch][SKIP:]
        seconds += float(part[-1]["time_s"]) - float(part[0]["time_s"])
        waited += float(part[-1]["wait_s"]) - float(part[0]["wait_s"])
        steps += len(part) - 1
    return workers * steps * BLOCK / seconds, waited / seconds


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--epochs", type=int, default=2, help="of a psgd job")
    p.add_argument("--steps", type=int, default=500, help="of a PyTorch run")
    p.add_argument("--require", type=float, default=0,
                   help="fail if psgd with 2 workers is less than so many times DDP with 2")
    a = p.parse_args()

    settings = {world: best_settings(world, a.steps) for world in (1, 2)}
    rates = {name: [] for name in ("torch1", "psgd1", "ddp2", "psgd2")}
    waits = {1: [], 2: []}
    cluster = harness.Cluster(workers=2, pservers=1)
    try:
        cluster.wait_nodes(3)
        psgd(cluster, 2, 1)  # draws the data
        for _ in range(a.rounds):
            for workers, name, peer in ((1, "psgd1", "torch1"), (2, "psgd2", "ddp2")):
                rate, waited = psgd(cluster, workers, a.epochs)
                rates[name].append(rate)
                waits[workers].append(waited)
                rates[peer].append(torch(workers, settings[workers], a.steps))
    finally:
        cluster.close()

    median = {name: statistics.median(values) for name, values in rates.items()}

    def line(what, name, against, note):
        spread = f"{min(rates[name]):.0f}..{max(rates[name]):.0f}"
        print(f"{what:<34} {median[name]:9.0f} samples/s  ratio {median[name] / median[against]:5.2f}"
              f"  ({spread}; {note})")

    def told(world):
        s = settings[world]
        return ", ".join([f"kernels {s['kernels'] or 'default'}", f"foreach {s['foreach']}"] +
                         ([f"bucket views {s['view']}"] if world > 1 else []))

    line("PyTorch alone", "torch1", "torch1", told(1))
    line("psgd, 1 worker, 1 server", "psgd1", "torch1",
         f"waiting {statistics.median(waits[1]):.0%}")
    line("PyTorch DDP, gloo, 2 processes", "ddp2", "ddp2", told(2))
    line("psgd, 2 workers, 1 server", "psgd2", "ddp2", f"waiting {statistics.median(waits[2]):.0%}")
    ratio = median["psgd2"] / median["ddp2"]
    if ratio < a.require:
        sys.exit(f"train.py: {ratio:.2f} times DDP, {a.require} wanted")


if __name__ == "__main__":
    main()
