/* SPDX-License-Identifier: Apache-2.0 */
/* plot_svg.c - see plot_svg.h. */
#include "clients/psgd/plot_svg.h"

#include "common/base/utf8.h"

#include <math.h>
#include <string.h>

/* LEFT to BOTTOM: the edges, in pixels, of a chart's field, within which its lines are drawn.
 * BARS_LEFT: LEFT of a chart with bars. TICKS_X, TICKS_Y: most ticks of an axis. */
enum {
    LEFT = 56,
    TOP = 38,
    RIGHT = PS_PLOT_WIDTH - 16,
    BOTTOM = PS_PLOT_HEIGHT - 44,
    BARS_LEFT = 92,
    TICKS_X = 6,
    TICKS_Y = 6,
    LETTER = 8 /* about the width in pixels of a letter in the key */
};

/* The colours of lines: [0] on light pages, [1] on dark ones. Most colour-blind readers can tell
 * neighbours in this list apart, too. */
static const char *const colours[PS_PLOT_COLOURS][2] = {
    {"#0b62c4", "#58a6ff"}, {"#c2410c", "#fb9a5b"}, {"#1a7f4b", "#4ac97e"}, {"#7a4fd0", "#b79bff"},
    {"#b3256f", "#f778ba"}, {"#0e7c86", "#39c5cf"}, {"#8a5a00", "#d9a514"}, {"#57606a", "#a3adb8"}};

static const struct {
    const char *rule, *light, *dark; /* beginning of a CSS rule, and the colours to put behind it */
} inks[] = {
    {".pg{fill:", "#ffffff", "#0d1117"},   {".pt{fill:", "#1f2328", "#e6edf3"},
    {".pq{fill:", "#59636e", "#9198a1"},   {".pl{stroke:", "#e4e8ec", "#232a34"},
    {".px{stroke:", "#818b98", "#656c76"}, {".pr{fill:", "#c9d1d9", "#3a424d"},
    {".pc{fill:", "#24364f", "#dfe6ee"},   {".pw{fill:", "#e5808a", "#8e3b46"},
};

static void put_inks(ps_strbuf *out, int dark)
{
    for (size_t i = 0; i < sizeof inks / sizeof inks[0]; i++) {
        ps_strbuf_printf(out, "%s%s}", inks[i].rule, dark ? inks[i].dark : inks[i].light);
    }
    for (int c = 0; c < PS_PLOT_COLOURS; c++) {
        ps_strbuf_printf(out, ".s%d{stroke:%s}.f%d{fill:%s}", c, colours[c][dark], c,
                         colours[c][dark]);
    }
}

void ps_plot_svg_style(ps_strbuf *out)
{
    ps_strbuf_puts(out, "svg text{font:12px -apple-system,'Segoe UI',Helvetica,Arial,"
                        "'Liberation Sans','DejaVu Sans',sans-serif}"
                        "svg .ph{font-size:14px;font-weight:600}"
                        ".ln{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
                        ".fa{stroke-width:1.2;opacity:.55}.bd{opacity:.16;stroke:none}"
                        ".da{stroke-dasharray:6 4}");
    put_inks(out, 0);
    ps_strbuf_puts(out, "@media(prefers-color-scheme:dark){");
    put_inks(out, 1);
    ps_strbuf_puts(out, "}");
}

void ps_plot_svg_text(ps_strbuf *out, const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        size_t n = ps_utf8_length(text, left);
        unsigned char c = (unsigned char)text[0];
        bool is_noncharacter = n == 3 && memcmp(text, "\xef\xbf", 2) == 0 &&
                               (unsigned char)text[2] >= 0xbe; /* U+FFFE, U+FFFF */

        if (n == 0 || is_noncharacter || c < 0x20 || c == 0x7f) {
            ps_strbuf_puts(out, "\xef\xbf\xbd");
        } else if (c == '<') {
            ps_strbuf_puts(out, "&lt;");
        } else if (c == '>') {
            ps_strbuf_puts(out, "&gt;");
        } else if (c == '&') {
            ps_strbuf_puts(out, "&amp;");
        } else if (c == '"') {
            ps_strbuf_puts(out, "&quot;");
        } else if (c == '\'') {
            ps_strbuf_puts(out, "&#39;");
        } else {
            ps_strbuf_append(out, text, n);
        }
        n = n > 0 ? n : 1;
        text += n;
        left -= n;
    }
}

static void put_text(ps_strbuf *out, double x, double y, const char *kind, const char *anchor,
                     const char *text)
{
    ps_strbuf_printf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", kind, x,
                     y, anchor);
    ps_plot_svg_text(out, text);
    ps_strbuf_puts(out, "</text>\n");
}

static void put_rule(ps_strbuf *out, double x1, double y1, double x2, double y2, const char *kind)
{
    ps_strbuf_printf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                     kind, x1, y1, x2, y2);
}

