#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""threads.py - samples a second of `psgd train` with one thread and with two, the
tutorial network and its two workers, the runs one after the other in rounds."""
import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PSGD_BIN", ROOT / "build" / "bin"))


def train(folder, threads, epochs):
    """(samples a second of the whole training, SHA-256 of the model)"""
    out = folder / f"threads-{threads}"
    done = subprocess.run(
        [BIN / "psgd", "--format", "json", "train", "--preset", "tutorial-glyphs", "--epochs",
         str(epochs), "--threads", str(threads), "--out", out],
        capture_output=True, check=True)
    model = (out / "MODEL-tutorial-glyphs-N(0).safetensors").read_bytes()
    return (json.loads(done.stdout)["progress"]["samples_per_second"],
            hashlib.sha256(model).hexdigest())


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--require", type=float, default=0, help="fail below this ratio")
    o = options.parse_args()
    rates, ratios, models = {1: [], 2: []}, [], set()
    with tempfile.TemporaryDirectory(prefix="psgd-bench-") as name:
        for _ in range(o.rounds):
            for threads in rates:
                rate, model = train(pathlib.Path(name), threads, o.epochs)
                rates[threads].append(rate)
                models.add(model)
            ratios.append(rates[2][-1] / rates[1][-1])
    for threads, seen in rates.items():
        print(f"{threads} thread{'s' if threads > 1 else ''}:  {statistics.median(seen):9,.0f} "
              f"samples/s  (best {max(seen):,.0f})")
    ratio = statistics.median(ratios)
    print(f"ratio: {ratio:.2f}  (of rounds: {min(ratios):.2f} to {max(ratios):.2f}); "
          f"{'the same model' if len(models) == 1 else 'MODELS DIFFER'}")
    raise SystemExit(ratio < o.require or len(models) != 1)


if __name__ == "__main__":
    main()
