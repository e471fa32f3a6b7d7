/* SPDX-License-Identifier: Apache-2.0 */
/* members.c - see members.h. */
#include "tests/support/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "members: %s\n", st.text);
        abort();
    }
}

void members_create(members *m, const char *folder)
{
    snprintf(m->folder, sizeof m->folder, "%s", folder);
    snprintf(m->pki, sizeof m->pki, "%s/pki", folder);
    must(ps_authority_create(m->pki, 86400, &m->root));
}

void members_join(const members *m, const char *principal, int64_t valid_s, char dir[256])
{
    const char *slash = strchr(principal, '/');
    ps_credentials_paths at;
    ps_subject subject = {0};
    ps_strbuf answer = {0};
    ps_certificate own;
    ps_request request;
    char *pem;
    size_t n;

    snprintf(dir, 256, "%s/%.*s-%s", m->folder, (int)(slash - principal), principal, slash + 1);
    must(ps_principal_parse(principal, &subject.who));
    must(ps_credentials_request(dir, &subject, &request));
    must(ps_credentials_find(dir, &at));
    must(ps_file_read(at.request, PS_PKI_FILE_MAX, &pem, &n));
    must(ps_authority_approve(m->pki, "request", pem, n, &subject.who, valid_s, &answer, &own));
    must(ps_credentials_install(dir, "answer", answer.data, answer.len, m->root.fingerprint, &own));
    ps_strbuf_fini(&answer);
    free(pem);
}
