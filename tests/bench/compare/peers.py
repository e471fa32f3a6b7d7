# SPDX-License-Identifier: Apache-2.0
"""peers.py - the tasks that compare.py knows: psgd's job, and PyTorch's network for it.

A network's parameters are in the order of psgd's variables; what is state there
(running statistics) is a buffer here.
"""
import dataclasses
import os
import pathlib
import subprocess

# A processor that is younger than OpenBLAS gets its oldest kernels; PyTorch reads
# this when it is loaded, and is as well off as we are.
_PROGRAM = pathlib.Path(os.environ.get("PSGD_BIN", "build/bin")) / "bench_network"
if _PROGRAM.exists():
    os.environ["OPENBLAS_CORETYPE"] = subprocess.run(
        [_PROGRAM, "kernels"], check=True, text=True, capture_output=True).stdout.strip()

import numpy  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

nn = torch.nn
torch.set_num_threads(1)


@dataclasses.dataclass
class Task:
    name: str
    data: dict
    batch: int
    epochs: int  # of `real`
    network: object  # (facts, dropout) -> nn.Module
    model: object  # (dropout) -> ModelSpec
    rule: dict = dataclasses.field(
        default_factory=lambda: {"name": "adam", "params": {"lr": 0.001}})
    optimizer: object = lambda parameters: torch.optim.Adam(parameters, lr=0.001)
    loss: object = F.cross_entropy
    metric: str = "accuracy"
    more: dict = dataclasses.field(default_factory=dict)


def layer(kind, **params):
    return {"kind": kind, "params": params}


def conv(filters, kernel, stride=1, padding=0):
    return layer("conv2d", filters=filters, kernel=kernel, stride=stride, padding=padding)


def mlp_net(facts, dropout):
    return nn.Sequential(nn.Linear(784, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(),
                         nn.Linear(128, 10))


def cnn_net(facts, dropout):
    p = [0.25, 0.5] if dropout else [0, 0]
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3),
        nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(p[0]), nn.Flatten(), nn.Linear(9216, 128),
        nn.ReLU(), nn.Dropout(p[1]), nn.Linear(128, 10))


def cnn_model(dropout):
    if dropout:
        return {"preset": "cnn"}
    return {"layers": [
        conv(32, 3), layer("relu"), conv(64, 3), layer("relu"), layer("maxpool2d", kernel=2),
        layer("flatten"), layer("dense", units=128), layer("relu"), layer("dense", units=10)]}


ALEXNET = [(64, 11, 4, 5, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False),
           (256, 3, 1, 1, False), (256, 3, 1, 1, True)]


def alexnet_net(facts, dropout):
    layers, depth = [nn.Unflatten(1, (3, 32, 32))], 3
    for filters, kernel, stride, padding, pools in ALEXNET:
        layers.append(nn.Conv2d(depth, filters, kernel, stride, padding))
        layers += [nn.Dropout2d(0.3)] if dropout else []
        layers.append(nn.ReLU())
        layers += [nn.MaxPool2d(2)] if pools else []
        depth = filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(256, 10))


def alexnet_model(dropout):
    if dropout:
        return {"preset": "alexnet"}
    layers = []
    for filters, kernel, stride, padding, pools in ALEXNET:
        layers += [conv(filters, kernel, stride, padding), layer("relu")]
        layers += [layer("maxpool2d", kernel=2)] if pools else []
    return {"layers": layers + [layer("flatten"), layer("dense", units=10)]}


TASKS = {t.name: t for t in [
    Task("mlp", {"name": "mnist"}, 64, 2, mlp_net, lambda dropout: {"preset": "mlp"}),
    Task("cnn", {"name": "mnist"}, 32, 1, cnn_net, cnn_model),
    Task("alexnet", {"name": "cifar10"}, 32, 10, alexnet_net, alexnet_model),
]}


def start(task, facts, dropout):
    """The network with the job's initial weights."""
    network = task.network(facts, dropout)
    variables = [v for v in facts["variables"] if not v["is_state"]]
    parameters = list(network.parameters())
    assert len(variables) == len(parameters), (len(variables), len(parameters))
    for v, p in zip(variables, parameters):
        assert p.numel() == numpy.prod(v["shape"]), (v["name"], v["shape"], tuple(p.shape))
        values = facts["weights"][v["at"]:v["at"] + p.numel()]
        p.data = torch.from_numpy(values.copy()).reshape(p.shape)
    return network


def targets_of(facts, rows):
    y = torch.from_numpy(numpy.ascontiguousarray(rows))
    return y[:, 0].long() if facts["classes"] else y


def batches(task, facts, epoch):
    for at in range(0, facts["batches_per_epoch"] * task.batch, task.batch):
        index = facts["order"][epoch, at:at + task.batch]
        yield (torch.from_numpy(facts["train", "x"][index]),
               targets_of(facts, facts["train", "y"][index]))


def train(task, facts, dropout):
    """Losses of all steps of all epochs; the network is left in facts["network"]."""
    network = facts["network"] = start(task, facts, dropout)
    optimizer = task.optimizer(network.parameters())
    losses = []
    network.train()
    for epoch in range(len(facts["order"])):
        for x, y in batches(task, facts, epoch):
            optimizer.zero_grad()
            loss = task.loss(network(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def train_and_evaluate(task, facts, seed):
    torch.manual_seed(seed)
    train(task, facts, dropout=True)
    network = facts["network"].eval()
    parts = []
    with torch.no_grad():
        for at in range(0, facts["test_count"], 500):
            x = torch.from_numpy(numpy.ascontiguousarray(facts["test", "x"][at:at + 500]))
            parts.append((network(x), targets_of(facts, facts["test", "y"][at:at + 500])))
    outputs, targets = (torch.cat(p) for p in zip(*parts))
    return METRICS[task.metric](task, outputs, targets)


METRICS = {
    "accuracy": lambda task, y, t: (y.argmax(1) == t).double().mean().item(),
    "loss": lambda task, y, t: task.loss(y, t).item(),
}
