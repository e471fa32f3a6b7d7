/* SPDX-License-Identifier: Apache-2.0 */
/* package_order.h - the order of PreCommit's packages, for the coordinator that sends them and the
 * node that takes them. Pure; any thread.
 */
#ifndef PS_COMMON_NODE_PACKAGE_ORDER_H
#define PS_COMMON_NODE_PACKAGE_ORDER_H

#include "psgd/v1/node.pb-c.h"

#include <stdbool.h>

/* The order of packages. Data files, weights and tables are any number of messages, also none. */
typedef enum ps_package_step {
    PS_PACKAGE_SETTINGS,
    PS_PACKAGE_DATA, /* the offer; its answer says whether to send the files */
    PS_PACKAGE_FILES,
    PS_PACKAGE_WEIGHTS,
    PS_PACKAGE_TABLES,
    PS_PACKAGE_SEAL,
    PS_PACKAGE_NONE /* after the seal; also of a message without a package */
} ps_package_step;

/* Returns the step of a message. */
ps_package_step ps_package_of(const Psgd__V1__PreCommitRequest *request);

/* Returns whether `package` may come to a receiver that expects `expected`: that step, or a later
 * one if all between may be left out. A parameter server gets no data. Settings, the offer, and
 * the files that the receiver asked for are never left out to a worker. */
bool ps_package_may_come(ps_package_step expected, ps_package_step package, bool is_worker);

/* Returns a step's name for messages, such as "weights". */
const char *ps_package_name(ps_package_step step);

#endif
