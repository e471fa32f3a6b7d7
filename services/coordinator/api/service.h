/* SPDX-License-Identifier: Apache-2.0 */
/* service.h - the handlers of CoordinatorService, by file, and functions that they share. Loop's
 * thread. */
#ifndef PS_COORDINATOR_SERVICE_H
#define PS_COORDINATOR_SERVICE_H

#include "services/coordinator/coordinator.h"
#include "services/coordinator/domain/access.h"

/* service_jobs.c */
ps_handler ps_serve_submit_job, ps_serve_get_job, ps_serve_cancel_job, ps_serve_delete_job;
/* service_tables.c */
ps_handler ps_serve_change_tables;
/* service_checkpoints.c */
ps_handler ps_serve_take_checkpoint, ps_serve_list_checkpoints;
/* service_scale.c */
ps_handler ps_serve_scale_job;
/* service_trace.c */
ps_handler ps_serve_trace_job;
/* service_explain.c */
ps_handler ps_serve_explain_job;
/* service_list.c */
ps_handler ps_serve_list_jobs;
/* service_watch.c */
ps_handler ps_serve_watch_job;
/* service_files.c */
ps_handler ps_serve_reclaim_logs;
/* service_nodes.c */
ps_handler ps_serve_list_nodes, ps_serve_register_node, ps_serve_heartbeat, ps_serve_ready,
    ps_serve_take_partition;
/* service_node_log.c */
ps_handler ps_serve_get_node_log;
/* service_certificates.c */
ps_handler ps_serve_renew_certificate;
/* service_info.c */
ps_handler ps_serve_list_presets, ps_serve_get_server_info;

/* Returns the service for ps_server_start. */
ps_service ps_coordinator_service(ps_coordinator *c);

/* Observers of jobs (job_board.h) that pass news to the streams of WatchJob and ReclaimLogs; `arg`
 * is the coordinator. */
ps_job_observer_fn ps_watchers_changed, ps_reclaims_changed;

/* Treats nodes whose certificates were revoked as lost. Call it once a second. */
void ps_nodes_expel_revoked(ps_coordinator *c);

/* Ends downloads (ReclaimLogs) whose clients have taken nothing for a minute. Call it once a
 * second. */
void ps_reclaims_check(ps_coordinator *c);

/* End all streams of WatchJob, all streams of ReclaimLogs, and all calls of ExplainJob, with
 * UNAVAILABLE. */
void ps_watchers_end(ps_coordinator *c);
void ps_reclaims_end(ps_coordinator *c);
void ps_explaining_end(ps_coordinator *c);

/* --- what handlers share (service.c) ------------------------------------------ */

/* Ends the call with a failure: a code, a reason for machines, the id of the job that the call is
 * about ("": none), and the text, as for printf. */
PS_PRINTF(5, 6)
void ps_refuse(ps_call *call, ps_code code, const char *reason, const char *job_id, const char *fmt,
               ...);

/* Returns true if the caller may speak for the node: its certificate names `node_id`, or the link
 * is plaintext. Else ends the call and returns false. */
bool ps_speaks_for(ps_call *call, const char *node_id);

/* Returns true if the caller may do `what` to the job. Else ends the call and returns false. */
bool ps_may_access(ps_call *call, const Psgd__V1__Job *job, ps_access what);

/* Ends the call with a status. The reason is JOB_NOT_FOUND for the code NOT_FOUND, NOT_OWNER for
 * PERMISSION_DENIED, else the name of the code. */
void ps_refuse_status(ps_call *call, const ps_status *st, const char *job_id);

/* Writes the host of the client, without its port: "ipv4:127.0.0.1". */
enum { PS_CLIENT_HOST_MAX = PS_NODES_HOST_MAX };
void ps_client_host(ps_call *call, char host[PS_CLIENT_HOST_MAX]);

/* A call whose answer waits for the disk. `call` becomes NULL when the client's call has ended. */
typedef struct ps_held {
    ps_coordinator *c;
    ps_call *call;
    ps_share *share; /* counts the calls of the client's address; NULL: this call is not counted */
    char job_id[PS_COORDINATOR_ID_MAX];
} ps_held;
void ps_hold(ps_held *held, ps_coordinator *c, ps_call *call, const char *job_id);

/* Counts a call that has to wait for a task of `tasks`, and sets held->share. If too many calls
 * wait, in all or from the caller's address, refuses the call and returns false; the text of that
 * refusal calls the tasks `what`. */
bool ps_may_wait(ps_tasks *tasks, ps_shares *shares, const char *what, ps_call *call,
                 ps_held *held);

/* Submits `task`, which reads the registry, and keeps the call until the task is done. ps_may_wait
 * must have counted the call in c->reading. Tasks of different client addresses take turns. */
void ps_hold_for_read(ps_held *held, ps_coordinator *c, ps_call *call, const char *job_id,
                      ps_task *task);

/* Writes the number of elements of a page to *size: `wanted`, 50 if it is 0, at most 1000. If
 * `wanted` is negative, refuses the call and returns false. */
bool ps_page_size(ps_call *call, int32_t wanted, size_t *size);

/* Makes the page token of a position: hexadecimal with a checksum, which clients need not
 * understand. */
enum { PS_PAGE_TOKEN_MAX = 2 * 80 + 16 };
void ps_page_token_make(char token[PS_PAGE_TOKEN_MAX], const char *position);
/* Reads the position from a page token; "" gives "". Returns false if ps_page_token_make did not
 * make the token. */
bool ps_page_token_read(const char *token, char *position, size_t cap);

/* Answers a call that would change a job which is not live: the job is over, or there is none. */
void ps_answer_over(ps_coordinator *c, ps_call *call, const char *job_id);

#endif
