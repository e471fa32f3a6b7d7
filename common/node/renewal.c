/* SPDX-License-Identifier: Apache-2.0 */
/* renewal.c - keeps a node's certificate valid: asks the coordinator for another, for a new key,
 * after two thirds of its life.
 *
 * The call has a connection of its own. A connection keeps the certificate with which it began.
 * When a job takes a week, the certificate on the link to the coordinator may have ended long ago.
 * On a new connection the coordinator sees the certificate that is to be renewed.
 *
 * Files are read and written by tasks. 'psgd pki install' may change them at any time, so they are
 * read anew whenever the node looks whether a renewal is due.
 */
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/node/node_impl.h"
#include "common/pki/credentials.h"
#include "common/rpc/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_S = 3600, RETRY_MAX_S = 600, RETRY_UNREAD_S = 5 };
static const int64_t call_timeout_us = 10000000;

struct ps_renewal {
    ps_node *node;
    char *dir;
    ps_timer timer;
    ps_channel *channel; /* NULL: no call is in progress */
    ps_unary *call;
    bool is_closed;
    char said[PS_STATUS_TEXT_BYTES]; /* the last warning: the same one is not logged again */

    /* The task in progress (is_busy), `look` or `install`, and what it has found. */
    ps_task task;
    bool is_busy, is_due;
    ps_certificate own;
    char *text; /* the request that `look` made, or the answer that `install` installs */
    ps_status status;
};

/* Returns the seconds from the certificate's issue to its end, at least 3. It was issued
 * PS_PKI_EARLY_S after not_before. */
static int64_t life_s(const ps_certificate *own)
{
    int64_t life = own->not_after - own->not_before - PS_PKI_EARLY_S;

    return life > 3 ? life : 3;
}

/* Returns the seconds until a third of the certificate's life is left and it is to be renewed; 0 or
 * less: now. */
static int64_t left_s(const ps_certificate *own)
{
    return own->not_after - life_s(own) / 3 - (int64_t)time(NULL);
}

static void forget_text(ps_renewal *r)
{
    free(r->text);
    r->text = NULL;
}

static void try_free(ps_renewal *r)
{
    ps_node *node = r->node;

    if (!r->is_closed || r->is_busy || r->call != NULL) {
        return;
    }
    forget_text(r);
    free(r->dir);
    free(r);
    ps_node_gone(node);
}

static void look_after(ps_renewal *r, int64_t seconds)
{
    ps_loop_after(r->node->loop, &r->timer,
                  (seconds < 1        ? 1
                   : seconds > LOOK_S ? LOOK_S
                                      : seconds) *
                      INT64_C(1000000));
}

/* Logs why the certificate was not renewed, unless that was logged last. Tries again after a
 * fifteenth of its life, at least a second and at most RETRY_MAX_S; after RETRY_UNREAD_S if it
 * could not be read. */
static void failed(ps_renewal *r, const char *why)
{
    char until[PS_PKI_TIME_BYTES];
    bool is_read = r->own.not_after != 0;
    int64_t pause_s = is_read ? life_s(&r->own) / 15 : RETRY_UNREAD_S;

    if (strcmp(why, r->said) != 0) {
        snprintf(r->said, sizeof r->said, "%s", why);
        ps_log(PS_LOG_WARN, "tls",
               "the certificate, valid until %s, is not renewed: %s; tries again",
               is_read ? ps_pki_time(r->own.not_after, until) : "an unknown time", why);
    }
    look_after(r, pause_s < RETRY_MAX_S ? pause_s : RETRY_MAX_S);
}

static void start_task(ps_renewal *r, void (*run)(ps_task *), void (*done)(ps_task *))
{
    r->task = (ps_task){.run = run, .done = done};
    r->is_busy = true;
    ps_tasks_submit(r->node->log_tasks, NULL, &r->task);
}

/* --- installing ----------------------------------------------------------------------------- */

static void install(ps_task *task)
{
    ps_renewal *r = PS_CONTAINER_OF(task, ps_renewal, task);

    r->status = ps_credentials_install(r->dir, "the coordinator's answer", r->text, strlen(r->text),
                                       NULL, &r->own);
}

