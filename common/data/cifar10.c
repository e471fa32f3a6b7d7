/* SPDX-License-Identifier: Apache-2.0 */
/* cifar10.c - small colour photographs in the binary form of CIFAR-10: records of a label and 3
 * x 32 x 32 values, five files of 10,000 for training and one for testing.
 *
 * A folder may hold only some of the training files, and files may be shorter. The data set then
 * has only the records that exist, and `look` sets the limits to their numbers.
 */
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"
#include "common/data/packed.h"
#include "common/data/spill.h"

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

/* The destination of the records of a split, of which the first `want` are read. Without a spill
 * they are only counted. */
typedef struct sink {
    ps_spill *spill;
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
        return ps_fail(PS_INVALID_ARGUMENT, "%s: has more data at offset %zu, expected its end",
                       name, index * RECORD_BYTES);
    }
    if (record[0] >= CLASSES) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: offset %zu: label %u, expected 0 to %d", name,
                       index * RECORD_BYTES, record[0], CLASSES - 1);
    }
    to->count++;
    return to->spill != NULL ? ps_spill_add(to->spill, record, RECORD_BYTES) : ps_ok();
}

/* Reads the records of a file from the front, until `to` has as many as it wants or the file ends.
 * Fails if it wants more and the file is empty. */
static ps_status read_file(const char *folder, const char *name, sink *to)
{
    ps_packed *file = NULL;
    uint8_t record[RECORD_BYTES];
    size_t got = RECORD_BYTES, i;
    ps_status st = ps_packed_open(folder, name, &file, NULL);

    for (i = 0; ps_is_ok(&st) && to->count < to->want; i++) {
        st = ps_packed_read(file, record, RECORD_BYTES, &got);
        if (ps_is_ok(&st) && got == 0) {
            break;
        }
        if (ps_is_ok(&st)) {
            st = take(to, name, i, record, got);
        }
    }
    if (ps_is_ok(&st) && i == 0 && to->count < to->want) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s: is empty, expected records of %d bytes", name,
                     RECORD_BYTES);
    }
    ps_packed_close(file);
    return st;
}

/* Reads the files of a split that exist. Returns NOT_FOUND if none does. */
static ps_status read_split(const char *folder, ps_split split, sink *to)
{
    const char *const *names = split == PS_TRAIN ? files : files + TRAIN_FILES;
    size_t name_count = split == PS_TRAIN ? TRAIN_FILES : 1, missing = 0;
    ps_status st = ps_ok();

    for (size_t i = 0; i < name_count && ps_is_ok(&st); i++) {
        st = read_file(folder, names[i], to);
        if (st.code == PS_NOT_FOUND && ++missing < name_count) {
            st = ps_ok();
        }
    }
    return st;
}

static ps_status look(const char *folder, ps_data_conf *conf)
{
    sink train = {.want = UINT32_MAX}, test = {.want = UINT32_MAX};
    ps_status st = read_split(folder, PS_TRAIN, &train);

    if (ps_is_ok(&st)) {
        st = read_split(folder, PS_TEST, &test);
    }
    return ps_is_ok(&st) ? ps_data_found_counts(conf, train.count, test.count) : st;
}

static ps_status cifar10_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    (void)conf; /* facts are those of the whole set; the conf's limits bound what is loaded */
    *facts = (ps_data_facts){.shape = {3, 32, 32},
                             .features = FEATURES,
                             .classes = CLASSES,
                             .target_width = 1,
                             .train_count = TRAIN_COUNT,
                             .test_count = TEST_COUNT};
    return ps_ok();
}

static ps_status load_split(const char *folder, const char *scratch, ps_split split, uint32_t want,
                            ps_samples **out)
{
    sink to = {.want = want};
    ps_status st;

    to.spill = ps_spill_create(scratch, ps_split_memory(split));
    st = read_split(folder, split, &to);
    if (ps_is_ok(&st) && to.count < want) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "cifar10: found %u %s samples, expected %u; set %s to at most %u", to.count,
                     split == PS_TRAIN ? "training" : "test", want,
                     split == PS_TRAIN ? "train_limit" : "test_limit", to.count);
    }
    if (ps_is_ok(&st)) {
        st = ps_spill_end(to.spill);
    }
    if (!ps_is_ok(&st)) {
        ps_spill_destroy(to.spill);
        return st;
    }
    *out = ps_byte_records_create(FEATURES, to.spill);
    return st;
}

static ps_status load(const ps_data_conf *conf, const char *folder, const char *scratch,
                      ps_dataset **out)
{
    ps_data_facts facts;
    ps_dataset *data;
    ps_status st = cifar10_facts(conf, &facts);

    facts.train_count = ps_data_limited(facts.train_count, conf->train_limit);
    facts.test_count = ps_data_limited(facts.test_count, conf->test_limit);
    data = ps_dataset_create(&facts);
    if (ps_is_ok(&st)) {
        st = load_split(folder, scratch, PS_TRAIN, facts.train_count, &data->split[PS_TRAIN]);
    }
    if (ps_is_ok(&st)) {
        st = load_split(folder, scratch, PS_TEST, facts.test_count, &data->split[PS_TEST]);
    }
    if (!ps_is_ok(&st)) {
        ps_dataset_destroy(data);
        return st;
    }
    *out = data;
    return ps_ok();
}

const ps_data_source ps_data_source_cifar10 = {
    .name = "cifar10",
    .summary = "32x32 colour photographs of 10 kinds, up to 50,000 train and 10,000 test, from "
               "whichever binary batches are there",
    .folder = "cifar-10-batches-bin",
    .files = files,
    .some_files_suffice = true,
    .facts = cifar10_facts,
    .look = look,
    .load = load,
};
