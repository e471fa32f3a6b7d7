#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what PyTorch makes of a small network and of optimizers, for
tests/unit/test_golden.c and test_golden_descent.c.

    for n in mlp descent; do /usr/bin/python3 make_golden.py $n > $n.txt; done

Made with Debian 12's python3-torch (1.13), in float64 from weights and samples
that are exact in float32, so that the file holds the true values and both
programs' rounding lies in the test's tolerance. Lines: the name of a tensor and
how many values, then the values, row-major, nine digits each.
"""
import sys

import torch
import torch.nn.functional as F

from draws import show
from rules import RULES

SIZES = [12, 9, 7, 5]
BATCH = 6
STEPS = 5


def exact(*shape, scale):
    return (torch.randn(*shape, dtype=torch.float64) * scale).float().double()


def net(kind, weights, x):
    for i in range(0, len(weights), 2):
        x = F.linear(x, weights[i], weights[i + 1])
        if i + 2 < len(weights):
            x = getattr(torch, kind)(x)
    return x


def descend(kind, start, x, labels, make):
    weights = [w.clone().requires_grad_() for w in start]
    optimizer = make(weights)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(net(kind, weights, x), labels).backward()
        optimizer.step()
    return weights


# Rates of the optimizers; the other numbers are the defaults.
RATES = {"sgd": 0.05, "momentum": 0.05, "nesterov": 0.05, "adam": 0.001, "adamw": 0.001,
         "adagrad": 0.01, "rmsprop": 0.01, "adadelta": 1.0, "decay": 0.03}


def mlp():
    torch.manual_seed(20240606)
    x = exact(BATCH, SIZES[0], scale=1)
    labels = torch.randint(0, SIZES[-1], (BATCH,))
    start = []
    for fan_in, fan_out in zip(SIZES, SIZES[1:]):
        start += [exact(fan_out, fan_in, scale=0.4), exact(fan_out, scale=0.1)]
    show("x", x)
    show("labels", labels)
    show("weights", torch.cat([w.reshape(-1) for w in start]))
    for kind in ["tanh", "relu", "sigmoid"]:
        weights = [w.clone().requires_grad_() for w in start]
        logits = net(kind, weights, x)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        show(kind + ".logits", logits)
        show(kind + ".loss", loss)
        for i, w in enumerate(weights):
            show("%s.gradient%d" % (kind, i), w.grad)
        for name, rate in RATES.items():
            after = descend(kind, start, x, labels, lambda w: RULES[name](w, rate))
            show("%s.%s" % (kind, name), torch.cat([w.reshape(-1) for w in after]))


MOMENTS = 12  # steps of descent()


def l1_of(weights, factor):
    for w in weights:
        w.grad += factor * w.detach().sign()


def clip_norm(weights, limit):
    """As clip_grad_norm_, which adds 1e-6 to the norm: 1e-5 of it here."""
    norm = torch.cat([w.grad.reshape(-1) for w in weights]).norm()
    for w in weights:
        w.grad *= min(1, limit / norm)


def descent():
    """Schedules, penalties and clipping on the tanh network of mlp.txt."""
    lr = torch.optim.lr_scheduler
    torch.manual_seed(20240606)
    x = exact(BATCH, SIZES[0], scale=1)
    labels = torch.randint(0, SIZES[-1], (BATCH,))
    start = []
    for fan_in, fan_out in zip(SIZES, SIZES[1:]):
        start += [exact(fan_out, fan_in, scale=0.4), exact(fan_out, scale=0.1)]

    def momentum(w, **kw):
        return torch.optim.SGD(w, lr=0.05, momentum=0.9, **kw)

    def adam(w, **kw):
        return torch.optim.Adam(w, lr=0.01, **kw)

    cases = {
        "step": (momentum, lambda o: lr.StepLR(o, 4, 0.5), None),
        "exponential": (adam, lambda o: lr.ExponentialLR(o, 0.9), None),
        "cosine": (adam, lambda o: lr.CosineAnnealingLR(o, MOMENTS, 0.1 * 0.01), None),
        "cosine_adamw": (lambda w: torch.optim.AdamW(w, lr=0.01, weight_decay=0.1),
                         lambda o: lr.CosineAnnealingLR(o, MOMENTS), None),
        "polynomial": (momentum, lambda o: lr.PolynomialLR(o, MOMENTS, 2), None),
        "line": (momentum, lambda o: lr.LinearLR(o, 1.0, 0.2, MOMENTS), None),
        "inverse_sqrt": (momentum, lambda o: lr.LambdaLR(o, lambda s: (s + 1) ** -0.5), None),
        "warmup": (momentum, lambda o: lr.LinearLR(o, 0.1, 1.0, 5), None),
        "warmup_cosine": (adam, lambda o: lr.SequentialLR(
            o, [lr.LinearLR(o, 0.1, 1.0, 5), lr.CosineAnnealingLR(o, MOMENTS - 5)], [5]), None),
        "l2": (lambda w: momentum(w, weight_decay=0.1), None, None),
        "l2_adam": (lambda w: adam(w, weight_decay=0.1), None, None),
        "l1": (momentum, None, lambda w: l1_of(w, 0.02)),
        "value": (momentum, None, lambda w: torch.nn.utils.clip_grad_value_(w, 0.02)),
        "norm": (momentum, None, lambda w: [clip_norm([v], 0.1) for v in w]),
        "global_norm": (momentum, None, lambda w: clip_norm(w, 0.1)),
    }
    for name, (make, schedule, change) in cases.items():
        weights = [w.clone().requires_grad_() for w in start]
        optimizer = make(weights)
        scheduler = schedule(optimizer) if schedule else None
        for _ in range(MOMENTS):
            optimizer.zero_grad()
            F.cross_entropy(net("tanh", weights, x), labels).backward()
            if change:
                change(weights)
            optimizer.step()
            if scheduler:
                scheduler.step()
        show(name, torch.cat([w.reshape(-1) for w in weights]))


if sys.argv[1] == "mlp":
    mlp()
else:
    descent()
