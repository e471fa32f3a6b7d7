/* SPDX-License-Identifier: Apache-2.0 */
/* service.c - the table of CoordinatorService, and functions that its handlers share. */
#include "services/coordinator/api/service.h"
#include "common/base/shorten.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum {
    SPEC_MAX = 256 << 10,   /* most bytes of a SubmitJob: a spec that names 320 nodes fits */
    PARTITION_MAX = 1 << 20 /* most bytes of a TakePartition: PS_PART_RECORDS_MAX of records fit */
};

static const ps_method methods[] = {
    {.name = "SubmitJob",
     .handle = ps_serve_submit_job,
     .may = PS_MAY_CHANGE,
     .changes = true,
     .max_bytes = SPEC_MAX},
    {.name = "GetJob", .handle = ps_serve_get_job, .may = PS_MAY_SEE},
    {.name = "ListJobs", .handle = ps_serve_list_jobs, .may = PS_MAY_SEE | PS_MAY_COORDINATOR},
    {.name = "CancelJob", .handle = ps_serve_cancel_job, .may = PS_MAY_CHANGE, .changes = true},
    {.name = "ChangeTables",
     .handle = ps_serve_change_tables,
     .may = PS_MAY_CHANGE,
     .changes = true},
    {.name = "TakeCheckpoint",
     .handle = ps_serve_take_checkpoint,
     .may = PS_MAY_CHANGE,
     .changes = true},
    {.name = "TraceJob", .handle = ps_serve_trace_job, .may = PS_MAY_CHANGE, .changes = true},
    {.name = "ExplainJob", .handle = ps_serve_explain_job, .may = PS_MAY_SEE, .changes = true},
    {.name = "ScaleJob", .handle = ps_serve_scale_job, .may = PS_MAY_CHANGE, .changes = true},
    {.name = "ListCheckpoints", .handle = ps_serve_list_checkpoints, .may = PS_MAY_SEE},
    {.name = "DeleteJob", .handle = ps_serve_delete_job, .may = PS_MAY_CHANGE, .changes = true},
    {.name = "WatchJob",
     .handle = ps_serve_watch_job,
     .may = PS_MAY_SEE | PS_MAY_COORDINATOR,
     .streams_out = true,
     .bounds_unread = true},
    {.name = "ReclaimLogs",
     .handle = ps_serve_reclaim_logs,
     .may = PS_MAY_SEE,
     .streams_out = true},
    {.name = "ListNodes", .handle = ps_serve_list_nodes, .may = PS_MAY_SEE},
    {.name = "GetNodeLog", .handle = ps_serve_get_node_log, .may = PS_MAY_ADMIN},
    {.name = "ListPresets", .handle = ps_serve_list_presets, .may = PS_MAY_SEE},
    {.name = "GetServerInfo", .handle = ps_serve_get_server_info, .may = PS_MAY_SEE},
    {.name = "RegisterNode", .handle = ps_serve_register_node, .may = PS_MAY_NODE, .changes = true},
    {.name = "Heartbeat", .handle = ps_serve_heartbeat, .may = PS_MAY_NODE},
    {.name = "Ready", .handle = ps_serve_ready, .may = PS_MAY_NODE},
    {.name = "TakePartition",
     .handle = ps_serve_take_partition,
     .may = PS_MAY_NODE,
     .max_bytes = PARTITION_MAX},
    {.name = "RenewCertificate",
     .handle = ps_serve_renew_certificate,
     .may = PS_MAY_NODE,
     .changes = true},
};

static void tell_audit(void *state, const ps_ended_call *end)
{
    const ps_coordinator *c = state;

    if (c->audit) { /* NULL: this coordinator does not lead; only the leader writes the file */
        ps_audit_add(c->audit, end);
    }
}

ps_service ps_coordinator_service(ps_coordinator *c)
{
    return (ps_service){.type = &psgd__v1__coordinator_service__descriptor,
                        .methods = methods,
                        .method_count = sizeof methods / sizeof *methods,
                        .state = c,
                        .audit = tell_audit};
}

void ps_refuse(ps_call *call, ps_code code, const char *reason, const char *job_id, const char *fmt,
               ...)
{
    char text[PS_STATUS_TEXT_BYTES];
    ps_error error;
    va_list ap;

    va_start(ap, fmt);
    ps_shorten_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    ps_error_init(&error, ps_fail(code, "%s", text), reason);
    if (job_id && job_id[0] != '\0') {
        ps_error_meta(&error, "job_id", "%.90s", job_id);
    }
    ps_call_fail_error(call, &error);
}

