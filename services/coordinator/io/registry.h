/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - the store of all jobs.
 *
 * There are two kinds: SQLite's file jobs.db in the data directory, for one process at a time
 * (registry_sqlite.h); and etcd, for several coordinators of which one leads (registry_etcd.h).
 * What a call, or the transaction that it is in, has stored survives a crash that follows (but see
 * ps_registry_relax). All calls wait for the disk or for etcd, so the loop's thread makes none
 * while it serves. Only one thread changes the registry. Any thread may read, through a registry of
 * ps_registry_open_reader. Failures of the disk are INTERNAL; RESOURCE_EXHAUSTED if it is full;
 * DATA_LOSS if the file is damaged. */
#ifndef PS_COORDINATOR_REGISTRY_H
#define PS_COORDINATOR_REGISTRY_H

#include "common/base/status.h"
#include "services/coordinator/domain/job_record.h"
#include "services/coordinator/io/database.h"

#include "psgd/v1/coordinator.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_REGISTRY_EVENTS_MAX = 2000, /* most stored events of a job; the newest are kept */
    PS_REQUEST_ID_MAX = 64,
    PS_CONTENT_HASH_BYTES = 65
};

typedef struct ps_registry ps_registry;

/* Opens the registry that `of` has open once more, for reading: only ps_registry_load,
 * ps_registry_each and ps_registry_next_event, on any thread. It reads what is stored and does not
 * wait for the writer. It does not log damaged rows again that `of` has logged. */
PS_MUST_USE ps_status ps_registry_open_reader(ps_registry *of, ps_registry **out);
void ps_registry_close(ps_registry *r); /* NULL is allowed */

/* Returns the registry's database, with what was noticed when it was opened; NULL if the data
 * directory has none. */
const ps_database *ps_registry_database(const ps_registry *r);

/* Returns how many calls of ps_registry_add and ps_registry_save one transaction may have. */
size_t ps_registry_changes_max(const ps_registry *r);

/* Begin and end a transaction. `end` commits it; or rolls it back if a call in it failed, or if *st
 * is a failure. It returns the first failure. */
PS_MUST_USE ps_status ps_registry_begin(ps_registry *r);
PS_MUST_USE ps_status ps_registry_end(ps_registry *r, const ps_status *st);

/* relaxed: commits from now on may be lost if the host crashes, but survive a crash of the process.
 * For changes that are not worth waiting for the disk. */
void ps_registry_relax(ps_registry *r, bool relaxed);

/* Sets a function that says which job ids are taken. No new job gets such an id, because there may
 * be files of another job under it. `arg` is kept. */
void ps_registry_avoid(ps_registry *r, bool (*is_taken)(void *arg, const char *job_id), void *arg);

/* Stores a new job. Sets record->number and record->job->id ("title-xxxxxxxx", never used again).
 * request_id identifies the request; "": none. `content` is a hash of the request's content. */
PS_MUST_USE ps_status ps_registry_add(ps_registry *r, ps_record *record, const char *title,
                                      const char *request_id, const char *content);

/* Finds the job that was made by the request `request_id`: writes its id and the hash of the
 * request's content. Returns NOT_FOUND if there is none. */
PS_MUST_USE ps_status ps_registry_find_request(ps_registry *r, const char *request_id, char *job_id,
                                               size_t cap, char content[PS_CONTENT_HASH_BYTES]);

/* Stores a job that is over and has an id already, with one event that shows it as it is now.
 * Replaces the row with that id, even a damaged one, or adds one. Sets record->number, sequence and
 * outcome (0). A new row has no request id, a replaced one keeps its request id. Returns
 * UNIMPLEMENTED for etcd. */
PS_MUST_USE ps_status ps_registry_put(ps_registry *r, ps_record *record, int64_t wall_us);

/* Stores the job as it is now, and with it, in one transaction, `event` if not
 * NULL. Spec and id never change. */
PS_MUST_USE ps_status ps_registry_save(ps_registry *r, const ps_record *record,
                                       const Psgd__V1__WatchJobResponse *event);

/* Reads a job. Returns NOT_FOUND if there is none, DATA_LOSS if its row is damaged. The caller
 * frees *out by ps_record_fini. */
PS_MUST_USE ps_status ps_registry_load(ps_registry *r, const char *job_id, ps_record *out);

/* Deletes the job and its events. Returns NOT_FOUND if there is none. */
PS_MUST_USE ps_status ps_registry_remove(ps_registry *r, const char *job_id);

/* Calls fn, newest job first, for jobs whose number is below `before` (0: for all) and whose state
 * has its bit (1 << state) in `states`, until fn returns false. fn takes the record and must not
 * use the registry. For a damaged row the record has is_damaged; it is logged once. */
typedef bool ps_registry_fn(void *arg, ps_record *record);
PS_MUST_USE ps_status ps_registry_each(ps_registry *r, uint64_t before, uint32_t states,
                                       ps_registry_fn *fn, void *arg);

/* Reads the first stored event after `sequence` that is readable; *out NULL: there is none. The
 * caller frees it with psgd__v1__watch_job_response__free_unpacked(*out, NULL). */
PS_MUST_USE ps_status ps_registry_next_event(ps_registry *r, uint64_t number, uint64_t sequence,
                                             Psgd__V1__WatchJobResponse **out);

/* --- a kind of registry -------------------------------------------------------- */

/* What each kind of registry implements; it is one const object for each kind. A registry of the
 * kind begins with a ps_registry. Each function does what the function above does that has
 * "ps_registry_" before the same name. */
typedef struct ps_registry_type {
    size_t changes_max; /* most changes (add, save) in one transaction */

    /* Changes; called on one thread. */
    ps_status (*begin)(ps_registry *r);
    ps_status (*end)(ps_registry *r, const ps_status *st);
    void (*relax)(ps_registry *r, bool relaxed);
    void (*avoid)(ps_registry *r, bool (*is_taken)(void *arg, const char *job_id), void *arg);
    ps_status (*add)(ps_registry *r, ps_record *record, const char *title, const char *request_id,
                     const char *content);
    ps_status (*find_request)(ps_registry *r, const char *request_id, char *job_id, size_t cap,
                              char content[PS_CONTENT_HASH_BYTES]);
    ps_status (*put)(ps_registry *r, ps_record *record, int64_t wall_us);
    ps_status (*save)(ps_registry *r, const ps_record *record,
                      const Psgd__V1__WatchJobResponse *event);
    ps_status (*remove)(ps_registry *r, const char *job_id);

    /* Reads; of a reader, called on any thread. */
    ps_status (*load)(ps_registry *r, const char *job_id, ps_record *out);
    ps_status (*each)(ps_registry *r, uint64_t before, uint32_t states, ps_registry_fn *fn,
                      void *arg);
    ps_status (*next_event)(ps_registry *r, uint64_t number, uint64_t sequence,
                            Psgd__V1__WatchJobResponse **out);

    ps_status (*open_reader)(ps_registry *of, ps_registry **out);
    void (*close)(ps_registry *r);
} ps_registry_type;

struct ps_registry {
    const ps_registry_type *type;
    const ps_database *database; /* NULL: the data directory has none */
};

#endif
