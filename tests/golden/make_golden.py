#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what PyTorch makes of some networks, for tests/unit/test_golden.c,
test_golden_descent.c and test_golden_networks.c.

    for n in mlp descent cnn alexnet mixed; do /usr/bin/python3 make_golden.py $n > $n.txt; done

Made with Debian 12's python3-torch (1.13), in float64 from weights and samples
that are exact in float32, so that the file holds the true values and both
programs' rounding lies in the test's tolerance. Lines: the name of a tensor and
how many values, then the values, row-major, nine digits each.

Weights and samples of the larger networks are draws by counter (draw.h), so that
both programs make them; of each gradient the file has the norm, a dot product with
draws, and some values evenly spread.
"""
import sys

import numpy
import torch
import torch.nn.functional as F

SIZES = [12, 9, 7, 5]
BATCH = 6
STEPS = 5


def show(name, tensor):
    values = tensor.detach().reshape(-1).tolist()
    print(name, len(values))
    for i in range(0, len(values), 6):
        print(" ".join("%.9g" % v for v in values[i:i + 6]))


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


class Decay(torch.optim.SGD):
    """Rate 0.03 / sqrt(t)."""

    def __init__(self, weights):
        super().__init__(weights, lr=0.03)
        self.t = 0

    def step(self, closure=None):
        self.t += 1
        self.param_groups[0]["lr"] = 0.03 / self.t ** 0.5
        super().step(closure)


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
        optimizers = {
            "sgd": lambda w: torch.optim.SGD(w, lr=0.05),
            "momentum": lambda w: torch.optim.SGD(w, lr=0.05, momentum=0.9),
            "nesterov": lambda w: torch.optim.SGD(w, lr=0.05, momentum=0.9, nesterov=True),
            "adam": lambda w: torch.optim.Adam(w, lr=0.001, betas=(0.9, 0.999), eps=1e-8),
            "adamw": lambda w: torch.optim.AdamW(w, lr=0.001, weight_decay=0.01),
            "adagrad": lambda w: torch.optim.Adagrad(w, lr=0.01, eps=1e-7),
            "rmsprop": lambda w: torch.optim.RMSprop(w, lr=0.01, alpha=0.9, eps=1e-7),
            "adadelta": lambda w: torch.optim.Adadelta(w, lr=1.0, rho=0.95, eps=1e-6),
            "decay": Decay,
        }
        for name, make in optimizers.items():
            after = descend(kind, start, x, labels, make)
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


MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def draw_key(seed, *parts):
    key = mix(seed)
    for part in parts:
        key = mix(((key ^ part) + GOLDEN) & MASK)
    return key


def draw_unit(key, n):
    """n draws of common/base/draw.h, ps_draw_unit."""
    z = (numpy.arange(1, n + 1, dtype=numpy.uint64) * numpy.uint64(GOLDEN)) + numpy.uint64(key)
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    z = z ^ (z >> numpy.uint64(31))
    return (z >> numpy.uint64(11)).astype(numpy.float64) * 2.0 ** -53


INIT, TEST = 1, 6  # purposes of draws


def uniform(key, shape, limit):
    """In [-limit, limit], exact in float32."""
    n = int(numpy.prod(shape))
    limit = float(numpy.float32(limit))
    values = ((2.0 * draw_unit(key, n) - 1.0) * limit).astype(numpy.float32)
    return torch.from_numpy(values.astype(numpy.float64)).reshape(shape)


nn = torch.nn
NETWORKS = {
    "cnn": (lambda: nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)), (1, 28, 28)),
    "alexnet": (lambda: nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(), nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 10)), (3, 32, 32)),
    "mixed": (lambda: nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.LeakyReLU(0.01),
        nn.AvgPool2d(3, 2, 1), nn.Conv2d(6, 9, 2, 1, 2, bias=False),
        nn.MaxPool2d(3, 2, 1), nn.Hardtanh(),
        nn.BatchNorm2d(9), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(9, 10)), (3, 15, 13)),
}
SPREAD = 24  # values of a gradient in the file
SAMPLES = 5


def show_some(name, tensor, index):
    values = tensor.detach().reshape(-1).numpy()
    dots = 2.0 * draw_unit(draw_key(2, TEST, index, 0, 0), values.size) - 1.0
    step = max(1, values.size // SPREAD)
    show(name + ".norm", torch.tensor([numpy.sqrt((values * values).sum())]))
    show(name + ".dot", torch.tensor([(values * dots).sum()]))
    show(name + ".spread", torch.from_numpy(values[::step].copy()))


def network(name):
    make, shape = NETWORKS[name]
    model = make().double()
    model.train()
    fan_in = 1
    for index, (_, w) in enumerate(model.named_parameters()):
        if w.dim() > 1:  # the vectors behind it have its limit
            fan_in = int(numpy.prod(w.shape[1:]))
        w.data = uniform(draw_key(1, INIT, index, 0, 0), tuple(w.shape), fan_in ** -0.5)
    x = uniform(draw_key(1, TEST, 0, 0, 0), (SAMPLES,) + shape, 0.5)
    labels = torch.arange(SAMPLES) * 3 % 10
    logits = model(x)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    show("parameters", torch.tensor([sum(w.numel() for w in model.parameters())]))
    show("logits", logits)
    show("loss", loss)
    for index, (_, w) in enumerate(model.named_parameters()):
        show_some("gradient%d" % index, w.grad, index)
    for key, value in model.named_buffers():
        if "running" in key:
            show(key.split(".", 1)[1] + key.split(".", 1)[0], value)
    model.eval()
    show("eval", model(x))


if sys.argv[1] == "mlp":
    mlp()
elif sys.argv[1] == "descent":
    descent()
else:
    network(sys.argv[1])