static double across(const ps_plot_axis *x, double value, double left)
{
    return left + ps_plot_axis_place(x, value) * (RIGHT - left);
}

static double down(const ps_plot_axis *y, double value)
{
    double place = ps_plot_axis_place(y, value);

    /* A value outside of the axis is drawn at most 2 % of the field's height outside of the field;
     * those of bands may be, see find_range. */
    place = place < -0.02 ? -0.02 : place > 1.02 ? 1.02 : place;
    return BOTTOM - place * (BOTTOM - TOP);
}

/* Draws the ticks of the horizontal axis, with their numbers centred below them. Near the right
 * edge a number ends at its tick instead, so that it does not cross the edge. */
static void put_ticks_x(ps_strbuf *out, const ps_plot_axis *x, double left)
{
    char text[PS_SHOW_BYTES];

    for (size_t i = 0; i < x->n; i++) {
        double at = across(x, x->at[i], left);

        put_rule(out, at, TOP, at, BOTTOM, "pl");
        put_text(out, at, BOTTOM + 16, "pq", at > RIGHT - 12 ? "end" : "middle",
                 ps_plot_axis_text(x, x->at[i], text));
    }
}

static void put_frame(ps_strbuf *out, const char *title, const char *x_title, double left)
{
    put_text(out, 12, 22, "pt ph", "start", title);
    put_text(out, (left + RIGHT) / 2, PS_PLOT_HEIGHT - 10, "pq", "middle", x_title);
}

/* --- lines ------------------------------------------------------------------------- */

static bool has_points(const ps_plot_line *line)
{
    for (size_t i = 0; i < line->columns.n; i++) {
        if (line->columns.at[i].count > 0) {
            return true;
        }
    }
    return false;
}

/* Sets *lo and *hi to the range of the vertical axis: that of the means of all lines, and 0 with
 * from_zero. The bands (least and greatest values) do not count, so that outliers do not either. */
static void find_range(const ps_plot_chart *chart, double *lo, double *hi)
{
    *lo = (double)INFINITY;
    *hi = -(double)INFINITY;
    for (size_t l = 0; l < chart->n; l++) {
        const ps_plot_columns *columns = &chart->lines[l].columns;

        for (size_t i = 0; i < columns->n; i++) {
            if (columns->at[i].count > 0) {
                *lo = fmin(*lo, columns->at[i].mean);
                *hi = fmax(*hi, columns->at[i].mean);
            }
        }
    }
    if (chart->from_zero) {
        *lo = fmin(*lo, 0);
    }
}

static void put_band(ps_strbuf *out, const ps_plot_line *line, const ps_plot_axis *x,
                     const ps_plot_axis *y)
{
    const ps_plot_columns *c = &line->columns;
    char letter = 'M';

    ps_strbuf_printf(out, "<path class=\"bd f%u\" d=\"", line->colour);
    for (size_t i = 0; i < c->n; i++) {
        if (c->at[i].count > 0) {
            ps_strbuf_printf(out, "%c%.1f %.1f", letter, across(x, c->at[i].x, LEFT),
                             down(y, c->at[i].greatest));
            letter = 'L';
        }
    }
    for (size_t i = c->n; i-- > 0;) {
        if (c->at[i].count > 0) {
            ps_strbuf_printf(out, "L%.1f %.1f", across(x, c->at[i].x, LEFT),
                             down(y, c->at[i].least));
        }
    }
    ps_strbuf_puts(out, "Z\"/>\n");
}

static void put_line(ps_strbuf *out, const ps_plot_line *line, const ps_plot_axis *x,
                     const ps_plot_axis *y)
{
    const ps_plot_columns *c = &line->columns;
    char letter = 'M';

    if (!has_points(line)) {
        return;
    }
    if (line->has_band) {
        put_band(out, line, x, y);
    }
    ps_strbuf_printf(out, "<path class=\"ln s%u%s%s\" d=\"", line->colour,
                     line->is_faint ? " fa" : "", line->is_dashed ? " da" : "");
    for (size_t i = 0; i < c->n; i++) {
        if (c->at[i].count > 0) {
            ps_strbuf_printf(out, "%c%.1f %.1f", letter, across(x, c->at[i].x, LEFT),
                             down(y, c->at[i].mean));
            letter = 'L';
        }
    }
    ps_strbuf_puts(out, "\"/>\n");
    for (size_t i = 0; line->has_marks && i < c->n; i++) {
        if (c->at[i].count > 0) {
            ps_strbuf_printf(out, "<circle class=\"f%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n",
                             line->colour, across(x, c->at[i].x, LEFT), down(y, c->at[i].mean));
        }
    }
}

/* Draws the key in the line of the title: the names of the lines that have a name and points,
 * right-aligned, with the last one at the edge. */
