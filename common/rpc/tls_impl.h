/* SPDX-License-Identifier: Apache-2.0 */
/* tls_impl.h - TLS as gRPC takes it. Private to common/rpc. */
#ifndef PS_COMMON_RPC_TLS_IMPL_H
#define PS_COMMON_RPC_TLS_IMPL_H

#include "common/pki/tokens.h"
#include "common/rpc/tls.h"

#include <grpc/grpc_security.h>

/* Whom a channel expects at the other end, and why the last one there was not taken. Shared by the
 * channel and gRPC's threads. */
typedef struct ps_tls_expected ps_tls_expected;

/* Returns credentials of a server, which the caller releases. */
grpc_server_credentials *ps_tls_server_credentials(ps_tls *tls);

/* Returns credentials of a channel, which the caller releases; is_guest: without the program's own
 * certificate. Until ps_tls_expect nobody is taken. *expected is released by
 * ps_tls_expected_release. */
grpc_channel_credentials *ps_tls_channel_credentials(ps_tls *tls, bool is_guest,
                                                     ps_tls_expected **expected);

/* Sets whom the channel expects; an empty name stands for any of the kind. */
void ps_tls_expect(ps_tls_expected *expected, ps_principal_kind kind, const char *name);

/* Writes why the last one was not taken, "" if nobody was refused. */
enum { PS_TLS_PROBLEM_BYTES = PS_STATUS_TEXT_BYTES };
void ps_tls_problem(ps_tls_expected *expected, char out[PS_TLS_PROBLEM_BYTES]);

void ps_tls_expected_release(ps_tls_expected *expected);

/* Reads who is at the other end of a call: from the certificate of its connection, or if it has
 * none from a token among the call's metadata. Fails with UNAUTHENTICATED if the certificate names
 * nobody or was revoked, or if the token is not known or has ended. */
PS_MUST_USE ps_status ps_tls_caller(ps_tls *tls, grpc_call *call,
                                    const grpc_metadata_array *metadata, ps_tls_identity *out);

/* Checks that who was taken before would be taken now. The error is that of ps_tls_caller. */
PS_MUST_USE ps_status ps_tls_check_identity(ps_tls *tls, const ps_tls_identity *identity);

/* Returns whether ps_tls_check_identity may refuse anybody now. */
bool ps_tls_may_refuse(ps_tls *tls);

/* Logs that the handshake failed which this thread has just read, with the address of the client.
 * At most 10 lines in 10 s; the others are counted. */
void ps_tls_note_failed(const char *why);

/* Leaves out (or no longer) the lines about handshakes with servers, because the caller says what
 * is wrong. For the process. */
void ps_tls_hush(bool is_hushed);

/* Notes that gRPC could not read a certificate again: one line of the log until they can be read.
 */
void ps_tls_note_unread(void);

/* Checks a certificate that gRPC has verified, against the revoked ones and whom a channel expects
 * (kind NONE: anybody). Fails with UNAUTHENTICATED. */
PS_MUST_USE ps_status ps_tls_check_peer(ps_tls *tls, const char *pem, ps_principal_kind kind,
                                        const char *name, ps_principal *out);

#endif
