#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures.py - draws docs/images from the tables of docs/results.md.

    tests/bench/pictures.py           writes the pictures
    tests/bench/pictures.py --check   fails if a picture is not what the tables give

results.py and links.py print those tables, and draw a picture of the rows they have just measured with
--picture FILE. Both ways go through the Markdown rows, so a picture and its table have the same numbers."""
import argparse
import pathlib
import re
import sys

import svg

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = "docs/results.md"
KINDS = {"exact": "first", "error-fed": "second", "lossy": "third"}


def tables(text):
    """Returns the Markdown tables of `text`, each as a list of rows; a row is a list of cells, the head is first."""
    found, inside = [], False
    for line in text.split("\n"):
        row = line.startswith("|")
        if row and not inside:
            found.append([])
        if row and not re.fullmatch(r"[|\-: ]+", line):
            found[-1].append([cell.strip() for cell in line.strip().strip("|").split("|")])
        inside = row
    return found


def with_head(text, *heads):
    """Returns the first table of `text` whose first columns match the patterns `heads`; exits if there is none."""
    for table in tables(text):
        if all(re.fullmatch(head, cell) for head, cell in zip(heads, table[0])):
            return table
    sys.exit(f"No table begins with the columns {', '.join(heads)}")


def megabytes(cell):
    return float(cell.removesuffix(" MB"))


def bytes_and_accuracy(text, setting):
    """Returns the picture of the table of results.py: bytes up and down against accuracy, a point a row.

    `setting` says what was trained."""
    head, *rows = with_head(text, "preset", "update, .*")
    up, down, accuracy, kind = (head.index(name) for name in ("up", "down", "accuracy %", "kind"))
    points = []
    for row in rows:
        name = min(re.findall(r"`([^`]+)`", row[0]), key=len)
        points.append((megabytes(row[up]) + megabytes(row[down]), float(row[accuracy]), KINDS[row[kind]], name))
    reference = next(p for p in points if p[3] == "bsp")
    ys = [p[1] for p in points]
    low, high = int(min(ys) * 2 - 0.5) / 2, int(max(ys) * 2 + 1.5) / 2
    ticks = [(low + i / 2, f"{low + i / 2:.1f}") for i in range(int((high - low) * 2) + 1)]
    least, most = min(p[0] for p in points), max(p[0] for p in points)
    x_ticks = [(m * 10 ** e, f"{m * 10 ** e} MB" if e < 3 else f"{m * 10 ** (e - 3)} GB")
               for e in range(7) for m in (1, 2, 5) if least / 2 <= m * 10 ** e <= 2 * most]
    return svg.scatter(
        points, "Bytes against accuracy, every preset",
        f"{setting}. Up and to the left is better. Presets of the same job share a point.", 980, 640,
        (min(least / 1.3, x_ticks[0][0]), max(most * 1.3, x_ticks[-1][0])), (low, high),
        "bytes that all workers send and receive (logarithmic)", "accuracy on the test set, %", x_ticks, ticks,
        [("first", "exact: everything arrives as float32"), ("second", "error-fed: what a codec leaves out is sent later"),
         ("third", "lossy: the rest")],
        (*reference[:2], 0.5, "bytes of bsp", "accuracy of bsp, within 0.5 points"))


def seconds_on_links(text, mbit, wanted):
    """Returns the picture of tables of links.py: seconds until the target, the fastest first.

    `wanted` is {head of a table's first column: what the picture says of that table}."""
    panels = []
    for first, words in wanted.items():
        head, *rows = with_head(text, first, "s to .*")
        bars = []
        for row in sorted((r for r in rows if r[1] != "-"), key=lambda r: float(r[1])):
            name = re.sub(r" \(`.*?\)", "", row[0]).replace("`", "")
            is_base = row is rows[0]
            times = "" if is_base or row[2] == "-" else f", {row[2]} ×"
            bars.append((name, float(row[1]), f"{row[1]} s{times}", "rest" if is_base else "first"))
        panels.append((f"{words}; × is how many times as fast as {rows[0][0].split(',')[0]}", bars))
    target = head[1].removeprefix("s to ")
    return svg.bars(panels, f"Time to {target} on links of {mbit} Mbit/s", "cnn (1.2 million parameters) on MNIST, "
                    "each worker on a link of its own. Seconds of training, shorter is better.", 980)


PICTURES = {
    "docs/images/bytes-accuracy.svg": lambda text: bytes_and_accuracy(
        text, "MNIST, the tutorial's network, 4 workers, 2 servers, two epochs"),
    "docs/images/time-to-accuracy.svg": lambda text: seconds_on_links(
        text, 100, {"method": "Methods, with 2 workers",
                    "policy": "Consistency policies, with 4 workers of which one is held up in every step"}),
}


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--check", action="store_true", help="write nothing, fail if a picture is out of date")
    check = options.parse_args().check
    text = (ROOT / TABLES).read_text(encoding="utf-8")
    old = []
    for name, draw in PICTURES.items():
        file, picture = ROOT / name, draw(text)
        if not file.is_file() or file.read_text(encoding="utf-8") != picture:
            old.append(name)
            if not check:
                file.parent.mkdir(exist_ok=True)
                file.write_text(picture, encoding="utf-8")
    if check and old:
        sys.exit(f"{', '.join(old)}: not what the tables of {TABLES} give; run tests/bench/pictures.py")


if __name__ == "__main__":
    main()
