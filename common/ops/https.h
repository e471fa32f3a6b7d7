/* SPDX-License-Identifier: Apache-2.0 */
/* https.h - certificates for a process's HTTP servers and of their clients, from the files in its
 * --tls-dir, by GnuTLS, which libmicrohttpd loads.
 *
 * identity.pem is read again when it changes, within a second; open connections stay open. Clients
 * are asked for a certificate of the authority that root.pem had at the start; they need not have
 * one. */
#ifndef PS_COMMON_OPS_HTTPS_H
#define PS_COMMON_OPS_HTTPS_H

#include "common/rpc/tls.h"

/* What servers and clients may agree on: TLS 1.2 and 1.3, ciphers of at least 128 bits. */
#define PS_HTTPS_PRIORITIES                                                                        \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA"

/* Loads GnuTLS and reads identity.pem and root.pem in `dir`. A process has one such folder. Fails
 * with FAILED_PRECONDITION; the text begins with `flag`. */
PS_MUST_USE ps_status ps_https_load(const char *flag, const char *dir);

/* Returns the function by which a handshake gets the server's certificate, for
 * MHD_OPTION_HTTPS_CERT_CALLBACK. */
intptr_t ps_https_certificate(void);

/* Returns the authorities from which client certificates are accepted, as PEM, for
 * MHD_OPTION_HTTPS_MEM_TRUST. */
const char *ps_https_roots(void);

/* Reads whom the client's certificate names, in a session of GnuTLS. Returns NOT_FOUND if the
 * client has no certificate; else fails as ps_tls_identify does. */
PS_MUST_USE ps_status ps_https_client(void *session, ps_tls *tls, ps_tls_identity *out);

#endif
