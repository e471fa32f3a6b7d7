# SPDX-License-Identifier: Apache-2.0
"""The networks of common/nn by name, as PyTorch has them: for golden values and benchmarks.

Parameters come in the order of ours. `drops` False leaves dropout out: no draws of
PyTorch's can be made elsewhere.
"""
import torch
import torch.nn.functional as F

nn = torch.nn


def drop(rate, drops):
    return [nn.Dropout(rate)] if drops else []


def drop2d(rate, drops):
    return [nn.Dropout2d(rate)] if drops else []


def mlp(drops):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.Tanh(), nn.Linear(128, 128),
                         nn.Tanh(), nn.Linear(128, 10))


def linear(drops):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def cnn(drops):
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        *drop2d(0.25, drops), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), *drop(0.5, drops),
        nn.Linear(128, 10))


def alexnet(drops):
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 5), *drop2d(0.3, drops), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 192, 5, 1, 2), *drop2d(0.3, drops), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(192, 384, 3, 1, 1), *drop2d(0.3, drops), nn.ReLU(),
        nn.Conv2d(384, 256, 3, 1, 1), *drop2d(0.3, drops), nn.ReLU(),
        nn.Conv2d(256, 256, 3, 1, 1), *drop2d(0.3, drops), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 10))


def mixed(drops):
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.LeakyReLU(0.01),
        nn.AvgPool2d(3, 2, 1), nn.Conv2d(6, 9, 2, 1, 2, bias=False),
        nn.MaxPool2d(3, 2, 1), nn.Hardtanh(),
        nn.BatchNorm2d(9), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(9, 10))


class Block(nn.Module):
    def __init__(self, before, filters, stride, kernel):
        super().__init__()
        self.conv1 = nn.Conv2d(before, filters, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.more = filters - before
        if stride > 1 and kernel > 0:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, filters, kernel, stride, (kernel - 1) // 2, bias=False),
                nn.BatchNorm2d(filters))
        elif stride > 1:
            self.shortcut = lambda x: F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.more))
        else:
            self.shortcut = lambda x: x

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet(filters, stages, blocks, kernel):
    layers = [nn.Conv2d(3, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU()]
    before = filters
    for s in range(stages):
        for b in range(blocks):
            layers.append(Block(before, filters << s, 2 if s > 0 and b == 0 else 1, kernel))
            before = filters << s
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


class Ngram(nn.Module):
    def __init__(self, vocabulary, context, drops, sparse=False):
        super().__init__()
        self.words = nn.Embedding(vocabulary, 32, sparse=sparse)
        self.rest = nn.Sequential(nn.Flatten(), nn.Linear(32 * context, 256), nn.Sigmoid(),
                                  *drop(0.5, drops), nn.Linear(256, vocabulary))

    def forward(self, x):
        return self.rest(self.words(x.long()))


class Skipgram(nn.Module):
    def __init__(self, vocabulary, sparse=False):
        super().__init__()
        self.words = nn.Embedding(vocabulary, 100, sparse=sparse)
        self.neighbours = nn.Embedding(vocabulary, 100, sparse=sparse)

    def forward(self, x):
        ids = x.long()
        a, b = self.words(ids[:, :1]), self.neighbours(ids[:, 1:])
        return torch.bmm(b, a.transpose(1, 2)).squeeze(2)


class WideDeep(nn.Module):
    def __init__(self, vocabulary, numbers, ids, sparse=False):
        super().__init__()
        self.numbers = numbers
        self.embedding = nn.Embedding(vocabulary, 10, sparse=sparse)
        self.deep = nn.Sequential(
            nn.Linear(10 * ids + numbers, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(),
            nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1))
        self.wide = nn.Linear(numbers, 1)

    def forward(self, x):
        numbers, ids = x[:, :self.numbers], x[:, self.numbers:].long()
        return self.deep(torch.cat([self.embedding(ids).flatten(1), numbers], 1)) + self.wide(
            numbers)


# Samples: shape of the numbers (or how many), ids behind them, vocabulary.
IMAGE, DIGIT = (3, 32, 32), (1, 28, 28)


def one_hot_cross_entropy(y, labels):
    """Summed over outputs, mean over samples; one output: its class is 1."""
    t = F.one_hot(labels, y.shape[1]).to(y) if y.shape[1] > 1 else labels.to(y).reshape(-1, 1)
    return F.binary_cross_entropy_with_logits(y, t, reduction="sum") / len(y)
