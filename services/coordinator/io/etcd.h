/* SPDX-License-Identifier: Apache-2.0 */
/* etcd.h - calls etcd's API v3.
 *
 * All functions block; call them on any thread but a loop's. The calls run on a loop of their own.
 * A call that gets no answer is repeated at the next member, until its deadline. So a call may be
 * carried out twice: make only calls that have the same effect once and twice. Failures:
 * UNAVAILABLE if no member answers in time, else what etcd answers. */
#ifndef PS_COORDINATOR_ETCD_H
#define PS_COORDINATOR_ETCD_H

#include "common/base/status.h"
#include "common/rpc/tls_files.h"

#include "etcd/kv.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PS_ETCD_MEMBERS_MAX = 16,
    PS_ETCD_PREFIX_MAX = 128,
    PS_ETCD_KEY_MAX = PS_ETCD_PREFIX_MAX + 64,
    PS_ETCD_OPS_MAX = 128,         /* operations of a transaction: etcd's own default */
    PS_ETCD_REQUEST_MAX = 1400000, /* bytes of a request; etcd's own default is 1.5 MiB */
};

typedef struct ps_etcd ps_etcd;

/* Returns whether a text begins like the URL of an etcd: etcd:// in plaintext, etcds:// by TLS. */
bool ps_etcd_is_url(const char *text);

/* Prepares calls to the members of "etcd://host:port,host:port/prefix". A missing port is 2379, a
 * missing prefix "psgd". `files` are for etcds://; their member `flags` is set here. Returns
 * INVALID_ARGUMENT if the URL is wrong; else fails as ps_tls_files_create does. Does not wait for
 * etcd. */
PS_MUST_USE ps_status ps_etcd_create(const char *url, const ps_tls_files_conf *files,
                                     ps_etcd **out);
void ps_etcd_destroy(ps_etcd *etcd); /* no call may run; NULL is allowed */

/* Return the members, "host:port,host:port", and the prefix of all keys, such as "psgd/". */
const char *ps_etcd_members(const ps_etcd *etcd);
const char *ps_etcd_prefix(const ps_etcd *etcd);

/* Receives an answer, which is borrowed. Called on the loop's thread, while ps_etcd_call blocks. */
typedef void ps_etcd_take_fn(void *arg, const ProtobufCMessage *reply);

/* Calls a method of KV or Lease. `deadline_us` is a time of ps_clock_us. `take` may be NULL. */
PS_MUST_USE ps_status ps_etcd_call(ps_etcd *etcd, const ProtobufCServiceDescriptor *service,
                                   const char *method, const ProtobufCMessage *request,
                                   int64_t deadline_us, ps_etcd_take_fn *take, void *arg);

/* Renews a lease. *ttl_s becomes its time to live in seconds, 0 if there is no such lease. */
PS_MUST_USE ps_status ps_etcd_keep_alive(ps_etcd *etcd, int64_t lease, int64_t deadline_us,
                                         int64_t *ttl_s);

#endif
