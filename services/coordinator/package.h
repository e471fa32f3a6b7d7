/* SPDX-License-Identifier: Apache-2.0 */
/* package.h - what PreCommit brings to the nodes of an attempt, made once for
 * all of them on the helper thread: initial weights, and what the data set is.
 */
#ifndef PS_COORDINATOR_PACKAGE_H
#define PS_COORDINATOR_PACKAGE_H

#include "common/base/buf.h"
#include "common/data/find.h"
#include "common/job/plan.h"
#include "services/coordinator/work.h"

typedef struct ps_package ps_package;
struct ps_package {
    ps_task task;
    const ps_plan *plan;   /* borrowed until done */
    const char *data_path; /* or NULL */
    ps_data_cache *cache;  /* the helper thread's */

    /* The result; status says whether the rest is there. */
    ps_status status;  /* NOT_FOUND: the data set is not here */
    ps_buf *weights;   /* the whole block, float32 */
    char folder[1024]; /* of the data set's files */
    ps_data_file files[PS_DATA_FILES_MAX];
    size_t file_count;
    char sha256[65];

    void (*ready)(void *arg, ps_package *package); /* loop thread */
    void *arg;
};

/* `ready` is called once, later. */
ps_package *ps_package_create(ps_work *work, ps_data_cache *cache, const char *data_path,
                              const ps_plan *plan, void (*ready)(void *arg, ps_package *package),
                              void *arg);
void ps_package_destroy(ps_package *package); /* after ready; NULL is allowed */

/* What the files of a data set will weigh at most, before they are looked at. */
uint64_t ps_package_data_bytes(const ps_plan *plan);

#endif
