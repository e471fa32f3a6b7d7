/* SPDX-License-Identifier: Apache-2.0 */
/* stamp.h - which database a data directory was last used with: the file jobs.db.id beside it.
 *
 * The stamp has the identity of jobs.db and a lower bound of its changes. A database that is
 * another, or has fewer changes than its stamp, was replaced or has lost some. The stamp may lag
 * behind after a crash: it is advanced after each durable change, without a sync of its own.
 */
#ifndef PS_COORDINATOR_STAMP_H
#define PS_COORDINATOR_STAMP_H

#include "common/base/status.h"

#include <stdint.h>

#define PS_STAMP_FILE "jobs.db.id"

typedef struct ps_stamp {
    char id[33];      /* 128 random bits in hexadecimal, drawn when the database was made */
    char created[24]; /* when that was, as 2026-11-22T06:13:00Z */
    uint64_t changes; /* transactions since then */
} ps_stamp;

/* NOT_FOUND: there is none. DATA_LOSS: it cannot be read. */
PS_MUST_USE ps_status ps_stamp_read(const char *folder, ps_stamp *out);

/* Replaces the file, durably, and opens it for ps_stamp_advance: the caller closes *fd. */
PS_MUST_USE ps_status ps_stamp_write(const char *folder, const ps_stamp *stamp, int *fd);

/* Raises the count of changes in the file. A failure is no matter: the stamp lags behind. */
void ps_stamp_advance(int fd, uint64_t changes);

#endif
