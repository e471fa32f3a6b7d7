# SPDX-License-Identifier: Apache-2.0
"""The rules of common/optim as PyTorch has them, each from weights and a rate."""
import torch


class Decay(torch.optim.SGD):
    """Its rate / sqrt(t)."""

    def __init__(self, weights, rate):
        super().__init__(weights, lr=rate)
        self.t = 0
        self.rate = rate

    def step(self, closure=None):
        self.t += 1
        self.param_groups[0]["lr"] = self.rate / self.t ** 0.5
        super().step(closure)


RULES = {
    "sgd": lambda w, rate: torch.optim.SGD(w, lr=rate),
    "momentum": lambda w, rate: torch.optim.SGD(w, lr=rate, momentum=0.9),
    "nesterov": lambda w, rate: torch.optim.SGD(w, lr=rate, momentum=0.9, nesterov=True),
    "adam": lambda w, rate, eps=1e-8: torch.optim.Adam(w, lr=rate, betas=(0.9, 0.999), eps=eps),
    "adamw": lambda w, rate, eps=1e-8: torch.optim.AdamW(w, lr=rate, weight_decay=0.01, eps=eps),
    "adagrad": lambda w, rate, eps=1e-7: torch.optim.Adagrad(w, lr=rate, eps=eps),
    "rmsprop": lambda w, rate, eps=1e-7: torch.optim.RMSprop(w, lr=rate, alpha=0.9, eps=eps),
    "adadelta": lambda w, rate: torch.optim.Adadelta(w, lr=rate, rho=0.95, eps=1e-6),
    "decay": Decay,
}
