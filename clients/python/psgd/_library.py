# SPDX-License-Identifier: Apache-2.0
"""_library.py - the functions of psgd.h by ctypes. ctypes releases the interpreter's lock while they run."""
from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

NAME = "libpsgd.so.0"
RESOURCE_EXHAUSTED = 8


class Draw(ctypes.Structure):
    _fields_ = [("seed", ctypes.c_uint64), ("clock", ctypes.c_uint64), ("contributor", ctypes.c_uint64)]


class Error(ValueError):
    """A codec, a number or bytes that libpsgd has refused; the text says what is allowed."""


@functools.cache
def library() -> ctypes.CDLL:
    """Loads libpsgd, or the file that PSGD_LIBRARY names, at the first call."""
    path = os.environ.get("PSGD_LIBRARY") or NAME
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{path}: {error}; Debian's package libpsgd0 has it, or set PSGD_LIBRARY to its path") from None
    size, pointer, text = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
    functions: tuple[tuple[Any, ...], ...] = (
            ("psgd_version", text),
            ("psgd_last_error", text),
            ("psgd_codec_name", text, size),
            ("psgd_codec_create", ctypes.c_int, text, ctypes.POINTER(pointer)),
            ("psgd_codec_destroy", None, pointer),
            ("psgd_codec_bound", size, pointer, size),
            ("psgd_codec_state_floats", size, pointer, size),
            ("psgd_codec_encode", ctypes.c_int, pointer, ctypes.POINTER(Draw), pointer, pointer, size, pointer, size,
             ctypes.POINTER(size)),
            ("psgd_codec_decode", ctypes.c_int, pointer, pointer, size, pointer, size, ctypes.c_int))
    for name, result, *arguments in functions:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def check(code: int) -> None:
    """Raises the error of the last call, unless its code is 0."""
    if code:
        text = library().psgd_last_error().decode("utf-8", "replace")
        raise MemoryError(text) if code == RESOURCE_EXHAUSTED else Error(text)
