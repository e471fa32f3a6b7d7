/* SPDX-License-Identifier: Apache-2.0 */
/* service_certificates.c - RenewCertificate: a node with a certificate gets another. A task issues
 * it, with the authority of --pki. */
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/pki/authority.h"
#include "common/pki/join.h"
#include "services/coordinator/api/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most bytes of an answer: with more, the revocation lists are left out, as gRPC bounds
 * messages. */
enum { ANSWER_MAX = 3 << 20 };

typedef struct renewal {
    ps_task task;
    ps_held held;
    char node_id[PS_NODES_ID_MAX], serial[PS_PKI_SERIAL_BYTES];
    char *request;
    size_t n;
    ps_strbuf answer;
    ps_certificate certificate;
    ps_status status;
} renewal;

static void issue(ps_task *task)
{
    renewal *r = PS_CONTAINER_OF(task, renewal, task);
    const ps_coordinator_conf *conf = &r->held.c->conf;
    const char *crl;

    r->status = ps_authority_renew(conf->pki, "request", r->request, r->n, r->serial,
                                   conf->cert_life_s, &r->answer, &r->certificate);
    if (ps_is_ok(&r->status) && r->answer.len > ANSWER_MAX) {
        crl = strstr(ps_strbuf_text(&r->answer), "-----BEGIN X509 CRL");
        ps_strbuf_truncate(&r->answer, (size_t)(crl - r->answer.data));
    }
}

static void issued(ps_task *task)
{
    Psgd__V1__RenewCertificateResponse reply = PSGD__V1__RENEW_CERTIFICATE_RESPONSE__INIT;
    renewal *r = PS_CONTAINER_OF(task, renewal, task);
    ps_node_entry *node = ps_nodes_find(&r->held.c->nodes, r->node_id);

    if (!task->was_run) {
        r->status = ps_fail(PS_UNAVAILABLE, "the coordinator is being stopped");
    }
    if (ps_is_ok(&r->status) && node) {
        node->certificate_ends_s = r->certificate.not_after;
        ps_log_with(PS_LOG_INFO, "nodes", PS_LOG_FIELDS(PS_LOG_STR("node", r->node_id)),
                    "certificate %s is followed by %s", r->serial, r->certificate.serial);
    } else if (!ps_is_ok(&r->status)) {
        ps_log_with(PS_LOG_WARN, "nodes", PS_LOG_FIELDS(PS_LOG_STR("node", r->node_id)),
                    "certificate %s is not renewed: %s", r->serial, r->status.text);
    }
    if (r->held.call && ps_is_ok(&r->status)) {
        reply.answer = (char *)ps_strbuf_text(&r->answer);
        ps_call_reply(r->held.call, &reply.base);
    } else if (r->held.call) {
        ps_refuse(r->held.call, r->status.code, "NOT_RENEWED", NULL, "%s", r->status.text);
    }
    ps_strbuf_fini(&r->answer);
    free(r->request);
    free(r);
}

/* Returns OK, or why the node may not ask for a certificate now. */
static ps_status check(ps_coordinator *c, const ps_node_entry *node, const ps_call *call, size_t n)
{
    int64_t pause_us = c->conf.cert_life_s * 1000000 / 20;

    if (ps_call_caller(call)->kind == PS_PRINCIPAL_NONE) {
        return ps_fail(PS_FAILED_PRECONDITION, "without TLS there are no certificates");
    }
    if (!c->conf.pki || c->conf.pki[0] == '\0') {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "this coordinator has no authority (--pki), so it renews no certificates; "
                       "'psgd pki renew' asks for one by hand");
    }
    if (!node) {
        return ps_fail(PS_FAILED_PRECONDITION, "the node is not registered");
    }
    if (n > PS_JOIN_MESSAGE_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "request: %zu bytes; at most %d are allowed", n,
                       PS_JOIN_MESSAGE_MAX);
    }
    if (node->renewed_us != 0 && ps_coordinator_now_us(c) - node->renewed_us < pause_us) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "the node asked less than %lld s ago, a twentieth of --node-cert-life",
                       (long long)(pause_us / 1000000));
    }
    return ps_tasks_has_room(c->tasks)
               ? ps_ok()
               : ps_fail(PS_RESOURCE_EXHAUSTED, "too many calls wait for the disk");
}

void ps_serve_renew_certificate(void *service, const ProtobufCMessage *request, ps_payload *payload,
                                ps_call *call)
{
    const Psgd__V1__RenewCertificateRequest *q = (const void *)request;
    ps_coordinator *c = service;
    ps_node_entry *node = ps_nodes_find(&c->nodes, q->node_id);
    renewal *r;
    ps_status st;

    (void)payload;
    ps_call_about(call, q->node_id);
    if (!ps_speaks_for(call, q->node_id)) {
        return;
    }
    st = check(c, node, call, strlen(q->request));
    if (!ps_is_ok(&st)) {
        ps_refuse(call, st.code, "NOT_RENEWED", NULL, "%s", st.text);
        return;
    }
    node->renewed_us = ps_coordinator_now_us(c);
    r = ps_xcalloc(1, sizeof *r);
    r->task.run = issue;
    r->task.done = issued;
    r->n = strlen(q->request);
    r->request = ps_xstrdup(q->request);
    snprintf(r->node_id, sizeof r->node_id, "%s", node->id);
    snprintf(r->serial, sizeof r->serial, "%s", ps_call_credential(call));
    ps_hold(&r->held, c, call, "");
    ps_tasks_submit(c->tasks, &c->renewals, &r->task);
}
