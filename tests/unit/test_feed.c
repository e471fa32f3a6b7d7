/* SPDX-License-Identifier: Apache-2.0 */
/* test_feed.c - transforms of samples and of their order, alone and in a list. */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"
#include "common/data/feed.h"
#include "common/data/nonzero.h"

#include "tests/support/close.h"
#include "tests/support/data_rig.h"

#include <math.h>
#include <stdlib.h>

enum { SIDE = 4, CLASSES = 5, TRAIN = 1000, TEST = 20 };

/* Sample i: class i % CLASSES; pixel k of it (i + 16 k) % 256, two channels. */
static ps_dataset *images(void)
{
    const ps_data_facts facts = {.shape = {2, SIDE, SIDE},
                                 .features = 2 * SIDE * SIDE,
                                 .classes = CLASSES,
                                 .target_width = 1,
                                 .train_count = TRAIN,
                                 .test_count = TEST};
    ps_dataset *data = ps_dataset_create(&facts);

    for (size_t s = 0; s < 2; s++) {
        size_t count = s == PS_TRAIN ? TRAIN : TEST;
        ps_nonzero *images = ps_nonzero_create(facts.features, NULL, ps_split_memory((ps_split)s));
        uint8_t x[2 * SIDE * SIDE];
        ps_status st;

        for (size_t i = 0; i < count; i++) {
            for (size_t k = 0; k < facts.features; k++) {
                x[k] = (uint8_t)(i + 16 * k);
            }
            st = ps_nonzero_add(images, x, (uint8_t)(i % CLASSES));
            assert_string_equal(st.text, "");
        }
        st = ps_nonzero_end(images, &data->split[s]);
        assert_string_equal(st.text, "");
    }
    return data;
}

typedef struct rig {
    ps_dataset *data;
    ps_assignment *assignment;
    ps_feed_conf conf;
    ps_feed *feed;
    uint32_t order[TRAIN];
} rig;

static void begin(rig *r, uint32_t blocks)
{
    const ps_assign *iid = ps_assign_find("iid");
    ps_params params = ps_params_default(iid->params);
    ps_status st = iid->make(blocks, &params, &r->assignment);

    assert_string_equal(st.text, "");
    r->data = images();
    r->feed = NULL;
    r->conf = (ps_feed_conf){.seed = 9, .block_size = 10, .assignment = r->assignment};
}

static void add(rig *r, const char *name, const char *param, double value)
{
    ps_transform_choice *choice = &r->conf.transforms[r->conf.transform_count++];

    choice->transform = ps_transform_find(name);
    assert_non_null(choice->transform);
    choice->params = ps_params_default(choice->transform->params);
    if (param != NULL) {
        choice->params.v[ps_param_find(choice->transform->params, param)] = value;
    }
}

static void start(rig *r)
{
    ps_status st;

    ps_feed_destroy(r->feed);
    st = ps_feed_create(r->data, &r->conf, &r->feed);
    assert_string_equal(st.text, "");
}

static void end(rig *r)
{
    ps_feed_destroy(r->feed);
    ps_dataset_destroy(r->data);
    ps_assignment_destroy(r->assignment);
}

static void assert_permutation(const uint32_t *order)
{
    bool seen[TRAIN] = {false};

    for (size_t i = 0; i < TRAIN; i++) {
        assert_true(order[i] < TRAIN && !seen[order[i]]);
        seen[order[i]] = true;
    }
}

static void without_transforms_it_is_the_data_set(void **state)
{
    rig r;
    uint32_t plain[TRAIN];
    float a[2][32], b[2][32], y[2][2];

    (void)state;
    begin(&r, 4);
    start(&r);
    ps_feed_order(r.feed, 3, r.order, TRAIN);
    ps_worker_order(9, 3, 0, plain, TRAIN);
    assert_memory_equal(r.order, plain, sizeof plain);
    ps_feed_gather(r.feed, 3, PS_TRAIN, plain, 0, 2, a[0], y[0]);
    ps_dataset_gather(r.data, PS_TRAIN, plain, 0, 2, b[0], y[1]);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    end(&r);
}

