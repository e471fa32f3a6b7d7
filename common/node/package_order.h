/* SPDX-License-Identifier: Apache-2.0 */
/* package_order.h - the order of PreCommit's packages, for the coordinator that sends them and
 * the node that receives them. Pure; any thread.
 */
#ifndef PS_COMMON_NODE_PACKAGE_ORDER_H
#define PS_COMMON_NODE_PACKAGE_ORDER_H

#include "psgd/v1/node.pb-c.h"

#include <stdbool.h>

/* The order of packages. There may be any number of messages with data files, weights, tables or
 * state, also none. */
typedef enum ps_package_step {
    PS_PACKAGE_SETTINGS,
    PS_PACKAGE_DATA, /* the offer; its answer says whether to send the files */
    PS_PACKAGE_FILES,
    PS_PACKAGE_WEIGHTS,
    PS_PACKAGE_TABLES,
    PS_PACKAGE_STATE, /* files of a checkpoint */
    PS_PACKAGE_SEAL,
    PS_PACKAGE_NONE /* no package follows the seal; also the step of a message without a package */
} ps_package_step;

/* Returns the step of a message's package. */
ps_package_step ps_package_of(const Psgd__V1__PreCommitRequest *request);

/* Returns whether `package` may arrive at a receiver that expects `expected`: that step, or a later
 * one if all steps between may be left out. A parameter server gets no data. A worker always gets
 * the settings, the offer, and the files that it asked for. */
bool ps_package_may_come(ps_package_step expected, ps_package_step package, bool is_worker);

/* Returns a step's name for messages, such as "weights". */
const char *ps_package_name(ps_package_step step);

#endif
