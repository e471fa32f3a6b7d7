/* SPDX-License-Identifier: Apache-2.0 */
/* tls_files.h - TLS to a server whose certificate is not of psgd's authority, such as etcd.
 *
 * The server proves by a certificate of a given authority that it has the host's name or address.
 * The program shows a certificate of its own if it has one. TLS 1.2 and 1.3. The files are read
 * again for each new channel; open connections stay open. All functions on one thread, except
 * ps_tls_files_probe. */
#ifndef PS_COMMON_RPC_TLS_FILES_H
#define PS_COMMON_RPC_TLS_FILES_H

#include "common/base/status.h"

#include <grpc/grpc_security.h>
#include <stdint.h>

typedef struct ps_tls_files ps_tls_files;

/* The files, in PEM. */
typedef struct ps_tls_files_conf {
    /* prefix of the options by which users give the files: "--etcd" for --etcd-ca, --etcd-cert and
     * --etcd-key */
    const char *flags;
    const char *ca;         /* certificates of authorities; NULL or "": ps_tls_files_create fails */
    const char *cert, *key; /* the program's own; both or neither may be NULL or "" */
} ps_tls_files_conf;

/* Reads and checks the files. Fails with INVALID_ARGUMENT if one is missing, with
 * FAILED_PRECONDITION if one cannot be used; the text names flag and file. */
PS_MUST_USE ps_status ps_tls_files_create(const ps_tls_files_conf *conf, ps_tls_files **out);
void ps_tls_files_destroy(ps_tls_files *files); /* NULL is allowed */

/* Returns credentials for a channel, which the caller releases. Reads the files again. If they
 * cannot be used, logs that and uses what was read before. */
grpc_channel_credentials *ps_tls_files_credentials(ps_tls_files *files);

/* Connects to host:port and makes a handshake, within `timeout_us` microseconds of waiting. Returns
 * UNAVAILABLE if nobody listens, and UNAUTHENTICATED if one side does not accept the other; the
 * text says which side and why. Blocks; any thread. */
PS_MUST_USE ps_status ps_tls_files_probe(const ps_tls_files *files, const char *address,
                                         int64_t timeout_us);

#endif