static void shuffle_and_in_order_begin_the_order(void **state)
{
    rig r;
    uint32_t plain[TRAIN];

    (void)state;
    begin(&r, 4);
    add(&r, "shuffle", NULL, 0);
    start(&r);
    ps_feed_order(r.feed, 3, r.order, TRAIN);
    ps_worker_order(9, 3, 0, plain, TRAIN);
    assert_memory_equal(r.order, plain, sizeof plain);
    r.conf.transforms[0].params.v[0] = 0; /* every_epoch */
    start(&r);
    ps_feed_order(r.feed, 3, r.order, TRAIN);
    ps_worker_order(9, 0, 0, plain, TRAIN);
    assert_memory_equal(r.order, plain, sizeof plain);
    r.conf.transform_count = 0;
    add(&r, "in_order", NULL, 0);
    start(&r);
    ps_feed_order(r.feed, 3, r.order, TRAIN);
    for (uint32_t i = 0; i < TRAIN; i++) {
        assert_int_equal(r.order[i], i);
    }
    end(&r);
}

static void label_strata_follow_the_formula(void **state)
{
    enum { B = 40, M = TRAIN / B };
    rig r;

    (void)state;
    begin(&r, 4);
    add(&r, "in_order", NULL, 0);
    add(&r, "non_iid", NULL, 0);
    start(&r);
    ps_feed_order(r.feed, 1, r.order, TRAIN);
    assert_permutation(r.order);
    for (uint32_t t = 0; t < M; t++) { /* by its definition: sorted index j M + t */
        for (uint32_t j = 0; j < B; j++) {
            uint32_t sorted = j * M + t;
            uint32_t sample = sorted % (TRAIN / CLASSES) * CLASSES + sorted / (TRAIN / CLASSES);

            assert_int_equal(r.order[t * B + j], sample);
        }
    }
    for (size_t t = 0; t < M; t++) { /* a block has at most three labels of five */
        for (size_t k = 0; k < 4; k++) {
            bool has[CLASSES] = {false};
            size_t labels = 0;

            for (size_t j = 0; j < 10; j++) {
                size_t c = r.order[t * B + k * 10 + j] % CLASSES;

                labels += !has[c];
                has[c] = true;
            }
            assert_true(labels <= 3);
        }
    }
    end(&r);
}

static void disorder_shuffles_the_front_alone(void **state)
{
    rig r;
    uint32_t skewed[TRAIN];
    size_t moved = 0;

    (void)state;
    begin(&r, 4);
    add(&r, "in_order", NULL, 0);
    add(&r, "non_iid", NULL, 0);
    start(&r);
    ps_feed_order(r.feed, 0, skewed, TRAIN);
    r.conf.transforms[1].params.v[0] = 0.5;
    start(&r);
    ps_feed_order(r.feed, 0, r.order, TRAIN);
    assert_permutation(r.order);
    for (size_t i = 0; i < TRAIN; i++) {
        moved += i < TRAIN / 2 && r.order[i] != skewed[i];
        assert_true(i < TRAIN / 2 || r.order[i] == skewed[i]);
    }
    assert_true(moved > 450);
    end(&r);
}

/* Shares of the classes that each of 4 blocks trains on, over an epoch. */
static void class_shares(rig *r, double share[4][CLASSES])
{
    memset(share, 0, 4 * sizeof *share);
    ps_feed_order(r->feed, 2, r->order, TRAIN);
    for (size_t i = 0; i < TRAIN; i++) {
        assert_true(r->order[i] < TRAIN);
        share[i / 10 % 4][r->order[i] % CLASSES] += 4.0 / TRAIN;
    }
}

static void dirichlet_skews_labels_by_alpha(void **state)
{
    double even[4][CLASSES], skewed[4][CLASSES], most = 0, spread = 0;
    rig r;

    (void)state;
    begin(&r, 4);
    add(&r, "dirichlet", "alpha", 1e6);
    start(&r);
    class_shares(&r, even);
    r.conf.transforms[0].params.v[0] = 0.1;
    start(&r);
    class_shares(&r, skewed);
    for (size_t k = 0; k < 4; k++) {
        double top = 0;

        for (size_t c = 0; c < CLASSES; c++) {
            most = fmax(most, fabs(even[k][c] - 0.2));
            top = fmax(top, skewed[k][c]);
        }
        spread += top / 4;
    }
    assert_true(most < 0.03);
    assert_true(spread > 0.5); /* most of a block is of one class */
    end(&r);
}

