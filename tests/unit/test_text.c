/* SPDX-License-Identifier: Apache-2.0 */
/* test_text.c - words counted and numbered; n-grams and skip-grams of text files. */
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"
#include "common/data/decimal.h"
#include "common/data/lines.h"
#include "common/data/vocabulary.h"

#include "tests/support/data_rig.h"

#include <math.h>
#include <stdlib.h>
#include <zlib.h>

static void count(ps_vocabulary *v, const char *word, uint64_t times)
{
    ps_status st = ps_vocabulary_count(v, word, strlen(word), times);

    assert_string_equal(st.text, "");
}

static void words_are_numbered_by_count_then_bytes(void **state)
{
    ps_vocabulary *v = ps_vocabulary_create();

    (void)state;
    count(v, "b", 3);
    count(v, "rare", 1);
    count(v, "a", 2);
    count(v, "a", 1);
    count(v, "most", 9);
    count(v, "aa", 3);
    assert_int_equal(ps_vocabulary_order(v, PS_BY_COUNT, 1, 0), 4);
    assert_int_equal(ps_vocabulary_id(v, "most", 4), 0);
    assert_int_equal(ps_vocabulary_id(v, "a", 1), 1);
    assert_int_equal(ps_vocabulary_id(v, "aa", 2), 2);
    assert_int_equal(ps_vocabulary_id(v, "b", 1), 3);
    assert_true(ps_vocabulary_id(v, "rare", 4) == PS_NO_WORD);
    assert_true(ps_vocabulary_id(v, "never", 5) == PS_NO_WORD);
    assert_int_equal(ps_vocabulary_times(v, 1), 3);
    assert_int_equal(ps_vocabulary_total(v), 19);
    ps_vocabulary_destroy(v);
}

static void labels_are_numbered_as_numbers_if_they_are(void **state)
{
    ps_vocabulary *numbers = ps_vocabulary_create(), *texts = ps_vocabulary_create();

    (void)state;
    count(numbers, "10", 1);
    count(numbers, "9", 5);
    count(numbers, "-1", 2);
    assert_int_equal(ps_vocabulary_order(numbers, PS_BY_TEXT, 0, 0), 3);
    assert_int_equal(ps_vocabulary_id(numbers, "-1", 2), 0);
    assert_int_equal(ps_vocabulary_id(numbers, "9", 1), 1);
    assert_int_equal(ps_vocabulary_id(numbers, "10", 2), 2);
    count(texts, "10", 1);
    count(texts, "9", 5);
    count(texts, "x", 5);
    assert_int_equal(ps_vocabulary_order(texts, PS_BY_TEXT, 0, 0), 3);
    assert_int_equal(ps_vocabulary_id(texts, "10", 2), 0);
    ps_vocabulary_destroy(numbers);
    ps_vocabulary_destroy(texts);
}

static void a_vocabulary_holds_many_words(void **state)
{
    ps_vocabulary *v = ps_vocabulary_create();
    char word[16];

    (void)state;
    for (int i = 0; i < 20000; i++) {
        snprintf(word, sizeof word, "w%d", i);
        count(v, word, (uint64_t)(20000 - i));
    }
    assert_int_equal(ps_vocabulary_order(v, PS_BY_COUNT, 0, 15000), 15000);
    for (int i = 0; i < 20000; i++) {
        snprintf(word, sizeof word, "w%d", i);
        assert_true(ps_vocabulary_id(v, word, strlen(word)) ==
                    (i < 15000 ? (uint32_t)i : PS_NO_WORD));
    }
    ps_vocabulary_destroy(v);
}

