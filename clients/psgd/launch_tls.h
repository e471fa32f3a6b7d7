/* SPDX-License-Identifier: Apache-2.0 */
/* launch_tls.h - the certificate authority of one launch. It issues certificates for the services
 * and for the launcher itself, and is removed with the keeper's folder when the launch ends. */
#ifndef PS_CLIENTS_PSGD_LAUNCH_TLS_H
#define PS_CLIENTS_PSGD_LAUNCH_TLS_H

#include "common/base/files.h"
#include "common/pki/authority.h"

typedef struct ps_launch_tls {
    /* folder of the authority; folder for --tls-dir of the launcher */
    char pki[PS_PATH_MAX], own[PS_PATH_MAX];
    char fingerprint[PS_FINGERPRINT_BYTES];
} ps_launch_tls;

/* Makes an authority in a folder below `folder`, and a certificate for the principal
 * admin/launcher. */
PS_MUST_USE ps_status ps_launch_tls_make(const char *folder, ps_launch_tls *out);

/* Issues a certificate for the request `pem`, which must ask for the principal `who`, and appends
 * the answer: certificate and root in PEM. */
PS_MUST_USE ps_status ps_launch_tls_answer(const ps_launch_tls *tls, const char *who,
                                           const char *pem, ps_strbuf *answer);

#endif
