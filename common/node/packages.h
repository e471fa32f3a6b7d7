/* SPDX-License-Identifier: Apache-2.0 */
/* packages.h - checks the coordinator's packages against the plan that the node makes itself.
 *
 * Pure. Each function returns false and fills *error: INVALID_ARGUMENT if the package is wrong in
 * itself, FAILED_PRECONDITION with a reason ..._MISMATCH if it differs from the node's own plan.
 */
#ifndef PS_COMMON_NODE_PACKAGES_H
#define PS_COMMON_NODE_PACKAGES_H

#include "common/data/identify.h"
#include "common/node/datasets.h"
#include "common/node/session.h"

/* Fills in a zeroed session what the settings say: plan, placement, ranks, first_clock and
 * shrinks. */
bool ps_package_settings(const Psgd__V1__SettingsPackage *package, Psgd__V1__NodeRole role,
                         ps_session *session, ps_error *error);

/* Fills the data set that the session's ranks want and its list of files; none if the program draws
 * the set. The caller frees *files after success. */
bool ps_package_data(const Psgd__V1__DataPackage *package, const ps_session *session,
                     ps_data_wanted *wanted, ps_data_files *files, ps_error *error);

#endif
