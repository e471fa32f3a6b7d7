/* SPDX-License-Identifier: Apache-2.0 */
/* tls_impl.h - mutual TLS in the form that gRPC uses. Private to common/rpc. */
#ifndef PS_COMMON_RPC_TLS_IMPL_H
#define PS_COMMON_RPC_TLS_IMPL_H

#include "common/pki/tokens.h"
#include "common/rpc/tls.h"

#include <grpc/grpc_security.h>

/* Whom a channel expects at the other end, and why the last server there was not accepted. Used by
 * the channel and by gRPC's threads. */
typedef struct ps_tls_expected ps_tls_expected;

/* Returns credentials of a server, which the caller releases. */
grpc_server_credentials *ps_tls_server_credentials(ps_tls *tls);

/* Returns credentials of a channel, which the caller releases. is_guest: the channel does not show
 * the program's own certificate. Until ps_tls_expect is called, no server is accepted. The caller
 * releases *expected by ps_tls_expected_release. */
grpc_channel_credentials *ps_tls_channel_credentials(ps_tls *tls, bool is_guest,
                                                     ps_tls_expected **expected);

/* Sets whom the channel expects; an empty name stands for any of the kind. */
void ps_tls_expect(ps_tls_expected *expected, ps_principal_kind kind, const char *name);

/* Writes why the last server was not accepted; "" if none was refused. */
enum { PS_TLS_PROBLEM_BYTES = PS_STATUS_TEXT_BYTES };
void ps_tls_problem(ps_tls_expected *expected, char out[PS_TLS_PROBLEM_BYTES]);

void ps_tls_expected_release(ps_tls_expected *expected);

/* Finds out who is at the other end of a call: whom the certificate of its connection names or, if
 * there is none, to whom a token in the call's metadata belongs. Returns UNAUTHENTICATED if the
 * certificate names nobody or was revoked, or if the token is not known or has ended. */
PS_MUST_USE ps_status ps_tls_caller(ps_tls *tls, grpc_call *call,
                                    const grpc_metadata_array *metadata, ps_tls_identity *out);

/* Checks that a caller who was accepted before would be accepted now. Returns UNAUTHENTICATED as
 * ps_tls_caller does. */
PS_MUST_USE ps_status ps_tls_check_identity(ps_tls *tls, const ps_tls_identity *identity);

/* Returns whether ps_tls_check_identity may refuse anybody now. */
bool ps_tls_may_refuse(ps_tls *tls);

/* Logs that the handshake failed whose bytes this thread has just read, with the address of the
 * client. At most 10 lines in 10 s; further failures are only counted. */
void ps_tls_note_failed(const char *why);

/* Suppresses the log's lines about failed handshakes with servers in this process, because the
 * caller says what is wrong; false: no longer. */
void ps_tls_hush(bool is_hushed);

/* Logs once that gRPC could not read the certificates again, until they can be read. */
void ps_tls_note_unread(void);

/* Checks a certificate, in PEM, that gRPC has verified: it must not be revoked, and must name the
 * kind and name that a channel expects (kind NONE: anybody). Returns UNAUTHENTICATED if not. */
PS_MUST_USE ps_status ps_tls_check_peer(ps_tls *tls, const char *pem, ps_principal_kind kind,
                                        const char *name, ps_principal *out);

#endif
