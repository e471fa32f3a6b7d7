# SPDX-License-Identifier: Apache-2.0
"""encoding.py - the codecs of psgd: float32 values to bytes and back, by libpsgd."""
from __future__ import annotations

import array
import ctypes
import math
import struct
import sys
from typing import Any, Sequence

from ._library import Draw, Error, check, library

SLICE = 16384  # most values of a slice
COUNT = struct.Struct("<Q")  # an encoding begins with its number of values


def _floats(x: Any, writable: bool = False) -> Any:
    """Returns x as a contiguous buffer of float32: a view of it if it is one already, else a copy.

    A writable one is never a copy.
    """
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(x, torch.Tensor):
        x = x.detach()
        if not writable:
            x = x.cpu().float().contiguous()
        x = x.numpy()
    if numpy is not None and not writable:
        x = numpy.ascontiguousarray(x, dtype=numpy.float32)
    view = memoryview(x)
    if view.format != "f" or not view.c_contiguous or (writable and view.readonly):
        wanted = "writable, contiguous float32" if writable else "contiguous float32"
        raise TypeError(f"values have format {view.format!r}; {wanted} is allowed")
    return view


def _address(view: memoryview, keep: list[Any]) -> int | None:
    """Returns where the buffer is. `keep` holds what must live as long as the address is used."""
    if view.nbytes == 0:
        return None
    if view.readonly:  # ctypes takes writable buffers only
        view = memoryview(bytearray(view.cast("B")))
    keep.append((ctypes.c_char * view.nbytes).from_buffer(view.cast("B")))
    return ctypes.addressof(keep[-1])


class Codec:
    """A codec with its numbers, and what a sender keeps between two encodings (error feedback and others).

    A codec that encodes with a state belongs to one array and one thread: make one for each variable.
    """

    def __init__(self, name: str, *, seed: int = 0, contributor: int = 0, **numbers: float) -> None:
        """numbers: those of `psgd info codecs`, such as fraction=0.01. seed and contributor (the rank of a
        worker, for example) choose the random draws. Raises Error if a name or a number is not allowed."""
        self.spec = name + (":" + ",".join(f"{key}={float(value)!r}" for key, value in numbers.items()) if numbers else "")
        self.seed, self.contributor = seed, contributor
        self.clock = 0  # number of encodings made so far
        self._state: Any = None  # what the codec keeps for self._n values; None: nothing yet
        self._n = 0
        self._codec = ctypes.c_void_p()
        check(library().psgd_codec_create(self.spec.encode(), ctypes.byref(self._codec)))

    def __del__(self) -> None:
        if getattr(self, "_codec", None):
            library().psgd_codec_destroy(self._codec)

    def __repr__(self) -> str:
        return f"psgd.Codec({self.spec!r})"

    def bound(self, n: int) -> int:
        """Returns the most bytes that an encoding of n values takes."""
        return library().psgd_codec_bound(self._codec, n)

    def encode(self, x: Any) -> bytes:
        """Encodes x, float32 of any shape: a numpy array, a torch tensor or a buffer. The bytes do not have the shape.

        With error feedback, momentum or differences all calls must have the same number of values.
        """
        values = _floats(x)
        keep: list[Any] = []
        n, size = values.nbytes // 4, ctypes.c_size_t()
        floats = library().psgd_codec_state_floats(self._codec, n)
        if floats and self._state is None:
            self._state, self._n = (ctypes.c_float * floats)(), n
        if floats and n != self._n:
            raise ValueError(f"x has {n} values; the codec keeps a state for {self._n}, and a codec for each array is allowed")
        draw = Draw(self.seed, self.clock, self.contributor)
        out = ctypes.create_string_buffer(self.bound(n))
        check(library().psgd_codec_encode(self._codec, ctypes.byref(draw), self._state if floats else None,
                                          _address(values, keep), n, out, len(out), ctypes.byref(size)))
        self.clock += 1
        return out.raw[:size.value]

    def decode(self, data: bytes, shape: Sequence[int] | None = None, *, out: Any = None, add: bool = False) -> Any:
        """Decodes an encoding of a codec of this name, whatever its numbers.

        shape  of the result; None: (n). A numpy array, or array.array('f') where numpy is not installed.
        out    writable float32 that the values are written to, or added to with `add`; returned. No copy is made.

        Raises Error if the bytes are damaged, of another codec or of another number of values; `out` is then unchanged.
        """
        if out is None:
            n = self._count(data) if shape is None else math.prod(shape)
            if add:
                raise ValueError("add: is True without out; an array to add to is allowed")
            if n > self._most(data):
                raise Error(f"{len(data)} bytes are no encoding of {n} values")
            out = self._new(n, shape)
        keep: list[Any] = []
        values = _floats(out, writable=True)
        source = bytes(data)
        check(library().psgd_codec_decode(self._codec, source, len(source), _address(values, keep), values.nbytes // 4, add))
        return out

    @staticmethod
    def _most(data: bytes) -> int:
        """Returns how many values so many bytes can have; every slice takes 4 bytes or more."""
        return max(0, len(data) - COUNT.size) // 4 * SLICE

    @staticmethod
    def _count(data: bytes) -> int:
        if len(data) < COUNT.size:
            raise Error(f"{len(data)} bytes are no encoding; at least {COUNT.size} are allowed")
        return COUNT.unpack_from(data)[0]

    @staticmethod
    def _new(n: int, shape: Sequence[int] | None) -> Any:
        try:
            import numpy
        except ImportError:
            return array.array("f", bytes(4 * n))
        return numpy.empty(n if shape is None else tuple(shape), numpy.float32)

    def save_state(self) -> bytes:
        """Returns what the sender keeps, for load_state of a codec with the same name and numbers."""
        return struct.pack("<QQ", self.clock, self._n) + (bytes(self._state) if self._state is not None else b"")

    def load_state(self, data: bytes) -> None:
        """Goes on from what save_state returned. Raises ValueError if it is of a codec with other numbers."""
        clock, n = struct.unpack_from("<QQ", data) if len(data) >= 16 else (0, 0)
        floats = library().psgd_codec_state_floats(self._codec, n)
        if len(data) != 16 + 4 * floats:
            raise ValueError(f"the state has {len(data)} bytes; {16 + 4 * floats} are allowed for {n} values of {self.spec}")
        self.clock, self._n = clock, n
        self._state = (ctypes.c_float * floats).from_buffer_copy(data, 16) if floats else None


def codec(name: str, *, seed: int = 0, contributor: int = 0, **numbers: float) -> Codec:
    """Returns a codec: psgd.codec("topk", fraction=0.01). See Codec."""
    return Codec(name, seed=seed, contributor=contributor, **numbers)


def codecs() -> list[str]:
    """Returns the names of all codecs."""
    names: list[str] = []
    while (name := library().psgd_codec_name(len(names))) is not None:
        names.append(name.decode())
    return names


def version() -> str:
    """Returns the version of libpsgd."""
    return library().psgd_version().decode()
