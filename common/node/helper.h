/* SPDX-License-Identifier: Apache-2.0 */
/* helper.h - a thread for what would hold up the loop: hashing, loading, saving.
 *
 * One task at a time, in the order given. A task belongs to its owner, who
 * keeps it until `done` has fired on the loop's thread.
 */
#ifndef PS_COMMON_NODE_HELPER_H
#define PS_COMMON_NODE_HELPER_H

#include "common/rpc/loop.h"

typedef struct ps_helper ps_helper;

typedef struct ps_task ps_task;
struct ps_task {
    void (*work)(ps_task *self); /* on the helper's thread */
    ps_event done;               /* its fire: on the loop's thread, afterwards */
    ps_task *next;               /* the helper's, while it waits */
};

PS_MUST_USE ps_status ps_helper_create(ps_loop *loop, ps_helper **out);
void ps_helper_run(ps_helper *helper, ps_task *task);

/* No task may be under way or waiting. NULL is allowed. */
void ps_helper_destroy(ps_helper *helper);

#endif
