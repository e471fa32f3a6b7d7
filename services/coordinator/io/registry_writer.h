/* SPDX-License-Identifier: Apache-2.0 */
/* registry_writer.h - stores changes in the registry on a thread of its own.
 *
 * Changes are stored in the order in which they were submitted. Those that are waiting become one
 * transaction, if the registry takes as many and none is_alone, so that a slow disk is waited for
 * only once. Each change's `done` is called on the loop's thread, in the same order, when the
 * change is durable or has failed. Loop's thread. */
#ifndef PS_COORDINATOR_REGISTRY_WRITER_H
#define PS_COORDINATOR_REGISTRY_WRITER_H

#include "common/rpc/loop.h"
#include "services/coordinator/io/registry.h"

typedef struct ps_writer ps_writer;

/* A change of the registry. The caller sets the members before `status`, and leaves the change to
 * the writer until `done` is called. */
typedef struct ps_change ps_change;
struct ps_change {
    /* Makes the change, within a transaction that may have several changes. If one of them fails,
     * each is applied again in a transaction of its own, so `apply` may be called twice. Called on
     * the writer's thread. */
    ps_status (*apply)(ps_change *change, ps_registry *r);
    void (*done)(ps_change *change); /* called on the loop's thread; may free the change */
    bool is_relaxed;                 /* the change may be lost if the host crashes */
    /* `apply` makes its own transactions, and is called outside of one */
    bool is_alone;
    bool kills; /* fault for tests: the process kills itself once this change is stored */

    ps_status status; /* result, for `done` */
    ps_change *next;  /* private */
};

/* Starts the thread. Until ps_writer_destroy returns, only that thread may use `registry`. */
PS_MUST_USE ps_status ps_writer_create(ps_loop *loop, ps_registry *registry, ps_writer **out);
void ps_writer_submit(ps_writer *writer, ps_change *change);

/* Blocks until all changes are stored or have failed. Their `done` are called afterwards by the
 * loop, which must still run; they must not submit changes. NULL is allowed. */
void ps_writer_destroy(ps_writer *writer);

#endif
