# SPDX-License-Identifier: Apache-2.0
"""svg.py - draws scatter plots and bars as SVG text, for pictures.py.

The same input gives the same bytes on every machine: coordinates are whole pixels. A picture carries its own
background and a second set of colours for readers whose browser asks for dark pages."""
import html
import math

# Class: what it sets, on light and on dark pages.
COLOURS = {
    "page": ("fill", "#ffffff", "#0d1117"),
    "text": ("fill", "#1f2328", "#e6edf3"),
    "quiet": ("fill", "#59636e", "#9198a1"),
    "grid": ("stroke", "#e2e6ea", "#262c36"),
    "axis": ("stroke", "#818b98", "#656c76"),
    "lead": ("stroke", "#aab2bb", "#59626d"),
    "band": ("fill", "#f1f5f9", "#151b24"),
    "first": ("fill", "#0b62c4", "#58a6ff"),
    "second": ("fill", "#c2410c", "#fb9a5b"),
    "third": ("fill", "#7a4fd0", "#b79bff"),
    "rest": ("fill", "#a9b4c0", "#58626f"),
    "halo": ("stroke", "#ffffff", "#0d1117"),
}
FONT = "font-family:-apple-system,'Segoe UI',Helvetica,Arial,'Liberation Sans','DejaVu Sans',sans-serif"
WIDE, NARROW = "mwMWGOQ%@_ABCDEFHKNPRSTUVXYZ", "iljtfrI.,:;()'|1 "


def width(text, size):
    """Returns an upper bound of the width of `text` in pixels, for the fonts that readers have."""
    return math.ceil(sum(0.72 if c in WIDE else 0.38 if c in NARROW else 0.6 for c in text) * size)


class Canvas:
    """Collects elements; str() of it is the whole file."""

    def __init__(self, across, down, title, description):
        self.across, self.down = across, down
        self.parts = [f"<title>{html.escape(title)}</title>", f"<desc>{html.escape(description)}</desc>",
                      f'<rect class="page" width="{across}" height="{down}" rx="8"/>']

    def text(self, x, y, text, kind="text", size=12, anchor="start", more=""):
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}"{more}>'
                          f"{html.escape(text)}</text>")

    def line(self, x1, y1, x2, y2, kind, more=""):
        self.parts.append(f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"{more}/>')

    def rect(self, x, y, across, down, kind, more=""):
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{across}" height="{down}"{more}/>')

    def mark(self, x, y, kind):
        """Draws a point; each kind has its own shape, so that colour is not needed to tell them apart."""
        shape = {"first": f'<circle class="first" cx="{x}" cy="{y}" r="5"/>',
                 "second": f'<path class="second" d="M{x} {y - 6}l6 10h-12z"/>',
                 "third": f'<path class="third" d="M{x - 5} {y - 5}h10v10h-10z"/>'}
        self.parts.append(shape[kind])

    def __str__(self):
        light, dark = ("".join(f".{name}{{{c[0]}:{c[i]}}}" for name, c in COLOURS.items()) for i in (1, 2))
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.across} {self.down}" '
            f'width="{self.across}" height="{self.down}" role="img">',
            f"<style>text{{{FONT}}}{light}@media(prefers-color-scheme:dark){{{dark}}}</style>",
            *self.parts, "</svg>", ""])


def overlap(a, b):
    """Returns the area in square pixels that two boxes (left, top, right, bottom) share."""
    return max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))


def crosses(box, x1, y1, x2, y2):
    """Returns whether a line passes through a box, looked at in 16 places."""
    return any(box[0] < x1 + (x2 - x1) * i / 16 < box[2] and box[1] < y1 + (y2 - y1) * i / 16 < box[3]
               for i in range(17))


