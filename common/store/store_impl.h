/* SPDX-License-Identifier: Apache-2.0 */
/* store_impl.h - what a store is made of; for store.c and store_file.c only. */
#ifndef PS_COMMON_STORE_STORE_IMPL_H
#define PS_COMMON_STORE_STORE_IMPL_H

#include "common/store/store.h"

struct ps_store {
    ps_shard *shard;
    ps_tables *tables;     /* NULL: the job has no sparse tables, or they are lent */
    ps_tables *all_tables; /* the same, lent or not */
    uint64_t job;
    bool broadcasts;
    const ps_optim *optim; /* NULL: workers have it */
    uint32_t workers;
    bool owned[PS_TABLE_SHARDS];    /* rows of these are here */
    ps_store_counters last;         /* of slices that were dropped */
    bool has_come[PS_TABLE_SHARDS]; /* out of a file */
    bool *is_lost;                  /* (workers), says a file */
};

#endif
