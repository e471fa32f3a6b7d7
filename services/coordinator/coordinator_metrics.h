/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator_metrics.h - what /metrics and /readyz of the coordinator say. Loop's thread. */
#ifndef PS_COORDINATOR_METRICS_H
#define PS_COORDINATOR_METRICS_H

#include "common/ops/ops.h"
#include "services/coordinator/coordinator.h"

/* Returns the source of /metrics and /readyz for ps_ops_start. Valid as long as the coordinator. */
ps_ops_source ps_coordinator_ops(ps_coordinator *c);

/* The observer that counts how jobs end, and how long they were in each phase of the commit. */
ps_job_observer_fn ps_metrics_job_changed;

#endif
