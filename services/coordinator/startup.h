/* SPDX-License-Identifier: Apache-2.0 */
/* startup.h - loads the jobs of an earlier process when a coordinator starts. */
#ifndef PS_COORDINATOR_STARTUP_H
#define PS_COORDINATOR_STARTUP_H

#include "services/coordinator/coordinator.h"

/* Loads the jobs that are not over from the open registry, and removes temporary files that a crash
 * has left. If the registry is not as it was last used here, also ends those jobs whose files show
 * their end, and skips attempt numbers.
 *
 * The function waits for the disk, on the thread that later runs the loop. It delays no answer,
 * because the caller calls it before the server binds its address: nobody is connected yet. A node
 * or a client that calls meanwhile is refused and tries again, as with a coordinator that is
 * down. */
PS_MUST_USE ps_status ps_startup(ps_coordinator *c);

#endif
