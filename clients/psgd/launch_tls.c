/* SPDX-License-Identifier: Apache-2.0 */
/* launch_tls.c - see launch_tls.h. */
#include "clients/psgd/launch_tls.h"

#include "common/pki/credentials.h"

#include <stdlib.h>
#include <string.h>

/* Certificates are valid for ten years, longer than any job takes. They are of no use after the
 * launch, as the authority's folder is removed when the launch ends. */
static const int64_t valid_s = (int64_t)3650 * 86400;

ps_status ps_launch_tls_answer(const ps_launch_tls *tls, const char *who, const char *pem,
                               ps_strbuf *answer)
{
    ps_certificate issued;
    ps_principal principal;
    ps_status st = ps_principal_parse(who, &principal);

    return ps_is_ok(&st) ? ps_authority_approve(tls->pki, "request", pem, strlen(pem), &principal,
                                                valid_s, answer, &issued)
                         : st;
}

ps_status ps_launch_tls_make(const char *folder, ps_launch_tls *out)
{
    static const char who[] = "admin/launcher";
    ps_credentials_paths paths;
    ps_subject subject = {0};
    ps_certificate certificate;
    ps_strbuf answer = {0};
    ps_request request;
    char *pem = NULL;
    size_t n = 0;
    ps_status st = ps_path_join(out->pki, sizeof out->pki, folder, "pki");

    if (ps_is_ok(&st)) {
        st = ps_path_join(out->own, sizeof out->own, folder, "launcher-tls");
    }
    if (ps_is_ok(&st)) {
        st = ps_authority_create(out->pki, valid_s, &certificate);
    }
    if (ps_is_ok(&st)) {
        memcpy(out->fingerprint, certificate.fingerprint, sizeof out->fingerprint);
        st = ps_principal_parse(who, &subject.who);
    }
    if (ps_is_ok(&st)) {
        st = ps_credentials_request(out->own, &subject, &request);
    }
    if (ps_is_ok(&st)) {
        st = ps_credentials_find(out->own, &paths);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_read(paths.request, PS_PKI_FILE_MAX, &pem, &n);
    }
    if (ps_is_ok(&st)) {
        st = ps_launch_tls_answer(out, who, pem, &answer);
    }
    if (ps_is_ok(&st)) {
        st = ps_credentials_install(out->own, "certificate", answer.data, answer.len,
                                    out->fingerprint, &certificate);
    }
    free(pem);
    ps_strbuf_fini(&answer);
    return ps_wrap(st, "the authority of this launch");
}
