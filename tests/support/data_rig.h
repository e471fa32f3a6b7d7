/* SPDX-License-Identifier: Apache-2.0 */
/* data_rig.h - data sets of a test: loaded by name, with limits. */
#ifndef PS_TESTS_SUPPORT_DATA_RIG_H
#define PS_TESTS_SUPPORT_DATA_RIG_H

#include "common/data/dataset.h"

#include "tests/support/cmocka_all.h"

/* A source with its defaults, so many samples of each split; 0: all. */
static inline ps_status data_rig_load(const char *source, const char *folder, uint32_t train,
                                      uint32_t test, ps_dataset **out)
{
    const ps_data_source *found = ps_data_source_find(source);
    ps_data_conf conf;

    assert_non_null(found);
    conf = ps_data_conf_of(found);
    conf.train_limit = train;
    conf.test_limit = test;
    return ps_data_load(&conf, folder, NULL, out);
}

#endif