static void n_grams_follow_imikolov(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("ngram");
    ps_data_facts facts;
    ps_dataset *data;
    ps_status st;

    (void)state;
    data_rig_write(&dir, "train", "a b\nb  b a\tc\r\n\n");
    data_rig_write(&dir, "test", "x <unk> b a c");
    ps_data_set(&conf, "n", 3);
    ps_data_set(&conf, "cutoff", 2);
    st = ps_data_get_facts(&conf, &facts);
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    data = data_rig_open(&dir, &conf);
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    /* Kept: <e> 4, <s> 4, b 4 (by bytes '<' comes first), a 3; c comes twice: <unk>. */
    assert_int_equal(facts.vocabulary, 5);
    assert_int_equal(facts.classes, 5);
    assert_int_equal(facts.features, 2);
    assert_int_equal(facts.ids, 2);
    assert_int_equal(conf.train_limit, 2 + 4); /* "<s> a b <e>" and "<s> b b a c <e>" */
    assert_int_equal(conf.test_limit, 5);
    {
        static const float want_x[6][2] = {{1, 3}, {3, 2}, {1, 2}, {2, 2}, {2, 3}, {3, 4}};
        static const float want_y[6] = {2, 0, 2, 3, 4, 0};
        static const float test_x[5][2] = {{1, 4}, {4, 4}, {4, 2}, {2, 3}, {3, 4}};
        static const float test_y[5] = {4, 2, 3, 4, 0};
        float got_x[6][2], got_y[6];

        ps_dataset_gather(data, PS_TRAIN, NULL, 0, 6, got_x[0], got_y);
        assert_memory_equal(got_x, want_x, sizeof want_x);
        assert_memory_equal(got_y, want_y, sizeof want_y);
        ps_dataset_gather(data, PS_TEST, NULL, 0, 5, got_x[0], got_y);
        assert_memory_equal(got_x, test_x, sizeof test_x);
        assert_memory_equal(got_y, test_y, sizeof test_y);
    }
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void a_vocabulary_of_another_size_is_refused(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("ngram");

    (void)state;
    data_rig_write(&dir, "train", "a b c d e f\n");
    data_rig_write(&dir, "test", "a b c d e f\n");
    ps_data_set(&conf, "cutoff", 0);
    ps_data_set(&conf, "words", 4);
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT,
                     "train and 1 more: words is 4, but the files have 9");
    temp_dir_destroy(&dir);
}

static void text_that_is_none_is_refused_by_line(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("ngram");
    char *line = malloc(PS_WORD_BYTES_MAX + 64);
    ps_status st;

    (void)state;
    assert_non_null(line);
    data_rig_write(&dir, "test", "a b c d e f\n");
    data_rig_refused(&dir, &conf, PS_NOT_FOUND, "no train (or .gz)");
    data_rig_write(&dir, "train", "");
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, "train: is empty, expected lines");
    st = ps_file_write(temp_dir_file(&dir, "train"), "a\nb\0c\n", 6);
    assert_string_equal(st.text, "");
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, "train: line 2: has a NUL byte");
    memset(line, 'w', PS_WORD_BYTES_MAX + 1);
    strcpy(line + PS_WORD_BYTES_MAX + 1, " a\n");
    data_rig_write(&dir, "train", line);
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, "train: line 1: a word of 256 bytes");
    data_rig_write(&dir, "train", "a b\n");
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, "0 training samples");
    free(line);
    line = calloc(1, (2 << 20) + 1);
    assert_non_null(line);
    memset(line, 'a', 2 << 20);
    data_rig_write(&dir, "train", line);
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, "train: line 1: longer than");
    free(line);
    temp_dir_destroy(&dir);
}

static void a_packed_text_is_the_same_text(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("ngram");
    ps_dataset *plain, *packed;
    char path[256];
    float x[2][64 * 4], y[2][64];
    gzFile gz;

    (void)state;
    ps_data_set(&conf, "cutoff", 0);
    data_rig_write(&dir, "train", "one two three four five six seven eight nine ten\nmore\n");
    data_rig_write(&dir, "test", "one two three four\n");
    plain = data_rig_open(&dir, &conf);
    assert_int_equal(remove(temp_dir_file(&dir, "train")), 0);
    snprintf(path, sizeof path, "%s/train.gz", dir.path);
    gz = gzopen(path, "wb");
    assert_non_null(gz);
    assert_true(gzputs(gz, "one two three four five six seven eight nine ten\nmore\n") > 0);
    assert_int_equal(gzclose(gz), Z_OK);
    packed = data_rig_open(&dir, &conf);
    ps_dataset_gather(plain, PS_TRAIN, NULL, 0, conf.train_limit, x[0], y[0]);
    ps_dataset_gather(packed, PS_TRAIN, NULL, 0, conf.train_limit, x[1], y[1]);
    assert_memory_equal(x[0], x[1], conf.train_limit * 4 * sizeof(float));
    assert_memory_equal(y[0], y[1], conf.train_limit * sizeof(float));
    ps_dataset_destroy(plain);
    ps_dataset_destroy(packed);
    temp_dir_destroy(&dir);
}

