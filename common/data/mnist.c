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
                            ps_samples *samples)
{
    const char *const *names = &files[2 * split];
    uint32_t count = split == PS_TRAIN ? facts->train_count : facts->test_count;
    uint32_t dim[3] = {count, facts->shape[1], facts->shape[2]};
    uint8_t *bytes = NULL;
    ps_status st = ps_idx_read(folder, names[1], 1, dim, &bytes);

    if (!ps_is_ok(&st)) {
        return st;
    }
    samples->label_memory = bytes;
    samples->labels = bytes + ps_idx_header_bytes(1);
    samples->count = count;
    st = check_labels(names[1], samples->labels, count, facts->classes);
    if (ps_is_ok(&st)) {
        st = ps_idx_read(folder, names[0], 3, dim, &bytes);
    }
    if (ps_is_ok(&st)) {
        samples->x_memory = bytes;
        samples->x = bytes + ps_idx_header_bytes(3);
    }
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

static ps_status load(const char *folder, uint32_t train_limit, uint32_t test_limit,
                      ps_dataset **out);

const ps_data_source ps_data_source_mnist = {
    .name = "mnist",
    .summary = "28x28 handwritten digits, 60,000 train and 10,000 test, from IDX files",
    .facts = {.shape = {1, 28, 28},
              .features = 784,
              .classes = 10,
              .target_width = 1,
              .train_count = 60000,
              .test_count = 10000},
    .files = files,
    .load = load,
};

static ps_status load(const char *folder, uint32_t train_limit, uint32_t test_limit,
                      ps_dataset **out)
{
    ps_status st = ps_mnist_load(folder, &ps_data_source_mnist.facts, out);

    if (ps_is_ok(&st)) {
        ps_dataset_limit(*out, train_limit, test_limit);
    }
    return st;
}
