/* SPDX-License-Identifier: Apache-2.0 */
/* data_fuzz.h - any bytes as the files of a data set: for the fuzzers of sources.
 *
 * Whatever the bytes, a look and a load either refuse them alike or give samples that are
 * what the facts say: finite, ids and classes below their number.
 */
#ifndef PS_TESTS_FUZZ_DATA_FUZZ_H
#define PS_TESTS_FUZZ_DATA_FUZZ_H

#include "common/base/files.h"
#include "common/data/columns.h"
#include "common/data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void data_fuzz_end(void);

/* A folder of this process, in memory where the system has such; goes with it. */
static inline const char *data_fuzz_folder(void)
{
    static char path[64];

    if (path[0] == '\0') {
        strcpy(path, access("/dev/shm", W_OK) == 0 ? "/dev/shm/psgd-fuzz-XXXXXX"
                                                   : "/tmp/psgd-fuzz-XXXXXX");
        if (mkdtemp(path) == NULL || atexit(data_fuzz_end) != 0) {
            abort();
        }
    }
    return path;
}

static inline void data_fuzz_end(void)
{
    ps_status st = ps_dir_remove(data_fuzz_folder());

    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
    }
}

static inline void data_fuzz_write(const char *name, const uint8_t *bytes, size_t n)
{
    char path[160];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", data_fuzz_folder(), name);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) {
        abort();
    }
}

static inline void data_fuzz_column(ps_data_conf *conf, const char *name, const char *kind)
{
    ps_data_column *column = &conf->columns[conf->column_count++];

    strcpy(column->name, name);
    column->kind = ps_column_find(kind);
    column->params = ps_params_default(column->kind->params);
}

static inline void data_fuzz_samples(const ps_dataset *data, ps_split split)
{
    const ps_data_facts *facts = ps_dataset_facts(data);
    float *x = calloc(facts->features, sizeof *x);
    float *targets = calloc(facts->target_width, sizeof *targets);

    if (x == NULL || targets == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < ps_dataset_count(data, split) && i < 64; i++) {
        ps_dataset_gather(data, split, NULL, i, 1, x, targets);
        for (uint32_t k = 0; k < facts->features; k++) {
            bool is_id = k >= facts->features - facts->ids;

            if (!isfinite(x[k]) || (is_id && !(x[k] >= 0 && x[k] < (float)facts->vocabulary))) {
                abort();
            }
        }
        for (uint32_t k = 0; k < facts->target_width; k++) {
            if (!isfinite(targets[k]) ||
                (facts->classes > 0 && !(targets[k] >= 0 && targets[k] < (float)facts->classes))) {
                abort();
            }
        }
    }
    free(x);
    free(targets);
}

/* The files are written; `conf` names them. */
static inline int data_fuzz_run(ps_data_conf *conf)
{
    ps_data_conf untouched = *conf;
    ps_dataset *data = NULL;
    ps_status seen = ps_data_look(data_fuzz_folder(), conf);
    ps_status st = ps_data_load(conf, data_fuzz_folder(), data_fuzz_folder(), &data);

    /* What is refused is told where it is. */
    if (seen.code != st.code || (!ps_is_ok(&seen) && seen.text[0] == '\0')) {
        abort();
    }
    if (ps_is_ok(&st)) {
        data_fuzz_samples(data, PS_TRAIN);
        data_fuzz_samples(data, PS_TEST);
        ps_dataset_destroy(data);
        st = ps_data_look(data_fuzz_folder(), &untouched); /* the same a second time */
        if (!ps_is_ok(&st) || !ps_data_conf_same(conf, &untouched)) {
            abort();
        }
    }
    return 0;
}

#endif
