/* SPDX-License-Identifier: Apache-2.0 */
/* members.h - a certificate authority with members on this host, for tests and benchmarks. A
 * failure aborts the process.
 */
#ifndef PS_TESTS_SUPPORT_MEMBERS_H
#define PS_TESTS_SUPPORT_MEMBERS_H

#include "common/pki/authority.h"
#include "common/pki/credentials.h"

typedef struct members {
    char folder[128], pki[160];
    ps_certificate root;
} members;

/* Makes an authority below `folder`, in folder/pki. */
void members_create(members *m, const char *folder);

/* Makes a certificate for a member, such as "node/worker-1", valid for `valid_s` seconds. Writes
 * the folder with its files to `dir`. */
void members_join(const members *m, const char *principal, int64_t valid_s, char dir[256]);

#endif