static void pools_are_taken_again_from_the_front(void **state)
{
    /* 30 samples: block 0 has 5 of them, block 1 the others. */
    uint16_t pool[30];
    uint32_t order[30], times[30] = {0};
    rig r;
    ps_status st;

    (void)state;
    begin(&r, 2);
    r.conf.block_size = 5;
    for (uint32_t i = 0; i < 30; i++) {
        pool[i] = i >= 5;
        order[i] = 29 - i;
    }
    st = ps_pools_check(&r.conf, "test", pool, 30);
    assert_string_equal(st.text, "");
    ps_pools_arrange(&r.conf, pool, order, 30);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(pool[order[i]], i / 5 % 2);
        times[order[i]]++;
    }
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(times[i], 3);
        assert_int_equal(order[i], 4 - i); /* in the order given */
    }
    memset(pool, 0, sizeof pool);
    st = ps_pools_check(&r.conf, "test", pool, 30);
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_non_null(strstr(st.text, "test: block 1 of 2 has none of the 30"));
    end(&r);
}

/* A set of four training files; targets say the file: 4 and 2 are the first of two workers', 3 and
 * 5 the second's. */
static ps_data_conf write_files(temp_dir *dir)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("libsvm"));

    strcpy(conf.files[0], "part-004");
    strcpy(conf.files[1], "part-003");
    strcpy(conf.files[2], "part-002");
    strcpy(conf.files[3], "part-5");
    strcpy(conf.files[4], "held");
    conf.train_files = 4;
    conf.test_files = 1;
    ps_data_set(&conf, "values", 1);
    data_rig_write(dir, "part-004", "4 1:1\n4 1:2\n4 1:3\n");
    data_rig_write(dir, "part-003", "3 1:4\n3 1:5\n3 1:6\n3 1:7\n");
    data_rig_write(dir, "part-002", "2 1:8\n2 1:9\n2 1:10\n2 1:11\n2 1:12\n");
    data_rig_write(dir, "part-5", "5 1:13\n");
    data_rig_write(dir, "held", "1 1:1\n");
    return conf;
}

enum { PLACES = 16 };

/* The samples of a worker's epoch, by their feature. */
static void take_epoch(const ps_dataset *data, const ps_assignment *assignment, uint32_t worker,
                       uint64_t epoch, float x[PLACES], float y[PLACES])
{
    ps_feed_conf conf = {.seed = 3, .block_size = 2, .assignment = assignment, .worker = worker};
    uint32_t order[PLACES];
    ps_feed *feed = NULL;
    ps_status st = ps_feed_create(data, &conf, &feed);

    assert_string_equal(st.text, "");
    ps_feed_order(feed, epoch, order, PLACES);
    ps_feed_gather(feed, epoch, PS_TRAIN, order, 0, PLACES, x, y);
    ps_feed_destroy(feed);
}

static void files_go_to_workers_by_their_number(void **state)
{
    const ps_assign *modulo = ps_assign_find("modulo");
    ps_params none = ps_params_default(NULL);
    ps_assignment *assignment = NULL;
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = write_files(&dir);
    ps_dataset *data = data_rig_open(&dir, &conf);
    float x[PLACES], again[PLACES], y[PLACES];
    ps_status st = modulo->make(2, &none, &assignment);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(ps_dataset_file_number(data, 0), 4);
    assert_int_equal(ps_dataset_file_number(data, 3), 3);
    assert_int_equal(ps_dataset_file_number(data, 11), 2);
    for (uint32_t worker = 0; worker < 2; worker++) {
        uint32_t times[16] = {0}, own = worker == 0 ? 8 : 5;

        take_epoch(data, assignment, worker, 0, x, y);
        for (uint32_t i = 0; i < PLACES; i++) {
            assert_int_equal((uint32_t)y[i] % 2, worker);
            assert_true(x[i] == x[i % own]); /* from the front again when it ends */
            times[(uint32_t)x[i]]++;
        }
        for (uint32_t k = 1; k <= 13; k++) {
            bool is_own = k < 4 || (k > 7 && k < 13) ? worker == 0 : worker == 1;

            assert_true(is_own ? times[k] >= PLACES / own : times[k] == 0);
        }
        take_epoch(data, assignment, worker, 1, again, y);
        assert_memory_not_equal(x, again, sizeof x);
    }
    ps_dataset_destroy(data);
    ps_assignment_destroy(assignment);
    temp_dir_destroy(&dir);
}

