/* SPDX-License-Identifier: Apache-2.0 */
/* startup.h - what a coordinator takes up again when it begins. */
#ifndef PS_COORDINATOR_STARTUP_H
#define PS_COORDINATOR_STARTUP_H

#include "services/coordinator/coordinator.h"

/* Loads the jobs that are not over from the open registry, ends those whose files say so, and
 * tidies up what a crash has left. Reads and writes files: before the loop runs. */
PS_MUST_USE ps_status ps_startup(ps_coordinator *c);

#endif