bool ps_speaks_for(ps_call *call, const char *node_id)
{
    const ps_principal *caller = ps_call_caller(call);

    if (caller->kind == PS_PRINCIPAL_NONE || strcmp(caller->name, node_id) == 0) {
        return true;
    }
    ps_refuse(call, PS_PERMISSION_DENIED, "WRONG_NODE", NULL,
              "node_id: %s; the certificate is of node/%s, which speaks for itself only",
              PS_SHORT(node_id, 80), caller->name);
    return false;
}

void ps_refuse_status(ps_call *call, const ps_status *st, const char *job_id)
{
    const char *reason = st->code == PS_NOT_FOUND           ? "JOB_NOT_FOUND"
                         : st->code == PS_PERMISSION_DENIED ? "NOT_OWNER"
                                                            : NULL;

    ps_refuse(call, st->code, reason, job_id, "%s", st->text);
}

bool ps_may_access(ps_call *call, const Psgd__V1__Job *job, ps_access what)
{
    ps_status st = ps_access_check(ps_call_caller(call), job, what);

    if (!ps_is_ok(&st)) {
        ps_refuse_status(call, &st, job->id);
    }
    return ps_is_ok(&st);
}

void ps_client_host(ps_call *call, char host[PS_CLIENT_HOST_MAX])
{
    const char *client = ps_call_peer(call), *colon = strrchr(client, ':');
    size_t n = colon ? (size_t)(colon - client) : strlen(client);

    snprintf(host, PS_CLIENT_HOST_MAX, "%.*s",
             n < PS_CLIENT_HOST_MAX ? (int)n : PS_CLIENT_HOST_MAX - 1, client);
}

static void held_gone(void *arg, ps_call *call)
{
    ps_held *held = arg;

    (void)call;
    held->call = NULL;
}

void ps_hold(ps_held *held, ps_coordinator *c, ps_call *call, const char *job_id)
{
    held->c = c;
    held->call = call;
    snprintf(held->job_id, sizeof held->job_id, "%.*s", PS_COORDINATOR_ID_MAX - 1, job_id);
    ps_call_on_gone(call, held_gone, held);
}

bool ps_may_wait(ps_tasks *tasks, ps_shares *shares, const char *what, ps_call *call, ps_held *held)
{
    char host[PS_CLIENT_HOST_MAX];

    ps_client_host(call, host);
    held->share = ps_tasks_has_room(tasks) ? ps_shares_enter(shares, host) : NULL;
    if (held->share) {
        return true;
    }
    ps_refuse(call, PS_RESOURCE_EXHAUSTED, NULL, NULL,
              "too many calls wait for the %s: %d of an address and %d of all are allowed; try "
              "again later",
              what, PS_SHARE_MAX, PS_SHARES_MAX);
    return false;
}

void ps_hold_for_read(ps_held *held, ps_coordinator *c, ps_call *call, const char *job_id,
                      ps_task *task)
{
    ps_hold(held, c, call, job_id);
    ps_tasks_submit(c->reads, &held->share->strand, task);
}

bool ps_page_size(ps_call *call, int32_t wanted, size_t *size)
{
    if (wanted < 0) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_PAGE_SIZE", NULL,
                  "page_size is %d; 0 to 1000 are allowed", (int)wanted);
        return false;
    }
    *size = wanted == 0 ? 50 : wanted > 1000 ? 1000 : (size_t)wanted;
    return true;
}

static uint32_t checksum(const char *position, size_t n)
{
    return (uint32_t)crc32(0x70736764, (const Bytef *)position, (uInt)n);
}

void ps_page_token_make(char token[PS_PAGE_TOKEN_MAX], const char *position)
{
    size_t n = strlen(position);

    assert(2 * n + 9 <= PS_PAGE_TOKEN_MAX);
    snprintf(token, 9, "%08x", checksum(position, n));
    for (size_t i = 0; i < n; i++) {
        snprintf(token + 8 + 2 * i, 3, "%02x", (unsigned)(unsigned char)position[i]);
    }
}

bool ps_page_token_read(const char *token, char *position, size_t cap)
{
    size_t n = strlen(token);
    unsigned sum, byte;

    position[0] = '\0';
    if (n == 0) {
        return true;
    }
    if (n < 10 || n % 2 != 0 || (n - 8) / 2 >= cap || strspn(token, "0123456789abcdef") != n ||
        sscanf(token, "%8x", &sum) != 1) {
        return false;
    }
    for (size_t i = 0; i < (n - 8) / 2; i++) {
        if (sscanf(token + 8 + 2 * i, "%2x", &byte) != 1) {
            return false;
        }
        position[i] = (char)byte;
    }
    position[(n - 8) / 2] = '\0';
    return strlen(position) == (n - 8) / 2 && checksum(position, strlen(position)) == sum;
}
