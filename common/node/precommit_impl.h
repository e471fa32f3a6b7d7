/* SPDX-License-Identifier: Apache-2.0 */
/* precommit_impl.h - a PreCommit that is under way; for precommit*.c only.
 *
 * precommit.c keeps the order of the packages and ends the stream;
 * precommit_bytes.c takes what is big: weights and data sets; precommit_tables.c the files of
 * sparse tables.
 */
#ifndef PS_COMMON_NODE_PRECOMMIT_IMPL_H
#define PS_COMMON_NODE_PRECOMMIT_IMPL_H

#include "common/node/data_store.h"
#include "common/node/node_impl.h"
#include "common/node/package_order.h"
#include "common/store/tables_file.h"

#include <xxhash.h>

typedef struct ps_loading ps_loading;

struct ps_precommit {
    ps_node *node;
    ps_call *call;
    ps_package_step expected;
    char job_id[PS_JOB_ID_MAX];
    uint32_t attempt;
    uint32_t deadline_ms;
    ps_session *session; /* NULL once the node has taken it */

    ps_data_wish wish;
    ps_data_file files[PS_DATA_FILES_MAX];
    size_t file_count;
    ps_data_store store;
    ps_data_request *request; /* under way */
    bool is_offer;            /* its answer acknowledges the offer */
    bool is_sealed;           /* the seal waits for it */

    uint32_t slices_in; /* of those that the node is to get */
    size_t values_in;
    ps_tables_files *tables; /* into the session's; NULL: none has come */
    ps_buf *table_file;      /* that is coming in; NULL: between two */
    uint32_t table_files;    /* that are in */
    ps_loading *load;        /* of table_file, which is whole; NULL: none is under way */
    XXH3_state_t *hash;
    void *scratch; /* (PS_PAYLOAD_MAX) for data files */
};

/* --- precommit.c ----------------------------------------------------------- */

/* The stream and the attempt end; pc is gone. */
void ps_precommit_give_up(ps_precommit *pc, const ps_error *error);
void ps_precommit_fail(ps_precommit *pc, ps_status st, const char *reason);
/* Reads on when it is out. */
void ps_precommit_acknowledge(ps_precommit *pc, Psgd__V1__PackageKind package, bool need_data,
                              uint32_t file);
/* Nothing to acknowledge: reads on. */
void ps_precommit_read(ps_precommit *pc);
/* Everything is there: the node takes the session. */
void ps_precommit_seal(ps_precommit *pc);

/* --- precommit_bytes.c ----------------------------------------------------- */

bool ps_precommit_is_worker(const ps_precommit *pc);
uint32_t ps_precommit_slice_count(const ps_precommit *pc); /* that the node is to get */
/* Makes the session's weights, unless they are there. Returns false if it failed. */
bool ps_precommit_make_room(ps_precommit *pc);
void ps_precommit_take_weights(ps_precommit *pc, const Psgd__V1__WeightsChunk *chunk,
                               ps_payload *payload);
void ps_precommit_take_offer(ps_precommit *pc, const Psgd__V1__DataPackage *package);
void ps_precommit_take_data(ps_precommit *pc, const Psgd__V1__DataChunk *chunk,
                            ps_payload *payload);

/* --- precommit_tables.c ---------------------------------------------------- */

/* Is the node to get files of sparse tables? */
bool ps_precommit_wants_tables(const ps_precommit *pc);
void ps_precommit_take_table(ps_precommit *pc, const Psgd__V1__TableChunk *chunk,
                             ps_payload *payload);
/* The attempt is over: what a load under way works on is left to it, and freed when it is done. */
void ps_precommit_leave_tables(ps_precommit *pc);
/* There are no more: FAILED_PRECONDITION where some are missing. */
PS_MUST_USE ps_status ps_precommit_end_tables(ps_precommit *pc);

#endif
