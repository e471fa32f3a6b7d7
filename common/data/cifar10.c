/* SPDX-License-Identifier: Apache-2.0 */
/* cifar10.c - small colour photographs in CIFAR-10's binary form: records of a label and
 * 3 x 32 x 32 values, five files of 10,000 for training and one for tests.
 *
 * A folder may hold some of the training files only, and files may be shorter;
 * then a job says with its limits how many samples there are for it.
 */
#include "common/base/xalloc.h"
#include "common/data/packed.h"
#include "common/data/samples.h"

#include <stdlib.h>
#include <string.h>

enum {
    FEATURES = 3 * 32 * 32,
    RECORD_BYTES = 1 + FEATURES,
    CLASSES = 10,
    FILE_RECORDS = 10000,
    TRAIN_FILES = 5,
    TRAIN_COUNT = TRAIN_FILES * FILE_RECORDS,
    TEST_COUNT = FILE_RECORDS
};

static const char *const files[] = {"data_batch_1.bin",
                                    "data_batch_2.bin",
                                    "data_batch_3.bin",
                                    "data_batch_4.bin",
                                    "data_batch_5.bin",
                                    "test_batch.bin",
                                    NULL};

/* Where the records of a split go. */
typedef struct sink {
    uint8_t *x, *labels;
    uint32_t count, want;
} sink;

static ps_status take(sink *to, const char *name, size_t index, const uint8_t *record, size_t len)
{
    if (len < RECORD_BYTES) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s: ends at offset %zu, within a record; expected records of %d bytes",
                       name, index * RECORD_BYTES + len, RECORD_BYTES);
    }
    if (index >= FILE_RECORDS) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: goes on at offset %zu, expected its end", name,
                       index * RECORD_BYTES);
    }
    if (record[0] >= CLASSES) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: offset %zu: label %u, expected 0 to %d", name,
                       index * RECORD_BYTES, record[0], CLASSES - 1);
    }
    to->labels[to->count] = record[0];
    memcpy(to->x + (size_t)to->count * FEATURES, record + 1, FEATURES);
    to->count++;
    return ps_ok();
}

/* The records of a file, from the front, as far as they are wanted. */
static ps_status read_file(const char *folder, const char *name, sink *to)
{
    ps_packed *file = NULL;
    uint8_t record[RECORD_BYTES];
    size_t got = RECORD_BYTES;
    ps_status st = ps_packed_open(folder, name, &file, NULL);

    for (size_t i = 0; ps_is_ok(&st) && to->count < to->want; i++) {
        st = ps_packed_read(file, record, RECORD_BYTES, &got);
        if (ps_is_ok(&st) && got == 0) {
            break;
        }
        if (ps_is_ok(&st)) {
            st = take(to, name, i, record, got);
        }
    }
    ps_packed_close(file);
    return st;
}

static ps_status load_split(const char *folder, ps_split split, uint32_t want, ps_samples *samples)
{
    const char *const *names = split == PS_TRAIN ? files : files + TRAIN_FILES;
    size_t name_count = split == PS_TRAIN ? TRAIN_FILES : 1, missing = 0;
    sink to = {.want = want};
    ps_status st = ps_ok();

    to.x = ps_xmalloc((size_t)want * FEATURES);
    to.labels = ps_xmalloc(want);
    samples->x_memory = to.x;
    samples->label_memory = to.labels;
    for (size_t i = 0; i < name_count && ps_is_ok(&st); i++) {
        st = read_file(folder, names[i], &to);
        if (st.code == PS_NOT_FOUND && ++missing < name_count) {
            st = ps_ok();
        }
    }
    if (ps_is_ok(&st) && to.count < want) {
        st =
            ps_fail(PS_INVALID_ARGUMENT,
                    "cifar10: %u %s samples are there, expected %u; a job may set %s to %u at most",
                    to.count, split == PS_TRAIN ? "training" : "test", want,
                    split == PS_TRAIN ? "train_limit" : "test_limit", to.count);
    }
    samples->x = to.x;
    samples->labels = to.labels;
    samples->count = to.count;
    return st;
}

static ps_status load(const char *folder, uint32_t train_limit, uint32_t test_limit,
                      ps_dataset **out);

const ps_data_source ps_data_source_cifar10 = {
    .name = "cifar10",
    .summary = "32x32 colour photographs of 10 kinds, 50,000 train and 10,000 test, from binary "
               "batches; with fewer of them set train_limit and test_limit",
    .facts = {.shape = {3, 32, 32},
              .features = FEATURES,
              .classes = CLASSES,
              .target_width = 1,
              .train_count = TRAIN_COUNT,
              .test_count = TEST_COUNT},
    .folder = "cifar-10-batches-bin",
    .files = files,
    .some_files_suffice = true,
    .load = load,
};

static uint32_t at_most(uint32_t limit, uint32_t count)
{
    return limit == 0 || limit > count ? count : limit;
}

static ps_status load(const char *folder, uint32_t train_limit, uint32_t test_limit,
                      ps_dataset **out)
{
    ps_dataset *data = ps_dataset_create(&ps_data_source_cifar10.facts);
    ps_status st =
        load_split(folder, PS_TRAIN, at_most(train_limit, TRAIN_COUNT), &data->split[PS_TRAIN]);

    if (ps_is_ok(&st)) {
        st = load_split(folder, PS_TEST, at_most(test_limit, TEST_COUNT), &data->split[PS_TEST]);
    }
    if (!ps_is_ok(&st)) {
        ps_dataset_destroy(data);
        return st;
    }
    *out = data;
    return ps_ok();
}
