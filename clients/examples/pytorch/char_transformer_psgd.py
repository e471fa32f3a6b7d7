# SPDX-License-Identifier: Apache-2.0
"""A small transformer that predicts the next character of a text, in PyTorch: FILE TEXT."""
import pathlib
import sys

import psgd.torch
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CONTEXT, WIDTH, HEADS, LAYERS = 64, 128, 4, 4


class Text(Dataset):
    def __init__(self, path):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        self.symbols = sorted(set(text))
        number = {c: i for i, c in enumerate(self.symbols)}
        self.ids = torch.tensor([number[c] for c in text])

    def __len__(self):
        return (len(self.ids) - 1) // CONTEXT

    def __getitem__(self, i):
        at = i * CONTEXT
        return self.ids[at:at + CONTEXT], self.ids[at + 1:at + CONTEXT + 1]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("mask", torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), 1), persistent=False)

    def forward(self, x):
        q, k, v = (t.unflatten(2, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, 2))
        attention = torch.softmax(q @ k.transpose(2, 3) * q.shape[3] ** -0.5 + self.mask, 3)
        x = x + self.out((attention @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Net(torch.nn.Module):
    def __init__(self, symbols):
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(symbols, WIDTH), torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, symbols)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tokens(ids) + self.places(torch.arange(ids.shape[1])))))


def main():
    text = Text(sys.argv[1])
    loader = DataLoader(text, batch_size=12, shuffle=True)
    net = Net(len(text.symbols))
    optimizer = psgd.torch.join(net, "text")
    for epoch in range(1):
        for x, y in optimizer.epoch(loader):
            loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: the loss is {float(loss):.4f}", flush=True)


if __name__ == "__main__":
    main()
