/* SPDX-License-Identifier: Apache-2.0 */
/* explain_record.h - records a timeline of some steps of a job that trains, for explain_steps.h. */
#ifndef PS_CLIENTS_PSGD_EXPLAIN_RECORD_H
#define PS_CLIENTS_PSGD_EXPLAIN_RECORD_H

#include "clients/psgd/explain_steps.h"
#include "clients/psgd/fetch.h"

typedef struct ps_explain_record {
    ps_cli *cli;
    const char *id;         /* of the job; borrowed until done */
    int64_t within_us;      /* longest wait for the timeline */
    ps_explain_steps steps; /* the result, if status is OK */
    ps_status status;       /* why there is none */
    void (*done)(void *arg);
    void *arg;
    /* Private. */
    ps_fetch fetch;
    char folder[64];
} ps_explain_record;

/* Starts to record. The fields above the result are set. Calls `done` once. */
void ps_explain_record_start(ps_explain_record *record);

#endif
