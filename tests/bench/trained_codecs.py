#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""trained_codecs.py - what training makes of gradients through every codec, as a markdown table.

    PSGD_BIN=build/bin tests/bench/trained_codecs.py [NAME...]

Preset `tutorial` on glyphs, two workers, two servers, bsp, under Adam 0.001 and under sgd 0.05, each by
`psgd train` with --seeds. A row a codec with its numbers: bytes up beside those of float32, and the
accuracy on the test set in percent, means over the seeds.
"""
import argparse
import concurrent.futures
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from results import run  # noqa: E402

FED = {"error_feedback": 1}
ROWS = [  # codec, numbers, both ways?
    ("f32", {}), ("bf16", {}, True),
    ("intn", {}), ("intn", {"stochastic": 0}), ("intn", {"stochastic": 0, **FED}),
    ("intn", {"bits": 2}), ("intn", {"bits": 8}, True),
    ("natural", {}), ("natural", {}, True),
    ("sign", {}), ("sign", FED), ("sign", {"scale": 1}), ("onebit", {}), ("onebit", FED),
    ("ternary", {}), ("ternary", {"clip": 0}), ("qsgd", {}), ("qsgd", {"levels": 1}),
    ("topk", {}), ("topk", FED), ("topk", {"fraction": 0.1, **FED}),
    ("randomk", {}), ("randomk", {"scaled": 0, **FED}), ("randomk", {"fraction": 0.1}),
    ("randomk", {"fraction": 0.1, "scaled": 0, **FED}),
    ("threshold", {}), ("threshold", FED),
    ("threelc", {}), ("threelc", FED), ("threelc", {"sparsity": 1.75, **FED}),
    ("cot", {}), ("tqn", {}), ("laq", {}), ("norm", {"bits": 8}), ("intsum", {}),
    ("vote", {}), ("vote", FED), ("sign", {"difference": 1}), ("powersgd", {}), ("dgc", {}),
]
RULES = (("adam", 0.001), ("sgd", 0.05))


def train(codec, numbers, ways, rule, rate, seed):
    """Percent of the bytes of float32, and of right answers."""
    fields = [f"codec.{way}.name={codec}" for way in ways]
    fields += [f"codec.{way}.params.{name}={value}" for way in ways for name, value in numbers.items()]
    with tempfile.TemporaryDirectory(prefix="psgd-codecs-") as folder:
        job, _ = run("--format", "json", "train", "--preset", "tutorial", "--data", "glyphs",
                     "--workers", 2, "--pservers", 2, "--optimizer", rule, "--lr", rate, "--seed", seed,
                     "--threads", 1, "--out", folder, *(a for field in fields for a in ("-s", field)))
    p = job["progress"]
    return 100 * float(p["bytes_up"]) / float(p["bytes_up_float32"]), 100 * job["result"]["accuracy"]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", help="codecs; default all")
    options.add_argument("--seeds", default="1,2")
    options.add_argument("--at-once", type=int, default=1, help="trainings at the same time")
    o = options.parse_args()
    seeds = [int(seed) for seed in o.seeds.split(",")]
    print("| gradients through | " + " | ".join(f"up, {rule}" for rule, _ in RULES) + " | " +
          " | ".join(rule for rule, _ in RULES) + " |\n" + "| --- " * (1 + 2 * len(RULES)) + "|")
    with concurrent.futures.ThreadPoolExecutor(o.at_once) as pool:
        wanted = [(codec, numbers, ("up", "down") if more else ("up",))
                  for codec, numbers, *more in ROWS if not o.names or codec in o.names]
        jobs = [(row, [[pool.submit(train, *row, *rule, seed) for seed in seeds] for rule in RULES])
                for row in wanted]
        for (codec, numbers, ways), done in jobs:
            means = [[sum(part) / len(seeds) for part in zip(*(one.result() for one in runs))] for runs in done]
            said = [f"`{codec}`"] + [f"`{name}` {value:g}" for name, value in numbers.items() if name not in FED]
            said += ["error feedback"] * ("error_feedback" in numbers) + ["both ways"] * (len(ways) > 1)
            cells = [", ".join(said), *(f"{up:.1f} %" for up, _ in means), *(f"{right:.1f}" for _, right in means)]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
