#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""exchanges.py - what an exchange costs between processes, beside parameter servers.

    PSGD_BIN=build/bin PSGD_DATA=... tests/bench/exchanges.py [ROUNDS]

Four workers and two servers on this machine, each a process, on loopback, train the tutorial's
network for an epoch, in turns with every exchange, ROUNDS times (3). Columns: processor seconds of
all processes per 1000 samples, and samples a second of worker 0 from its first step to its last, each
the median of the rounds with its ratio to that of `pserver` in the same round; MB of all workers up
and down; accuracy on the first 2000 samples of the test set, on every worker the same.

Without a network it is processor time that decides, and whatever else runs on the machine; only
ratios are worth a look.
"""
import argparse
import csv
import io
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import Cluster, data_path, job_pb2  # noqa: E402

WORKERS = 4
INT8 = {"up": {"name": "int8"}, "down": {"name": "int8"}}
SETTINGS = {
    "pserver": {},
    "plain": {"exchange": {"name": "plain"}},
    "ring": {"exchange": {"name": "ring"}},
    "tree": {"exchange": {"name": "tree"}},
    "pserver int8": {"codec": INT8},
    "ring int8": {"exchange": {"name": "ring"}, "codec": INT8},
}


def spec(fields):
    data = {"name": "mnist"} if data_path() else {"name": "glyphs"}
    return {"title": "e", "preset": "tutorial", "workers": WORKERS, "pservers": 2, "epochs": 1,
            "data": {**data, "testLimit": 2000}, "seed": 1, **fields}


def processor_seconds(cluster):
    ticks = 0
    for node in cluster.nodes:
        stat = pathlib.Path(f"/proc/{node.process.pid}/stat").read_text()
        ticks += sum(map(int, stat.rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(cluster, fields):
    before = processor_seconds(cluster)
    job = cluster.wait(cluster.submit(spec(fields)).id, seconds=600)
    if job.state != job_pb2.JOB_STATE_DONE:
        raise RuntimeError(f"{fields}: {job.reason} {job.message}")
    cluster.wait_idle()
    spent = processor_seconds(cluster) - before
    files = cluster.files(job.id)
    steps = list(csv.DictReader(io.StringIO(files["TR-e-N(0).csv"].decode())))
    seconds = float(steps[-1]["time_s"]) - float(steps[0]["time_s"])
    p = job.progress
    batch = job.spec.block_size * WORKERS
    return {"cpu": spent * 1000 / (p.total_steps * batch), "rate": (len(steps) - 1) * batch / seconds,
            "up": p.bytes_up / 1e6, "down": p.bytes_down / 1e6,
            "accuracy": job.result["accuracy"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    rounds = parser.parse_args().rounds
    cluster = Cluster(workers=WORKERS, pservers=2, data=data_path())
    cluster.wait_nodes(WORKERS + 2)
    seen = {name: [] for name in SETTINGS}
    try:
        for _ in range(rounds):
            for name, fields in SETTINGS.items():
                seen[name].append(measure(cluster, fields))
    finally:
        cluster.close()
    print("| exchange | processor s / 1000 samples | of pserver | samples/s | of pserver | MB up | "
          "down | accuracy |")
    print("| --- " * 8 + "|")
    for name, runs in seen.items():
        cells = [name]
        for key, form in (("cpu", ".3f"), ("rate", ".0f")):
            ratios = [a[key] / b[key] for a, b in zip(runs, seen["pserver"])]
            cells += [format(statistics.median(r[key] for r in runs), form),
                      f"{statistics.median(ratios):.2f}"]
        last = runs[-1]
        cells += [f"{last['up']:.0f}", f"{last['down']:.0f}", f"{last['accuracy']:.4f}"]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
