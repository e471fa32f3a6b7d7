#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads an event file of ours with a reader of the tests' own.

    check_events.py MAKE_EVENTS

Where TensorBoard is installed, its reader reads the file as well.
"""
import math
import os
import struct
import subprocess
import sys
import tempfile

import read_events


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def damaged_is_seen(path):
    with open(path, "rb") as file:
        raw = bytearray(file.read())
    for at in (0, 30, len(raw) - 10):
        raw[at] ^= 1
        try:
            list(read_events.records(bytes(raw)))
        except (AssertionError, struct.error):
            pass
        else:
            raise AssertionError(f"a bit of byte {at} changed and nobody noticed")
        raw[at] ^= 1


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "events.out.tfevents.psgd")
        subprocess.run([sys.argv[1], path], check=True)
        points = read_events.read(path)
        expected = []
        for step in range(1, 301):
            wall_s = 1700000000.5 + step
            expected.append((wall_s, step, "train/loss", float32(1 / step)))
            expected.append((wall_s, step, "wire/bytes_up", float32(5e9 * step)))
        assert points[:-1] == expected
        assert points[-1][:3] == (1700000400.0, 1 << 40, "test/loss") and math.isnan(points[-1][3])
        damaged_is_seen(path)
        try:
            from tensorboard.backend.event_processing import event_accumulator
        except ImportError:
            print("TensorBoard is not installed: read by the description alone")
        else:
            run = event_accumulator.EventAccumulator(folder, {"scalars": 0})
            run.Reload()
            assert [(e.step, e.value) for e in run.Scalars("train/loss")] == [
                (p[1], p[3]) for p in points if p[2] == "train/loss"]
    print("ok")


main()
