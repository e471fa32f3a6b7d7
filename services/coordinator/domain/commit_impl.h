/* SPDX-License-Identifier: Apache-2.0 */
/* commit_impl.h - how an attempt ends. Private to commit*.c. */
#ifndef PS_COORDINATOR_COMMIT_IMPL_H
#define PS_COORDINATOR_COMMIT_IMPL_H

#include "services/coordinator/domain/commit.h"

/* The text by which messages name a member: "worker w1 (127.0.0.1:15387)". */
typedef struct ps_member_label {
    char text[PS_COMMIT_NODE_ID_MAX + PS_COMMIT_ADDRESS_MAX + 24];
} ps_member_label;
ps_member_label ps_member_name(const ps_member *m);

void ps_commit_do(ps_commit *c, ps_commit_action action);
void ps_commit_do_at(ps_commit *c, size_t node, ps_commit_action action);

/* Decides the outcome, unless one is decided already. The message's format and arguments follow as
 * for printf. */
PS_PRINTF(5, 6)
void ps_commit_decide(ps_commit *c, Psgd__V1__JobState outcome, const char *reason, int64_t now_us,
                      const char *fmt, ...);

/* Decides the end of an attempt that lost workers or servers: QUEUED if the job restarts after such
 * a loss, else FAILED. Also FAILED if a node stalled (NODE_STALLED) and conf.fails_alike. */
PS_PRINTF(6, 7)
void ps_commit_decide_loss(ps_commit *c, bool of_workers, bool of_servers, const char *reason,
                           int64_t now_us, const char *fmt, ...);

/* Interrupts the attempt before training, for a reason that another attempt may not meet. Decides
 * QUEUED; if the attempt may not be repeated, decides as ps_commit_decide_loss does. */
PS_PRINTF(4, 5)
void ps_commit_interrupt(ps_commit *c, const char *reason, int64_t now_us, const char *fmt, ...);

/* Handles the loss of a node for this attempt. Ends the attempt as diverged if the node
 * has_diverged. Else the attempt goes on without the node if conf.survives_loss allows that; if
 * not, decides the end with `reason`: QUEUED if the job may go on with another attempt, else
 * FAILED. */
void ps_commit_lose(ps_commit *c, size_t node, const char *reason, const char *why, int64_t now_us);

/* Writes the text by which the job's message describes a lost member, such as "worker w2 (h:3) is
 * lost: no heartbeat for 2.3 s". `why` may be empty. */
void ps_commit_describe_loss(const ps_member *m, const char *reason, const char *why, char *text,
                             size_t cap);

/* Handles a node of an adopted attempt that an earlier coordinator has released. Calls
 * ps_commit_lose if the attempt can go on without the node; else ends the attempt as after a loss,
 * but does not name the node as lost. */
void ps_commit_found_released(ps_commit *c, size_t node, int64_t now_us);

/* --- commit_blame.c --------------------------------------------------------- */

/* Creates the graph of who waits for whom (waits.h) for the members. */
void ps_commit_init_waits(ps_commit *c);

/* Handles a node that reports its failure. If another node may be the cause, waits for at most a
 * lease to find that node, so that the message names the right one. */
void ps_commit_take_failure(ps_commit *c, size_t node, const ps_status *error, int64_t now_us);

/* Handles nodes that gave up waiting, as soon as all other nodes have sent two heartbeats or
 * blame_us has passed. The attempt goes on without the nodes that hold up the others and those that
 * gave up, if it can; else it ends. The message then names the nodes that hold up the others, and
 * one that gave up; if none holds up others, only that one. */
void ps_commit_settle_blame(ps_commit *c, int64_t now_us);

/* Fails the attempt because of the first worker that has reported its end although the server lacks
 * contributions of it. Does nothing if there is no such worker. */
void ps_commit_accuse_missing(ps_commit *c, size_t server, int64_t now_us);

/* Appends to the text in buf[0..cap) the nodes that hold up others while the job trains; if there
 * are none, the nodes that are silent for late_us. */
void ps_commit_name_roots(const ps_commit *c, int64_t now_us, char *buf, size_t cap);

/* --- commit_end.c ----------------------------------------------------------- */

/* Sets *of_workers or *of_servers, by the member's role. */
void ps_commit_note_role(const ps_member *m, bool *of_workers, bool *of_servers);

/* Ends the attempt because the deadline of its state has passed. Members that have not reached
 * `step` are lost, and the message names them: they "did not `what` within `limit_us`". Decides
 * `outcome`. But if that is FAILED after CanCommit, decides as ps_commit_decide_loss does. */
void ps_commit_expire(ps_commit *c, Psgd__V1__JobState outcome, ps_member_step step,
                      const char *reason, const char *what, int64_t limit_us, int64_t now_us);

/* Releases the nodes whose files are not needed, and collects the files of the others. Call it when
 * the outcome is saved, or is QUEUED. */
void ps_commit_salvage(ps_commit *c, int64_t now_us);

/* Releases all nodes. Call it when outcome and files are stored, or if the outcome is QUEUED. */
void ps_commit_release_all(ps_commit *c, int64_t now_us);

/* Writes to names[0..cap) the names of the first nodes whose files are needed and were not
 * collected, and how many more there are. Returns the number of all of them. */
size_t ps_commit_uncollected(const ps_commit *c, char *names, size_t cap);

/* --- commit_store.c --------------------------------------------------------- */

/* Appends `what`, and the reason `why` unless it is "", to the job's message. For what is lost
 * after the outcome was decided, such as files of a node. */
void ps_commit_confess(ps_commit *c, const char *what, const char *why);

/* Returns whether files of a member wait for room on the disk. */
bool ps_commit_is_held(const ps_commit *c);

/* Notes that something could be stored, so the disk has room again: clears `waits` and cancels the
 * next try. Does nothing while files of a member, or the end, still wait for room. */
void ps_commit_go_on(ps_commit *c);

/* Tries again whatever could not be stored for lack of room. */
void ps_commit_retry(ps_commit *c, int64_t now_us);

/* After the outcome was decided: gives up files that wait for room on the disk; summary and
 * manifest are tried once more. Does nothing if no file waits. */
void ps_commit_give_up(ps_commit *c, const char *why, int64_t now_us);

/* Goes through the stages of the end as far as possible now. */
void ps_commit_settle(ps_commit *c, int64_t now_us);

/* Appends the loss of a member to the job's message, if an earlier loss has ended the attempt. Does
 * nothing if no other attempt follows, or once the final state is being saved. */
void ps_commit_name_too(ps_commit *c, const ps_member *m, const char *reason, const char *why);

#endif
