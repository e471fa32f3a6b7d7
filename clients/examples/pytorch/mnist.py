# SPDX-License-Identifier: Apache-2.0
"""A convolutional network on MNIST, in PyTorch: FILE FOLDER, a folder with the files of MNIST."""
import gzip
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 32, 3), torch.nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = torch.nn.Linear(9216, 128), torch.nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def mnist(folder, name):
    """The samples of a part of MNIST: images (n, 1, 28, 28) and digits (n)."""
    def read(kind, head):
        path = next(pathlib.Path(folder).glob(f"{name}-{kind}*"))
        data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        return torch.frombuffer(bytearray(data[head:]), dtype=torch.uint8)

    return TensorDataset(read("images", 16).view(-1, 1, 28, 28) / 255, read("labels", 8).long())


def main():
    train, test = mnist(sys.argv[1], "train"), mnist(sys.argv[1], "t10k")
    loader = DataLoader(train, batch_size=64, shuffle=True)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
    for epoch in range(2):
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = sum(int((net(x).argmax(1) == y).sum()) for x, y in DataLoader(test, batch_size=500))
        print(f"epoch {epoch + 1}: {right / len(test):.4f} of the test set are right", flush=True)


if __name__ == "__main__":
    main()
