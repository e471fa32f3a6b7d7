/* SPDX-License-Identifier: Apache-2.0 */
/* loop_link.h - the link of a worker to the program on this host that computes models in its place
 * (common/base/loop_protocol.h). Loop's thread, if nothing else is said.
 */
#ifndef PS_SERVICES_WORKER_LOOP_LINK_H
#define PS_SERVICES_WORKER_LOOP_LINK_H

#include "common/node/session.h"
#include "common/train/foreign_loop.h"

typedef struct ps_loop_link ps_loop_link;
typedef struct ps_loop_rank ps_loop_rank;

/* Opens the link on the control socket `fd`, which it takes over. A thread watches it: when the
 * program ends, or its socket, this process ends at once, as a worker that was killed; when it
 * leaves, this process drains. INVALID_ARGUMENT: fd is no such socket. */
PS_MUST_USE ps_status ps_loop_link_create(int fd, ps_loop_link **out);

/* Closes the link. NULL is allowed. */
void ps_loop_link_destroy(ps_loop_link *link);

/* Says that the job has all its steps, or that its attempt has ended without them. */
void ps_loop_link_done(ps_loop_link *link);
void ps_loop_link_over(ps_loop_link *link, const ps_status *why);

/* Takes the memory that a rank of the session shares with the program, and a socket. The session is
 * kept. RESOURCE_EXHAUSTED: there is no memory. */
PS_MUST_USE ps_status ps_loop_rank_create(ps_loop_link *link, const ps_session *session,
                                          uint32_t rank, ps_loop_rank **out);
/* NULL is allowed. The program sees the end of the rank's socket. */
void ps_loop_rank_destroy(ps_loop_rank *rank);

/* Tells the program of the rank. UNAVAILABLE: it does not read. */
PS_MUST_USE ps_status ps_loop_rank_start(ps_loop_rank *rank);

/* Lends the functions for the rank's trainer, valid as long as the rank. */
const ps_foreign_loop *ps_loop_rank_ops(const ps_loop_rank *rank);

#endif
