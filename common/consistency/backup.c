/* SPDX-License-Identifier: Apache-2.0 */
/* backup.c - synchronous with backup workers (Chen et al. 2016, arXiv 1604.00981).
 *
 * Of N + b contributors (b is `backups`) the first N contributions to a clock make its step, on
 * their mean; fewer do if all workers that are not lost have contributed. Later contributions to
 * that clock are dropped and counted. A worker whose clock closed without it goes on with the open
 * clock.
 */
#include "common/consistency/rounds.h"

enum { BACKUPS };

static const ps_param backup_params[] = {
    {.name = "backups",
     .value = 1,
     .min = 1,
     .max = 255,
     .is_integer = true,
     .help = "contributions of a step that it does not wait for; fewer than all"},
    {.name = NULL},
};

static ps_status backup_check(const ps_params *params, uint32_t contributors)
{
    if (params->v[BACKUPS] >= contributors) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "backups is %.0f; it must be less than %u, the number of contributions of a step",
            params->v[BACKUPS], contributors);
    }
    return ps_ok();
}

static ps_verdict backup_on_push(const ps_params *params, const ps_clocks *c, const ps_arrival *a,
                                 float *scale)
{
    (void)params;
    (void)scale;
    return a->clock < c->clock ? PS_DROP : PS_BUFFER;
}

static bool backup_closes(const ps_params *params, const ps_clocks *c, float *scale)
{
    *scale = mean_scale(c);
    return c->in + (uint32_t)params->v[BACKUPS] >= c->contributors || all_are_in(c);
}

const ps_consistency ps_consistency_backup = {
    .name = "backup",
    .summary = "a step takes the first contributions, all but `backups`; later ones are dropped",
    .params = backup_params,
    .survives_loss = true,
    .has_rounds = true,
    .leaves_behind = true,
    .check = backup_check,
    .lead = no_lead,
    .admit = is_its_round,
    .on_push = backup_on_push,
    .on_pull = is_its_round,
    .closes = backup_closes,
};
