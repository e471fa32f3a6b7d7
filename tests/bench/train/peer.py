# SPDX-License-Identifier: Apache-2.0
"""peer.py - the tutorial network in PyTorch, alone or under DDP over gloo.

One process of it; prints one JSON object on the last line of rank 0. Batches
lie ready in memory, nothing is evaluated: only training steps are timed.
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn

BLOCK = 64


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rank", type=int, default=0)
    p.add_argument("--world", type=int, default=1)
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--warm", type=int, default=60)
    p.add_argument("--foreach", type=int, default=0)
    p.add_argument("--view", type=int, default=0)
    a = p.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(a.rank)
    model = nn.Sequential(nn.Linear(784, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(),
                          nn.Linear(128, 10))
    if a.world > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(a.port),
                          GLOO_SOCKET_IFNAME="lo")
        dist.init_process_group("gloo", rank=a.rank, world_size=a.world)
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=bool(a.view))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, foreach=bool(a.foreach))
    loss = nn.CrossEntropyLoss()
    batches = [(torch.rand(BLOCK, 784) - 0.5, torch.randint(0, 10, (BLOCK,))) for _ in range(50)]

    def run(steps):
        for i in range(steps):
            x, y = batches[i % len(batches)]
            optimizer.zero_grad(set_to_none=not a.view)
            loss(model(x), y).backward()
            optimizer.step()

    run(a.warm)
    if a.world > 1:
        dist.barrier()
    began = time.perf_counter()
    run(a.steps)
    if a.world > 1:
        dist.barrier()
    seconds = time.perf_counter() - began
    if a.rank == 0:
        print(json.dumps({"samples_per_s": a.world * a.steps * BLOCK / seconds}))
    if a.world > 1:
        dist.destroy_process_group()


main()