static void installed(ps_task *task)
{
    ps_renewal *r = PS_CONTAINER_OF(task, ps_renewal, task);
    char until[PS_PKI_TIME_BYTES];

    r->is_busy = false;
    forget_text(r);
    if (r->is_closed) {
        try_free(r);
    } else if (!task->was_run || !ps_is_ok(&r->status)) {
        failed(r, r->status.text);
    } else {
        r->said[0] = '\0';
        ps_log(PS_LOG_INFO, "tls", "has a new certificate %s until %s", r->own.serial,
               ps_pki_time(r->own.not_after, until));
        look_after(r, left_s(&r->own));
    }
}

/* --- asking ----------------------------------------------------------------------------------- */

static void answered(void *arg, const ps_error *error, const ProtobufCMessage *message)
{
    const Psgd__V1__RenewCertificateResponse *reply = (const void *)message;
    ps_renewal *r = arg;

    r->call = NULL;
    ps_channel_destroy(r->channel);
    r->channel = NULL;
    if (r->is_closed) {
        try_free(r);
    } else if (!ps_is_ok(&error->status)) {
        failed(r, error->status.text);
    } else {
        r->text = ps_xstrdup(reply->answer);
        start_task(r, install, installed);
    }
}

static void ask(ps_renewal *r)
{
    Psgd__V1__RenewCertificateRequest request = PSGD__V1__RENEW_CERTIFICATE_REQUEST__INIT;

    request.node_id = r->node->node_id;
    request.request = r->text;
    r->channel = ps_channel_create(r->node->loop, ps_link_address(r->node->home));
    ps_channel_expect(r->channel, PS_PRINCIPAL_COORDINATOR, "");
    r->call = ps_unary_start(r->channel, &psgd__v1__coordinator_service__descriptor,
                             "RenewCertificate", &request.base, call_timeout_us, answered, r);
    forget_text(r);
}

/* Reads the certificate. If its renewal is due, sets is_due and makes a key and a request. */
static void look(ps_task *task)
{
    ps_renewal *r = PS_CONTAINER_OF(task, ps_renewal, task);
    ps_credentials_paths at;
    ps_request made;
    size_t n = 0;

    r->is_due = false;
    r->status = ps_credentials_check(r->dir, &r->own);
    if (!ps_is_ok(&r->status) || left_s(&r->own) > 0) {
        return;
    }
    r->is_due = true;
    r->status = ps_credentials_find(r->dir, &at);
    if (ps_is_ok(&r->status)) {
        r->status = ps_credentials_request(r->dir, &r->own.subject, &made);
    }
    if (ps_is_ok(&r->status)) {
        r->status = ps_file_read(at.request, PS_PKI_FILE_MAX, &r->text, &n);
    }
}

static void looked(ps_task *task)
{
    ps_renewal *r = PS_CONTAINER_OF(task, ps_renewal, task);

    r->is_busy = false;
    if (r->is_closed) {
        try_free(r);
    } else if (!task->was_run || !ps_is_ok(&r->status)) {
        failed(r, r->status.text);
    } else if (r->is_due) {
        ask(r);
    } else {
        look_after(r, left_s(&r->own));
    }
}

static void its_time(ps_event *event, bool ok)
{
    ps_renewal *r = PS_CONTAINER_OF(event, ps_renewal, timer.event);

    if (ok && !r->is_closed && !r->is_busy && r->call == NULL) {
        start_task(r, look, looked);
    }
}

/* --- life ---------------------------------------------------------------------------------------
 */

ps_renewal *ps_renewal_start(ps_node *node, const char *dir)
{
    ps_renewal *r = ps_xcalloc(1, sizeof *r);

    r->node = node;
    node->alive++;
    r->dir = ps_xstrdup(dir);
    r->timer.event.fire = its_time;
    ps_loop_after(node->loop, &r->timer, 0);
    return r;
}

void ps_renewal_stop(ps_renewal *r)
{
    if (r == NULL) {
        return;
    }
    r->is_closed = true;
    ps_loop_cancel(r->node->loop, &r->timer);
    if (r->call != NULL) {
        ps_unary_cancel(r->call);
    }
    try_free(r);
}
