/* SPDX-License-Identifier: Apache-2.0 */
/* plot_charts.h - the charts of one job or of several: loss and metrics, bytes, speed, waits. Pure.
 */
#ifndef PS_CLIENTS_PSGD_PLOT_CHARTS_H
#define PS_CLIENTS_PSGD_PLOT_CHARTS_H

#include "clients/psgd/plot_facts.h"
#include "clients/psgd/plot_job.h"
#include "clients/psgd/plot_svg.h"

enum { PS_PLOT_JOBS_MAX = 16, PS_PLOT_CHARTS_MAX = PS_PLOT_METRICS_MAX + 3 };

/* What a picture shows. */
typedef struct ps_plot_set {
    ps_plot_job jobs[PS_PLOT_JOBS_MAX];
    size_t n;
    ps_plot_x x;
    ps_plot_facts facts[PS_PLOT_JOBS_MAX]; /* facts of the jobs' specifications */
    ps_plot_facts differing;               /* paths of facts in which jobs differ; texts are "" */
    char labels[PS_PLOT_JOBS_MAX][PS_PLOT_LABEL_BYTES];
} ps_plot_set;

/* Fills facts, differing and labels from the jobs. */
void ps_plot_set_compare(ps_plot_set *set);

/* Draws each chart that has points: appends its SVG to the next element of `charts`. Returns the
 * number of charts. */
size_t ps_plot_charts_draw(const ps_plot_set *set, ps_strbuf charts[PS_PLOT_CHARTS_MAX]);

/* Returns the name of the horizontal axis, such as "time since training began". */
const char *ps_plot_charts_x_title(ps_plot_x x);

/* Frees everything. */
void ps_plot_set_fini(ps_plot_set *set);

#endif
