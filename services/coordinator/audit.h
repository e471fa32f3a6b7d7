/* SPDX-License-Identifier: Apache-2.0 */
/* audit.h - who has changed what: a file of JSON lines, one for each call that changes something.
 *
 *   {"time":"2026-11-22T21:05:11.208Z","who":"submitter/sue","credential":"5C0F...",
 *    "from":"ipv4:10.0.0.7:40312","method":"CancelJob","about":"mnist-k3j5x7qa","result":"OK"}
 *
 * The file is DATA_DIR/audit.jsonl, mode 0600. When it has PS_AUDIT_FILE_MAX bytes it is renamed to
 * audit.jsonl.1, an older one to audit.jsonl.2, and so on; PS_AUDIT_OLD older files are kept. A
 * thread writes the file, so a slow disk delays no call. If more than PS_AUDIT_WAIT_MAX bytes of
 * lines wait to be written, further lines are dropped, and the next line that is written says how
 * many. Loop's thread. */
#ifndef PS_COORDINATOR_AUDIT_H
#define PS_COORDINATOR_AUDIT_H

#include "common/rpc/server.h"

enum {
    PS_AUDIT_FILE_MAX = 16 << 20,
    PS_AUDIT_OLD = 4,
    PS_AUDIT_WAIT_MAX = 1 << 20 /* bytes of lines that are not written yet */
};

typedef struct ps_audit ps_audit;

/* Creates the audit in the folder `data_dir`. */
PS_MUST_USE ps_status ps_audit_create(ps_loop *loop, const char *data_dir, ps_audit **out);

/* Adds a line. */
void ps_audit_add(ps_audit *audit, const ps_ended_call *end);

/* Blocks until all lines are written. The loop must still run. Later lines are dropped. */
void ps_audit_stop(ps_audit *audit);

/* Frees a stopped audit; NULL is allowed. */
void ps_audit_destroy(ps_audit *audit);

#endif
