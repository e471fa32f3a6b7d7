# SPDX-License-Identifier: Apache-2.0
"""safetensors.py - reads and writes model files by the names of their tensors, without other packages.

docs/files.md has the format. Files of psgd are F32; files of others may have the types of TYPES.
"""
from __future__ import annotations

import json
import math
import os
import struct
import sys
import tempfile
from typing import Any, Mapping

HEADER_MAX = 16 << 20  # most bytes of a header
# by type: bytes of a value, memoryview's format (None: it has none), name in numpy and in torch (None: it has none)
TYPES: dict[str, tuple[int, str | None, str | None, str]] = {
    "F64": (8, "d", "float64", "float64"), "F32": (4, "f", "float32", "float32"), "F16": (2, None, "float16", "float16"),
    "BF16": (2, None, None, "bfloat16"), "I64": (8, "q", "int64", "int64"), "I32": (4, "i", "int32", "int32"),
    "I16": (2, "h", "int16", "int16"), "I8": (1, "b", "int8", "int8"), "U8": (1, "B", "uint8", "uint8"),
    "BOOL": (1, "?", "bool", "bool")}


class _Tensor:
    def __init__(self, name: str, entry: Any, size: int) -> None:
        """Checks an entry of the header of a file whose data have `size` bytes."""
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"tensor {name}: its entry must have dtype, shape and data_offsets")
        self.name, self.dtype, self.shape, offsets = name, entry["dtype"], entry["shape"], entry["data_offsets"]
        if self.dtype not in TYPES:
            raise ValueError(f"tensor {name}: dtype is {self.dtype!r}; allowed: {', '.join(TYPES)}")
        whole = all(isinstance(a, list) and all(type(v) is int and v >= 0 for v in a) for a in (self.shape, offsets))
        if not whole or len(offsets) != 2 or not offsets[0] <= offsets[1] <= size:
            raise ValueError(f"tensor {name}: shape or data_offsets are no whole numbers within {size} bytes of data")
        self.begin, self.end = offsets
        if self.end - self.begin != TYPES[self.dtype][0] * math.prod(self.shape):
            raise ValueError(f"tensor {name}: has {self.end - self.begin} bytes; its shape {self.shape} has others")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name stands twice in the header")
    return dict(pairs)


def _header(file: Any, path: Any) -> tuple[dict[str, str], list[_Tensor], int]:
    """Returns the metadata, the tensors in the order of their data, and where the data begin."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
    if length > min(HEADER_MAX, size - 8):
        raise ValueError(f"{path}: the header does not fit; at most {HEADER_MAX} bytes within the file are allowed")
    try:
        head = json.loads(file.read(length).decode(), object_pairs_hook=_unique)
        if not isinstance(head, dict):
            raise ValueError("the header is no object")
        metadata = head.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            raise ValueError("__metadata__ must have texts only")
        tensors = sorted((_Tensor(n, e, size - 8 - length) for n, e in head.items()), key=lambda t: (t.begin, t.end))
        at = 0
        for t in tensors:
            if t.begin != at:
                raise ValueError(f"tensor {t.name}: begins at {t.begin}; {at}, where the one before it ends, is allowed")
            at = t.end
        if at != size - 8 - length:
            raise ValueError(f"{size - 8 - length - at} bytes belong to no tensor")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None
    return metadata, tensors, 8 + length


def metadata(path: str | os.PathLike) -> dict[str, str]:
    """Returns the texts of a file, such as `spec`, the job that made it."""
    with open(path, "rb") as file:
        return _header(file, path)[0]


def shapes(path: str | os.PathLike) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the tensors by name, in the order of the file. Raises ValueError if one is not F32."""
    with open(path, "rb") as file:
        tensors = _header(file, path)[1]
    for t in tensors:
        if t.dtype != "F32":
            raise ValueError(f"{path}: tensor {t.name}: dtype is {t.dtype}; F32 is allowed")
    return {t.name: tuple(t.shape) for t in tensors}


