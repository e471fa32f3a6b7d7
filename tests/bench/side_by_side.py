#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""side_by_side.py - the speed of two builds, measured in turns on the same machine.

    side_by_side.py --old BUILD --new BUILD [--rounds N] [-k REGEX] [--check]

BUILD is a build folder with bin/ and bench/. In each round every row is measured with both builds,
now one first, now the other. The table has the median of each build, the median of the rounds' ratios
and their range. A ratio above 1 is better: for times it is old by new. --check ends with 1 if a
ratio is below 0.98.

Rows: pushes, pulls and empty pushes of `bench_wire`; samples a second of jobs on a cluster (worker 0's
TR report, without the first steps of an epoch) and of `psgd train`; seconds in which the coordinator
collects 590 MB of models.
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "train")]
from same_bits import ADAM, Cluster, clicks, peers, pick, psgd, words, write_data  # noqa: E402
from train import rate_of  # noqa: E402

LEAST = 0.98
SPARSE = {"table": pick("sparse")}


def tutorial(workers, pservers, epochs=1, **fields):
    return {"workers": workers, "pservers": pservers, "epochs": epochs, "blockSize": 64, **ADAM,
            "model": {"preset": "mlp", "widths": [128, 128]}, "data": {"name": "glyphs", "testLimit": 1000},
            **fields}


def longer(spec, epochs, block):
    """A small job of same_bits.py with all of its data, for long enough to be measured."""
    return {**spec, "epochs": epochs, "blockSize": block, "workers": 2,
            "data": {**spec["data"], "trainLimit": 0}}


# Samples a second on a cluster.
JOBS = {
    "train, 1 worker": tutorial(1, 1),
    "train, 2 workers": tutorial(2, 1),
    "ngram": {**longer(words("ngram"), 12, 32), "pservers": 2},
    "wide_deep with tables": {**longer(clicks(**SPARSE), 6, 32), "pservers": 2},
    "ring": {**peers("ring", 4), **tutorial(4, 0)},
}
# Two hidden layers of 6600: 195 MB in each of three model files.
LARGE = {"workers": 1, "pservers": 1, "epochs": 1, "blockSize": 8,
         "model": {"preset": "mlp", "widths": [6600, 6600]},
         "data": {"name": "glyphs", "trainLimit": 8, "testLimit": 8}, "optimizer": {"rule": pick("sgd")}}
WIRE = {"push": r"^PushGradient.*?([\d.]+) GB/s", "pull": r"^PullWeights.*?([\d.]+) GB/s",
        "empty push": r"^push without slices.*?([\d.]+) us"}
UNITS = {"empty push": "us", "collecting 590 MB": "s", "push": "GB/s", "pull": "GB/s"}
TIMES = ("us", "s")


class Side:
    """A build and its cluster."""

    def __init__(self, build, folder):
        self.build, self.folder = build.resolve(), folder
        self.cluster = Cluster(self.build / "bin", folder / "data", workers=4, pservers=2)

    def spec(self, fields):
        path = self.folder / "job.json"
        path.write_text(json.dumps({"title": "bits", "seed": 7, **fields}))
        return path

    def wire(self):
        """The rows of WIRE, all of one run."""
        done = subprocess.run([self.build / "bench" / "bench_wire", "3", "20"], capture_output=True, text=True,
                              env={**os.environ, "PSGD_BIN": str(self.build / "bin")}, timeout=600)
        if done.returncode != 0:
            sys.exit(f"{self.build}: bench_wire: {done.stderr[-1500:]}")
        return {row: float(re.search(form, done.stdout, re.MULTILINE).group(1)) for row, form in WIRE.items()}

    def job(self, row):
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            out = pathlib.Path(name)
            self.cluster.run(self.spec(JOBS[row]), out)
            rows = list(csv.DictReader((out / "TR-bits-N(0).csv").read_text().splitlines()))
        return {row: rate_of(rows, JOBS[row]["workers"] * JOBS[row]["blockSize"])[0]}

    def local(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            said = psgd(self.build / "bin", "--format", "json", "train", self.spec(tutorial(2, 2, 2)),
                        "--threads", 2, "--out", name)
        return {"psgd train --threads 2": json.loads(said)["progress"]["samples_per_second"]}

    def collect(self):
        said = self.cluster.psgd("--format", "jsonl", "submit", "--watch", self.spec(LARGE))
        events = [e for e in map(json.loads, said.splitlines()) if e["kind"] == "JOB_EVENT_KIND_STATE"]
        at = {e["job"]["state"]: datetime.datetime.fromisoformat(e["time"].replace("Z", "+00:00")) for e in events}
        self.cluster.psgd("delete", events[-1]["job"]["id"])
        return {"collecting 590 MB": (at["JOB_STATE_DONE"] - at["JOB_STATE_COLLECTING"]).total_seconds()}


def measures(pattern):
    """Functions of a side; each gives {row: figure}."""
    found = [Side.wire] if any(re.search(pattern, row) for row in WIRE) else []
    found += [lambda side, row=row: side.job(row) for row in JOBS if re.search(pattern, row)]
    found += [m for row, m in (("psgd train --threads 2", Side.local), ("collecting 590 MB", Side.collect))
              if re.search(pattern, row)]
    return found


def print_row(row, old, new):
    unit = UNITS.get(row, "samples/s")
    ratios = [a / b if unit in TIMES else b / a for a, b in zip(old, new)]
    ratio = statistics.median(ratios)
    print(f"{row:<24} {statistics.median(old):>12,.4g} {statistics.median(new):>12,.4g} {unit:<10} {ratio:6.3f}"
          f"   {min(ratios):.3f} to {max(ratios):.3f}")
    return ratio


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--old", type=pathlib.Path, required=True, metavar="BUILD")
    p.add_argument("--new", type=pathlib.Path, required=True, metavar="BUILD")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("-k", dest="pattern", default="", metavar="REGEX", help="rows whose names match")
    p.add_argument("--check", action="store_true", help=f"end with 1 if a ratio is below {LEAST}")
    o = p.parse_args()
    seen = {}  # row: [figures of old], [figures of new]
    sides = []
    with tempfile.TemporaryDirectory(prefix="psgd-sides-") as name:
        try:
            for what, build in (("old", o.old), ("new", o.new)):
                folder = pathlib.Path(name, what)
                folder.mkdir()
                write_data(folder / "data", rows=20000)
                sides.append(Side(build, folder))
            for turn in range(-1, o.rounds):  # the first one warms up
                for measure in measures(o.pattern):
                    for i in ((0, 1) if turn % 2 else (1, 0)):
                        for row, figure in measure(sides[i]).items():
                            both = seen.setdefault(row, ([], []))
                            if turn >= 0:
                                both[i].append(figure)
        finally:
            for side in sides:
                side.cluster.close()
    print(f"{'':<24} {'old':>12} {'new':>12} {'':<10}  ratio   of {o.rounds} rounds")
    slower = [row for row, both in seen.items() if re.search(o.pattern, row) and print_row(row, *both) < LEAST]
    if slower:
        print(f"below {LEAST}: " + ", ".join(slower))
    return int(o.check and bool(slower))


if __name__ == "__main__":
    sys.exit(main())
