/* SPDX-License-Identifier: Apache-2.0 */
/* certificate.h - what an X.509 certificate of psgd says.
 *
 * A certificate names one principal (the URI psgd://KIND/NAME among its alternative names) and the
 * hosts at which it may be reached. The root certificate of an authority names no principal. Keys
 * are P-256. Everything that is read comes from outside, so it is bounded, and errors say what is
 * allowed. Any thread. */
#ifndef PS_COMMON_PKI_CERTIFICATE_H
#define PS_COMMON_PKI_CERTIFICATE_H

#include "common/pki/principal.h"

#include <stddef.h>
#include <stdint.h>

enum {
    /* most bytes of a file of certificates; a list of revoked certificates may have
     * PS_CRL_FILE_MAX */
    PS_PKI_FILE_MAX = 64 << 10,
    /* most bytes of a list of revoked certificates, about 100,000 of them */
    PS_CRL_FILE_MAX = 4 << 20,
    /* certificates begin this many seconds before they are issued, for clocks that are late */
    PS_PKI_EARLY_S = 300,
    PS_PKI_HOSTS_MAX = 16,
    PS_PKI_HOST_BYTES = 254,  /* the longest DNS name and the NUL */
    PS_PKI_SERIAL_BYTES = 41, /* 20 bytes in hexadecimal and the NUL */
    PS_FINGERPRINT_BYTES = 96 /* 32 bytes as AB:CD:... and the NUL */
};

/* The principal that a certificate or request names, and the hosts at which it may be reached. */
typedef struct ps_subject {
    ps_principal who;
    size_t host_count;
    char hosts[PS_PKI_HOSTS_MAX][PS_PKI_HOST_BYTES]; /* DNS names, IPv4 and IPv6 addresses */
} ps_subject;

typedef struct ps_certificate {
    ps_subject subject;
    char serial[PS_PKI_SERIAL_BYTES];       /* upper-case hexadecimal */
    char fingerprint[PS_FINGERPRINT_BYTES]; /* SHA-256 of the certificate, as openssl prints it */
    int64_t not_before, not_after;          /* seconds since 1970 */
} ps_certificate;

/* Adds a host to a subject. Returns INVALID_ARGUMENT if it is neither a DNS name nor an address, or
 * if there are PS_PKI_HOSTS_MAX already. */
PS_MUST_USE ps_status ps_subject_add_host(ps_subject *subject, const char *host);

/* Reads the first certificate in `n` bytes of PEM, which must name a principal. Texts of errors
 * begin with `what`. Returns INVALID_ARGUMENT if it cannot be read. */
PS_MUST_USE ps_status ps_certificate_read(const char *what, const char *pem, size_t n,
                                          ps_certificate *out);

/* Returns whether a fingerprint that a person typed is that of the certificate: in upper or lower
 * case, with or without colons and "SHA256:". */
bool ps_fingerprint_is(const char *given, const char fingerprint[PS_FINGERPRINT_BYTES]);

/* Writes seconds since 1970 as "2026-11-22 17:30:00 UTC". Returns `out`. */
enum { PS_PKI_TIME_BYTES = 32 };
const char *ps_pki_time(int64_t seconds, char out[PS_PKI_TIME_BYTES]);

#endif
