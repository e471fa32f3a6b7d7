/* SPDX-License-Identifier: Apache-2.0 */
/* certificate.c - see certificate.h. */
#include "common/pki/certificate.h"

#include "common/pki/certificate_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

ps_status ps_certificate_read(const char *what, const char *pem, size_t n, ps_certificate *out)
{
    X509 *certificate = NULL;
    ps_status st = n <= PS_PKI_FILE_MAX
                       ? ps_x509_read(what, pem, n, 0, &certificate)
                       : ps_fail(PS_INVALID_ARGUMENT, "%s: %zu bytes; at most %d are allowed", what,
                                 n, PS_PKI_FILE_MAX);

    if (ps_is_ok(&st) && certificate == NULL) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s: no certificate in PEM", what);
    }
    if (ps_is_ok(&st)) {
        st = ps_x509_facts(what, certificate, false, out);
    }
    X509_free(certificate);
    return st;
}

bool ps_fingerprint_is(const char *given, const char fingerprint[PS_FINGERPRINT_BYTES])
{
    if (strncasecmp(given, "SHA256:", 7) == 0) {
        given += 7;
    }
    for (;; given++, fingerprint++) {
        while (*given == ':') {
            given++;
        }
        while (*fingerprint == ':') {
            fingerprint++;
        }
        if (toupper((unsigned char)*given) != *fingerprint) {
            return false;
        }
        if (*given == '\0') {
            return true;
        }
    }
}

const char *ps_pki_time(int64_t seconds, char out[PS_PKI_TIME_BYTES])
{
    time_t t = (time_t)seconds;
    struct tm parts;

    if (gmtime_r(&t, &parts) == NULL ||
        strftime(out, PS_PKI_TIME_BYTES, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
        snprintf(out, PS_PKI_TIME_BYTES, "?");
    }
    return out;
}