static void normalise_leaves_mean_0_and_deviation_1(void **state)
{
    rig r;
    static float x[TRAIN][32], y[TRAIN];

    (void)state;
    begin(&r, 1);
    add(&r, "normalise", "per", 2);
    start(&r);
    ps_feed_gather(r.feed, 0, PS_TRAIN, NULL, 0, TRAIN, x[0], y);
    for (size_t k = 0; k < 32; k++) {
        double sum = 0, squares = 0;

        for (size_t i = 0; i < TRAIN; i++) {
            sum += (double)x[i][k] / TRAIN;
            squares += (double)(x[i][k] * x[i][k]) / TRAIN;
        }
        assert_true(fabs(sum) < 1e-5 && fabs(squares - 1) < 1e-5);
    }
    r.conf.transforms[0].params.v[0] = 1; /* by channel: its mean over all pixels */
    start(&r);
    ps_feed_gather(r.feed, 0, PS_TRAIN, NULL, 0, TRAIN, x[0], y);
    for (size_t c = 0; c < 2; c++) {
        double sum = 0;

        for (size_t i = 0; i < TRAIN; i++) {
            for (size_t k = 0; k < 16; k++) {
                sum += (double)x[i][16 * c + k] / (16 * TRAIN);
            }
        }
        assert_true(fabs(sum) < 1e-5);
    }
    r.conf.transforms[0].params = (ps_params){.v = {0, 0.25, 0.5}};
    start(&r);
    ps_feed_gather(r.feed, 0, PS_TEST, NULL, 3, 1, x[0], y);
    assert_true(is_close((double)x[0][0], (3.0 / 255 - 0.5 - 0.25) / 0.5, 1e-6, "x", 0));
    ps_dataset_gather(r.data, PS_TEST, NULL, 3, 1, x[1], y);
    for (size_t k = 0; k < 32; k++) { /* the same to the bit, done by the source or behind it */
        assert_true(x[0][k] == (x[1][k] - 0.25f) * 2.0f);
    }
    add(&r, "flip", "chance", 0); /* and once where another comes behind it */
    start(&r);
    ps_feed_gather(r.feed, 0, PS_TEST, NULL, 3, 1, x[2], y);
    assert_memory_equal(x[0], x[2], sizeof x[0]);
    end(&r);
}

static void one_hot_makes_values_of_classes(void **state)
{
    static const float want[2][CLASSES] = {{0, 0, 1, 0, 0}, {0, 0, 0, 1, 0}};
    ps_data_facts facts;
    uint32_t place = 0;
    float x[2][32], y[2][CLASSES];
    rig r;
    ps_status st;

    (void)state;
    begin(&r, 1);
    add(&r, "one_hot", NULL, 0);
    facts = *ps_dataset_facts(r.data);
    st = ps_feed_facts(&r.conf, &facts, &place);
    assert_string_equal(st.text, "");
    assert_int_equal(facts.classes, 0);
    assert_int_equal(facts.target_width, CLASSES);
    start(&r);
    ps_feed_gather(r.feed, 0, PS_TRAIN, NULL, 7, 2, x[0], y[0]);
    assert_memory_equal(y, want, sizeof want);
    add(&r, "non_iid", NULL, 0); /* there is no class any more */
    facts = *ps_dataset_facts(r.data);
    st = ps_feed_facts(&r.conf, &facts, &place);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_int_equal(place, 1);
    assert_non_null(strstr(st.text, "non_iid: samples have no class"));
    end(&r);
}

