/* SPDX-License-Identifier: Apache-2.0 */
/* service.h - the handlers of CoordinatorService, by file; one loop's thread. */
#ifndef PS_COORDINATOR_SERVICE_H
#define PS_COORDINATOR_SERVICE_H

#include "services/coordinator/coordinator.h"

/* service_jobs.c */
ps_handler ps_serve_submit_job, ps_serve_get_job, ps_serve_cancel_job, ps_serve_delete_job;
/* service_tables.c */
ps_handler ps_serve_change_tables;
/* service_list.c */
ps_handler ps_serve_list_jobs;
/* service_watch.c */
ps_handler ps_serve_watch_job;
/* service_files.c */
ps_handler ps_serve_reclaim_logs;
/* service_nodes.c */
ps_handler ps_serve_list_nodes, ps_serve_register_node, ps_serve_heartbeat, ps_serve_ready;
ps_handler ps_serve_get_node_log;
/* service_info.c */
ps_handler ps_serve_list_presets, ps_serve_get_server_info;

/* Observers of jobs, which send what is new; `arg` is the coordinator. */
ps_job_observer_fn ps_watchers_changed, ps_reclaims_changed;

/* Ends downloads whose clients do not read. Call it once a second. */
void ps_reclaims_check(ps_coordinator *c);

/* Ends all of them with UNAVAILABLE. */
void ps_watchers_end(ps_coordinator *c);
void ps_reclaims_end(ps_coordinator *c);

/* --- what handlers share (service.c) ------------------------------------------ */

/* Ends the call with a code, a reason and the job's id. */
PS_PRINTF(5, 6)
void ps_refuse(ps_call *call, ps_code code, const char *reason, const char *job_id, const char *fmt,
               ...);

/* The same from a status: reason JOB_NOT_FOUND if that is its code. */
void ps_refuse_status(ps_call *call, const ps_status *st, const char *job_id);

/* Writes the host of the client, without its port: "ipv4:127.0.0.1". */
enum { PS_CLIENT_HOST_MAX = PS_NODES_HOST_MAX };
void ps_client_host(ps_call *call, char host[PS_CLIENT_HOST_MAX]);

/* A call whose answer waits for a disk. `call` becomes NULL when the caller has gone. */
typedef struct ps_held {
    ps_coordinator *c;
    ps_call *call;
    char job_id[PS_COORDINATOR_ID_MAX];
} ps_held;
void ps_hold(ps_held *held, ps_coordinator *c, ps_call *call, const char *job_id);

/* Refuses the call and returns false if too many questions wait for the registry already. */
bool ps_may_read(ps_coordinator *c, ps_call *call);

/* Page sizes: 0 is 50, more than 1000 is 1000. False: negative, refused. */
bool ps_page_size(ps_call *call, int32_t wanted, size_t *size);

/* A page token says where a list goes on, in hexadecimal with a check sum: it
 * is not for clients to read. */
enum { PS_PAGE_TOKEN_MAX = 2 * 80 + 16 };
void ps_page_token_make(char token[PS_PAGE_TOKEN_MAX], const char *position);
/* False: not one of ours. "" gives "". */
bool ps_page_token_read(const char *token, char *position, size_t cap);

#endif
