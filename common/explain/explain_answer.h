/* SPDX-License-Identifier: Apache-2.0 */
/* explain_answer.h - what bounds a job, as the message that the client prints and the page shows.
 * Pure. */
#ifndef PS_COMMON_EXPLAIN_EXPLAIN_ANSWER_H
#define PS_COMMON_EXPLAIN_EXPLAIN_ANSWER_H

#include "common/explain/explain_foretell.h"
#include "common/explain/explain_times.h"

#include "psgd/v1/coordinator.pb-c.h"

/* What was found about a job. The caller owns what pointers point to. */
typedef struct ps_explained {
    const ps_explain_rank *ranks; /* (n) */
    size_t n;
    ps_explanation found; /* what bounds the job, as ps_explain says */
    double live_s;        /* seconds of the measurement of a job that trains; 0: the job is over */
    const ps_explain_steps *steps; /* the parts of the job's exchange; NULL: not known */
    const char *timeline;          /* name of the timeline's file from which `steps` were read */
    /* (n) where the time of a step of each rank goes; NULL: not known */
    const ps_explain_times *times;
    const ps_foretold *foretold; /* (foretold_count) forecasts for other settings */
    size_t foretold_count;
    /* why the parts of the exchange are not known; NULL or "": they are, or are of no interest */
    const char *unknown;
} ps_explained;

enum { PS_EXPLAIN_SENTENCES_MAX = 8 };

/* Returns how sure the cause is. If the parts of the exchange are known and the two largest are
 * nearly equal (ps_explain_is_close), returns PS_EXPLAIN_UNSURE. */
ps_explain_surety ps_explain_how_sure(const ps_explained *e);

/* Writes the answer as sentences for people and returns their number. The caller frees each. In
 * explain_words.c. */
size_t ps_explain_words(const ps_explained *e, char *sentences[PS_EXPLAIN_SENTENCES_MAX]);

/* Returns the message. The caller frees it with psgd__v1__explain_job_response__free_unpacked. */
Psgd__V1__ExplainJobResponse *ps_explain_answer(const ps_explained *e);

#endif
