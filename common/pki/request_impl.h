/* SPDX-License-Identifier: Apache-2.0 */
/* request_impl.h - a request as libcrypto has it. Private to common/pki. */
#ifndef PS_COMMON_PKI_REQUEST_IMPL_H
#define PS_COMMON_PKI_REQUEST_IMPL_H

#include "common/pki/request.h"

#include <openssl/evp.h>

/* Reads a request as ps_request_read does, and its public key; the caller frees *key. */
PS_MUST_USE ps_status ps_request_take(const char *what, const char *pem, size_t n, ps_request *out,
                                      EVP_PKEY **key);

#endif
