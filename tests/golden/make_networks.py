#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what PyTorch makes of the networks by name, for tests/unit/test_golden_networks.c.

    for n in cnn alexnet mixed resnet14 resnet18 resnet20 ngram skipgram wide_deep; do
        /usr/bin/python3 make_networks.py $n > $n.txt
    done

As make_golden.py, whose draws and lines it has: in float64, from weights and samples
that are draws by counter. Of each gradient, and of the weights after five steps of
gradient descent, the norm, a dot product with draws, and some values evenly spread.
"""
import sys

import torch
import torch.nn.functional as F

import numpy

import peers
from draws import INIT, TEST, draw_key, draw_unit, show, uniform

# How it is made, numbers of a sample, ids behind them, vocabulary, classes.
NETWORKS = {
    "cnn": (lambda: peers.cnn(False), peers.DIGIT, 0, 0, 10),
    "alexnet": (lambda: peers.alexnet(False), peers.IMAGE, 0, 0, 10),
    "mixed": (lambda: peers.mixed(False), (3, 15, 13), 0, 0, 10),
    "resnet14": (lambda: peers.resnet(16, 3, 2, 3), peers.IMAGE, 0, 0, 10),
    "resnet18": (lambda: peers.resnet(64, 4, 2, 1), peers.IMAGE, 0, 0, 10),
    "resnet20": (lambda: peers.resnet(16, 3, 3, 0), peers.IMAGE, 0, 0, 10),
    "ngram": (lambda: peers.Ngram(50, 4, False), (0,), 4, 50, 50),
    "skipgram": (lambda: peers.Skipgram(60), (0,), 7, 60, 6),
    "wide_deep": (lambda: peers.WideDeep(200, 13, 26), (13,), 26, 200, 2),
}
ONE_HOT = {"skipgram", "wide_deep"}  # losses that judge each output by itself
SPREAD = 24  # values of a tensor in the file
SAMPLES = 5
STEPS = 5
# Small for residual networks: among their millions of values some come so near a kink of
# relu that float32, PyTorch's too, goes the other way, and a step carries that on.
RATES = {"resnet14": 0.002, "resnet18": 0.002, "resnet20": 0.002}
RATE = 0.05


def show_some(name, tensor, index):
    values = tensor.detach().reshape(-1).numpy()
    dots = 2.0 * draw_unit(draw_key(2, TEST, index, 0, 0), values.size) - 1.0
    step = max(1, values.size // SPREAD)
    show(name + ".norm", torch.tensor([numpy.sqrt((values * values).sum())]))
    show(name + ".dot", torch.tensor([(values * dots).sum()]))
    show(name + ".spread", torch.from_numpy(values[::step].copy()))


def samples(shape, ids, vocabulary):
    x = uniform(draw_key(1, TEST, 0, 0, 0), (SAMPLES,) + shape, 0.5)
    if ids > 0:
        drawn = numpy.floor(draw_unit(draw_key(1, TEST, 1, 0, 0), SAMPLES * ids) * vocabulary)
        x = torch.cat([x, torch.from_numpy(drawn).reshape(SAMPLES, ids)], 1)
    return x


def show_state(model, prefix):
    states = [v for k, v in model.named_buffers() if "running" in k]
    for index, value in enumerate(states):
        show_some("%s%d" % (prefix, index), value, index)


def network(name):
    make, shape, ids, vocabulary, classes = NETWORKS[name]
    model = make().double()
    model.train()
    fan_in = 1
    for index, (_, w) in enumerate(model.named_parameters()):
        if w.dim() > 1:  # the vectors behind it have its limit
            fan_in = int(numpy.prod(w.shape[1:]))
        w.data = uniform(draw_key(1, INIT, index, 0, 0), tuple(w.shape), fan_in ** -0.5)
    x = samples(shape, ids, vocabulary)
    labels = torch.arange(SAMPLES) * 3 % classes
    loss_of = peers.one_hot_cross_entropy if name in ONE_HOT else F.cross_entropy
    loss = loss_of(model(x), labels)
    loss.backward()
    show("parameters", torch.tensor([sum(w.numel() for w in model.parameters())]))
    show("loss", loss)
    for index, (_, w) in enumerate(model.named_parameters()):
        show_some("gradient%d" % index, w.grad, index)
    show_state(model, "state")
    model.eval()
    show("eval", model(x))
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATES.get(name, RATE))
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model(x), labels).backward()
        optimizer.step()
    for index, (_, w) in enumerate(model.named_parameters()):
        show_some("after%d" % index, w, index)
    show_state(model, "state_after")


network(sys.argv[1])
