/* SPDX-License-Identifier: Apache-2.0 */
/* registry_sqlite.h - the registry in the file jobs.db of a folder, for one process at a time.
 *
 * The file can also be the copy of another registry (registry_etcd.h). The functions that fill a
 * copy must be called within a transaction (ps_registry_begin). */
#ifndef PS_COORDINATOR_REGISTRY_SQLITE_H
#define PS_COORDINATOR_REGISTRY_SQLITE_H

#include "services/coordinator/io/registry.h"

/* Opens or creates `folder`/jobs.db (WAL, synchronous FULL), as ps_database_open does. */
PS_MUST_USE ps_status ps_registry_open_sqlite(const char *folder, ps_registry **out);

/* Replaces the key from which job ids are computed. */
PS_MUST_USE ps_status ps_sqlite_set_key(ps_registry *r, uint64_t key);

/* Sets the job number that was used last; the next job gets a higher one. */
PS_MUST_USE ps_status ps_sqlite_set_last(ps_registry *r, uint64_t number);

/* Inserts a job with its number and id. ps_registry_save sets its outcome. */
PS_MUST_USE ps_status ps_sqlite_insert(ps_registry *r, const ps_record *record,
                                       const char *request_id, const char *content);

/* Inserts an event of the job with this number; does nothing if there is no such job. */
PS_MUST_USE ps_status ps_sqlite_insert_event(ps_registry *r, uint64_t number,
                                             const Psgd__V1__WatchJobResponse *event);

/* Deletes the jobs whose numbers are not among these, which ascend. */
PS_MUST_USE ps_status ps_sqlite_keep_only(ps_registry *r, const uint64_t *numbers, size_t count);

/* Returns the sequence number of the first event of a job that is still stored; 0: none is. */
uint64_t ps_sqlite_first_event(ps_registry *r, uint64_t number);

#endif
