#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of each network beside PyTorch's, one thread each, round by round.

    PSGD_BIN=build/bin /usr/bin/python3 tests/bench/networks.py [--rounds N] [NAME...]

Forward, backward and Adam with dropout, batch 64 (mlp) and 32 (the others); over ids
AdaGrad, rows that were touched alone on both sides. Prints
the best and the median round of both, in ms of the processor a step, and the ratio of
each: what else runs on the machine then disturbs less.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

PROGRAM = os.path.join(os.environ.get("PSGD_BIN", "build/bin"), "bench_network")
# A processor that is younger than OpenBLAS gets its oldest kernels; the peer
# reads this when it is loaded, and is as well off as we are.
os.environ["OPENBLAS_CORETYPE"] = subprocess.run([PROGRAM, "kernels"], check=True, text=True,
                                                 capture_output=True).stdout.strip()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import peers  # noqa: E402

# Batch, steps a round, numbers of a sample, ids, vocabulary, classes; how it is made.
NETWORKS = {
    "mlp": (64, 200, peers.DIGIT, 0, 0, 10, lambda sparse: peers.mlp(True)),
    "cnn": (32, 5, peers.DIGIT, 0, 0, 10, lambda sparse: peers.cnn(True)),
    "alexnet": (32, 5, peers.IMAGE, 0, 0, 10, lambda sparse: peers.alexnet(True)),
    "resnet": (32, 3, peers.IMAGE, 0, 0, 10, lambda sparse: peers.resnet(16, 3, 2, 3)),
    "ngram": (32, 50, (0,), 4, 2074, 2074, lambda sparse: peers.Ngram(2074, 4, True, sparse)),
    "skipgram": (32, 100, (0,), 7, 2074, 6, lambda sparse: peers.Skipgram(2074, sparse)),
    "wide_deep": (32, 20, (13,), 26, 1000001, 2,
                  lambda sparse: peers.WideDeep(1000001, 13, 26, sparse)),
}
MORE = {
    "resnet18": (32, 1, peers.IMAGE, 0, 0, 10, lambda sparse: peers.resnet(64, 4, 2, 1)),
    "resnet20": (32, 3, peers.IMAGE, 0, 0, 10, lambda sparse: peers.resnet(16, 3, 3, 0)),
}


class Peer:
    """PyTorch's steps, tables with sparse gradients."""

    def __init__(self, name):
        batch, self.steps, shape, ids, vocabulary, classes, make = {**NETWORKS, **MORE}[name]
        self.model = make(True)
        self.x = torch.rand((batch,) + shape) - 0.5
        if ids:
            self.x = torch.cat([self.x, torch.randint(vocabulary, (batch, ids))], 1)
        self.labels = torch.arange(batch) % classes
        one_hot = name in ("skipgram", "wide_deep")
        self.loss = peers.one_hot_cross_entropy if one_hot else F.cross_entropy
        if ids:
            self.optimizer = torch.optim.Adagrad(self.model.parameters(), lr=0.01)
        else:
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.001)

    def round(self):
        start = time.process_time()
        for _ in range(self.steps):
            self.optimizer.zero_grad()
            self.loss(self.model(self.x), self.labels).backward()
            self.optimizer.step()
        return (time.process_time() - start) * 1e3 / self.steps


class Ours:
    def __init__(self, name):
        batch, steps = {**NETWORKS, **MORE}[name][:2]
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
