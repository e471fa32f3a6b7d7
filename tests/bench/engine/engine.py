#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of each network, beside PyTorch's and the machine's matrix product.

    PSGD_BIN=build/bin /usr/bin/python3 tests/bench/engine/engine.py [--rounds N] [NAME...]

Forward, backward and Adam with dropout, batch 64 (mlp) and 32 (the others), one thread
each, round by round; over ids AdaGrad, rows that were touched alone on both sides. Times
are the processor's, so what else runs on the machine disturbs less. Prints of each network
the best and the median round of both in ms a step, their ratios; and of ours samples/s and
GFLOP/s of the products in its layers (2 for a multiplication and a sum, of forward, of
weights and of inputs) as a share of what products of squares of 1024 reached in the same
rounds, all at their best.

OPENBLAS_CORETYPE chooses OpenBLAS's kernels for both sides. PSGD_CPU chooses ours; PyTorch and
its oneDNN are then held to the same level, unless their own variables are set. The first line
prints the kernels of both.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

PROGRAM = os.path.join(os.environ.get("PSGD_BIN", "build/bin"), "bench_engine")
# The variables that hold PyTorch and its oneDNN to a level of PSGD_CPU.
PEERS = {"baseline": ("default", "SSE41"), "avx2": ("avx2", "AVX2"),
         "avx512": ("avx512", "AVX512_CORE")}


def ask(what):
    return subprocess.run([PROGRAM, what], check=True, text=True,
                          capture_output=True).stdout.strip()


def hold_peer():
    """Gives the peer, which reads variables when it is loaded, kernels as good as ours. Returns
    the kernels of both in words."""
    kernels = ask("kernels")
    # A processor that is younger than OpenBLAS gets its oldest kernels.
    os.environ["OPENBLAS_CORETYPE"] = ask("core")
    names = ["OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"]
    if os.environ.get("PSGD_CPU"):
        for name, value in zip(names[1:], PEERS[kernels.split()[0].rstrip(",")]):
            os.environ.setdefault(name, value)
    settings = [f"{name}={os.environ[name]}" for name in names if name in os.environ]
    return f"psgd: {kernels}; PyTorch: {' '.join(settings)}"


KERNELS = hold_peer()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "golden"))
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


    def products(self):
        """Floating point operations of a step in products of matrices."""
        count = 0

        def forward(module, inputs, output):
            nonlocal count
            one = module.weight[0].numel() * output.numel() * 2
            # Values of ids and images need no gradient.
            count += one * (3 if inputs[0].requires_grad else 2)

        handles = [m.register_forward_hook(forward) for m in self.model.modules()
                   if isinstance(m, (torch.nn.Linear, torch.nn.Conv2d))]
        self.model(self.x)
        for handle in handles:
            handle.remove()
        return count


SQUARE = 1024


class Ours:
    def __init__(self, name):
        batch, steps = (SQUARE, 2) if name == "sgemm" else {**NETWORKS, **MORE}[name][:2]
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
    parser.add_argument("names", nargs="*", default=list(NETWORKS), metavar="NAME",
                        help=f"of {', '.join({**NETWORKS, **MORE})}")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(KERNELS)
    print(f"{'':<9} {'psgd ms: best, median':>21} {'PyTorch ms':>19} {'ratio':>13} "
          f"{'samples/s':>10} {'GFLOP/s':>8} {'of sgemm':>9}")
    square = Ours("sgemm")
    square.round()
    for name in args.names:
        ours, peer = Ours(name), Peer(name)
        ours.round(), peer.round()  # warm
        rounds = [(ours.round(), peer.round(), square.round()) for _ in range(args.rounds)]
        ours.close()
        a, b, c = zip(*rounds)
        rate = peer.products() / min(a) / 1e6
        peak = 2 * SQUARE**3 / min(c) / 1e6
        share = (f"{rate:8.1f} {100 * rate / peak:4.0f} % of {peak:.0f}" if rate > 0
                 else "no layer of products")
        print(f"{name:<9} {min(a):12.2f} {statistics.median(a):8.2f} {min(b):10.2f} "
              f"{statistics.median(b):8.2f} {min(b) / min(a):6.2f} "
              f"{statistics.median(b) / statistics.median(a):6.2f} "
              f"{1e3 * len(peer.x) / min(a):10.0f} {share}", flush=True)
    square.close()


main()