def _read(path: str | os.PathLike, make: Any) -> dict[str, Any]:
    with open(path, "rb") as file:
        _, tensors, at = _header(file, path)
        made = {}
        for t in tensors:
            data = bytearray(t.end - t.begin)
            file.seek(at + t.begin)
            if file.readinto(data) != len(data):
                raise ValueError(f"{path}: has become shorter while it was read")
            made[t.name] = make(t, data)
        return made


def _view(t: _Tensor, data: bytearray) -> Any:
    kind = TYPES[t.dtype][1]
    if kind is None or 0 in t.shape:
        raise ValueError(f"tensor {t.name}: {t.dtype} of shape {t.shape} needs numpy or torch, which are not installed")
    return memoryview(data).cast(kind, t.shape)  # type: ignore[call-overload]


def load(path: str | os.PathLike) -> dict[str, Any]:
    """Returns the tensors of a file by name, in the order of the file: numpy arrays of their shapes, which may be
    changed; memoryviews where numpy is not installed.

    Raises ValueError, with the tensor and what is wrong, if the file is damaged.
    """
    try:
        import numpy
    except ImportError:
        return _read(path, _view)

    def array(t: _Tensor, data: bytearray) -> Any:
        if TYPES[t.dtype][2] is None:
            raise ValueError(f"tensor {t.name}: numpy has no {t.dtype}; load_torch is allowed")
        return numpy.frombuffer(data, numpy.dtype(TYPES[t.dtype][2]).newbyteorder("<")).reshape(t.shape)
    return _read(path, array)


def load_torch(path: str | os.PathLike) -> dict[str, Any]:
    """Returns the tensors of a file as torch tensors by name: `module.load_state_dict(load_torch(path), strict=True)`
    loads what a job leaves into a module whose attributes have the names of the layers. Errors are those of load."""
    import torch

    def tensor(t: _Tensor, data: bytearray) -> Any:
        kind = getattr(torch, TYPES[t.dtype][3])
        return torch.frombuffer(data, dtype=kind).reshape(t.shape) if data else torch.empty(t.shape, dtype=kind)
    return _read(path, tensor)


def _bytes(name: str, x: Any) -> tuple[str, list[int], bytes]:
    """Returns type, shape and little-endian bytes of an array, a tensor or a buffer."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        x = x.detach().cpu().contiguous()
        kind = str(x.dtype).removeprefix("torch.")
        found = [key for key, row in TYPES.items() if row[3] == kind]
        data = x.reshape(-1).view(torch.uint8).numpy().tobytes() if x.numel() and x.dim() else x.numpy().tobytes()
    else:
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            x = numpy.asarray(x)
            kind = str(x.dtype.newbyteorder("="))
            found = [key for key, row in TYPES.items() if row[2] == kind]
            data = x.astype(x.dtype.newbyteorder("<")).tobytes()
        else:
            x = memoryview(x)
            kind = x.format
            found = [key for key, row in TYPES.items() if row[1] == kind]
            data = x.tobytes()
    if not found:
        raise ValueError(f"tensor {name}: type is {kind}; allowed: {', '.join(TYPES)}")
    return found[0], list(x.shape), data


def save(path: str | os.PathLike, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Writes tensors (numpy, torch or buffers) by name, in their order, such as `module.state_dict()`. The file appears
    whole or not at all. A job starts from it (`init_from`) if all tensors are float32 and named as its variables."""
    head: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts, at = [], 0
    if not all(isinstance(k, str) and isinstance(v, str) for k, v in (metadata or {}).items()):
        raise ValueError("metadata: texts are allowed")
    for name, x in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"tensor {name!r}: any text but __metadata__ is allowed as its name")
        dtype, shape, data = _bytes(name, x)
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_MAX:
        raise ValueError(f"the header has {len(text)} bytes; at most {HEADER_MAX} are allowed")
    folder = os.path.dirname(os.path.abspath(path))
    handle, part = tempfile.mkstemp(dir=folder, prefix=".psgd-")
    try:
        with open(handle, "wb") as file:
            file.writelines([struct.pack("<Q", len(text)), text, *parts])
            file.flush()
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(file.fileno(), 0o666 & ~mask)
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
