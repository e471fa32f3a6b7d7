/* SPDX-License-Identifier: Apache-2.0 */
/* packages.h - what a coordinator sent, against what the node works out itself.
 *
 * Pure. Each function returns false with *error filled: INVALID_ARGUMENT for
 * what is wrong in itself, FAILED_PRECONDITION with reason *_MISMATCH for what
 * differs from the node's own plan.
 */
#ifndef PS_COMMON_NODE_PACKAGES_H
#define PS_COMMON_NODE_PACKAGES_H

#include "common/node/datasets.h"
#include "common/node/node.h"

/* Fills plan, rank and placement of a zeroed session. */
bool ps_package_settings(const Psgd__V1__SettingsPackage *package, Psgd__V1__NodeRole role,
                         ps_session *session, ps_error *error);

/* The wish, and the files of the set (none: the program draws it). */
bool ps_package_data(const Psgd__V1__DataPackage *package, const ps_plan *plan, ps_data_wish *wish,
                     ps_data_file files[PS_DATA_FILES_MAX], size_t *count, ps_error *error);

#endif
