#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""threads.py - samples a second of `psgd train` with one thread and with two, the runs one after
the other in rounds. By default the tutorial network, whose two workers have a thread each; of the
networks that are named, the one worker has so many threads (worker_threads). resnet14 needs
PSGD_DATA with cifar10. Figures are the best of the rounds, as other programs can only slow a run
down. The processor time of a sample says what sharing costs, also where other programs have the
processors."""
import argparse
import hashlib
import json
import os
import pathlib
import resource
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PSGD_BIN", ROOT / "build" / "bin"))
TUTORIAL = "tutorial-glyphs"
# Network, data, samples of a run (some seconds on one processor of today), and more options.
ONE_WORKER = {"mlp": ("mlp", "glyphs", 60000), "cnn": ("cnn", "glyphs", 4000),
              "resnet14": ("resnet14", "cifar10", 2000), "alexnet": ("alexnet", "cifar10", 4000),
              "mlp-wide": ("mlp", "glyphs", 12800, "--widths", "1024,1024")}


def command(name, threads, epochs):
    if name == TUTORIAL:
        return ["--preset", name, "--threads", threads, "--epochs", epochs]
    model, data, samples, *more = ONE_WORKER[name]
    return ["--preset", "bsp", "--model", model, "--data", data, "--train-limit", samples,
            "--test-limit", 100, "--workers", 1, "--worker-threads", threads, "--epochs", epochs,
            "--title", name, *more]


def samples_of(name):
    return 60000 if name == TUTORIAL else ONE_WORKER[name][2]


def train(folder, name, threads, epochs):
    """(samples a second of the whole training, processor seconds of a sample, SHA-256 of the model)"""
    out = folder / f"threads-{threads}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [BIN / "psgd", "--format", "json", "train", *map(str, command(name, threads, epochs)),
         "--out", out], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    model = (out / f"MODEL-{name}-N(0).safetensors").read_bytes()
    progress = json.loads(done.stdout)["progress"]
    return (progress["samples_per_second"], spent / (samples_of(name) * epochs),
            hashlib.sha256(model[8 + int.from_bytes(model[:8], "little"):]).hexdigest())


def measure(folder, name, rounds, epochs):
    """Prints the row of a network. Returns the ratio of the rates, and whether the models are the same."""
    rates, spent, ratios, models = {1: [], 2: []}, {1: [], 2: []}, [], set()
    for _ in range(rounds):
        for threads in rates:
            rate, seconds, model = train(folder, name, threads, epochs)
            rates[threads].append(rate)
            spent[threads].append(seconds)
            models.add(model)
        ratios.append(rates[2][-1] / rates[1][-1])
    ratio = max(rates[2]) / max(rates[1])
    times = [min(spent[threads]) for threads in (1, 2)]
    print(f"| {name} | {max(rates[1]):,.0f} | {max(rates[2]):,.0f} "
          f"| {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {times[0] * 1e6:,.1f} "
          f"| {times[1] * 1e6:,.1f} | {'the same' if len(models) == 1 else 'DIFFERS'} |", flush=True)
    return ratio, len(models) == 1


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", help=f"networks: {', '.join(ONE_WORKER)}")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--require", type=float, default=0, help="fail below this ratio")
    o = options.parse_args()
    unknown = [name for name in o.names if name not in ONE_WORKER]
    if unknown:
        options.error(f"no network {unknown[0]}; there are {', '.join(ONE_WORKER)}")
    print("| network | samples/s, 1 thread | 2 threads | ratio (of rounds) | processor time of a sample, us, "
          "1 thread | 2 threads | model |\n| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="psgd-bench-") as name:
        found = [measure(pathlib.Path(name), network, o.rounds, o.epochs)
                 for network in o.names or [TUTORIAL]]
    raise SystemExit(any(ratio < o.require or not is_same for ratio, is_same in found))


if __name__ == "__main__":
    main()