static void put_key(ps_strbuf *out, const ps_plot_line *lines, size_t n)
{
    double right = RIGHT;

    for (size_t i = n; i-- > 0;) {
        if (lines[i].name != NULL && has_points(&lines[i])) {
            double width = (double)strlen(lines[i].name) * LETTER;

            put_text(out, right, 22, "pq", "end", lines[i].name);
            ps_strbuf_printf(out,
                             "<line class=\"ln s%u%s%s\" x1=\"%.1f\" y1=\"18\" x2=\"%.1f\" "
                             "y2=\"18\"/>\n",
                             lines[i].colour, lines[i].is_faint ? " fa" : "",
                             lines[i].is_dashed ? " da" : "", right - width - 20,
                             right - width - 4);
            right -= width + 34;
        }
    }
}

void ps_plot_svg_lines(ps_strbuf *out, const ps_plot_chart *chart)
{
    double lo, hi, x_lo = chart->n > 0 ? chart->lines[0].columns.lo : 0,
                   x_hi = chart->n > 0 ? chart->lines[0].columns.hi : 1;
    char text[PS_SHOW_BYTES];
    ps_plot_axis x, y;

    find_range(chart, &lo, &hi);
    ps_plot_axis_init(&x, x_lo, x_hi, chart->x_unit, TICKS_X, false);
    ps_plot_axis_init(&y, lo, hi, chart->y_unit, TICKS_Y, true);
    put_frame(out, chart->title, chart->x_title, LEFT);
    put_key(out, chart->lines, chart->n);
    put_ticks_x(out, &x, LEFT);
    for (size_t i = 0; i < y.n; i++) {
        put_rule(out, LEFT, down(&y, y.at[i]), RIGHT, down(&y, y.at[i]), "pl");
        put_text(out, LEFT - 8, down(&y, y.at[i]) + 4, "pq", "end",
                 ps_plot_axis_text(&y, y.at[i], text));
    }
    put_rule(out, LEFT, BOTTOM, RIGHT, BOTTOM, "px");
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < chart->n; i++) {
            if (chart->lines[i].is_faint == (pass == 0)) {
                put_line(out, &chart->lines[i], &x, &y);
            }
        }
    }
}

/* --- bars -------------------------------------------------------------------------- */

/* CSS classes of the parts of a bar. They have colours of their own, because `colours` stand for
 * jobs. */
static const char *const part_kinds[3] = {"pc", "pw", "pr"};

static void put_bar(ps_strbuf *out, const ps_plot_bar *bar, const ps_plot_axis *x, double y,
                    double thick, bool has_colour)
{
    double from = 0;

    if (thick >= 8) {
        put_text(out, BARS_LEFT - 8, y + thick / 2 + 4, "pt", "end", bar->label);
    }
    if (has_colour) {
        ps_strbuf_printf(out,
                         "<rect class=\"f%u\" x=\"12\" y=\"%.1f\" width=\"6\" height=\"%.1f\"/>\n",
                         bar->colour, y, thick);
    }
    for (int p = 0; p < 3; p++) {
        double left = across(x, from, BARS_LEFT),
               right = across(x, from + bar->parts[p], BARS_LEFT);

        if (right > left) {
            ps_strbuf_printf(out,
                             "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                             "height=\"%.1f\"/>\n",
                             part_kinds[p], left, y, right - left, thick);
        }
        from += bar->parts[p];
    }
}

void ps_plot_svg_bars(ps_strbuf *out, const ps_plot_bars *bars)
{
    double longest = 0, pitch, thick, right = RIGHT;
    ps_plot_axis x;

    for (size_t i = 0; i < bars->n; i++) {
        longest =
            fmax(longest, bars->bars[i].parts[0] + bars->bars[i].parts[1] + bars->bars[i].parts[2]);
    }
    ps_plot_axis_init(&x, 0, longest, bars->unit, TICKS_X, false);
    put_frame(out, bars->title, bars->x_title, BARS_LEFT);
    put_ticks_x(out, &x, BARS_LEFT);
    pitch = fmin(34, (double)(BOTTOM - TOP) / (double)(bars->n > 0 ? bars->n : 1));
    thick = pitch * 0.72;
    for (size_t i = 0; i < bars->n; i++) {
        put_bar(out, &bars->bars[i], &x, TOP + (double)i * pitch + (pitch - thick) / 2, thick,
                bars->has_colours);
    }
    put_rule(out, BARS_LEFT, TOP, BARS_LEFT, BOTTOM, "px");
    for (int p = 2; p >= 0; p--) {
        if (bars->parts[p] != NULL) {
            double width = (double)strlen(bars->parts[p]) * LETTER;

            put_text(out, right, 22, "pq", "end", bars->parts[p]);
            ps_strbuf_printf(
                out, "<rect class=\"%s\" x=\"%.1f\" y=\"13\" width=\"10\" height=\"10\"/>\n",
                part_kinds[p], right - width - 14);
            right -= width + 28;
        }
    }
}
