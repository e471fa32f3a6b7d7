# SPDX-License-Identifier: Apache-2.0
"""_curve.py - the curves of a job while it trains, as SVG, which notebooks show."""
from __future__ import annotations

import html
import math
import time
from typing import Any, Iterator, Mapping

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 200, 60, 12, 24, 24  # pixels: size of a panel, and its margins
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")
POINTS_MAX = 400  # most points of a curve in the picture: about one for 1.5 pixels


class Curve:
    """The curves of a job, (step, value) in the order of steps, by name: "loss" and "accuracy" of training as progress tells
    them, what programs report by its own name, "test loss" and the job's metrics as "test NAME" of its evaluations.

    A notebook shows it as a picture. In matplotlib: pyplot.plot(*zip(*curve.points["loss"]))."""

    points: dict[str, list[tuple[int, float]]]
    title: str
    state: str

    def __init__(self) -> None:
        self.points, self.title, self.state = {}, "", ""

    def add(self, event: Mapping[str, Any]) -> bool:
        """Adds what an event of `watch` says. Returns whether there is something new to see."""
        job = event.get("job", {})
        progress, before = job.get("progress", {}), (self.state, sum(map(len, self.points.values())))
        self.title, self.state = str(job.get("id", self.title)), str(job.get("state", self.state)).removeprefix("JOB_STATE_")
        for name in ("loss", "accuracy"):
            self._put(name, progress.get("step"), progress.get(name))
        for name, value in progress.get("program_metrics", {}).items():
            self._put(name, progress.get("step"), value)
        for name, value in job.get("result", {}).items():
            self._put(f"test {name}", job.get("result_step"), value)
        return before != (self.state, sum(map(len, self.points.values())))

    def _put(self, name: str, step: Any, value: Any) -> None:
        if not isinstance(step, int) or isinstance(step, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return
        known = self.points.setdefault(name, [])
        while known and known[-1][0] > step:  # the job has gone back to a checkpoint, and repeats steps
            known.pop()
        if not known or known[-1][0] < step:
            known.append((step, float(value)))

    def svg(self) -> str:
        """Returns the picture: a panel with the losses, one with accuracy and results, and one for each metric of programs."""
        known = {n: p for n, p in self.points.items() if p and (n in ("loss", "accuracy") or n.startswith("test "))}
        losses = {n: p for n, p in known.items() if n.endswith("loss")}
        others = {n: p for n, p in known.items() if n not in losses}
        panels = [p for p in (losses, others, *({n: p} for n, p in self.points.items() if p and n not in known)) if p]
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{20 + HEIGHT * max(1, len(panels))}" '
                 'font-family="sans-serif" font-size="11" fill="#888">',
                 f'<text x="4" y="14">{html.escape(self.title)} {html.escape(self.state)}</text>']
        for i, panel in enumerate(panels):
            parts += _panel(panel, 20 + HEIGHT * i)
        return "".join([*parts, "</svg>"])

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        last = ", ".join(f"{name} {points[-1][1]:.4g} at step {points[-1][0]}" for name, points in self.points.items())
        return f"{self.title} {self.state}: {last or 'no steps yet'}"


def _panel(curves: Mapping[str, list[tuple[int, float]]], y: float) -> list[str]:
    steps = [s for points in curves.values() for s, _ in points]
    values = [v for points in curves.values() for _, v in points]
    low, high, first, last = min(values), max(values), min(steps), max(steps)
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(step: int, value: float) -> str:
        return (f"{LEFT + wide * (step - first) / max(1, last - first):.1f},"
                f"{y + TOP + tall * (high - value) / (high - low if high > low else 1):.1f}")

    parts = [f'<rect x="{LEFT}" y="{y + TOP}" width="{wide}" height="{tall}" fill="none" stroke="#ccc"/>',
             f'<text x="{LEFT - 4}" y="{y + TOP + 9}" text-anchor="end">{high:.4g}</text>',
             f'<text x="{LEFT - 4}" y="{y + TOP + tall}" text-anchor="end">{low:.4g}</text>',
             f'<text x="{LEFT}" y="{y + HEIGHT - 8}">step {first}</text>',
             f'<text x="{WIDTH - RIGHT}" y="{y + HEIGHT - 8}" text-anchor="end">{last}</text>']
    for i, (name, points) in enumerate(curves.items()):
        colour, every = COLOURS[i % len(COLOURS)], -(-len(points) // POINTS_MAX)
        shown = points[::every] + ([points[-1]] if every > 1 else [])
        parts.append(f'<text x="{LEFT + 100 * i}" y="{y + TOP - 6}" fill="{colour}">{html.escape(name)} {points[-1][1]:.4g}</text>')
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{" ".join(place(*p) for p in shown)}"/>')
        parts.append(f'<circle r="2" fill="{colour}" cx="{place(*points[-1]).split(",")[0]}" cy="{place(*points[-1]).split(",")[1]}"/>')
    return parts


class Watch(Iterator[dict[str, Any]]):
    """The events of a job, each as it happens; see `watch`."""

    def __init__(self, events: Iterator[dict[str, Any]]) -> None:
        self._events = events

    def __next__(self) -> dict[str, Any]:
        return next(self._events)

    def plot(self, every: float = 0.5) -> Curve:
        """Follows the job until it has ended, and returns its curves. In a notebook the cell shows them while they grow, at most
        once in `every` seconds. IPython in a terminal prints a line of text instead; other programs show nothing. Interrupting it leaves the job running."""
        curve, handle, shown = Curve(), None, -math.inf
        display = _display()
        for event in self:
            if curve.add(event) and display is not None and time.monotonic() - shown >= every:
                shown = time.monotonic()
                if handle is None:
                    handle = display(curve, display_id=True)
                else:
                    handle.update(curve)
        if handle is not None:
            handle.update(curve)
        elif display is not None:
            display(curve)
        return curve


def _display() -> Any:
    """Returns IPython's display, if this program runs in IPython."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return None
    return display if get_ipython() is not None else None