static void skip_grams_are_pairs_within_the_window(void **state)
{
    static const uint32_t pairs[][2] = {{0, 1}, {1, 0}, {1, 2}, {2, 1}}; /* "a b c", window 1 */
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("skipgram");
    ps_data_facts facts;
    ps_dataset *data;
    ps_status st;

    (void)state;
    ps_data_set(&conf, "window", 1);
    ps_data_set(&conf, "negatives", 3);
    ps_data_set(&conf, "cutoff", 0);
    data_rig_write(&dir, "train", "a b c\nd\n");
    data_rig_write(&dir, "test", "a b c d\n");
    data = data_rig_open(&dir, &conf);
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    assert_int_equal(facts.features, 5);
    assert_int_equal(facts.target_width, 4);
    assert_int_equal(facts.classes, 0);
    assert_int_equal(facts.vocabulary, 5); /* a b c d <unk> */
    assert_int_equal(conf.train_limit, 4);
    assert_int_equal(conf.test_limit, 6);
    for (uint32_t i = 0; i < 4; i++) {
        float x[5], y[4];

        ps_dataset_gather(data, PS_TRAIN, NULL, i, 1, x, y);
        assert_true(x[0] == (float)pairs[i][0] && x[1] == (float)pairs[i][1]);
        assert_true(y[0] == 1 && y[1] == 0 && y[2] == 0 && y[3] == 0);
        for (size_t k = 2; k < 5; k++) {
            assert_true(x[k] >= 0 && x[k] < 5 && x[k] != x[1]);
        }
    }
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

/* The first training sample as it is in a pass over them. */
static void gather_in_pass(const ps_dataset *data, uint64_t pass, float *x, float *targets)
{
    const ps_gathering g = {
        .seed = 7, .pass = pass, .n = 1, .target_pitch = ps_dataset_facts(data)->target_width};

    ps_dataset_gather_pass(data, &g, x, targets);
}

static void noise_is_drawn_by_count_and_anew_each_epoch(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("skipgram");
    enum { SAMPLES = 4000, NEGATIVES = 8 };
    double times[2] = {0}, want;
    ps_dataset *data;
    float x[2 + NEGATIVES], y[1 + NEGATIVES], again[2 + NEGATIVES], later[2 + NEGATIVES];

    (void)state;
    ps_data_set(&conf, "window", 1);
    ps_data_set(&conf, "negatives", NEGATIVES);
    ps_data_set(&conf, "cutoff", 0);
    /* 16 of "m" and one "n" beside the pair: weights 16^.75 = 8 to 1. */
    data_rig_write(&dir, "train", "p q\nm\nm\nm\nm\nm\nm\nm\nm\nm\nm\nm\nm\nm\nm\nm\nm\nn\n");
    data_rig_write(&dir, "test", "p q\n");
    data = data_rig_open(&dir, &conf);
    for (uint64_t pass = 0; pass < SAMPLES; pass++) {
        gather_in_pass(data, pass, x, y);
        for (size_t k = 2; k < 2 + NEGATIVES; k++) {
            times[0] += x[k] == 0; /* m is the most frequent */
            times[1] += x[k] == 1; /* then p, which comes twice, and q; n comes once */
        }
    }
    /* q is the context and is drawn again: m 8, p 2^.75, n 1. */
    want = 8 / (8 + pow(2, 0.75) + 1);
    assert_true(fabs(times[0] / (SAMPLES * NEGATIVES) - want) < 0.01);
    gather_in_pass(data, 0, x, y);
    gather_in_pass(data, 0, again, y);
    assert_memory_equal(x, again, sizeof x);
    for (uint64_t pass = 1;; pass++) { /* eight draws differ soon */
        gather_in_pass(data, pass, later, y);
        if (memcmp(x, later, sizeof x) != 0) {
            break;
        }
        assert_true(pass < 20);
    }
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void lines_are_set_apart_for_the_test_by_their_number(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("ngram");
    ps_dataset *data;
    char *text = calloc(1, 1 << 16);

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < 2000; i++) {
        strcat(text + 12 * i, "a b c d e f\n"); /* four 5-grams with its marks */
    }
    data_rig_write(&dir, "train", text);
    conf.test_files = 0;
    ps_data_set(&conf, "test_share", 0.25);
    data = data_rig_open(&dir, &conf);
    assert_int_equal(conf.train_limit + conf.test_limit, 8000);
    assert_in_range(conf.test_limit, 1700, 2300); /* deviation 77 */
    ps_dataset_destroy(data);
    free(text);
    temp_dir_destroy(&dir);
}

/* The words of a set, as the artifact has them. */
static void assert_words(const ps_dataset *data, const char *want)
{
    size_t bytes = 0;
    const char *words = ps_dataset_words(data, &bytes);

    assert_non_null(words);
    assert_int_equal(bytes, strlen(want));
    assert_memory_equal(words, want, bytes);
}

static void words_that_are_given_have_the_ids_of_their_lines(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("ngram"), again;
    ps_dataset *data;
    float x[1], y;

    (void)state;
    ps_data_set(&conf, "n", 2);
    ps_data_set(&conf, "cutoff", 1);
    data_rig_write(&dir, "train", "b b b c c a a rare\n");
    data_rig_write(&dir, "test", "a b\n");
    again = conf;
    data = data_rig_open(&dir, &conf);
    assert_words(data, "b\na\n<e>\n<s>\nc\n<unk>\n");
    ps_dataset_destroy(data);

    /* What another set counts and its cutoff do not matter. */
    strcpy(again.vocabulary, "words.txt");
    data_rig_write(&dir, "words.txt", "c\r\nnever\nb\n");
    data = data_rig_open(&dir, &again);
    assert_int_equal(ps_data_count(&again, "words"), 4);
    assert_words(data, "c\nnever\nb\n<unk>\n");
    ps_dataset_gather(data, PS_TRAIN, NULL, 3, 1, x, &y); /* b c */
    assert_int_equal((int)x[0], 2);
    assert_int_equal((int)y, 0);
    ps_dataset_gather(data, PS_TEST, NULL, 1, 1, x, &y); /* a b */
    assert_int_equal((int)x[0], 3);
    assert_int_equal((int)y, 2);
    ps_dataset_destroy(data);

    data_rig_write(&dir, "words.txt", "c\nnever\nb\n<unk>\n"); /* as the artifact has them */
    data = data_rig_open(&dir, &again);
    assert_int_equal(ps_data_count(&again, "words"), 4);
    ps_dataset_destroy(data);
    ps_data_set(&again, "words", 0);
    data_rig_write(&dir, "words.txt", "c\n<unk>\nb\n");
    data_rig_refused(&dir, &again, PS_INVALID_ARGUMENT, "words.txt: line 3: comes after <unk>");
    data_rig_write(&dir, "words.txt", "c\nb\nc\n");
    data_rig_refused(&dir, &again, PS_INVALID_ARGUMENT, "words.txt: line 3: \"c\" is another");
    data_rig_write(&dir, "words.txt", "c\nb 7\n");
    data_rig_refused(&dir, &again, PS_INVALID_ARGUMENT, "line 2: is \"b 7\"; one word");
    strcpy(again.vocabulary, "none.txt");
    data_rig_refused(&dir, &again, PS_NOT_FOUND, "no none.txt");
    temp_dir_destroy(&dir);
}

static void the_real_text_has_the_words_it_has(void **state)
{
    /* Counted apart, by a few lines of Python. */
    const char *root = getenv("PSGD_DATA");
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("ngram"));
    char folder[4096];
    ps_status st;

    (void)state;
    if (root == NULL || root[0] == '\0') {
        print_message("PSGD_DATA is not set: the real text is not tested\n");
        skip();
    }
    snprintf(folder, sizeof folder, "%s/text", root);
    strcpy(conf.files[0], "tinyshakespeare.txt");
    conf.train_files = 1;
    st = ps_data_look(folder, &conf);
    assert_string_equal(st.text, "");
    assert_int_equal(ps_data_count(&conf, "words"), 479);
    assert_int_equal(conf.train_limit + conf.test_limit, 142567);
}

