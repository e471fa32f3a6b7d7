/* SPDX-License-Identifier: Apache-2.0 */
/* loop_link.h - the link from a worker to the program on this host that computes models in its
 * place (common/base/loop_protocol.h). Loop's thread, unless a comment says otherwise. */
#ifndef PS_SERVICES_WORKER_LOOP_LINK_H
#define PS_SERVICES_WORKER_LOOP_LINK_H

#include "common/node/session.h"
#include "common/train/foreign_loop.h"

typedef struct ps_loop_link ps_loop_link;
typedef struct ps_loop_rank ps_loop_rank;

/* Opens the link on the control socket `fd`, which it takes. A thread watches the socket. When the
 * program ends, or closes the socket without a word, this process ends within 0.2 s, like a worker
 * that was killed. When the program says that it leaves, this process stops as on SIGTERM. Returns
 * INVALID_ARGUMENT if fd is no such socket, RESOURCE_EXHAUSTED if there is no thread; `fd` is then
 * the caller's. */
PS_MUST_USE ps_status ps_loop_link_create(int fd, ps_loop_link **out);

/* Closes the link. NULL is allowed. */
void ps_loop_link_destroy(ps_loop_link *link);

/* Tells the program that the job has done all its steps. */
void ps_loop_link_done(ps_loop_link *link);
/* Tells the program that the attempt has ended before the job has done all its steps. */
void ps_loop_link_over(ps_loop_link *link, const ps_status *why);

/* Creates a socket and the memory that a rank of the session shares with the program. Keeps the
 * link. RESOURCE_EXHAUSTED: there is no memory. */
PS_MUST_USE ps_status ps_loop_rank_create(ps_loop_link *link, const ps_session *session,
                                          uint32_t rank, ps_loop_rank **out);
/* Closes the rank's socket, which the program notices, and frees the rank. NULL is allowed. */
void ps_loop_rank_destroy(ps_loop_rank *rank);

/* Tells the program, by the control socket, that it now computes for this rank. UNAVAILABLE: the
 * program has ended or does not read the socket. */
PS_MUST_USE ps_status ps_loop_rank_start(ps_loop_rank *rank);

/* Returns the functions by which the rank's trainer talks to the program (foreign_loop.h). They are
 * valid as long as the rank. */
const ps_foreign_loop *ps_loop_rank_ops(const ps_loop_rank *rank);

#endif
