/* SPDX-License-Identifier: Apache-2.0 */
/* curves.c - see curves.h. */
#include "clients/psgd/curves.h"

#include "clients/psgd/plot_axis.h"
#include "clients/psgd/plot_columns.h"

#include "common/base/xalloc.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRIDE = PS_PLOT_METRICS + 2,
    LABEL = 8, /* columns for the numbers left of a chart */
    COLUMNS_LEAST = 40,
    COLUMNS_BESIDE = 100, /* width from which two charts stand side by side */
    COLUMNS_MAX = 400,
    ROWS_MAX = 14, /* most lines of text with a chart's dots */
    AROUND = 3,    /* a chart's other lines of text: title, axis, steps below the axis */
    GAP = 2
};

void ps_curves_add(ps_curves *curves, bool is_test, double step, double loss, double accuracy)
{
    ps_plot_rows *rows = is_test ? &curves->tests : &curves->train;
    double row[STRIDE] = {0};

    rows->stride = STRIDE;
    while (rows->n > 0 && rows->values[(rows->n - 1) * STRIDE + PS_PLOT_STEP] >= step) {
        rows->n--;
    }
    if (rows->n >= PS_CURVES_POINTS_MAX) {
        ps_plot_rows_halve(rows);
    }
    row[PS_PLOT_STEP] = step;
    row[PS_PLOT_METRICS] = loss;
    row[PS_PLOT_METRICS + 1] = accuracy;
    ps_plot_rows_add(rows, row);
}

void ps_curves_fini(ps_curves *curves)
{
    free(curves->train.values);
    free(curves->tests.values);
    *curves = (ps_curves){0};
}

/* --- a chart ----------------------------------------------------------------------- */

/* The picture of a chart: width by height cells, each with `across` by `down` dots. */
typedef struct canvas {
    size_t width, height; /* in cells */
    size_t across, down;
    uint8_t *cells; /* (height, width): a cell's dots, as bits that are added to U+2800 (Braille) */
} canvas;

static void dot(canvas *c, size_t x, size_t y)
{
    static const uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

    c->cells[y / c->down * c->width + x / c->across] |= bits[y % c->down][x % c->across];
}

static size_t row_of(const canvas *c, const ps_plot_axis *axis, double value)
{
    double top = (double)(c->height * c->down - 1), y = top * (1 - ps_plot_axis_place(axis, value));

    return y <= 0 ? 0 : y >= top ? (size_t)top : (size_t)(y + 0.5);
}

static void draw_upright(canvas *c, size_t x, size_t from, size_t to)
{
    for (size_t y = from < to ? from : to; y <= (from < to ? to : from); y++) {
        dot(c, x, y);
    }
}

/* Draws an upright line in each column from its least to its greatest value, and a line through the
 * means of the columns. Columns without values are skipped. */
static void draw_line(canvas *c, const ps_plot_columns *columns, const ps_plot_axis *axis)
{
    size_t x_before = SIZE_MAX;
    double before = 0;

    for (size_t x = 0; x < columns->n; x++) {
        const ps_plot_column *at = &columns->at[x];

        if (at->count == 0) {
            continue;
        }
        draw_upright(c, x, row_of(c, axis, at->greatest), row_of(c, axis, at->least));
        for (size_t i = x_before; x_before != SIZE_MAX && i < x; i++) {
            double slope = (at->mean - before) / (double)(x - x_before);
            double from = before + slope * (double)(i - x_before);

            draw_upright(c, i + 1, row_of(c, axis, from), row_of(c, axis, from + slope));
        }
        x_before = x;
        before = at->mean;
    }
}

static void put_cell(ps_strbuf *out, uint8_t bits, bool is_test, bool is_utf8)
{
    if (is_test) {
        ps_strbuf_puts(out, is_utf8 ? "\xe2\x97\x8f" : "o"); /* a disc, U+25CF */
    } else if (!is_utf8) {
        ps_strbuf_putc(out, bits != 0 ? '*' : ' ');
    } else if (bits == 0) {
        ps_strbuf_putc(out, ' ');
    } else { /* a character of Braille: U+2800 + bits, in UTF-8 */
        ps_strbuf_putc(out, '\xe2');
        ps_strbuf_putc(out, (char)(0xa0 | bits >> 6));
        ps_strbuf_putc(out, (char)(0x80 | (bits & 0x3f)));
    }
}

