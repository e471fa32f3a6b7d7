#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what PyTorch makes of the networks by name, for tests/unit/test_golden_networks.c.

    for n in linear cnn alexnet mixed resnet14 resnet18 resnet20 ngram skipgram wide_deep; do
        /usr/bin/python3 make_networks.py $n > $n.txt
    done

As make_golden.py, whose draws and lines it has: in float64, from weights and samples
that are draws by counter. Of each gradient, and of the weights after five steps of
gradient descent, the norm, a dot product with draws, and some values evenly spread.
"""
import copy
import sys

import torch
import torch.nn.functional as F

import numpy

import peers
from draws import INIT, TEST, draw_key, draw_unit, show, uniform
from rules import RULES

# How it is made, numbers of a sample, ids behind them, vocabulary, classes.
NETWORKS = {
    "linear": (lambda: peers.linear(False), peers.DIGIT, 0, 0, 10),
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
# Of the optimizers, as in the test.
RATES = {"sgd": 0.05, "momentum": 0.05, "nesterov": 0.05, "adam": 0.001, "adamw": 0.001,
         "adagrad": 0.001, "rmsprop": 0.001, "adadelta": 0.1, "decay": 0.05}
# Well above the rounding of a gradient in float32: else one that should be zero is a step by
# its sign. make_golden.py has the defaults.
EPS = {rule: {"eps": 1e-4} for rule in ("adam", "adamw", "adagrad", "rmsprop")}
# Small for residual networks: among their millions of values some come so near a kink of
# relu that float32, PyTorch's too, goes the other way, and a step carries that on. Smaller yet
# for rules that divide by a gradient's size, which move every weight.
SLOWER = {"resnet14": 0.04, "resnet18": 0.04, "resnet20": 0.04}
SLOWER_BY_SIZE = 0.1


def sums(values, index):
    """Norm, and a dot product with draws."""
    dots = 2.0 * draw_unit(draw_key(2, TEST, index, 0, 0), values.size) - 1.0
    return numpy.sqrt((values * values).sum()), (values * dots).sum()


def show_some(name, tensor, index):
    values = tensor.detach().reshape(-1).numpy()
    norm, dot = sums(values, index)
    step = max(1, values.size // SPREAD)
    show(name + ".norm", torch.tensor([norm]))
    show(name + ".dot", torch.tensor([dot]))
    show(name + ".spread", torch.from_numpy(values[::step].copy()))


def show_sums(name, tensors):
    """Of all of them: the norms, then the dot products."""
    pairs = [sums(t.detach().reshape(-1).numpy(), i) for i, t in enumerate(tensors)]
    show(name + ".norms", torch.tensor([norm for norm, _ in pairs]))
    show(name + ".dots", torch.tensor([dot for _, dot in pairs]))


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
    begun = copy.deepcopy(model.state_dict())

    def descend(rule):
        rate = RATES[rule] * SLOWER.get(name, 1)
        if name in SLOWER and rule in EPS:
            rate *= SLOWER_BY_SIZE
        optimizer = RULES[rule](model.parameters(), rate, **EPS.get(rule, {}))
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss_of(model(x), labels).backward()
            optimizer.step()

    for rule in RATES:
        model.load_state_dict(begun)
        descend(rule)
        show_sums(rule, model.parameters())
    model.load_state_dict(begun)
    descend("sgd")
    for index, (_, w) in enumerate(model.named_parameters()):
        show_some("after%d" % index, w, index)
    show_state(model, "state_after")


network(sys.argv[1])