/* What crop must give, by its definition: the padded image, cut at (down, right). */
static bool is_cut_of(const float *got, const float *whole, int down, int right, float fill)
{
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < SIDE; i++) {
            for (int j = 0; j < SIDE; j++) {
                bool is_in = i + down >= 0 && i + down < SIDE && j + right >= 0 && j + right < SIDE;
                float want = is_in ? whole[(c * SIDE + i + down) * SIDE + j + right] : fill;

                if (got[(c * SIDE + i) * SIDE + j] != want) {
                    return false;
                }
            }
        }
    }
    return true;
}

static void crops_are_cut_out_of_the_padded_image(void **state)
{
    enum { PAD = 5 }; /* more than a side: an image may be all padding */
    bool seen[2 * PAD + 1][2 * PAD + 1] = {{false}};
    size_t kinds = 0;
    float whole[32], got[32], again[32], y;
    rig r;

    (void)state;
    begin(&r, 1);
    add(&r, "crop", "pad", PAD);
    r.conf.transforms[0].params.v[1] = 7;
    start(&r);
    for (uint32_t i = 0; i < TRAIN; i++) {
        size_t found = 0;

        ps_dataset_gather(r.data, PS_TRAIN, NULL, i, 1, whole, &y);
        ps_feed_gather(r.feed, 4, PS_TRAIN, NULL, i, 1, got, &y);
        ps_feed_gather(r.feed, 4, PS_TRAIN, NULL, i, 1, again, &y);
        assert_memory_equal(got, again, sizeof got);
        for (int down = -PAD; down <= PAD; down++) {
            for (int right = -PAD; right <= PAD; right++) {
                if (is_cut_of(got, whole, down, right, 7)) {
                    found++;
                    seen[down + PAD][right + PAD] = true;
                }
            }
        }
        assert_true(found > 0);
    }
    for (size_t a = 0; a <= 2 * PAD; a++) {
        for (size_t b = 0; b <= 2 * PAD; b++) {
            kinds += seen[a][b];
        }
    }
    assert_int_equal(kinds, (2 * PAD + 1) * (2 * PAD + 1));
    ps_dataset_gather(r.data, PS_TEST, NULL, 5, 1, whole, &y);
    ps_feed_gather(r.feed, 4, PS_TEST, NULL, 5, 1, got, &y);
    assert_memory_equal(got, whole, sizeof got);
    end(&r);
}

static void flips_mirror_half_of_the_images_anew_each_epoch(void **state)
{
    float whole[32], got[32], y;
    size_t mirrored = 0, differ = 0;
    bool first[TRAIN];
    rig r;

    (void)state;
    begin(&r, 1);
    add(&r, "flip", NULL, 0);
    start(&r);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        for (uint32_t i = 0; i < TRAIN; i++) {
            bool is_mirrored;

            ps_dataset_gather(r.data, PS_TRAIN, NULL, i, 1, whole, &y);
            ps_feed_gather(r.feed, epoch, PS_TRAIN, NULL, i, 1, got, &y);
            is_mirrored = memcmp(got, whole, sizeof got) != 0;
            for (size_t k = 0; k < 32; k++) {
                size_t from = is_mirrored ? k / SIDE * SIDE + (SIDE - 1 - k % SIDE) : k;

                assert_true(got[k] == whole[from]);
            }
            mirrored += is_mirrored;
            differ += epoch == 1 && is_mirrored != first[i];
            first[i] = is_mirrored;
        }
    }
    assert_in_range(mirrored, 900, 1100); /* deviation 22 */
    assert_in_range(differ, 420, 580);    /* deviation 16 */
    end(&r);
}