/* Appends `text`, which is ASCII, cut or padded with blanks to n columns. The blanks are in front
 * if `is_right`, else behind. */
static void put_padded(ps_strbuf *out, const char *text, size_t n, bool is_right)
{
    size_t length = strlen(text);

    length = length < n ? length : n;
    if (is_right) {
        ps_strbuf_pad(out, ' ', n - length);
    }
    ps_strbuf_append(out, text, length);
    if (!is_right) {
        ps_strbuf_pad(out, ' ', n - length);
    }
}

typedef struct picture {
    const char *name;
    size_t slot;
    ps_plot_unit unit;
    size_t width, height; /* columns of text, with LABEL; lines of text with dots */
    bool is_utf8;
} picture;

/* Appends a chart's title line: the metric's name and its last values in training and in tests. */
static void put_title(ps_strbuf *out, const picture *p, const ps_curves *curves)
{
    double values[2] = {(double)NAN, (double)NAN};
    char text[128], number[PS_SHOW_BYTES];
    size_t n;

    for (int k = 0; k < 2; k++) {
        const ps_plot_rows *rows = k == 0 ? &curves->train : &curves->tests;

        if (rows->n > 0) {
            values[k] = rows->values[(rows->n - 1) * STRIDE + p->slot];
        }
    }
    n = (size_t)snprintf(text, sizeof text, "%s %s", p->name,
                         isfinite(values[0]) ? ps_show_number(values[0], 4, number) : "-");
    if (isfinite(values[1]) && n < sizeof text) {
        snprintf(text + n, sizeof text - n, ", test %s", ps_show_number(values[1], 4, number));
    }
    ps_strbuf_pad(out, ' ', LABEL + 1);
    put_padded(out, text, p->width - LABEL - 1, false);
}

/* Appends the LABEL columns left of line `row` of a chart's dots: the number of a tick if one is in
 * that line, else blanks. */
static void put_number(ps_strbuf *out, const canvas *c, const ps_plot_axis *axis, size_t row)
{
    char text[PS_SHOW_BYTES] = "";

    for (size_t i = 0; i < axis->n; i++) {
        if (row_of(c, axis, axis->at[i]) / c->down == row) {
            ps_plot_axis_text(axis, axis->at[i], text);
        }
    }
    put_padded(out, text, LABEL - 1, true);
    ps_strbuf_putc(out, ' ');
}

/* Appends the axis below the dots to `line`, and the first and the last step to `numbers`. */
static void put_axis(ps_strbuf *line, ps_strbuf *numbers, const picture *p, double lo, double hi)
{
    size_t width = p->width - LABEL - 1;
    char first[PS_SHOW_BYTES], last[PS_SHOW_BYTES];

    ps_strbuf_pad(line, ' ', LABEL);
    ps_strbuf_puts(line, p->is_utf8 ? "\xe2\x94\x94" : "+");
    for (size_t i = 0; i < width; i++) {
        ps_strbuf_puts(line, p->is_utf8 ? "\xe2\x94\x80" : "-");
    }
    snprintf(first, sizeof first, "%.0f", lo);
    snprintf(last, sizeof last, "step %.0f", hi);
    ps_strbuf_pad(numbers, ' ', LABEL + 1);
    put_padded(numbers, first, width / 2, false);
    put_padded(numbers, last, width - width / 2, true);
}

static void fill(ps_plot_columns *columns, const ps_plot_rows *rows, size_t slot)
{
    for (size_t i = 0; i < rows->n; i++) {
        const double *row = rows->values + i * STRIDE;

        ps_plot_columns_add(columns, row[PS_PLOT_STEP], row[slot]);
    }
}

/* Appends a chart to `lines`, which has one buffer for each of the height + AROUND lines of
 * text. */
