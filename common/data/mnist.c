/* SPDX-License-Identifier: Apache-2.0 */
/* mnist.c - handwritten digits in four IDX files, plain or .gz. Any set of the
 * same files and shapes (Fashion-MNIST, KMNIST) loads as well. */
#include "common/data/mnist.h"

#include "common/data/idx.h"
#include "common/data/samples.h"

#include <stdlib.h>

static const char *const files[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", NULL};

static ps_status check_labels(const char *name, const uint8_t *labels, uint32_t count,
                              uint32_t classes)
{
    for (uint32_t i = 0; i < count; i++) {
        if (labels[i] >= classes) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: offset %zu: label %u, expected 0 to %u", name,
                           ps_idx_header_bytes(1) + i, labels[i], classes - 1);
        }
    }
    return ps_ok();
}

static ps_status load_split(const char *folder, const ps_data_facts *facts, ps_split split,
                            ps_samples **out)
{
    const char *const *names = &files[2 * split];
    uint32_t count = split == PS_TRAIN ? facts->train_count : facts->test_count;
    uint32_t dim[3] = {count, facts->shape[1], facts->shape[2]};
    uint8_t *x = NULL, *labels = NULL;
    ps_status st = ps_idx_read(folder, names[1], 1, dim, &labels);

    if (ps_is_ok(&st)) {
        st = check_labels(names[1], labels + ps_idx_header_bytes(1), count, facts->classes);
    }
    if (ps_is_ok(&st)) {
        st = ps_idx_read(folder, names[0], 3, dim, &x);
    }
    if (!ps_is_ok(&st)) {
        free(labels);
        return st;
    }
    *out =
        ps_bytes_create(facts->features, x, ps_idx_header_bytes(3), labels, ps_idx_header_bytes(1));
    return st;
}

ps_status ps_mnist_load(const char *folder, const ps_data_facts *facts, ps_dataset **out)
{
    ps_dataset *data = ps_dataset_create(facts);
    ps_status st = load_split(folder, facts, PS_TRAIN, &data->split[PS_TRAIN]);

    if (ps_is_ok(&st)) {
        st = load_split(folder, facts, PS_TEST, &data->split[PS_TEST]);
    }
    if (!ps_is_ok(&st)) {
        ps_dataset_destroy(data);
        return st;
    }
    *out = data;
    return ps_ok();
}

static ps_status mnist_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    (void)conf; /* there is one MNIST */
    *facts = (ps_data_facts){.shape = {1, 28, 28},
                             .features = 784,
                             .classes = 10,
                             .target_width = 1,
                             .train_count = 60000,
                             .test_count = 10000};
    return ps_ok();
}

static ps_status load(const ps_data_conf *conf, const char *folder, const char *scratch,
                      ps_dataset **out)
{
    ps_data_facts facts;
    ps_status st = mnist_facts(conf, &facts);

    (void)scratch; /* 55 MB, in memory */
    if (ps_is_ok(&st)) {
        st = ps_mnist_load(folder, &facts, out);
    }
    if (ps_is_ok(&st)) {
        ps_dataset_limit(*out, conf->train_limit, conf->test_limit);
    }
    return st;
}

const ps_data_source ps_data_source_mnist = {
    .name = "mnist",
    .summary = "28x28 handwritten digits, 60,000 train and 10,000 test, from IDX files",
    .files = files,
    .facts = mnist_facts,
    .load = load,
};
