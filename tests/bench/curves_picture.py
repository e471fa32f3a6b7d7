#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""curves_picture.py - draws docs/images/curves.svg with psgd plot: one job with three codecs.

    PSGD_BIN=build/release/bin tests/bench/curves_picture.py

Times differ from run to run, so the picture is drawn against bytes."""
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PSGD = pathlib.Path(os.environ.get("PSGD_BIN", ROOT / "build/release/bin")).resolve() / "psgd"
CODECS = ("f32", "int8", "sign")


def main():
    with tempfile.TemporaryDirectory(prefix="psgd-curves-") as folder:
        for codec in CODECS:
            subprocess.run([PSGD, "train", "--preset", "tutorial-glyphs", "--epochs", "4", "--codec", codec, "--out", codec],
                           cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([PSGD, "plot", *CODECS, "-x", "bytes", "-o", ROOT / "docs/images/curves.svg"], cwd=folder, check=True)


if __name__ == "__main__":
    main()
