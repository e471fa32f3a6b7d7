# SPDX-License-Identifier: Apache-2.0
"""psgd: codecs for gradients and model files of psgd, for Python 3.11 without other packages.

    codec = psgd.codec("topk", fraction=0.01, error_feedback=1)
    data = codec.encode(gradient)                # numpy, torch or any buffer of float32
    psgd.codec("topk").decode(data)              # the values, (n)
    psgd.safetensors.load("MODEL.safetensors")   # {"fc1.weight": (units, inputs), ...}

numpy and torch are used if they are installed. docs/python.md has more.
"""
from . import safetensors
from .encoding import Codec, Error, codec, codecs, version

__all__ = ["Codec", "Error", "codec", "codecs", "safetensors", "version"]
