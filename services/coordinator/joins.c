/* SPDX-License-Identifier: Apache-2.0 */
/* joins.c - see joins.h. Requests are answered on the thread of the listener, so a slow disk delays
 * only those who join. */
#include "services/coordinator/joins.h"

#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/pki/authority.h"
#include "common/pki/join.h"
#include "common/rpc/join_server.h"

#include <stdio.h>
#include <stdlib.h>

struct ps_joins {
    ps_coordinator *coordinator;
    ps_loop *loop;
    char pki[PS_PATH_MAX];
    int64_t life_s;
    ps_join_server *server;
};

/* Refuses a request to join for now, because this coordinator does not lead: only the leader has
 * the audit. */
static void put_off(ps_strbuf *out)
{
    const ps_status why = ps_fail(PS_UNAVAILABLE, "this coordinator does not lead now; the token "
                                                  "was not used");

    ps_join_put_refusal(out, &why);
}

/* A request that was answered, on its way to the audit. */
typedef struct answered {
    ps_event event;
    ps_coordinator *coordinator;
    ps_joined who;
    ps_status status;
    char from[80];
} answered;

static void note(ps_event *event, bool ok)
{
    answered *a = PS_CONTAINER_OF(event, answered, event);
    bool is_in = ps_is_ok(&a->status);
    char name[PS_PRINCIPAL_TEXT_BYTES];
    const ps_ended_call end = {
        .method = "Join",
        .caller = is_in ? &a->who.who : &(ps_principal){0},
        .credential = a->who.certificate.serial,
        .from = a->from,
        .about = a->who.who.kind != PS_PRINCIPAL_NONE ? ps_principal_text(&a->who.who, name) : "",
        .code = a->status.code,
        .reason = is_in ? "" : ps_code_name(a->status.code)};

    if (ok && a->coordinator->audit) {
        ps_audit_add(a->coordinator->audit, &end);
    }
    free(a);
}

static bool answer(void *arg, const char *from, const char *request, size_t n, ps_strbuf *out)
{
    ps_joins *joins = arg;
    answered *a;
    char who[PS_PRINCIPAL_TEXT_BYTES], until[PS_PKI_TIME_BYTES];
    bool is_in;

    if (!joins->coordinator->is_open) {
        put_off(out);
        return true;
    }
    a = ps_xcalloc(1, sizeof *a);
    a->event.fire = note;
    a->coordinator = joins->coordinator;
    snprintf(a->from, sizeof a->from, "%s:%s", from[0] == '[' ? "ipv6" : "ipv4", from);
    a->status = ps_join_answer(joins->pki, request, n, joins->life_s, out, &a->who);
    is_in = ps_is_ok(&a->status);
    if (is_in) {
        ps_log(PS_LOG_INFO, "join", "%s joins from %s, certificate %s until %s",
               ps_principal_text(&a->who.who, who), from, a->who.certificate.serial,
               ps_pki_time(a->who.certificate.not_after, until));
    } else {
        ps_log(PS_LOG_WARN, "join", "a request to join from %s is refused: %s", from,
               a->status.text);
    }
    ps_loop_post(joins->loop, &a->event);
    return is_in;
}

ps_status ps_joins_start(ps_coordinator *c, const char *listen, const char *tls_dir, ps_joins **out)
{
    ps_joins *joins = ps_xcalloc(1, sizeof *joins);
    ps_join_conf conf = {.listen = listen, .tls_dir = tls_dir, .answer = answer, .arg = joins};
    char fingerprint[PS_FINGERPRINT_BYTES];
    ps_status st = ps_wrap(ps_authority_fingerprint(c->conf.pki, fingerprint), "--pki");

    joins->coordinator = c;
    joins->loop = c->loop;
    joins->life_s = c->conf.cert_life_s;
    if (ps_is_ok(&st)) {
        snprintf(joins->pki, sizeof joins->pki, "%s", c->conf.pki);
        st = ps_wrap(ps_join_server_start(&conf, &joins->server), "--join-listen");
    }
    if (!ps_is_ok(&st)) {
        free(joins);
        return st;
    }
    ps_log(PS_LOG_INFO, "join", "nodes may join on port %d, by tokens of 'psgd pki token'",
           ps_joins_port(joins));
    *out = joins;
    return ps_ok();
}

int ps_joins_port(const ps_joins *joins)
{
    return ps_join_server_port(joins->server);
}

void ps_joins_stop(ps_joins *joins)
{
    if (joins) {
        ps_join_server_stop(joins->server);
        free(joins);
    }
}
