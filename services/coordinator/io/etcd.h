/* SPDX-License-Identifier: Apache-2.0 */
/* etcd.h - calls etcd's API v3.
 *
 * All functions block, on any thread but a loop's own; the calls run on a loop of their own. A call
 * that gets no answer is made again, at the next member, until its deadline. So a call may be
 * carried out twice: make only calls for which this changes nothing. Failures: UNAVAILABLE if no
 * member answers in time, else what etcd says.
 */
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

/* Returns whether a text begins as that of an etcd does: etcd:// in plaintext, etcds:// by TLS. */
bool ps_etcd_is_url(const char *text);

/* Connects to the members of "etcd://host:port,host:port/prefix"; a port that is missing is 2379,
 * the prefix is "psgd" unless it is said. `files` are for etcds://; flags is set here. Fails with
 * INVALID_ARGUMENT if the text is wrong, or as ps_tls_files_create. Does not wait for etcd. */
PS_MUST_USE ps_status ps_etcd_create(const char *url, const ps_tls_files_conf *files,
                                     ps_etcd **out);
void ps_etcd_destroy(ps_etcd *etcd); /* no call may run; NULL is allowed */

/* Returns the members, "host:port,host:port", and the prefix of all keys, "psgd/". */
const char *ps_etcd_members(const ps_etcd *etcd);
const char *ps_etcd_prefix(const ps_etcd *etcd);

/* Receives an answer, which is borrowed. On the loop's thread, while the caller waits. */
typedef void ps_etcd_take_fn(void *arg, const ProtobufCMessage *reply);

/* Calls a method of KV or Lease. `deadline_us` is of ps_clock_us. `take` may be NULL. */
PS_MUST_USE ps_status ps_etcd_call(ps_etcd *etcd, const ProtobufCServiceDescriptor *service,
                                   const char *method, const ProtobufCMessage *request,
                                   int64_t deadline_us, ps_etcd_take_fn *take, void *arg);

/* Renews a lease. *ttl_s becomes its time to live in seconds, 0 if there is no such lease. */
PS_MUST_USE ps_status ps_etcd_keep_alive(ps_etcd *etcd, int64_t lease, int64_t deadline_us,
                                         int64_t *ttl_s);

#endif
