/* SPDX-License-Identifier: Apache-2.0 */
/* tracker_login.h - tokens and passwords by which the coordinator logs in to trackers.
 *
 * A file has a line for each tracker. Empty lines and lines that begin with # are ignored:
 *
 *   HOST:PORT token TOKEN
 *   HOST:PORT password USER PASSWORD
 *
 * Nothing of this is ever logged. */
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
    ps_tracker_login others; /* login for trackers that are not in `items` */
} ps_tracker_logins;

/* Reads the file, which only its owner may be able to read. NULL or "": no file, no logins. Returns
 * INVALID_ARGUMENT with the number of the wrong line, or PERMISSION_DENIED; else fails as
 * ps_file_read does. */
PS_MUST_USE ps_status ps_tracker_logins_read(const char *file, ps_tracker_logins *out);

/* Sets the login for trackers that the file does not name. The texts may be NULL; if there is a
 * token, it is used and not the password. Returns INVALID_ARGUMENT if they are too long or not
 * printable ASCII, or the user's name has a colon. */
PS_MUST_USE ps_status ps_tracker_logins_set(ps_tracker_logins *logins, const char *token,
                                            const char *user, const char *password);

/* Returns the login for a tracker, valid as long as `logins`; NULL: none. */
const ps_tracker_login *ps_tracker_login_find(const ps_tracker_logins *logins,
                                              const ps_address *address);

/* Overwrites and frees all. */
void ps_tracker_logins_fini(ps_tracker_logins *logins);

#endif
