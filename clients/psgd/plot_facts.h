/* SPDX-License-Identifier: Apache-2.0 */
/* plot_facts.h - specifications as lists of facts, and what differs between those of several jobs.
 * Pure. */
#ifndef PS_CLIENTS_PSGD_PLOT_FACTS_H
#define PS_CLIENTS_PSGD_PLOT_FACTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { PS_PLOT_FACTS_MAX = 4096, PS_PLOT_LABEL_BYTES = 160 };

/* A value, or list of values, as text with its path, such as "codec.up.params.levels". */
typedef struct ps_plot_fact {
    char *path, *text;
} ps_plot_fact;

typedef struct ps_plot_facts {
    size_t n;
    ps_plot_fact *at; /* (n), sorted by path */
} ps_plot_facts;

/* Makes the facts of a JSON object, at most PS_PLOT_FACTS_MAX. A list without lists or objects is
 * one fact. Long texts are cut. */
void ps_plot_facts_init(ps_plot_facts *facts, const json_t *object);

/* Returns the text of a path; NULL if it is not there. */
const char *ps_plot_facts_get(const ps_plot_facts *facts, const char *path);

/* Makes the paths, without texts, at which two of the n jobs differ. */
void ps_plot_facts_differ(const ps_plot_facts *jobs, size_t n, ps_plot_facts *paths);

/* Writes what distinguishes a job from the others, such as "codec.up int8, workers 4". `paths` are
 * what ps_plot_facts_differ gave. Numbers of a plugin are named only if the plugin is the same in
 * all jobs; title and preset only if nothing else differs. "" if nothing differs. */
void ps_plot_facts_label(const ps_plot_facts *facts, const ps_plot_facts *paths,
                         char text[PS_PLOT_LABEL_BYTES]);

/* Frees the list; a zeroed one is allowed. */
void ps_plot_facts_fini(ps_plot_facts *facts);

#endif
