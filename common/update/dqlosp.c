/* SPDX-License-Identifier: Apache-2.0 */
/* dqlosp.c - LOSP with quantisation in both directions. Every worker has a replica R of the
 * servers' weights W; enc are the codecs of the job, up and down; a_i is the worker's share in a
 * mean (local.h), P_i what its steps of the round subtracted:
 *     worker: U_i = enc(a_i P_i), x_i = R - (gamma / eta) P_i
 *     servers: M = enc(sum of dec(U_i), in the order of ranks), W = W - dec(M)
 *     worker: R = R - dec(M)
 * M is encoded once and sent to all workers, so W and every R have the same bits, state of
 * layers included. Each slice carries a checksum that proves it. JSAC2020, an older system,
 * names this method but does not complete it. */
#include "common/update/update.h"

static const ps_param dqlosp_params[] = {
    PS_LOCAL_STEPS_PARAM(16),
    PS_LOCAL_COMPENSATION_PARAM,
    PS_LOCAL_AT_MOST_PARAM,
    {.name = NULL},
};

static const ps_local dqlosp_local = {
    .is_overlapped = true,
    .needs_bsp = true,
    .slots = 1,
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .adopt = ps_local_adopt_ahead,
    .contribute = ps_local_contribute_compensated,
};

const ps_update ps_update_dqlosp = {
    .name = "dqlosp",
    .summary =
        "losp quantised both ways: codecs encode changes, checksums prove the replicas (DQLOSP)",
    .params = dqlosp_params,
    .merge_scale = ps_update_merge_sum,
    .broadcasts = true,
    .local = &dqlosp_local,
};
