/* SPDX-License-Identifier: Apache-2.0 */
/* plot_report.h - the files that psgd plot writes. Pure.
 *
 * Each is a single file that needs no network and no script, and is well-formed XML. Text that
 * comes from jobs is escaped. */
#ifndef PS_CLIENTS_PSGD_PLOT_REPORT_H
#define PS_CLIENTS_PSGD_PLOT_REPORT_H

#include "clients/psgd/plot_charts.h"

/* Appends an HTML page: charts, results, workers, environment and specification; of several jobs
 * also what differs. */
void ps_plot_report_html(ps_strbuf *out, const ps_plot_set *set);

/* Appends an SVG picture of the charts. */
void ps_plot_report_svg(ps_strbuf *out, const ps_plot_set *set);

#endif
