/* SPDX-License-Identifier: Apache-2.0 */
/* plot_svg.h - draws charts as SVG: lines with bands, and bars. Pure.
 *
 * A chart is a list of elements in an area of PS_PLOT_WIDTH by PS_PLOT_HEIGHT; the caller puts them
 * into an <svg> or <g>. Their colours come from ps_plot_svg_style, which has a second set for dark
 * pages. Text from outside is escaped; the output is well-formed XML.
 */
#ifndef PS_CLIENTS_PSGD_PLOT_SVG_H
#define PS_CLIENTS_PSGD_PLOT_SVG_H

#include "clients/psgd/plot_axis.h"
#include "clients/psgd/plot_columns.h"

#include "common/base/strbuf.h"

enum {
    PS_PLOT_WIDTH = 440,
    PS_PLOT_HEIGHT = 280,
    PS_PLOT_COLUMNS = 184, /* columns of a line: one for each two pixels */
    PS_PLOT_COLOURS = 8
};

typedef struct ps_plot_line {
    ps_plot_columns columns;
    const char *name; /* (optional) its name in the chart's key */
    unsigned colour;  /* 0 to PS_PLOT_COLOURS - 1 */
    bool has_band;    /* fill the area between the least and the greatest values of the columns */
    bool has_marks;   /* a dot at each column that has points */
    bool is_faint;    /* thin and pale, behind the others */
    bool is_dashed;
} ps_plot_line;

typedef struct ps_plot_chart {
    const char *title, *x_title;
    ps_plot_unit x_unit, y_unit;
    bool from_zero; /* the vertical axis includes 0 */
    const ps_plot_line *lines;
    size_t n;
} ps_plot_chart;

typedef struct ps_plot_bar {
    char label[40];
    unsigned colour; /* colour of the job */
    double parts[3]; /* lengths of its parts, which follow each other */
} ps_plot_bar;

typedef struct ps_plot_bars {
    const char *title, *x_title;
    /* names of the parts, for the key; NULL: there is no such part. Parts have colours that no line
     * has */
    const char *parts[3];
    ps_plot_unit unit;
    bool has_colours; /* a square in the colour of the job stands before each label */
    const ps_plot_bar *bars;
    size_t n; /* number of bars, at most 24 */
} ps_plot_bars;

/* Appends text with < > & " ' escaped. Control characters and bytes that XML does not allow become
 * U+FFFD. */
void ps_plot_svg_text(ps_strbuf *out, const char *text);

/* Appends the rules of CSS for light and dark pages. */
void ps_plot_svg_style(ps_strbuf *out);

/* Appends a chart of lines. Lines without points are left out. */
void ps_plot_svg_lines(ps_strbuf *out, const ps_plot_chart *chart);

/* Appends a chart of horizontal bars. */
void ps_plot_svg_bars(ps_strbuf *out, const ps_plot_bars *bars);

#endif
