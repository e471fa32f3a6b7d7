#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of each network beside PyTorch's, one thread each, round by round.

    PSGD_BIN=build/bin /usr/bin/python3 tests/bench/networks.py [--rounds N] [NAME...]

Forward, backward and Adam with dropout, batch 64 (mlp) and 32 (the others). Prints
the best and the median round of both, in ms of the processor a step, and the ratio of
each: what else runs on the machine then disturbs less.
"""
import argparse
import os
import statistics
import subprocess
import time

PROGRAM = os.path.join(os.environ.get("PSGD_BIN", "build/bin"), "bench_network")
# A processor that is younger than OpenBLAS gets its oldest kernels; the peer
# reads this when it is loaded, and is as well off as we are.
os.environ["OPENBLAS_CORETYPE"] = subprocess.run([PROGRAM, "kernels"], check=True, text=True,
                                                 capture_output=True).stdout.strip()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

nn = torch.nn
NETWORKS = {
    "mlp": (64, 200, (1, 28, 28), lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(784, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(),
        nn.Linear(128, 10))),
    "cnn": (32, 5, (1, 28, 28), lambda: nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout2d(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(128, 10))),
    "alexnet": (32, 5, (3, 32, 32), lambda: nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 5), nn.Dropout2d(0.3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 192, 5, 1, 2), nn.Dropout2d(0.3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(192, 384, 3, 1, 1), nn.Dropout2d(0.3), nn.ReLU(),
        nn.Conv2d(384, 256, 3, 1, 1), nn.Dropout2d(0.3), nn.ReLU(),
        nn.Conv2d(256, 256, 3, 1, 1), nn.Dropout2d(0.3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 10))),
}


class Peer:
    """PyTorch's steps."""

    def __init__(self, name):
        batch, self.steps, shape, make = NETWORKS[name]
        self.model = make()
        self.x = torch.rand((batch,) + shape) - 0.5
        self.labels = torch.arange(batch) % 10
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.001)

    def round(self):
        start = time.process_time()
        for _ in range(self.steps):
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(self.x), self.labels).backward()
            self.optimizer.step()
        return (time.process_time() - start) * 1e3 / self.steps


class Ours:
    def __init__(self, name):
        batch, steps, _, _ = NETWORKS[name]
        self.process = subprocess.Popen([PROGRAM, name, str(batch), str(steps)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("names", nargs="*", default=list(NETWORKS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("%-8s %30s %30s %14s" % ("", "psgd ms: best, median", "PyTorch ms: best, median", "ratio"))
    for name in args.names:
        ours, peer = Ours(name), Peer(name)
        ours.round(), peer.round()  # warm
        pairs = [(ours.round(), peer.round()) for _ in range(args.rounds)]
        ours.close()
        a, b = zip(*pairs)
        print("%-8s %20.2f %9.2f %20.2f %9.2f %7.2f %6.2f" % (
            name, min(a), statistics.median(a), min(b), statistics.median(b),
            min(b) / min(a), statistics.median(b) / statistics.median(a)))


main()
