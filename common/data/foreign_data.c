/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_data.c - the data of users' own programs, which psgd only counts.
 *
 * The set has a number of samples, from which the steps of an epoch follow, and no test samples.
 * Nobody gathers its samples: workers ask their program for gradients instead.
 */
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES };

static const ps_param params[] = {
    [SAMPLES] = {.name = "samples",
                 .value = 65536,
                 .min = 1,
                 .max = 1 << 30,
                 .is_integer = true,
                 .help = "training samples of an epoch, of all workers together"},
    {.name = NULL},
};

static ps_stored foreign_stored(const ps_samples *samples, uint32_t at, void *room)
{
    (void)samples;
    memcpy(room, &at, sizeof at);
    return (ps_stored){room, sizeof at};
}

static void foreign_make(const ps_samples *samples, const void *stored, uint64_t key, float *x,
                         float *targets)
{
    (void)samples;
    (void)stored;
    (void)key;
    *x = 0;
    *targets = 0;
}

static void foreign_destroy(ps_samples *samples)
{
    free(samples);
}

static ps_status foreign_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    facts->shape[0] = facts->shape[1] = facts->shape[2] = facts->features = 1;
    facts->target_width = 1;
    facts->train_count = ps_data_count(conf, "samples");
    facts->test_count = 0;
    return ps_ok();
}

static ps_status foreign_load(const ps_data_conf *conf, const char *folder, const char *scratch,
                              ps_dataset **out)
{
    ps_data_facts facts = {.features = 0};
    ps_status st = foreign_facts(conf, &facts);
    ps_samples *samples;

    (void)folder; /* there are no files */
    (void)scratch;
    if (!ps_is_ok(&st)) {
        return st;
    }
    facts.train_count = ps_data_limited(facts.train_count, conf->train_limit);
    samples = ps_xcalloc(1, sizeof *samples);
    *samples = (ps_samples){.stored = foreign_stored,
                            .room = sizeof(uint32_t),
                            .make = foreign_make,
                            .destroy = foreign_destroy};
    *out = ps_dataset_create(&facts);
    (*out)->split[PS_TRAIN] = samples;
    return ps_ok();
}

const ps_data_source ps_data_source_foreign = {
    .name = PS_DATA_FOREIGN,
    .summary = "the data of users' own programs, for a model that they compute (model.foreign)",
    .params = params,
    .version = 1,
    .facts = foreign_facts,
    .load = foreign_load,
};