/* Words lie side by side, so what comes after one may be anything, or not be there. */
static void a_number_ends_where_its_text_does(void **state)
{
    static const char all[] = {'1', '2', '.', '5', 'e', '1', 'x'};
    char *end = ps_xmalloc(4); /* what is read behind it, a sanitizer sees */
    double value = 0;

    (void)state;
    memcpy(end, "12.5", 4);
    assert_true(ps_text_number(end, 4, &value));
    assert_true(value == 12.5);
    free(end);
    assert_true(ps_text_number(all, 6, &value));
    assert_true(value == 125);
    assert_true(ps_text_number(all, 2, &value));
    assert_true(value == 12);
    assert_false(ps_text_number(all, 7, &value));
    assert_false(ps_text_number("1\0002", 3, &value));
    assert_false(ps_text_number("0x1", 3, &value));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_numbered_by_count_then_bytes),
        cmocka_unit_test(labels_are_numbered_as_numbers_if_they_are),
        cmocka_unit_test(a_vocabulary_holds_many_words),
        cmocka_unit_test(n_grams_follow_imikolov),
        cmocka_unit_test(a_vocabulary_of_another_size_is_refused),
        cmocka_unit_test(text_that_is_none_is_refused_by_line),
        cmocka_unit_test(a_packed_text_is_the_same_text),
        cmocka_unit_test(skip_grams_are_pairs_within_the_window),
        cmocka_unit_test(noise_is_drawn_by_count_and_anew_each_epoch),
        cmocka_unit_test(lines_are_set_apart_for_the_test_by_their_number),
        cmocka_unit_test(words_that_are_given_have_the_ids_of_their_lines),
        cmocka_unit_test(the_real_text_has_the_words_it_has),
        cmocka_unit_test(a_number_ends_where_its_text_does),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
