/* SPDX-License-Identifier: Apache-2.0 */
/* join_cluster.c - see join_cluster.h. */
#include "common/node/join_cluster.h"

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/pki/credentials.h"
#include "common/rpc/join_client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t call_us = 10000000;     /* timeout; the authority's folder may be locked 5 s */
static const int64_t patience_us = 20000000; /* no turn begins later; a new leader takes 10 s */
enum { PAUSE_MS = 1000 };                    /* between two turns, each over all coordinators */

/* Returns whether the folder has a valid certificate for the node that the token names, from the
 * authority whose fingerprint is in the token. */
static bool is_member(const ps_join_token *token, const char *tls_dir)
{
    char fingerprint[PS_FINGERPRINT_BYTES];
    ps_certificate own;
    ps_status st = ps_credentials_check(tls_dir, &own);

    if (ps_is_ok(&st)) {
        st = ps_credentials_fingerprint(tls_dir, fingerprint);
    }
    return ps_is_ok(&st) && ps_principal_is(&own.subject.who, token->who.kind, token->who.name) &&
           ps_fingerprint_is(token->fingerprint, fingerprint);
}

/* Asks one coordinator for a certificate, at the host of `address` and the port of the token. */
static ps_status ask(const ps_join_token *token, const char *address, const ps_strbuf *request,
                     ps_strbuf *answer)
{
    char at[PS_ADDRESS_TEXT_BYTES];
    ps_address a;
    ps_status st = ps_address_parse(address, "127.0.0.1", token->port, &a);

    if (ps_is_ok(&st)) {
        a.port = token->port;
        ps_address_format(&a, at);
        st = ps_join_call(at, token->fingerprint, ps_strbuf_text(request), request->len, call_us,
                          answer);
    }
    return st;
}

/* Asks each coordinator of the list once, until one grants the certificate or refuses it. The
 * certificate is *chain, within `answer`. */
static ps_status ask_each(const ps_join_token *token, const char *coordinators,
                          const ps_strbuf *request, ps_strbuf *answer, const char **chain,
                          size_t *chain_n)
{
    char one[PS_ADDRESS_TEXT_BYTES];
    ps_status st = ps_fail(PS_INVALID_ARGUMENT, "no coordinator to ask");

    while (coordinators[0] != '\0') {
        size_t n = strcspn(coordinators, ",");

        snprintf(one, sizeof one, "%.*s", (int)n, coordinators);
        ps_strbuf_clear(answer);
        st = ask(token, one, request, answer);
        if (ps_is_ok(&st)) {
            st = ps_join_read_answer(ps_strbuf_text(answer), answer->len, chain, chain_n);
        }
        if (st.code != PS_UNAVAILABLE) {
            break;
        }
        coordinators += n + (coordinators[n] == ',');
    }
    return st;
}

/* Asks all coordinators again and again, until one grants the certificate or refuses it, or
 * patience_us is over: no coordinator leads for a moment when the leader changes. The certificate
 * is *chain, within `answer`. */
static ps_status ask_any(const ps_join_token *token, const char *coordinators,
                         const ps_strbuf *request, ps_strbuf *answer, const char **chain,
                         size_t *chain_n)
{
    int64_t until_us = ps_clock_us() + patience_us;
    bool is_said = false;
    ps_status st;

    for (;;) {
        st = ask_each(token, coordinators, request, answer, chain, chain_n);
        if (st.code != PS_UNAVAILABLE || ps_clock_us() >= until_us) {
            return st;
        }
        if (!is_said) {
            ps_log(PS_LOG_INFO, "join", "%s; asks again for %d s", st.text,
                   (int)(patience_us / 1000000));
            is_said = true;
        }
        poll(NULL, 0, PAUSE_MS);
    }
}

ps_status ps_join_cluster(const ps_join_token *token, const char *coordinators, const char *tls_dir)
{
    const ps_subject subject = {.who = token->who};
    char until[PS_PKI_TIME_BYTES], *pem = NULL;
    const char *chain = NULL;
    size_t n = 0, chain_n = 0;
    ps_strbuf request = {0}, answer = {0};
    ps_credentials_paths at;
    ps_request made;
    ps_certificate own;
    ps_status st;

    if (is_member(token, tls_dir)) {
        ps_log(PS_LOG_INFO, "join", "%s has a certificate already; the join token is not used",
               PS_PATH_SHOWN(tls_dir));
        return ps_ok();
    }
    st = ps_credentials_find(tls_dir, &at);
    if (ps_is_ok(&st)) {
        st = ps_credentials_request(tls_dir, &subject, &made);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_read(at.request, PS_JOIN_MESSAGE_MAX / 2, &pem, &n);
    }
    if (ps_is_ok(&st)) {
        ps_join_put_request(&request, token->secret, pem, n);
        st = ask_any(token, coordinators, &request, &answer, &chain, &chain_n);
    }
    if (ps_is_ok(&st)) {
        st = ps_credentials_install(tls_dir, "the coordinator's answer", chain, chain_n,
                                    token->fingerprint, &own);
    }
    if (ps_is_ok(&st)) {
        ps_log(PS_LOG_INFO, "join", "joined as node/%s, certificate %s until %s, in %s",
               token->who.name, own.serial, ps_pki_time(own.not_after, until),
               PS_PATH_SHOWN(tls_dir));
    }
    ps_credentials_forget(request.data, request.data != NULL ? request.cap : 0);
    ps_strbuf_fini(&answer);
    free(pem);
    return st;
}
