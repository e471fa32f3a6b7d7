/* SPDX-License-Identifier: Apache-2.0 */
/* mnist.c - images from four IDX files with MNIST's names, plain or .gz. Size and number of the
 * images are those of the files, so Fashion-MNIST, KMNIST or a user's own images load too.
 *
 * A node without the files, such as a coordinator whose workers have them, assumes MNIST
 * itself.
 */
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"
#include "common/data/idx.h"
#include "common/data/nonzero.h"

#include <stdlib.h>

static const char *const files[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", NULL};

enum { ROWS, COLUMNS, CLASSES };
enum { SIDE = 28, DIGITS = 10, TRAIN_COUNT = 60000, TEST_COUNT = 10000 };
enum { CLASSES_MAX = 256, SIDE_MAX = 1024 };

static const ps_param params[] = {
    [ROWS] = {.name = "rows",
              .max = SIDE_MAX,
              .is_integer = true,
              .help = "rows of an image; 0: as the files say"},
    [COLUMNS] = {.name = "columns",
                 .max = SIDE_MAX,
                 .is_integer = true,
                 .help = "columns of an image; 0: as the files say"},
    [CLASSES] = {.name = "classes",
                 .max = CLASSES_MAX,
                 .is_integer = true,
                 .help = "labels are below it; 0: one more than the greatest label of the files"},
    {.name = NULL},
};

_Static_assert(SIDE_MAX *SIDE_MAX <= PS_DATA_FEATURES_MAX, "an image is a sample");

static ps_status mnist_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    uint32_t rows = ps_data_count(conf, "rows"), columns = ps_data_count(conf, "columns");
    uint32_t classes = ps_data_count(conf, "classes");

    *facts =
        (ps_data_facts){.shape = {1, rows == 0 ? SIDE : rows, columns == 0 ? SIDE : columns},
                        .classes = classes == 0 ? DIGITS : classes,
                        .target_width = 1,
                        .train_count = conf->train_limit == 0 ? TRAIN_COUNT : conf->train_limit,
                        .test_count = conf->test_limit == 0 ? TEST_COUNT : conf->test_limit};
    facts->features = facts->shape[1] * facts->shape[2];
    return ps_ok();
}

/* --- the files of a split ---------------------------------------------------------- */

typedef struct pair {
    ps_split split;
    ps_idx images, labels; /* (count, rows, columns); (count) */
    uint32_t greatest;     /* greatest label that was read so far */
} pair;

static ps_status check_side(const ps_idx *images, uint32_t i)
{
    if (images->dim[i] > SIDE_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s: offset %u: dimension %u is %u, expected %d at most", images->name,
                       4 + 4 * i, i, images->dim[i], SIDE_MAX);
    }
    return ps_ok();
}

static void close_pair(pair *p)
{
    ps_idx_close(&p->images);
    ps_idx_close(&p->labels);
}

/* Opens both files of a split. Fails unless their counts agree and no side of an image exceeds
 * SIDE_MAX. */
static ps_status open_pair(pair *p, const char *folder, ps_split split)
{
    const char *const *names = &files[2 * split];
    ps_status st;

    *p = (pair){.split = split};
    st = ps_idx_open(&p->labels, folder, names[1], 1);
    if (ps_is_ok(&st)) {
        st = ps_idx_open(&p->images, folder, names[0], 3);
    }
    if (ps_is_ok(&st)) {
        st = ps_idx_expect(&p->images, 0, p->labels.dim[0]);
    }
    for (uint32_t i = 1; i < 3 && ps_is_ok(&st); i++) {
        st = check_side(&p->images, i);
    }
    if (!ps_is_ok(&st)) {
        close_pair(p);
    }
    return st;
}

/* Reads the next sample, whose index is `at`, into x (rows, columns) and *label. Fails unless its
 * label is below `classes`. */
static ps_status read_sample(pair *p, uint32_t at, uint32_t classes, uint8_t *x, uint8_t *label)
{
    size_t features = (size_t)p->images.dim[1] * p->images.dim[2];
    ps_status st = ps_idx_read(&p->labels, label, 1);

    if (ps_is_ok(&st) && *label >= classes) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s: offset %u: label %u, expected 0 to %u",
                     p->labels.name, 8 + at, *label, classes - 1);
    }
    if (ps_is_ok(&st)) {
        st = ps_idx_read(&p->images, x, features);
    }
    p->greatest = *label > p->greatest ? *label : p->greatest;
    return st;
}

/* Reads all samples, and adds the first `want` of them to `to` unless it is NULL. Fails if the
 * files do not end with the last sample. */
