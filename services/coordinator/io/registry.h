/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - every job there is, kept in SQLite.
 *
 * One database (WAL, synchronous FULL) in the data directory, for one process
 * at a time. What a call has stored survives a crash right after it. All calls wait for the disk:
 * none is made on a loop's thread while it serves. One thread changes the registry; any thread may
 * read, through a registry of ps_registry_open_reader. Failures of the disk are INTERNAL,
 * RESOURCE_EXHAUSTED when it is full, DATA_LOSS when the file is damaged.
 */
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
    PS_REGISTRY_EVENTS_MAX = 2000, /* kept of one job, the newest */
    PS_REQUEST_ID_MAX = 64,
    PS_CONTENT_HASH_BYTES = 65
};

typedef struct ps_registry ps_registry;

/* Opens or makes `folder`/jobs.db: see ps_database_open. */
PS_MUST_USE ps_status ps_registry_open(const char *folder, ps_registry **out);

/* Opens a second way to `folder`/jobs.db, which `of` of this process holds open: for
 * ps_registry_load, ps_registry_each and ps_registry_next_event, on any thread. It shows what is
 * stored, and waits for no writer. Damaged rows that `of` has logged it does not log again. */
PS_MUST_USE ps_status ps_registry_open_reader(const char *folder, const ps_registry *of,
                                              ps_registry **out);
void ps_registry_close(ps_registry *r); /* NULL is allowed */

/* The registry's: what was noticed when it was opened. */
const ps_database *ps_registry_database(const ps_registry *r);

/* What is between becomes one transaction, which `end` commits, or drops if anything in it has
 * failed or *st is a failure. Returns the first failure. */
PS_MUST_USE ps_status ps_registry_begin(ps_registry *r);
PS_MUST_USE ps_status ps_registry_end(ps_registry *r, const ps_status *st);

/* While relaxed, what is stored survives a crash of the process, but the last of
 * it not one of the host: for what is worth no wait for the disk. */
void ps_registry_relax(ps_registry *r, bool relaxed);

/* Ids for which `is_taken` returns true are given to no new job: the files of another job that
 * had the id may still be there. `arg` is kept. */
void ps_registry_avoid(ps_registry *r, bool (*is_taken)(void *arg, const char *job_id), void *arg);

/* Stores a new job: gives record->number and record->job->id ("title-xxxxxxxx",
 * unique for ever). `request_id` may be "". */
PS_MUST_USE ps_status ps_registry_add(ps_registry *r, ps_record *record, const char *title,
                                      const char *request_id, const char *content);

/* Writes the id of the job that a request id made, and the hash of its content. Fails with
 * NOT_FOUND if there is none. */
PS_MUST_USE ps_status ps_registry_find_request(ps_registry *r, const char *request_id, char *job_id,
                                               size_t cap, char content[PS_CONTENT_HASH_BYTES]);

/* Stores a job that is over and has an id already, with one event that shows it as it is now.
 * Replaces the row of that id, even a damaged one, or adds one. Sets record->number, sequence and
 * outcome (0). The job then belongs to no request id. */
PS_MUST_USE ps_status ps_registry_put(ps_registry *r, ps_record *record, int64_t wall_us);

/* Stores the job as it is now, and with it, in one transaction, `event` if not
 * NULL. Spec and id never change. */
PS_MUST_USE ps_status ps_registry_save(ps_registry *r, const ps_record *record,
                                       const Psgd__V1__WatchJobResponse *event);

/* NOT_FOUND: no such job. DATA_LOSS: its row is damaged. The caller finis *out. */
PS_MUST_USE ps_status ps_registry_load(ps_registry *r, const char *job_id, ps_record *out);

/* Forgets the job and its events. NOT_FOUND. */
PS_MUST_USE ps_status ps_registry_remove(ps_registry *r, const char *job_id);

/* Jobs with number < `before` (0: all), newest first, of the states whose bit
 * (1 << state) is set: calls fn, which takes the record and may not use the registry, until it
 * returns false. A damaged row is
 * given as a record that stands in for it, and logged once. */
typedef bool ps_registry_fn(void *arg, ps_record *record);
PS_MUST_USE ps_status ps_registry_each(ps_registry *r, uint64_t before, uint32_t states,
                                       ps_registry_fn *fn, void *arg);

/* The first stored event after `sequence` that can be read; *out NULL: none. The caller frees it
 * with psgd__v1__watch_job_response__free_unpacked(*out, NULL). */
PS_MUST_USE ps_status ps_registry_next_event(ps_registry *r, uint64_t number, uint64_t sequence,
                                             Psgd__V1__WatchJobResponse **out);

#endif
