/* SPDX-License-Identifier: Apache-2.0 */
/* commit_impl.h - how an attempt ends. Private to commit*.c. */
#ifndef PS_COORDINATOR_COMMIT_IMPL_H
#define PS_COORDINATOR_COMMIT_IMPL_H

#include "services/coordinator/domain/commit.h"

/* A member for messages: "worker w1 (127.0.0.1:15387)". */
typedef struct ps_member_label {
    char text[PS_COMMIT_NODE_ID_MAX + PS_COMMIT_ADDRESS_MAX + 24];
} ps_member_label;
ps_member_label ps_member_name(const ps_member *m);

void ps_commit_do(ps_commit *c, ps_commit_action action);
void ps_commit_do_at(ps_commit *c, size_t node, ps_commit_action action);

/* Decides the outcome, unless one is decided already. The message follows as for printf. */
PS_PRINTF(5, 6)
void ps_commit_decide(ps_commit *c, Psgd__V1__JobState outcome, const char *reason, int64_t now_us,
                      const char *fmt, ...);

/* Decides the end of an attempt that lost workers or servers: QUEUED if the job restarts after such
 * a loss, else FAILED. */
PS_PRINTF(6, 7)
void ps_commit_decide_loss(ps_commit *c, bool of_workers, bool of_servers, const char *reason,
                           int64_t now_us, const char *fmt, ...);

/* Interrupts the attempt before training, for a reason that another attempt may not meet: decides
 * QUEUED, or if the attempt may not be repeated as ps_commit_decide_loss does. */
PS_PRINTF(4, 5)
void ps_commit_interrupt(ps_commit *c, const char *reason, int64_t now_us, const char *fmt, ...);

/* Handles the loss of a node for this attempt. Goes on without it if the policy survives that; else
 * decides the end with `reason`: QUEUED if another attempt can mend it, else FAILED. */
void ps_commit_lose(ps_commit *c, size_t node, const char *reason, const char *why, int64_t now_us);

/* Writes what the job says of a member that is lost for this reason, as in "worker w2 (h:3) is
 * lost: no heartbeat for 2.3 s". `why` may be empty. */
void ps_commit_describe_loss(const ps_member *m, const char *reason, const char *why, char *text,
                             size_t cap);

/* Handles a node that an earlier coordinator released, of an attempt that was adopted: ends the
 * attempt as ps_commit_lose does, but does not name the node as lost. */
void ps_commit_found_released(ps_commit *c, size_t node, int64_t now_us);

/* --- commit_blame.c --------------------------------------------------------- */

/* Makes the graph of waits for the members. */
void ps_commit_init_waits(ps_commit *c);

/* Handles a node that reports its failure. If another node may be the cause, waits for at most a
 * lease to find that node, so that the message names the right one. */
void ps_commit_take_failure(ps_commit *c, size_t node, const ps_status *error, int64_t now_us);

/* Ends the attempt for which nodes gave up, when all other nodes were heard of twice or the time is
 * over. The message names the node that holds up the others; if there is none, the nodes that gave
 * up. */
void ps_commit_settle_blame(ps_commit *c, int64_t now_us);

/* Fails the attempt because of the first worker that has reported its end although the server lacks
 * contributions of it. Does nothing if there is no such worker. */
void ps_commit_accuse_missing(ps_commit *c, size_t server, int64_t now_us);

/* Writes the nodes that hold up others while the job trains; if there are none, those that are
 * silent. */
void ps_commit_name_roots(const ps_commit *c, int64_t now_us, char *buf, size_t cap);

/* --- commit_end.c ----------------------------------------------------------- */

/* Sets the flag of the member's role. */
void ps_commit_note_role(const ps_member *m, bool *of_workers, bool *of_servers);

/* Ends the attempt because the time of its state is over: with `outcome`, or if that is FAILED as
 * ps_commit_decide_loss does. The message names the nodes that have not reached `step`. */
void ps_commit_expire(ps_commit *c, Psgd__V1__JobState outcome, ps_member_step step,
                      const char *reason, const char *what, int64_t limit_us, int64_t now_us);

/* Releases the nodes whose files are not wanted, and collects the files of the others. Call it when
 * the outcome is stored. */
void ps_commit_salvage(ps_commit *c, int64_t now_us);

/* Releases all nodes. Call it when outcome and files are stored. */
void ps_commit_release_all(ps_commit *c, int64_t now_us);

/* Writes the names of the nodes whose files are wanted and not collected to names[0..cap). Returns
 * their number. */
size_t ps_commit_uncollected(const ps_commit *c, char *names, size_t cap);

/* --- commit_store.c --------------------------------------------------------- */

/* Adds to the job's message which files are lost, and why. */
void ps_commit_confess(ps_commit *c, const char *what, const char *why);

/* Returns whether files of a member wait for room on the disk. */
bool ps_commit_is_held(const ps_commit *c);

/* Notes that something was stored: ends the wait for room, unless files still wait. */
void ps_commit_go_on(ps_commit *c);

/* Repeats whatever waits for room. */
void ps_commit_retry(ps_commit *c, int64_t now_us);

/* Ends the wait for room of files, after the end was decided. Does nothing if no file waits. */
void ps_commit_give_up(ps_commit *c, const char *why, int64_t now_us);

/* Advances through the stages of the end as far as possible. */
void ps_commit_settle(ps_commit *c, int64_t now_us);

#endif