static ps_status read_samples(pair *p, uint32_t classes, uint32_t want, ps_nonzero *to)
{
    uint8_t *x = ps_xmalloc((size_t)p->images.dim[1] * p->images.dim[2]), label = 0;
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < p->labels.dim[0] && ps_is_ok(&st); i++) {
        st = read_sample(p, i, classes, x, &label);
        if (ps_is_ok(&st) && to != NULL && i < want) {
            st = ps_nonzero_add(to, x, label);
        }
    }
    free(x);
    if (ps_is_ok(&st)) {
        st = ps_idx_end(&p->labels);
    }
    if (ps_is_ok(&st)) {
        st = ps_idx_end(&p->images);
    }
    return st;
}

/* --- looking ------------------------------------------------------------------------ */

/* Opens a split. Fails unless its images have the rows and columns of `conf`. If one of the two is
 * 0 there, any number is allowed and the files' number replaces it. */
static ps_status open_sized(pair *p, const char *folder, ps_split split, ps_data_conf *conf)
{
    ps_status st = open_pair(p, folder, split);

    for (uint32_t i = 0; i < 2 && ps_is_ok(&st); i++) {
        if (conf->params.v[ROWS + i] == 0) {
            conf->params.v[ROWS + i] = p->images.dim[1 + i];
        }
        st = ps_idx_expect(&p->images, 1 + i, (uint32_t)conf->params.v[ROWS + i]);
    }
    if (!ps_is_ok(&st)) {
        close_pair(p);
    }
    return st;
}

static ps_status look(const char *folder, ps_data_conf *conf)
{
    uint32_t given = ps_data_count(conf, "classes"), count[2] = {0}, greatest = 0;
    ps_status st = ps_ok();
    pair p;

    for (uint32_t s = 0; s < 2 && ps_is_ok(&st); s++) {
        st = open_sized(&p, folder, (ps_split)s, conf);
        if (ps_is_ok(&st)) {
            st = read_samples(&p, given == 0 ? CLASSES_MAX : given, 0, NULL);
            count[s] = p.labels.dim[0];
            greatest = p.greatest > greatest ? p.greatest : greatest;
            close_pair(&p);
        }
    }
    if (ps_is_ok(&st) && given == 0) {
        ps_data_set(conf, "classes", greatest == 0 ? 2 : greatest + 1);
    }
    return ps_is_ok(&st) ? ps_data_found_counts(conf, count[PS_TRAIN], count[PS_TEST]) : st;
}

/* --- loading ------------------------------------------------------------------------ */

static ps_status load_split(const char *folder, const char *scratch, const ps_data_facts *facts,
                            ps_split split, ps_samples **out)
{
    uint32_t want = split == PS_TRAIN ? facts->train_count : facts->test_count;
    ps_nonzero *to = NULL;
    pair p;
    ps_status st = open_pair(&p, folder, split);

    for (uint32_t i = 1; i < 3 && ps_is_ok(&st); i++) {
        st = ps_idx_expect(&p.images, i, facts->shape[i]);
    }
    if (ps_is_ok(&st) && p.labels.dim[0] < want) {
        st = ps_idx_expect(&p.images, 0, want);
    }
    if (ps_is_ok(&st)) {
        to = ps_nonzero_create(facts->features, scratch, ps_split_memory(split));
        st = read_samples(&p, facts->classes, want, to);
    }
    if (ps_is_ok(&st)) {
        st = ps_nonzero_end(to, out);
    }
    if (!ps_is_ok(&st)) {
        ps_nonzero_destroy(to);
    }
    close_pair(&p);
    return st;
}

static ps_status load(const ps_data_conf *conf, const char *folder, const char *scratch,
                      ps_dataset **out)
{
    ps_data_facts facts;
    ps_dataset *data;
    ps_status st = mnist_facts(conf, &facts);

    if (!ps_is_ok(&st)) {
        return st;
    }
    data = ps_dataset_create(&facts);
    for (uint32_t s = 0; s < 2 && ps_is_ok(&st); s++) {
        st = load_split(folder, scratch, &facts, (ps_split)s, &data->split[s]);
    }
    if (!ps_is_ok(&st)) {
        ps_dataset_destroy(data);
        return st;
    }
    *out = data;
    return ps_ok();
}

const ps_data_source ps_data_source_mnist = {
    .name = "mnist",
    .summary = "28x28 handwritten digits, 60,000 train and 10,000 test, or other images, from IDX "
               "files with MNIST's names",
    .params = params,
    .files = files,
    .is_usual_unseen = true,
    .facts = mnist_facts,
    .look = look,
    .load = load,
};
