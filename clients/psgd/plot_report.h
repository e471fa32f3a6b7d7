/* SPDX-License-Identifier: Apache-2.0 */
/* plot_report.h - the whole files of psgd plot. Pure.
 *
 * Both are one file that needs no network and no script, and well-formed XML. Text of jobs is
 * escaped. */
#ifndef PS_CLIENTS_PSGD_PLOT_REPORT_H
#define PS_CLIENTS_PSGD_PLOT_REPORT_H

#include "clients/psgd/plot_charts.h"

/* Appends an HTML page: charts, results, what differs, workers, environment and specification. */
void ps_plot_report_html(ps_strbuf *out, const ps_plot_set *set);

/* Appends an SVG picture of the charts. */
void ps_plot_report_svg(ps_strbuf *out, const ps_plot_set *set);

#endif