static void images_are_asked_for_where_there_are_none(void **state)
{
    ps_data_facts facts = {.shape = {1, 1, 8}, .features = 8, .classes = 3, .target_width = 1};
    uint32_t place = 0;
    rig r;
    ps_status st;

    (void)state;
    begin(&r, 1);
    add(&r, "flip", NULL, 0);
    st = ps_feed_facts(&r.conf, &facts, &place);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "flip: samples are (1, 1, 8); images with at least"));
    r.conf.transform_count = 0;
    add(&r, "dirichlet", NULL, 0);
    add(&r, "dirichlet", NULL, 0);
    st = ps_feed_facts(&r.conf, &facts, &place);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_int_equal(place, 1);
    end(&r);
}

/* Every transform of the build: found by name, and the same bits a second time. */
static void check_again(const ps_transform *transform, void *arg)
{
    enum { ROWS = 20 };
    size_t *count = arg, width;
    float x[2][ROWS * 32], y[2][ROWS * CLASSES];
    uint32_t order[2][TRAIN];
    rig r;

    assert_ptr_equal(ps_transform_find(transform->name), transform);
    memset(y, 0, sizeof y);
    for (size_t i = 0; i < 2; i++) {
        begin(&r, 2);
        add(&r, transform->name, NULL, 0);
        start(&r);
        ps_feed_order(r.feed, 1, order[i], TRAIN);
        width = strcmp(transform->name, "one_hot") == 0 ? CLASSES : 1;
        for (uint32_t k = 0; k < ROWS; k += i == 0 ? ROWS : 1) { /* at once, then one by one */
            ps_feed_gather(r.feed, 1, PS_TRAIN, order[i] + k, 0, i == 0 ? ROWS : 1, x[i] + k * 32,
                           y[i] + k * width);
        }
        end(&r);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    ++*count;
}

static void every_transform_is_the_same_a_second_time(void **state)
{
    size_t count = 0;

    (void)state;
    ps_transform_each(check_again, &count);
    assert_int_equal(count, 8);
    assert_null(ps_transform_find("nothing"));
}

static void every_worker_has_an_order_of_its_own_of_the_whole_set(void **state)
{
    const ps_assign *whole = ps_assign_find("whole");
    uint32_t first[TRAIN], second[TRAIN];
    ps_feed_conf refused;
    ps_data_facts facts;
    uint32_t place;
    ps_status st;
    rig r;

    (void)state;
    begin(&r, 2);
    ps_assignment_destroy(r.assignment);
    st = whole->make(2, NULL, &r.assignment);
    assert_string_equal(st.text, "");
    r.conf.assignment = r.assignment;
    for (int shuffles = 0; shuffles < 2; shuffles++) {
        r.conf.worker = 0;
        start(&r);
        ps_feed_order(r.feed, 3, first, TRAIN);
        assert_permutation(first);
        r.conf.worker = 1;
        start(&r);
        ps_feed_order(r.feed, 3, second, TRAIN);
        assert_permutation(second);
        assert_memory_not_equal(first, second, sizeof first);
        add(&r, "shuffle", NULL, 0);
    }
    refused = r.conf;
    refused.transforms[0].transform = ps_transform_find("non_iid");
    refused.transforms[0].params = ps_params_default(refused.transforms[0].transform->params);
    facts = *ps_dataset_facts(r.data);
    st = ps_feed_facts(&refused, &facts, &place);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "each has all samples"));
    end(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_transforms_it_is_the_data_set),
        cmocka_unit_test(shuffle_and_in_order_begin_the_order),
        cmocka_unit_test(every_worker_has_an_order_of_its_own_of_the_whole_set),
        cmocka_unit_test(label_strata_follow_the_formula),
        cmocka_unit_test(disorder_shuffles_the_front_alone),
        cmocka_unit_test(dirichlet_skews_labels_by_alpha),
        cmocka_unit_test(pools_are_taken_again_from_the_front),
        cmocka_unit_test(files_go_to_workers_by_their_number),
        cmocka_unit_test(normalise_leaves_mean_0_and_deviation_1),
        cmocka_unit_test(one_hot_makes_values_of_classes),
        cmocka_unit_test(crops_are_cut_out_of_the_padded_image),
        cmocka_unit_test(flips_mirror_half_of_the_images_anew_each_epoch),
        cmocka_unit_test(images_are_asked_for_where_there_are_none),
        cmocka_unit_test(every_transform_is_the_same_a_second_time),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
