#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a model file of ours with nothing but the format's description.

    check_safetensors.py MAKE_SAFETENSORS

Where the package `safetensors` is installed, it reads the file as well.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile


def no_duplicates(pairs):
    assert len(dict(pairs)) == len(pairs), "a key stands twice"
    return dict(pairs)


def read(path):
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack_from("<Q", raw)
    assert raw[8:9] == b"{" and (8 + length) % 8 == 0
    header = json.loads(raw[8 : 8 + length].decode("utf-8"), object_pairs_hook=no_duplicates)
    meta = header.pop("__metadata__", {})
    data = raw[8 + length :]
    tensors, at = {}, 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        count = 1
        for size in entry["shape"]:
            count *= size
        assert entry["dtype"] == "F32" and begin == at and end - begin == 4 * count, name
        tensors[name] = (entry["shape"], struct.unpack_from("<%df" % count, data, begin))
        at = end
    assert at == len(data), "bytes are left over"
    return meta, tensors


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        subprocess.run([sys.argv[1], path], check=True)
        meta, tensors = read(path)
        assert meta == {"format": "pt", "title": 'a "quoted" \u00e9'}, meta
        assert list(tensors) == ["dense1/w", "dense1/b", "scale"], list(tensors)
        shape, values = tensors["dense1/w"]
        assert shape == [2, 3], shape
        assert list(values) == [float32(x) for x in (1, -2.5, 0, 0.1, 1e-40, 3e38)], values
        assert tensors["dense1/b"] == ([2], (0.5, -0.25))
        assert tensors["scale"] == ([], (0.5,))
        try:
            from safetensors import safe_open
        except ImportError:
            print("the package safetensors is not installed: read by the description alone")
        else:
            with safe_open(path, framework="np") as file:
                assert file.get_tensor("dense1/w").shape == (2, 3)
    print("ok")


main()
