/* SPDX-License-Identifier: Apache-2.0 */
/* precommit_impl.h - a running PreCommit. For precommit*.c only.
 *
 * precommit.c checks the order of packages and ends the stream; precommit_weights.c receives
 * weights, precommit_data.c data sets, precommit_tables.c the files of sparse tables,
 * precommit_state.c those of a checkpoint.
 */
#ifndef PS_COMMON_NODE_PRECOMMIT_IMPL_H
#define PS_COMMON_NODE_PRECOMMIT_IMPL_H

#include "common/node/data_store.h"
#include "common/node/node_impl.h"
#include "common/node/package_order.h"
#include "common/store/tables_file.h"

#include <xxhash.h>

typedef struct ps_loading ps_loading;
typedef struct ps_storing ps_storing;

struct ps_precommit {
    ps_node *node;
    ps_call *call;
    ps_package_step expected;
    char job_id[PS_JOB_ID_MAX];
    uint32_t attempt;
    uint32_t deadline_ms;
    ps_session *session; /* NULL once the node has taken it */

    ps_data_wanted wanted;
    ps_data_files files;
    ps_storing *storing; /* writes the set that is received; NULL: none is */
    /* the request to datasets.h for the set, in progress; NULL: none is */
    ps_data_request *request;
    bool is_offer;  /* the result of `request` answers the offer */
    bool is_sealed; /* the seal waits for the result of `request` */

    uint32_t slices_in; /* number of slices that were received */
    size_t values_in;
    /* read files into the session's tables; NULL: no file has arrived, or there are no such tables
     */
    ps_tables_files *tables[PS_REPLICAS_MAX];
    ps_buf *table_file;   /* the file being received; NULL: none */
    uint32_t table_files; /* number of table files that were received completely */
    ps_loading *load;     /* loads the complete table_file; NULL: not running */
    uint32_t state_files; /* files of a checkpoint that have been received */
    XXH3_state_t *hash;
};

/* --- precommit.c ----------------------------------------------------------- */

/* Ends the stream with `error`, gives the attempt up, and frees pc. */
void ps_precommit_give_up(ps_precommit *pc, const ps_error *error);
void ps_precommit_fail(ps_precommit *pc, ps_status st, const char *reason);

/* Copies n bytes of the payload, from offset `at` on, to `to`, and adds them to pc->hash. */
void ps_precommit_copy(ps_precommit *pc, ps_payload *payload, size_t at, size_t n, void *to);
/* Sends an acknowledgement, then reads the next message. */
void ps_precommit_acknowledge(ps_precommit *pc, Psgd__V1__PackageKind package, bool need_data,
                              uint32_t file);
/* Reads the next message without an acknowledgement. */
void ps_precommit_read(ps_precommit *pc);
/* Gives the complete session to the node. */
void ps_precommit_seal(ps_precommit *pc);

/* --- precommit_weights.c --------------------------------------------------- */

bool ps_precommit_is_worker(const ps_precommit *pc);

/* Returns how many slices the node is to receive. */
uint32_t ps_precommit_slice_count(const ps_precommit *pc);
/* Allocates session->weights, unless that was done. If there is no memory, ends the PreCommit and
 * returns false. */
bool ps_precommit_make_room(ps_precommit *pc);
void ps_precommit_take_weights(ps_precommit *pc, const Psgd__V1__WeightsChunk *chunk,
                               ps_payload *payload);

/* --- precommit_data.c ------------------------------------------------------ */

void ps_precommit_take_offer(ps_precommit *pc, const Psgd__V1__DataPackage *package);
void ps_precommit_take_data(ps_precommit *pc, const Psgd__V1__DataChunk *chunk,
                            ps_payload *payload);

/* Called when the PreCommit ends: has a task remove the files of a set that was not received
 * completely. */
void ps_precommit_leave_data(ps_precommit *pc);

/* --- precommit_tables.c ---------------------------------------------------- */

/* Returns whether the node is to receive files of sparse tables. */
bool ps_precommit_wants_tables(const ps_precommit *pc);
void ps_precommit_take_table(ps_precommit *pc, const Psgd__V1__TableChunk *chunk,
                             ps_payload *payload);
/* Called when the PreCommit ends before its seal: if a task is loading a file into the tables,
 * leaves the tables to it; it frees them when it has ended. */
void ps_precommit_leave_tables(ps_precommit *pc);
/* Ends the files of tables. Fails with FAILED_PRECONDITION if some are missing. */
PS_MUST_USE ps_status ps_precommit_end_tables(ps_precommit *pc);

/* --- precommit_state.c ----------------------------------------------------- */

/* Returns whether the node is to receive files of a checkpoint. */
bool ps_precommit_wants_states(const ps_precommit *pc);
void ps_precommit_take_state(ps_precommit *pc, const Psgd__V1__StateChunk *chunk,
                             ps_payload *payload);
/* Fails with FAILED_PRECONDITION if files of the checkpoint are missing. */
PS_MUST_USE ps_status ps_precommit_end_states(const ps_precommit *pc);

#endif
