/* SPDX-License-Identifier: Apache-2.0 */
/* tracker_login.h - with what the coordinator proves to trackers who it is.
 *
 * A file has a line for each tracker; an empty line and one that begins with # say nothing:
 *
 *     HOST:PORT token TOKEN
 *     HOST:PORT password USER PASSWORD
 *
 * Nothing here is ever logged.
 */
#ifndef PS_COMMON_TRACKER_TRACKER_LOGIN_H
#define PS_COMMON_TRACKER_TRACKER_LOGIN_H

#include "common/base/address.h"

#include <stddef.h>

enum { PS_TRACKER_LOGINS_MAX = 64, PS_TRACKER_SECRET_BYTES = 2048 };

typedef struct ps_tracker_login {
    char user[256];                       /* "": `secret` is a token */
    char secret[PS_TRACKER_SECRET_BYTES]; /* "": none */
} ps_tracker_login;

typedef struct ps_tracker_logins {
    struct ps_tracker_login_of {
        ps_address address;
        ps_tracker_login login;
    } * items; /* (count) */
    size_t count;
    ps_tracker_login others; /* of trackers that are not among them */
} ps_tracker_logins;

/* Reads the file, which only its owner may read. NULL or "" is none. Fails with INVALID_ARGUMENT
 * and the number of the wrong line, with PERMISSION_DENIED, or as ps_file_read does. */
PS_MUST_USE ps_status ps_tracker_logins_read(const char *file, ps_tracker_logins *out);

/* Sets what other trackers get; the texts may be NULL, and a token is preferred. Fails with
 * INVALID_ARGUMENT if they are too long or not printable. */
PS_MUST_USE ps_status ps_tracker_logins_set(ps_tracker_logins *logins, const char *token,
                                            const char *user, const char *password);

/* Lends the login for a tracker; NULL: none. */
const ps_tracker_login *ps_tracker_login_find(const ps_tracker_logins *logins,
                                              const ps_address *address);

/* Overwrites and frees all. */
void ps_tracker_logins_fini(ps_tracker_logins *logins);

#endif
