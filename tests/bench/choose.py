#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""choose.py - what settings of a preset come to on samples held out of the training set.

    PSGD_BIN=build/bin PSGD_DATA=/srv/data /usr/bin/python3 tests/bench/choose.py dgc \\
        --try optimizer.rule.params.lr=0.2,0.4,0.8 --try codec.up.params.momentum=0.5,0.9

MNIST, 4 workers, 2 servers, two epochs, as tests/bench/results.py; but jobs train on the training set
without its last 10,000 samples and are evaluated on those, so that what is chosen has not
seen the test set. Every combination of the values, each with every seed: a line with the
accuracies in percent, their mean and the least; the best mean comes last.
"""
import argparse
import concurrent.futures
import gzip
import itertools
import os
import pathlib
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from results import run  # noqa: E402

HELD_OUT = 10000


def read(path):
    """Header without the count, count, and the bytes of all samples."""
    path = pathlib.Path(path)
    data = path.read_bytes() if path.exists() else gzip.decompress(
        path.with_name(path.name + ".gz").read_bytes())
    rank = data[3]
    return data[:4] + data[8:4 + 4 * rank], struct.unpack(">I", data[4:8])[0], data[4 + 4 * rank:]


def hold_out(source, folder):
    """folder/mnist: a training set without its last samples, which are the test set."""
    (folder / "mnist").mkdir()
    for what in ("images-idx3-ubyte", "labels-idx1-ubyte"):
        head, count, data = read(pathlib.Path(source) / "mnist" / f"train-{what}")
        size = len(data) // count
        cut = (count - HELD_OUT) * size
        for name, n, part in (("train", count - HELD_OUT, data[:cut]), ("t10k", HELD_OUT, data[cut:])):
            header = head[:4] + struct.pack(">I", n) + head[4:]
            (folder / "mnist" / f"{name}-{what}").write_bytes(header + part)


def train(preset, sets, seed, o, data):
    with tempfile.TemporaryDirectory(prefix="psgd-choose-") as folder:
        more = ["--model", o.network] if o.network != "tutorial" else []
        more += ["--train-limit", o.samples] if o.samples else []
        for pair in sets:
            more += ["-s", pair]
        job, _ = run("--format", "json", "train", "--preset", preset, "--data", "mnist",
                  "--workers", o.workers, "--pservers", 2, "--epochs", o.epochs, "--seed", seed,
                  "--block-size", o.block_size, "--threads", 1, "--data-path", data,
                  "--out", folder, *more)
    return 100 * job["result"]["accuracy"]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("preset")
    options.add_argument("--try", dest="tries", action="append", default=[],
                         metavar="PATH=VALUE,...", help="a field of the job; may be repeated")
    options.add_argument("--set", dest="sets", action="append", default=[], metavar="PATH=VALUE")
    options.add_argument("--network", default="tutorial")
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--samples", type=int, default=0, help="training samples; 0: all")
    options.add_argument("--block-size", type=int, default=64)
    options.add_argument("--seeds", default="1,2,3")
    options.add_argument("--at-once", type=int, default=1, help="trainings at the same time")
    options.add_argument("--data-path", default=os.environ.get("PSGD_DATA"))
    o = options.parse_args()
    if not o.data_path:
        options.error("--data-path or PSGD_DATA has to say where mnist/ is")
    seeds = [int(seed) for seed in o.seeds.split(",")]
    grid = [[f"{path}={value}" for value in values.split(",")]
            for path, values in (t.split("=", 1) for t in o.tries)]
    with tempfile.TemporaryDirectory(prefix="psgd-held-out-") as data, \
            concurrent.futures.ThreadPoolExecutor(o.at_once) as pool:
        hold_out(o.data_path, pathlib.Path(data))
        jobs = [(sets, [pool.submit(train, o.preset, [*o.sets, *sets], seed, o, data)
                        for seed in seeds]) for sets in itertools.product(*grid)]
        rows = []
        for sets, done in jobs:
            accuracies = [one.result() for one in done]
            rows.append((sum(accuracies) / len(accuracies), accuracies, sets))
            print(line(rows[-1]), flush=True)
        if len(rows) > 1:
            print("best:", line(max(rows)))


def line(row):
    mean, accuracies, sets = row
    each = " ".join(f"{a:.2f}" for a in accuracies)
    return f"{mean:.2f} (least {min(accuracies):.2f}: {each}) {' '.join(sets)}"


if __name__ == "__main__":
    main()
