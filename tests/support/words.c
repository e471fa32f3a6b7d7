/* SPDX-License-Identifier: Apache-2.0 */
/* words.c - see words.h. */
#include "tests/support/words.h"

#include "common/base/draw.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/data_rig.h"
#include "tests/support/train_world.h"

#include <stdio.h>

enum { LINES = 300 };

temp_dir words_folder;
uint32_t words_count;
static uint32_t train_count, test_count;

int words_write(void **state)
{
    static char text[LINES * 100];
    char *to = text;
    ps_data_conf conf;
    ps_data_facts facts;
    ps_status st;

    (void)state;
    words_folder = temp_dir_create();
    for (uint32_t i = 0; i < LINES; i++) {
        for (uint32_t j = 0; j < 9; j++) {
            double at = ps_draw_unit(ps_draw_key(3, PS_DRAW_TEST, i, 0, 0), j);

            to += sprintf(to, "w%u%c", (unsigned)(at * at * WORDS_MAX), j == 8 ? '\n' : ' ');
        }
    }
    conf = data_rig_conf("ngram");
    conf.params.v[ps_param_find(conf.source->params, "cutoff")] = 0;
    conf.params.v[ps_param_find(conf.source->params, "n")] = 3;
    data_rig_write(&words_folder, "train", text);
    data_rig_write(&words_folder, "test", text);
    tw_other = data_rig_open(&words_folder, &conf);
    st = conf.source->facts(&conf, &facts);
    words_count = facts.vocabulary;
    train_count = ps_dataset_count(tw_other, PS_TRAIN);
    test_count = ps_dataset_count(tw_other, PS_TEST);
    return ps_is_ok(&st) ? 0 : -1;
}

int words_drop(void **state)
{
    (void)state;
    ps_dataset_destroy(tw_other);
    temp_dir_destroy(&words_folder);
    return 0;
}

const char *words_job(uint32_t rows, const char *table, const char *choices)
{
    static char json[1024];

    snprintf(
        json, sizeof json,
        ", \"data\": {\"name\": \"ngram\", \"files\": [\"train\"], \"test_files\": [\"test\"], "
        "\"train_limit\": %u, \"test_limit\": %u, "
        "\"params\": {\"n\": 3, \"cutoff\": 0, \"words\": %u}}, "
        "\"epochs\": 1, \"model\": {\"preset\": \"ngram\", "
        "\"params\": {\"rows\": %u, \"width\": 10, \"hidden\": 8, \"dropout\": 0}%s}%s",
        train_count, test_count, words_count, rows, table, choices);
    return json;
}
