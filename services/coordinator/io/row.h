/* SPDX-License-Identifier: Apache-2.0 */
/* row.h - converts between a job and its row of jobs.db. */
#ifndef PS_COORDINATOR_ROW_H
#define PS_COORDINATOR_ROW_H

#include "common/base/status.h"
#include "services/coordinator/domain/job_record.h"

#include <sqlite3.h>

/* The advice to users about a damaged row. */
#define PS_ROW_ADVICE                                                                              \
    "Stop the coordinator and run psgd-coordinator --recover: it reads the job from its files"

/* The columns that a statement must select for ps_row_read, in this order. */
#define PS_ROW_COLUMNS "number, id, state, outcome, sequence, spec, detail, spec_sum, detail_sum"

/* Reads the current row of the statement. Returns DATA_LOSS, with the reason, if a checksum
 * (XXH3-64) is wrong, a message does not unpack, text is not UTF-8, or columns contradict the
 * message. */
PS_MUST_USE ps_status ps_row_read(sqlite3_stmt *s, ps_record *out);

/* Makes a record that shows a damaged row to users: id and state as far as the columns have them,
 * and a message that says what is wrong and what to do. */
void ps_row_stand_in(sqlite3_stmt *s, const ps_status *why, ps_record *out);

/* Binds the job's specification, packed, at parameter `at` of the statement, and its checksum
 * (XXH3-64) at `at` + 1. */
void ps_row_bind_spec(sqlite3_stmt *s, int at, const Psgd__V1__Job *job);
/* Binds the job without its specification, packed, at parameter `at` of the statement, and its
 * checksum (XXH3-64) at `at` + 1. */
void ps_row_bind_detail(sqlite3_stmt *s, int at, const Psgd__V1__Job *job);

/* Binds a message, packed, at parameter `at` of the statement, without a checksum. */
void ps_row_bind_message(sqlite3_stmt *s, int at, const ProtobufCMessage *message);

#endif
