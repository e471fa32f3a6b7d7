/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_pki.c - any bytes as a request, and as a certificate.
 *
 * What is read must be what the rooms' rules allow: a principal that reads back from its own text,
 * and hosts that could be added again.
 */
#include "common/pki/request.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const ps_subject *subject)
{
    char uri[PS_PRINCIPAL_URI_BYTES];
    ps_principal again;
    ps_subject copy = {0};
    ps_status st = ps_principal_parse_uri(ps_principal_uri(&subject->who, uri), &again);

    if (!ps_is_ok(&st) || !ps_principal_is(&again, subject->who.kind, subject->who.name)) {
        abort();
    }
    for (size_t i = 0; i < subject->host_count; i++) {
        st = ps_subject_add_host(&copy, subject->hosts[i]);
        if (!ps_is_ok(&st)) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *pem = malloc(size + 1);
    ps_certificate certificate;
    ps_request request;
    ps_status st;

    if (pem == NULL) {
        abort();
    }
    memcpy(pem, data, size);
    pem[size] = '\0';
    st = ps_request_read("request", pem, size, &request);
    if (ps_is_ok(&st)) {
        check(&request.subject);
    }
    st = ps_certificate_read("certificate", pem, size, &certificate);
    if (ps_is_ok(&st)) {
        check(&certificate.subject);
    }
    free(pem);
    return 0;
}