def places(x, y, across, size):
    """Yields (cost, box, end of the leader) of the places where the label of a point may stand."""
    half = size // 2 + 2
    for reach in (0, 6, 12, 20, 30, 42, 56, 72, 90, 110, 135, 160):
        for dx, dy in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1), (2, -1), (2, 1), (-2, -1),
                       (-2, 1), (1, -2), (1, 2), (-1, -2), (-1, 2)):
            cx = x + dx * (9 + reach) + (across // 2 if dx > 0 else -(across // 2) if dx < 0 else 0)
            cy = y + dy * (half + 6 + reach // (2 if dx else 1))
            box = (cx - across // 2, cy - half, cx + across // 2, cy + half)
            end = (box[0] - 2 if dx > 0 else box[2] + 2 if dx < 0 else cx, cy if dx else box[3] if dy < 0 else box[1])
            yield 2 * reach + 4 * abs(dy) + (0 if dx > 0 else 3), box, end


def label(points, names, size, field, taken):
    """Returns for each point (box, end of its leader) of a label that hides no point and no other label.

    Every label is placed where that costs least beside the others, again and again until none moves."""
    marks = [(x - 7, y - 7, x + 7, y + 7) for x, y in points]
    found = [None] * len(points)

    def cost(i, base, box, end):
        others = [(f[0], f[1], points[j]) for j, f in enumerate(found) if f and j != i]
        blocks = taken + [m for j, m in enumerate(marks) if j != i] + [f for f, _, _ in others]
        total = base + sum(60 * overlap(box, b) for b in blocks)
        total += 10000 * (box[0] < field[0] or box[1] < field[1] or box[2] > field[2] or box[3] > field[3])
        total += sum(400 * crosses(m, *points[i], *end) for j, m in enumerate(marks) if j != i)
        total += sum(400 * crosses(f, *points[i], *end) + 400 * crosses(box, *p, *e) for f, e, p in others)
        return total

    for _ in range(8):
        before = list(found)
        for i, (x, y) in enumerate(points):
            best = math.inf
            for base, *place in sorted(places(x, y, width(names[i], size), size)):
                if base >= best:  # no place after this one can cost less
                    break
                this = cost(i, base, *place)
                if this < best:
                    best, found[i] = this, tuple(place)
        if found == before:
            break
    return found


def scatter(rows, title, note, across, down, x_range, y_range, x_title, y_title, x_ticks, y_ticks, legend, reference):
    """Returns a plot of `rows`, (x, y, kind, name), on a logarithmic x-axis.

    `legend` is [(kind, words)], `reference` (x, y, half a band's height, words of the line, words of the band)."""
    c = Canvas(across, down, title, note)
    left, top, right, bottom = 66, 122, across - 36, down - 56

    def at_x(x):
        return left + round((right - left) * math.log(x / x_range[0]) / math.log(x_range[1] / x_range[0]))

    def at_y(y):
        return bottom - round((bottom - top) * (y - y_range[0]) / (y_range[1] - y_range[0]))

    c.text(24, 34, title, size=18, more=' font-weight="600"')
    c.text(24, 54, note, "quiet")
    x = 24
    for kind, words in legend:
        c.mark(x + 6, 76, kind)
        c.text(x + 18, 80, words)
        x += 18 + width(words, 12) + 16
    base_x, base_y, band, over, words = reference
    upper, lower = max(top, at_y(base_y + band)), min(bottom, at_y(base_y - band))
    c.rect(left, upper, right - left, lower - upper, "band")
    for x, words_x in x_ticks:
        c.line(at_x(x), top, at_x(x), bottom, "grid")
        c.text(at_x(x), bottom + 18, words_x, "quiet", anchor="middle")
    for y, words_y in y_ticks:
        c.line(left, at_y(y), right, at_y(y), "grid")
        c.text(left - 8, at_y(y) + 4, words_y, "quiet", anchor="end")
    c.line(left, bottom, right, bottom, "axis")
    c.line(at_x(base_x), top, at_x(base_x), bottom, "axis", ' stroke-dasharray="4 4"')
    c.line(left, at_y(base_y), right, at_y(base_y), "axis", ' stroke-dasharray="4 4"')
    c.text(right, bottom + 40, x_title, anchor="end")
    c.text(24, top - 12, y_title)
    notes = [(at_x(base_x) - 1, top, at_x(base_x) + 1, bottom), (left, at_y(base_y) - 1, right, at_y(base_y) + 1)]
    for x, y, text, anchor in ((left + 6, at_y(base_y) - 5, words, "start"),
                               (at_x(base_x) + 5, bottom - 7, over, "start")):
        c.text(x, y, text, "quiet", 11, anchor)
        notes.append((x, y - 10, x + width(text, 11), y + 3))

    points = [(at_x(x), at_y(y)) for x, y, _, _ in rows]
    together = {}  # points that would hide one another have one label
    for i, (x, y) in enumerate(points):
        same = next((p for p in together if abs(p[0] - x) < 4 and abs(p[1] - y) < 4), (x, y))
        together.setdefault(same, []).append(i)
    names = [", ".join(rows[i][3] for i in group) for group in together.values()]
    placed = label(list(together), names, 11, (left + 2, top + 2, right - 2, bottom - 2), notes)
    for (x, y), (box, end) in zip(together, placed):
        if abs(end[0] - x) + abs(end[1] - y) > 14:
            c.line(x, y, *end, "lead")
    for i, (x, y) in enumerate(points):
        c.mark(x, y, rows[i][2])
    for name, (box, _) in zip(names, placed):
        for more in (' fill="none" stroke-width="3" stroke-opacity="0.8"', ""):
            c.text((box[0] + box[2]) // 2, box[3] - 5, name, "halo" if more else "text", 11, "middle", more)
    return str(c)


def bars(panels, title, note, across):
    """Returns horizontal bars. `panels` is [(heading, [(name, value, words, kind)])]; each panel has its own scale."""
    down = 76 + sum(48 + 26 * len(rows) for _, rows in panels)
    c = Canvas(across, down, title, note)
    c.text(24, 34, title, size=18, more=' font-weight="600"')
    c.text(24, 54, note, "quiet")
    left = 24 + max(width(name, 12) for _, rows in panels for name, _, _, _ in rows) + 10
    room = across - left - 24 - max(width(words, 12) for _, rows in panels for _, _, words, _ in rows)
    y = 76
    for heading, rows in panels:
        c.text(24, y + 16, heading, more=' font-weight="600"')
        y += 30
        longest = max(value for _, value, _, _ in rows)
        c.line(left, y - 4, left, y + 26 * len(rows) - 4, "axis")
        for name, value, words, kind in rows:
            long = max(1, round(room * value / longest))
            c.text(left - 10, y + 13, name, anchor="end")
            c.rect(left, y, long, 18, kind, ' rx="2"')
            c.text(left + long + 8, y + 13, words)
            y += 26
        y += 18
    return str(c)
