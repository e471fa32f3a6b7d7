/* SPDX-License-Identifier: Apache-2.0 */
/* stamp.h - records with which database a data directory was last used, in the file jobs.db.id
 * beside jobs.db.
 *
 * The stamp has the identity of jobs.db and a lower bound of its number of changes. A database with
 * another identity, or with fewer changes than its stamp, was replaced or has lost changes. After a
 * crash the number in the stamp may be too low, because it is written after each durable change
 * without fsync. */
#ifndef PS_COORDINATOR_STAMP_H
#define PS_COORDINATOR_STAMP_H

#include "common/base/status.h"

#include <stdint.h>

#define PS_STAMP_FILE "jobs.db.id"

typedef struct ps_stamp {
    char id[33];      /* 128 random bits in hexadecimal, drawn when the database was made */
    char created[24]; /* time of its creation, as 2026-11-22T06:13:00Z */
    uint64_t changes; /* number of transactions since its creation */
} ps_stamp;

/* Reads the stamp of a folder. Returns NOT_FOUND if there is none, DATA_LOSS if it is damaged; else
 * fails as ps_file_read does. */
PS_MUST_USE ps_status ps_stamp_read(const char *folder, ps_stamp *out);

/* Replaces the file, durably, and opens it for ps_stamp_advance: the caller closes *fd. */
PS_MUST_USE ps_status ps_stamp_write(const char *folder, const ps_stamp *stamp, int *fd);

/* Raises the count of changes in the file. A failure is ignored: the count is a lower bound. */
void ps_stamp_advance(int fd, uint64_t changes);

#endif
