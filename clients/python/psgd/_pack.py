# SPDX-License-Identifier: Apache-2.0
"""_pack.py - states of PyTorch objects as bytes, and back, without pickle: a checkpoint runs no code of others.

u32 bytes of the head | head, JSON: the tree, and type and shape of each tensor | the tensors' bytes, in order."""
from __future__ import annotations

import json
import math
import struct
from typing import Any

import torch

LENGTH = struct.Struct("<I")
TYPES = {str(t).removeprefix("torch."): t for t in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64,
                                                    torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)}


def _put(x: Any, tensors: list[torch.Tensor], where: str) -> Any:
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    if isinstance(x, torch.Tensor) and str(x.dtype).removeprefix("torch.") in TYPES and x.layout == torch.strided:
        tensors.append(x.detach().cpu().contiguous())
        return {"tensor": len(tensors) - 1}
    if isinstance(x, (list, tuple)):
        return {"list" if isinstance(x, list) else "tuple": [_put(y, tensors, f"{where}[{i}]") for i, y in enumerate(x)]}
    if isinstance(x, dict):
        return {"dict": [[_put(k, tensors, f"a key of {where}"), _put(v, tensors, f"{where}[{k!r}]")] for k, v in x.items()]}
    raise TypeError(f"{where} is a {type(x).__name__}; None, numbers, texts, dense tensors, lists, tuples and dicts are allowed")


def pack(x: Any) -> bytes:
    """Returns the bytes of None, numbers, texts, tensors, and lists, tuples and dicts of them. TypeError: something else."""
    tensors: list[torch.Tensor] = []
    tree = _put(x, tensors, "state")
    head = json.dumps([tree, [[str(t.dtype).removeprefix("torch."), list(t.shape)] for t in tensors]]).encode()
    # as bytes, because .numpy() does not know bfloat16; flat, because a tensor without dimensions cannot be viewed as another type
    parts = [t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b"" for t in tensors]
    return b"".join([LENGTH.pack(len(head)), head, *parts])


def _take(tree: Any, tensors: list[torch.Tensor]) -> Any:
    if not isinstance(tree, dict):
        return tree
    (kind, value), = tree.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {_take(k, tensors): _take(v, tensors) for k, v in value}
    return {"list": list, "tuple": tuple}[kind](_take(y, tensors) for y in value)


def unpack(data: bytes) -> Any:
    """Returns what `pack` was given, with tensors of their own. ValueError: the bytes are not of `pack`."""
    try:
        at = LENGTH.size + LENGTH.unpack_from(data)[0]
        tree, heads = json.loads(data[LENGTH.size:at])
        tensors = []
        for name, shape in heads:
            count, kind = math.prod(shape), TYPES[name]
            size = torch.empty(0, dtype=kind).element_size() * count
            if size < 0 or size > len(data) - at:
                raise ValueError(f"a tensor of {size} bytes in {len(data) - at}")
            tensors.append(torch.frombuffer(bytearray(data[at:at + size]), dtype=kind).view(shape) if size else
                           torch.empty(shape, dtype=kind))
            at += size
        return _take(tree, tensors)
    except (struct.error, TypeError, ValueError, KeyError, IndexError, RuntimeError, RecursionError) as error:
        raise ValueError(f"what was kept is no state of psgd.torch: {error}") from None
