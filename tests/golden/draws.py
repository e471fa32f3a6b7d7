# SPDX-License-Identifier: Apache-2.0
"""The draws of common/base/draw.h, and the lines of a golden file."""
import numpy
import torch


def show(name, tensor):
    values = tensor.detach().reshape(-1).tolist()
    print(name, len(values))
    for i in range(0, len(values), 6):
        print(" ".join("%.9g" % v for v in values[i:i + 6]))


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
