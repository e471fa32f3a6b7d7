# SPDX-License-Identifier: Apache-2.0
"""psgd: codecs, model files and jobs of psgd, for Python 3.11 without other packages.

    codec = psgd.codec("topk", fraction=0.01, error_feedback=1)
    data = codec.encode(gradient)                # numpy, torch or any buffer of float32
    psgd.codec("topk").decode(data)              # the values, (n)
    psgd.safetensors.load("MODEL.safetensors")   # {"fc1.weight": (units, inputs), ...}
    for event in psgd.watch(psgd.submit({"preset": "tutorial-glyphs"})):
        print(event["job"]["state"])

numpy and torch are used if they are installed. docs/python.md has more.
"""
import pkgutil

# Messages that protoc makes of proto/psgd/v1 are the package psgd.v1, elsewhere on the path.
__path__ = pkgutil.extend_path(__path__, __name__)

from . import safetensors
from ._curve import Curve, Watch
from ._loop import Ended, State, Step, Worker, WorkerError, foreign, join
from .encoding import Codec, Error, codec, codecs, version
from .jobs import CommandError, cancel, download, get, submit, watch

__all__ = ["Codec", "CommandError", "Curve", "Ended", "Error", "State", "Step", "Watch", "Worker", "WorkerError", "cancel", "codec", "codecs", "download",
           "foreign", "get", "join", "safetensors", "submit", "version", "watch"]