static void draw(ps_strbuf *lines, const picture *p, const ps_curves *curves)
{
    size_t width = p->width - LABEL - 1, across = p->is_utf8 ? 2 : 1;
    const ps_plot_rows *train = &curves->train;
    double lo = (double)INFINITY, hi = -(double)INFINITY;
    double from = train->values[PS_PLOT_STEP],
           to = train->values[(train->n - 1) * STRIDE + PS_PLOT_STEP];
    canvas c = {.width = width,
                .height = p->height,
                .across = across,
                .down = p->is_utf8 ? 4 : 1,
                .cells = ps_xcalloc(width * p->height, 1)};
    ps_plot_columns columns, tests;
    ps_plot_axis axis;

    ps_plot_columns_init(&columns, from, to, width * across);
    ps_plot_columns_init(&tests, from, to, width);
    fill(&columns, train, p->slot);
    fill(&tests, &curves->tests, p->slot);
    for (size_t i = 0; i < columns.n; i++) {
        const ps_plot_column *at = i < tests.n ? &tests.at[i] : &columns.at[i];

        for (int k = 0; k < 2; k++, at = &columns.at[i]) {
            if (at->count > 0) {
                lo = fmin(lo, at->least);
                hi = fmax(hi, at->greatest);
            }
        }
    }
    ps_plot_axis_init(&axis, lo, hi, p->unit, p->height > 8 ? 5 : 4, true);
    draw_line(&c, &columns, &axis);
    put_title(&lines[0], p, curves);
    for (size_t y = 0; y < p->height; y++) {
        put_number(&lines[1 + y], &c, &axis, y);
        ps_strbuf_puts(&lines[1 + y], p->is_utf8 ? "\xe2\x94\x82" : "|");
        for (size_t x = 0; x < width; x++) {
            bool is_test =
                tests.at[x].count > 0 && row_of(&c, &axis, tests.at[x].mean) / c.down == y;

            put_cell(&lines[1 + y], c.cells[y * width + x], is_test, p->is_utf8);
        }
    }
    put_axis(&lines[p->height + 1], &lines[p->height + 2], p, from, to);
    ps_plot_columns_fini(&columns);
    ps_plot_columns_fini(&tests);
    free(c.cells);
}

static bool has_accuracy(const ps_curves *curves)
{
    for (size_t i = 0; i < curves->train.n; i++) {
        if (isfinite(curves->train.values[i * STRIDE + PS_PLOT_METRICS + 1])) {
            return true;
        }
    }
    return false;
}

size_t ps_curves_draw(ps_strbuf *out, const ps_curves *curves, size_t columns, size_t rows,
                      bool is_utf8)
{
    enum { LINES_MAX = ROWS_MAX + AROUND };
    bool is_beside = columns >= COLUMNS_BESIDE, has_two = has_accuracy(curves);
    bool is_below = has_two && !is_beside && rows >= 2 * PS_CURVES_ROWS_LEAST;
    ps_strbuf left[LINES_MAX] = {0}, right[LINES_MAX] = {0};
    picture loss = {"loss", PS_PLOT_METRICS, PS_PLOT_NUMBER, 0, 0, is_utf8};
    picture accuracy = {"accuracy", PS_PLOT_METRICS + 1, PS_PLOT_SHARE, 0, 0, is_utf8};
    size_t lines;

    if (rows < PS_CURVES_ROWS_LEAST || columns < COLUMNS_LEAST || curves->train.n < 2) {
        return 0;
    }
    columns = columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
    loss.height = (is_below ? rows / 2 : rows) - AROUND;
    loss.height = loss.height < ROWS_MAX ? loss.height : ROWS_MAX;
    loss.width = is_beside && has_two ? (columns - GAP) / 2 : columns;
    accuracy.height = loss.height;
    accuracy.width = loss.width;
    lines = loss.height + AROUND;
    draw(left, &loss, curves);
    if (has_two && (is_beside || is_below)) {
        draw(right, &accuracy, curves);
    }
    for (size_t i = 0; i < lines; i++) {
        ps_strbuf_puts(out, ps_strbuf_text(&left[i]));
        if (is_beside && has_two) {
            ps_strbuf_pad(out, ' ', GAP);
            ps_strbuf_puts(out, ps_strbuf_text(&right[i]));
        }
        ps_strbuf_putc(out, '\n');
        ps_strbuf_fini(&left[i]);
    }
    for (size_t i = 0; i < lines; i++) {
        if (is_below) {
            ps_strbuf_puts(out, ps_strbuf_text(&right[i]));
            ps_strbuf_putc(out, '\n');
        }
        ps_strbuf_fini(&right[i]);
    }
    return is_below ? 2 * lines : lines;
}
