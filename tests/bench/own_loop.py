#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""own_loop.py - two PyTorch workers of a job (docs/own-loop.md) beside DistributedDataParallel over gloo.

    PSGD_BIN=build/bin PSGD_LIBRARY=build/lib/libpsgd.so.0 PSGD_DATA=/srv/data tests/bench/own_loop.py [--mbit N] [NAME[:BLOCK] ...]

Trains the networks of clients/examples/pytorch, `mnist` and `char_transformer`, two processes of one thread each, with the
same samples a step, by both in turns, and prints the median time of a step, the mean loss of the last fifth of the steps,
and the ratio of times. Without --mbit it does so a second time beside DistributedDataParallel whose malloc keeps what is freed,
as psgd.torch.join has it: "beside kept". With --mbit each worker has a link of so many Mbit/s in a network namespace of its own
(needs root, `ip` and `tc`), and psgd is measured with several codecs. DistributedDataParallel averages gradients and each
process steps; psgd's server steps.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
EXAMPLES = HERE.parents[2] / "clients/examples/pytorch"
sys.path[:0] = [str(HERE.parents[1] / "cluster"), str(HERE.parents[2] / "clients/python"), str(EXAMPLES)]
INSIDE = "PSGD_OWN_LOOP_NETWORK"  # set for the part that runs in the hub's namespace
BLOCKS = {"mnist": 64, "char_transformer": 12}


def network(name):
    """Returns a network of the examples, its loss, and a data set."""
    import char_transformer
    import mnist
    import torch
    import torch.nn.functional as F

    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = pathlib.Path(os.environ["PSGD_DATA"])
    if name == "mnist":
        return mnist.Net(), lambda net, x, y: F.cross_entropy(net(x), y), mnist.mnist(data / "mnist", "train")
    text = char_transformer.Text(data / "text/tinyshakespeare.txt")
    return (char_transformer.Net(len(text.symbols)),
            lambda net, x, y: F.cross_entropy(net(x).flatten(0, 1), y.flatten()), text)


def say_steps(times, losses):
    """Prints the median milliseconds from one step to the next, without the first fifth, and the mean loss of the last fifth."""
    fifth = len(times) // 5
    gaps = [1e3 * (b - a) for a, b in zip(times[fifth:], times[fifth + 1:])]
    print(f"said {statistics.median(gaps):.2f} {statistics.mean(losses[-fifth:]):.4f}", flush=True)


def as_worker(name, block, steps, coordinator, host):
    import psgd.torch

    net, loss_of, data = network(name)
    times, losses = [], []
    with psgd.torch.join(net, "bench", coordinator=coordinator, listen=f"{host}:0", timeout=120,
                         insecure=host != "127.0.0.1") as optimizer:
        for x, y in optimizer.batches(data):
            loss = loss_of(net, x, y)
            loss.backward()
            optimizer.step()
            times.append(time.monotonic())
            losses.append(float(loss))
    say_steps(times, losses)


def as_ddp(name, block, steps, rank, address):
    import torch
    import torch.distributed as dist

    net, loss_of, data = network(name)
    dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank, world_size=2)
    net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
    sampler = torch.utils.data.DistributedSampler(data, 2, rank)
    times, losses = [], []
    while len(times) < steps:
        for x, y in torch.utils.data.DataLoader(data, batch_size=block, sampler=sampler):
            loss = loss_of(net, x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            times.append(time.monotonic())
            losses.append(float(loss))
            if len(times) == steps:
                break
    say_steps(times, losses)
    dist.destroy_process_group()


def choice(name, **params):
    return {"name": name, "params": params}


ADAM = {"optimizer": {"rule": choice("adam", lr=0.001)}}
FED = {"error_feedback": 1}
LOCAL = {"update": choice("dqlosp", steps=1), "optimizer": {"local": choice("adam", lr=0.001)}}
def both_ways(name, **params):
    return {"codec": {"up": choice(name, **params), "down": choice(name, **params)}}


KEEPS = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}  # psgd/torch.py, _keep_freed_memory
METHODS = {
    "f32": ADAM,
    "f16": {**ADAM, **both_ways("f16")},
    "int8": {**ADAM, **both_ways("int8")},
    "1-bit + EF": {**LOCAL, **both_ways("sign", **FED)},
    "top-k 1 % + EF": {**LOCAL, **both_ways("topk", fraction=0.01, **FED)},
    "top-k 0.3 % + EF": {**LOCAL, **both_ways("topk", fraction=0.003, **FED)},
    "top-k 0.1 % + EF": {**LOCAL, **both_ways("topk", fraction=0.001, **FED)},
}


