/* SPDX-License-Identifier: Apache-2.0 */
/* explain_answer.h - what bounds a job, as the message that the client prints and the page shows.
 * Pure. */
#ifndef PS_COMMON_EXPLAIN_EXPLAIN_ANSWER_H
#define PS_COMMON_EXPLAIN_EXPLAIN_ANSWER_H

#include "common/explain/explain_foretell.h"
#include "common/explain/explain_times.h"

#include "psgd/v1/coordinator.pb-c.h"

/* All that is known of a job. */
typedef struct ps_explained {
    const ps_explain_rank *ranks; /* (n) */
    size_t n;
    ps_explanation found;
    double live_s; /* for how long it was measured while it trained; 0: it is over */
    const ps_explain_steps *steps; /* the parts of its exchange; NULL: not known */
    const char *timeline;          /* the file that these come from */
    const ps_explain_times *times; /* (n) where a step goes; NULL: not known */
    const ps_foretold *foretold;   /* (foretold_count) */
    size_t foretold_count;
    const char *unknown; /* why the exchange was not taken apart; "": it was, or need not be */
} ps_explained;

enum { PS_EXPLAIN_SENTENCES_MAX = 8 };

/* Returns how sure the cause is, or the part of the exchange if that is known. */
ps_explain_surety ps_explain_how_sure(const ps_explained *e);

/* Writes the sentences (explain_words.c) and returns their number. The caller frees each. */
size_t ps_explain_words(const ps_explained *e, char *sentences[PS_EXPLAIN_SENTENCES_MAX]);

/* Returns the message. The caller frees it with psgd__v1__explain_job_response__free_unpacked. */
Psgd__V1__ExplainJobResponse *ps_explain_answer(const ps_explained *e);

#endif
