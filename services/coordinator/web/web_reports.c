/* SPDX-License-Identifier: Apache-2.0 */
/* web_reports.c - reads the reports of jobs that are over, for their curves.
 *
 * The reports come as they come to users, by ReclaimLogs, a piece at a time, and only their points
 * are kept. One job is read at a time: all requests for its curves wait for that, and others for
 * their turn. So memory and the load on the coordinator do not depend on how many pages are open.
 */
#include "services/coordinator/web/web_impl.h"

#include "common/base/xalloc.h"
#include "psgd/v1/coordinator.pb-c.h"
#include "services/coordinator/domain/job_message.h"

#include <stdlib.h>
#include <string.h>

static const int64_t report_us = 60 * 1000000LL;

enum { PIECE_BYTES = 1 << 20 };

static const char *job_of(const ps_web_request *r)
{
    return ((const Psgd__V1__GetJobRequest *)r->message)->job_id;
}

/* Ends the reading, and answers all who waited for it. */
static void finish(ps_web *web, bool is_whole)
{
    char *job_id = web->reader_id;
    ps_web_request *next;

    if (is_whole) {
        ps_curves_put(web->curves, web->reader);
    } else {
        ps_curve_reader_destroy(web->reader);
    }
    web->reader = NULL;
    web->reader_id = NULL;
    for (ps_web_request *r = web->requests; r; r = next) {
        next = r->next;
        if (r->awaits_reports && strcmp(job_of(r), job_id) == 0) {
            ps_web_answer_curves(r);
        }
    }
    free(job_id);
    explicit_bzero(web->reader_token, sizeof web->reader_token);
    for (size_t i = 0; i < PS_CURVE_PARTS; i++) {
        free(web->reports[i]);
        web->reports[i] = NULL;
    }
    ps_web_read_reports(web);
}

static void on_piece(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_web *web = arg;
    size_t n = ps_payload_len(payload);
    uint8_t *scratch = ps_xmalloc(n + 1);

    (void)head;
    if (ps_curve_reader_take(web->reader, ps_payload_view(payload, 0, n, scratch), n)) {
        ps_stream_read(web->report);
    } else {
        ps_stream_cancel(web->report); /* the file is no report of psgd */
    }
    free(scratch);
}

static void read_part(ps_web *web);

static void on_end(void *arg, const ps_error *error)
{
    ps_web *web = arg;

    web->report = NULL;
    if (ps_is_ok(&error->status) && !web->is_draining) {
        read_part(web);
    } else {
        finish(web, false); /* those who wait get the curve that take_present has made, if any */
    }
}

/* Begins to read the job's next report; if none is left, finishes. */
static void read_part(ps_web *web)
{
    static const ps_stream_events events = {.on_message = on_piece, .on_end = on_end};
    Psgd__V1__ReclaimLogsRequest request = PSGD__V1__RECLAIM_LOGS_REQUEST__INIT;
    size_t part = 0;

    while (part < PS_CURVE_PARTS && !web->reports[part]) {
        part++;
    }
    if (part == PS_CURVE_PARTS) {
        finish(web, true);
        return;
    }
    ps_channel_bring(web->channel, web->reader_token);
    ps_curve_reader_begin(web->reader, (ps_curve_part)part);
    request.job_id = web->reader_id;
    request.name = web->reports[part];
    web->report = ps_stream_open(web->channel, web->service->type, "ReclaimLogs", report_us,
                                 PIECE_BYTES, &events, web);
    ps_stream_send(web->report, &request.base, NULL, 0);
    ps_stream_half_close(web->report);
    free(web->reports[part]);
    web->reports[part] = NULL;
    ps_stream_read(web->report);
}

void ps_web_read_reports(ps_web *web)
{
    ps_web_request *r = web->requests;

    while (r && !r->awaits_reports) {
        r = r->next;
    }
    if (!r || web->reader || web->is_draining) {
        return;
    }
    web->reader_id = ps_xstrdup(job_of(r));
    web->reader = ps_curve_reader_create(web->reader_id);
    memcpy(web->reports, r->reports, sizeof web->reports);
    memset(r->reports, 0, sizeof r->reports);
    memcpy(web->reader_token, r->token, sizeof web->reader_token);
    read_part(web);
}

void ps_web_take_job(ps_web_request *r, const Psgd__V1__Job *job)
{
    static const char *const names[PS_CURVE_PARTS][2] = {
        {"TR-", "-N(0).csv"}, {"EV-", "-N(0).csv"}, {"ROUND-", ".csv"}};

    for (size_t i = 0; i < job->n_artifacts; i++) {
        const char *name = job->artifacts[i]->name;
        size_t n = strlen(name);

        for (size_t part = 0; part < PS_CURVE_PARTS; part++) {
            size_t first = strlen(names[part][0]), last = strlen(names[part][1]);

            if (!r->reports[part] && n > first + last &&
                strncmp(name, names[part][0], first) == 0 &&
                strcmp(name + n - last, names[part][1]) == 0) {
                r->reports[part] = ps_xstrdup(name);
            }
        }
    }
    if (ps_state_is_final(job->state) && r->reports[PS_CURVE_TRAINING] &&
        !ps_curves_is_whole(r->web->curves, job->id)) {
        r->awaits_reports = true;
        ps_web_read_reports(r->web);
    } else {
        ps_web_answer_curves(r);
    }
}