def ratio(theirs, ours):
    """Returns the ratio of times, round by round: the median, least and most. Returns "" without rounds."""
    ratios = [a[0] / b[0] for a, b in zip(theirs, ours)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""


class Bench:
    def __init__(self, network_name):
        import harness
        import slow_links

        self.network, self.links = network_name, slow_links
        place = {"place": slow_links.place(network_name)} if network_name else {}
        self.cluster = harness.Cluster(workers=0, pservers=1, **place)

    def run(self, *arguments, **environment):
        """Runs both processes of a measurement; returns the means of what they say: milliseconds a step, loss."""
        started = []
        for i in range(2):
            inside = self.links.within(self.network, f"worker-{i}") if self.network else []
            host = self.links.worker_ip(i) if self.network else "127.0.0.1"
            started.append(subprocess.Popen(
                [*inside, sys.executable, "-W", "ignore", str(HERE), "--as", *map(str, arguments), str(i), host], stdout=subprocess.PIPE, text=True,
                env={**os.environ, **environment, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": self.links.LINK if self.network else "lo",
                     "PSGD_WORKER": str(pathlib.Path(os.environ["PSGD_BIN"]) / "psgd-worker"), "PYTHONPATH": str(HERE.parents[2] / "clients/python")}))
        said = [p.communicate(timeout=590)[0] for p in started]
        assert all(p.returncode == 0 for p in started), said
        return [statistics.mean(values) for values in zip(*(map(float, text.split("said ")[1].split()) for text in said))]

    def psgd(self, name, block, steps, fields):
        import psgd.torch
        net, _, data = network(name)
        job = self.cluster.submit({
            "title": "bench", "workers": 2, "block_size": block, "epochs": 1000, "max_steps": steps, "data": {"params": {"samples": len(data)}},
            "model": {"foreign": psgd.torch.foreign(net)}, **fields})
        said = self.run("worker", name, block, steps, self.cluster.coordinator.address)
        self.cluster.wait(job.id)
        return said

    def ddp(self, name, block, steps, **environment):
        port = 20000 + os.getpid() % 20000 + (time.monotonic_ns() // 1000) % 1000
        return self.run("ddp", name, block, steps, f"{self.links.worker_ip(0) if self.network else '127.0.0.1'}:{port}", **environment)


def measure(o, network_name):
    bench = Bench(network_name)
    try:
        methods = {name: METHODS[name] for name in o.methods or (METHODS if o.mbit else ("f32", "f16", "int8"))}
        print("| network | block | DDP, ms a step | loss | psgd | ms a step | loss | times as fast | beside kept |\n"
              "| --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
        for what in o.names:
            name, _, block = what.partition(":")
            block = int(block or BLOCKS[name])
            ddp, kept, ours = [], [], {method: [] for method in methods}
            for _ in range(o.rounds):
                ddp.append(bench.ddp(name, block, o.steps))
                if not o.mbit:
                    kept.append(bench.ddp(name, block, o.steps, **KEEPS))
                for method, fields in methods.items():
                    ours[method].append(bench.psgd(name, block, o.steps, fields))
            (ddp_ms, ddp_loss) = map(statistics.median, zip(*ddp))
            for method, said in ours.items():
                ms, loss = map(statistics.median, zip(*said))
                print(f"| {name} | {block} | {ddp_ms:.1f} | {ddp_loss:.3f} | {method} | {ms:.1f} | {loss:.3f} | "
                      f"{ratio(ddp, said)} | {ratio(kept, said)} |", flush=True)
    finally:
        bench.cluster.close()


def main():
    if sys.argv[1:2] == ["--as"]:
        kind, name, block, steps, where, rank, host = sys.argv[2:]
        if kind == "ddp":
            as_ddp(name, int(block), int(steps), int(rank), where)
        else:
            as_worker(name, int(block), int(steps), where, host)
        return 0
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", default=list(BLOCKS), metavar="NAME[:BLOCK]")
    p.add_argument("--mbit", type=int)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--methods", nargs="+", choices=METHODS, metavar="METHOD", help=", ".join(METHODS).replace("%", "%%"))
    o = p.parse_args()
    if not o.mbit or os.environ.get(INSIDE):
        measure(o, os.environ.get(INSIDE))
        return 0
    import slow_links

    network_name, inside = f"psgd-{os.getpid()}", None
    try:
        slow_links.build(network_name, 2, o.mbit)
        inside = subprocess.Popen([*slow_links.within(network_name, "hub"), sys.executable, str(HERE), *sys.argv[1:]],
                                  env={**os.environ, INSIDE: network_name})
        return inside.wait()
    finally:
        if inside and inside.poll() is None:
            inside.terminate()
            inside.wait(60)
        slow_links.tear_down(network_name, 2)


if __name__ == "__main__":
    sys.exit(main())
