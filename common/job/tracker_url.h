/* SPDX-License-Identifier: Apache-2.0 */
/* tracker_url.h - parses "mlflow:http://host:port/path", an entry of JobSpec.tracker. Pure. */
#ifndef PS_COMMON_JOB_TRACKER_URL_H
#define PS_COMMON_JOB_TRACKER_URL_H

#include "common/base/address.h"

enum { PS_TRACKERS_MAX = 4, PS_TRACKER_URL_BYTES = 512 };

typedef struct ps_tracker_url {
    bool is_tls;
    ps_address address;
    char base[PS_TRACKER_URL_BYTES]; /* "http://host:port/path", without a slash at the end */
} ps_tracker_url;

/* Parses an entry. Fails with INVALID_ARGUMENT, also for names and passwords in it, which would be
 * stored with the job. */
PS_MUST_USE ps_status ps_tracker_url_parse(const char *text, ps_tracker_url *out);

#endif
