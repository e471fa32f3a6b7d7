/* SPDX-License-Identifier: Apache-2.0 */
/* https.h - the certificate of the HTTP servers of a process: identity.pem of its --tls-dir, by
 * GnuTLS, which libmicrohttpd brings.
 *
 * The file is read again when it changes, within a second. Connections that are open stay open.
 */
#ifndef PS_COMMON_OPS_HTTPS_H
#define PS_COMMON_OPS_HTTPS_H

#include "common/base/status.h"

#include <stdint.h>

/* What servers and clients may agree on: TLS 1.2 and 1.3, ciphers of at least 128 bits. */
#define PS_HTTPS_PRIORITIES                                                                        \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA"

/* Loads GnuTLS and reads identity.pem in `dir`. A process has one such folder. Fails with
 * FAILED_PRECONDITION; the text begins with `flag`. */
PS_MUST_USE ps_status ps_https_load(const char *flag, const char *dir);

/* Returns the function that gives a handshake the certificate: MHD_OPTION_HTTPS_CERT_CALLBACK. */
intptr_t ps_https_certificate(void);

#endif
