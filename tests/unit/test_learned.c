/* SPDX-License-Identifier: Apache-2.0 */
/* test_learned.c - a process that has its own training files alone, and what was learned from all,
 * has the samples that it would have with all files; what cannot be is refused. */
#include "common/data/learn.h"

#include "common/data/assign.h"
#include "common/data/feed.h"
#include "tests/support/data_rig.h"

#include <math.h>
#include <unistd.h>

enum { FILES = 5, WORKERS = 2, PLACES = 64, WIDTH = 16 };

static const char *const names[FILES] = {"part-004", "part-003", "part-002", "part-5", "part-16"};

/* Training files whose lines are pieces of `lines`, after a header in each; with test files a file
 * "held" of some of them. */
typedef struct set {
    temp_dir dir, learned;
    ps_data_conf conf;
    ps_feed_conf feed;
    ps_assignment *assignment;
} set;

static void write_set(set *s, const char *header, const char *const *lines, size_t count)
{
    char text[4096];

    for (uint32_t f = 0; f < FILES + s->conf.test_files; f++) {
        size_t from = f < FILES ? f * count / FILES : 1;
        size_t to = f < FILES ? (f + 1) * count / FILES : 6;

        snprintf(text, sizeof text, "%s", header);
        for (size_t i = from; i < to; i++) {
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", lines[i]);
        }
        data_rig_write(&s->dir, f < FILES ? names[f] : "held", text);
    }
}

static void begin(set *s, const char *source, bool has_test_files)
{
    const ps_assign *modulo = ps_assign_find("modulo");
    ps_params none = ps_params_default(NULL);
    ps_status st = modulo->make(WORKERS, &none, &s->assignment);

    assert_string_equal(st.text, "");
    s->dir = temp_dir_create();
    s->learned = temp_dir_create();
    s->conf = ps_data_conf_of(ps_data_source_find(source));
    s->feed = (ps_feed_conf){.seed = 3, .block_size = 2, .assignment = s->assignment};
    for (uint32_t f = 0; f < FILES; f++) {
        strcpy(s->conf.files[f], names[f]);
    }
    s->conf.train_files = FILES;
    if (has_test_files) {
        strcpy(s->conf.files[FILES], "held");
        s->conf.test_files = 1;
    }
}

static void end(set *s)
{
    ps_assignment_destroy(s->assignment);
    temp_dir_destroy(&s->dir);
    temp_dir_destroy(&s->learned);
}

/* Learns from all files, and writes what came out as a process receives it. */
static void learn(set *s)
{
    ps_learned_parts parts;
    ps_status st = ps_data_look(s->dir.path, &s->conf);

    assert_string_equal(st.text, "");
    s->conf.share = (ps_data_share){.of = WORKERS, .count = WORKERS};
    st = ps_data_learn(&s->conf, &s->feed, s->dir.path, s->dir.path, &parts);
    assert_string_equal(st.text, "");
    assert_int_equal(parts.count, s->conf.test_files > 0 ? 1 : 2);
    for (size_t i = 0; i < parts.count; i++) {
        size_t n = (size_t)parts.at[i].size;
        char *bytes = malloc(n), hex[PS_SHA256_HEX_BYTES];

        assert_true(ps_spill_read(parts.at[i].content, 0, n, bytes));
        ps_sha256_of(bytes, n, hex);
        assert_string_equal(hex, parts.at[i].sha256);
        st = ps_file_write(temp_dir_file(&s->learned, parts.at[i].name), bytes, n);
        assert_string_equal(st.text, "");
        free(bytes);
    }
    ps_learned_parts_free(&parts);
}

typedef struct samples {
    float x[3][PLACES][WIDTH], y[3][PLACES][WIDTH]; /* of two epochs, and for testing */
    char words[256];
    uint32_t test_count;
} samples;

static void take(const set *s, const ps_dataset *data, uint32_t worker, samples *out)
{
    ps_feed_conf conf = s->feed;
    uint32_t order[PLACES];
    size_t bytes = 0;
    const char *words = ps_dataset_words(data, &bytes);
    ps_feed *feed = NULL;
    ps_status st;

    memset(out, 0, sizeof *out);
    conf.worker = worker;
    st = ps_feed_create(data, &conf, &feed);
    assert_string_equal(st.text, "");
    assert_true(ps_dataset_facts(data)->features <= WIDTH);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        ps_feed_order(feed, epoch, order, PLACES);
        ps_feed_gather(feed, epoch, PS_TRAIN, order, 0, PLACES, out->x[epoch][0], out->y[epoch][0]);
    }
    out->test_count = ps_dataset_count(data, PS_TEST);
    assert_in_range(out->test_count, 1, PLACES);
    ps_feed_gather(feed, 0, PS_TEST, NULL, 0, out->test_count, out->x[2][0], out->y[2][0]);
    if (words != NULL) {
        snprintf(out->words, sizeof out->words, "%.*s", (int)bytes, words);
    }
    ps_feed_destroy(feed);
}

/* Both workers have the same bits with all files and with their own. */
static void compare(set *s)
{
    static samples with_all, with_own;
    ps_dataset *data = NULL;
    ps_data_conf part;
    temp_dir own;
    ps_status st;

    learn(s);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        st = ps_data_load(&s->conf, s->dir.path, NULL, &data);
        assert_string_equal(st.text, "");
        take(s, data, worker, &with_all);
        ps_dataset_destroy(data);
        own = temp_dir_create();
        for (uint32_t f = 0; f < FILES; f++) { /* the other worker's files are not there */
            uint32_t number;

            assert_true(ps_data_file_number(names[f], &number));
            if (number % WORKERS == worker) {
                assert_int_equal(
                    link(temp_dir_file(&s->dir, names[f]), temp_dir_file(&own, names[f])), 0);
            }
        }
        if (s->conf.test_files > 0) {
            assert_int_equal(link(temp_dir_file(&s->dir, "held"), temp_dir_file(&own, "held")), 0);
        }
        part = s->conf;
        part.share = (ps_data_share){.of = WORKERS, .first = worker, .count = 1};
        st = ps_data_load_share(&part, own.path, s->learned.path, NULL, &data);
        assert_string_equal(st.text, "");
        take(s, data, worker, &with_own);
        assert_memory_equal(&with_all, &with_own, sizeof with_all);
        ps_dataset_destroy(data);
        temp_dir_destroy(&own);
    }
}

static const char *const sentences[] = {
    "a b c d",   "b c d e f", "",         "a a b <unk> c", "d e f a b c", "c b a f",
    "e f g a b", "a b c a b", "d d d d",  "g f e d c b a", "b a b a b a", "c d e f g",
    "a c e g",   "b d f a",   "f e d c",  "a b c d e f g", "g g a b c d", "e d c b a",
    "b c d a",   "c d a b c", "a d c b a"};
enum { SENTENCES = sizeof sentences / sizeof sentences[0] };

static void words_are_counted_in_all_files(void **state)
{
    (void)state;
    for (int has_test_files = 0; has_test_files < 2; has_test_files++) {
        set s;

        begin(&s, "ngram", has_test_files != 0);
        ps_data_set(&s.conf, "n", 3);
        ps_data_set(&s.conf, "cutoff", 6);
        write_set(&s, "", sentences, SENTENCES);
        compare(&s);
        end(&s);
    }
}

static void noise_is_drawn_by_the_counts_of_all_files(void **state)
{
    (void)state;
    for (int has_test_files = 0; has_test_files < 2; has_test_files++) {
        set s;

        begin(&s, "skipgram", has_test_files != 0);
        ps_data_set(&s.conf, "window", 1);
        ps_data_set(&s.conf, "cutoff", 2);
        write_set(&s, "", sentences, SENTENCES);
        if (has_test_files != 0) { /* given words need the counts too */
            strcpy(s.conf.vocabulary, "words");
            data_rig_write(&s.dir, "words", "c\nb\na\nd\n");
        }
        compare(&s);
        end(&s);
    }
}

static const char *const records[] = {
    "1,red,yes,0.5",    "2,\"a, b\",no,1.5", "3,blue,no,-1",   "4,red,yes,2",    "5,,maybe,3",
    "6,\"x\ny\",no,4",  "7,red,maybe,5",     "8,blue,yes,6.5", "9,red,no,7",     "10,blue,yes,8",
    "11,\"a, b\",no,9", "12,green,yes,10",   "13,red,no,11",   "14,red,yes,12",  "15,blue,maybe,13",
    "16,red,no,14",     "17,red,yes,15",     "18,,no,16",      "19,blue,yes,17", "20,red,no,18"};
enum { RECORDS = sizeof records / sizeof records[0] };

static void columns_are_learned_from_all_files(void **state)
{
    (void)state;
    for (int has_test_files = 0; has_test_files < 2; has_test_files++) {
        set s;

        begin(&s, "csv", has_test_files != 0);
        data_rig_column(&s.conf, "n", "numeric");
        data_rig_column(&s.conf, "colour", "vocabulary");
        data_rig_column(&s.conf, "answer", "label");
        data_rig_column(&s.conf, "m", "numeric");
        s.conf.columns[3].params.v[0] = 2; /* to [0, 1] */
        write_set(&s, "n,colour,answer,m\n", records, RECORDS);
        compare(&s);
        end(&s);
    }
}

/* Test records keep the header of their file. */
static void files_may_have_their_columns_in_another_order(void **state)
{
    set s;

    (void)state;
    begin(&s, "csv", false);
    data_rig_column(&s.conf, "n", "numeric");
    data_rig_column(&s.conf, "t", "target");
    ps_data_set(&s.conf, "test_share", 0.5);
    data_rig_write(&s.dir, names[0], "n,t\n1,2\n3,4\n5,6\n7,8\n");
    data_rig_write(&s.dir, names[1], "t,n\n1,2\n3,4\n5,6\n7,8\n");
    data_rig_write(&s.dir, names[2], "t,x,n\n1,0,2\n3,0,4\n5,0,6\n");
    data_rig_write(&s.dir, names[3], "n,t\n9,2\n8,4\n7,6\n6,8\n");
    data_rig_write(&s.dir, names[4], "n,t\n1,2\n1,4\n1,6\n1,8\n");
    compare(&s);
    end(&s);
}

static const char *const points[] = {"1 1:1 3:2", "2 2:1",     "-1 1:4", "1 3:3 # x", "2 1:1",
                                     "-1 2:5",    "1 1:6",     "1 2:7",  "2 3:1 4:1", "1 1:8",
                                     "-1 1:9",    "2 1:2 2:2", "1 4:10", "1 1:11",    "2 1:3"};
enum { POINTS = sizeof points / sizeof points[0] };

static void labels_are_those_of_all_files(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        set s;

        begin(&s, "libsvm", kind % 2 != 0);
        ps_data_set(&s.conf, "values", kind / 2);
        write_set(&s, "", points, POINTS);
        compare(&s);
        end(&s);
    }
}

static void samples_are_measured_in_all_files(void **state)
{
    (void)state;
    for (int per = 1; per < 3; per++) {
        set s;

        begin(&s, "libsvm", per == 1);
        s.feed.transforms[0].transform = ps_transform_find("normalise");
        s.feed.transforms[0].params = ps_params_default(s.feed.transforms[0].transform->params);
        s.feed.transforms[0].params.v[0] = per;
        s.feed.transform_count = 1;
        write_set(&s, "", points, POINTS);
        compare(&s);
        end(&s);
    }
}

/* --- what cannot be --------------------------------------------------------------- */

/* Facts as a program that lies would write them. */
typedef struct lie {
    ps_buf *bytes;
    ps_state_out out;
} lie;

static void put_f64(lie *l, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    ps_state_put_u64(&l->out, bits);
}

static void begin_lie(lie *l)
{
    l->bytes = NULL;
    ps_state_out_init(&l->out, "PSLEARND", 1, ps_state_write_buf, &l->bytes);
}

static void put_files(lie *l, uint64_t records_of, uint32_t samples_of)
{
    ps_state_begin(&l->out, 1, 0);
    ps_state_put_u32(&l->out, FILES);
    for (size_t f = 0; f < FILES; f++) {
        ps_state_put_u32(&l->out, (uint32_t)strlen(names[f]));
        ps_state_put(&l->out, names[f], strlen(names[f]));
        ps_state_put_u64(&l->out, records_of);
        ps_state_put_u32(&l->out, samples_of);
    }
    ps_state_finish(&l->out);
}

static void put_words(lie *l, uint64_t total, uint32_t count, const char *word, uint64_t times)
{
    ps_state_begin(&l->out, 2, 0);
    ps_state_put_u64(&l->out, total);
    ps_state_put_u32(&l->out, count);
    for (uint32_t i = 0; i < count && i < 3; i++) {
        ps_state_put_u64(&l->out, times);
        ps_state_put_u32(&l->out, (uint32_t)strlen(word));
        ps_state_put(&l->out, word, strlen(word));
    }
    ps_state_finish(&l->out);
}

/* Loads worker 0's share with these facts. It is refused with `text`. */
static void refused(set *s, lie *l, const char *text)
{
    ps_data_conf part = s->conf;
    ps_dataset *data = NULL;
    ps_status st = ps_state_out_end(&l->out);

    assert_string_equal(st.text, "");
    st = ps_file_write(temp_dir_file(&s->learned, PS_LEARNED_FACTS), l->bytes->data, l->bytes->len);
    assert_string_equal(st.text, "");
    ps_buf_unref(l->bytes);
    part.share = (ps_data_share){.of = WORKERS, .first = 0, .count = 1};
    st = ps_data_load_share(&part, s->dir.path, s->learned.path, NULL, &data);
    if (strstr(st.text, text) == NULL) {
        fail_msg("wanted \"%s\", got \"%s\"", text, st.text);
    }
    assert_null(data);
}

static void facts_that_are_not_there_are_refused_with_advice(void **state)
{
    ps_dataset *data = NULL;
    ps_data_conf part;
    ps_status st;
    set s;

    (void)state;
    begin(&s, "libsvm", true);
    write_set(&s, "", points, POINTS);
    learn(&s);
    assert_int_equal(unlink(temp_dir_file(&s.learned, PS_LEARNED_FACTS)), 0);
    part = s.conf;
    part.share = (ps_data_share){.of = WORKERS, .first = 0, .count = 1};
    st = ps_data_load_share(&part, s.dir.path, s.learned.path, NULL, &data);
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_non_null(strstr(st.text, ".learned is missing"));
    assert_non_null(strstr(st.text, "submit the job again"));
    end(&s);
}

static void facts_that_cannot_be_are_refused(void **state)
{
    char name[PS_WORD_BYTES_MAX + 2];
    set s;
    lie l;

    (void)state;
    begin(&s, "libsvm", true);
    write_set(&s, "", points, POINTS);
    learn(&s);

    begin_lie(&l);
    refused(&s, &l, "files: have 0 training samples; 15 and more are allowed (train_limit)");
    begin_lie(&l);
    put_files(&l, 4, 3);
    put_words(&l, 9, 3, "1", 1);
    refused(&s, &l, "\"1\" is another word's line");
    begin_lie(&l);
    put_files(&l, 4, 3);
    put_words(&l, 9, 1, "1", 1);
    refused(&s, &l, "1 different labels, expected 2 to 65536");
    begin_lie(&l);
    put_files(&l, 4, 3);
    refused(&s, &l, "words[0] are not there");
    begin_lie(&l);
    put_files(&l, UINT64_MAX, 3);
    refused(&s, &l, "records and 3 samples; 4294967294 samples in all are allowed");
    begin_lie(&l);
    put_files(&l, 4, 1u << 30);
    refused(&s, &l, "4294967294 samples in all are allowed");
    begin_lie(&l);
    put_files(&l, 3, 3);
    put_files(&l, 3, 3);
    refused(&s, &l, "files come twice; once is allowed");
    begin_lie(&l);
    put_files(&l, 3, 3);
    put_words(&l, 0, 1, "1", 1);
    refused(&s, &l, "words[0][0]: its count is more than is left of the sum");
    begin_lie(&l);
    put_files(&l, 3, 3);
    put_words(&l, 0, PS_WORDS_MAX + 1, "1", 0);
    refused(&s, &l, "words");
    begin_lie(&l);
    put_files(&l, 3, 3);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    put_words(&l, 9, 1, name, 1);
    refused(&s, &l, "256");
    begin_lie(&l);
    put_files(&l, 3, 3);
    ps_state_begin(&l.out, 9, 0);
    ps_state_finish(&l.out);
    refused(&s, &l, "section 9[0]; kinds 1 to 4");
    begin_lie(&l);
    put_files(&l, 3, 3);
    ps_state_begin(&l.out, 4, PS_LEARNED_VALUES_MAX);
    ps_state_finish(&l.out);
    refused(&s, &l, "indices below 16 are allowed");
    begin_lie(&l);
    put_files(&l, 3, 3);
    ps_state_begin(&l.out, 3, 0);
    ps_state_put_u64(&l.out, 3);
    put_f64(&l, 0);
    put_f64(&l, -1);
    put_f64(&l, 0);
    put_f64(&l, 0);
    ps_state_finish(&l.out);
    refused(&s, &l, "columns.squares is -1; finite numbers of 0 and more are allowed");
    begin_lie(&l);
    put_files(&l, 3, 3);
    ps_state_begin(&l.out, 3, 0);
    ps_state_put_u64(&l.out, 3);
    put_f64(&l, (double)NAN);
    put_f64(&l, 0);
    put_f64(&l, 0);
    put_f64(&l, 0);
    ps_state_finish(&l.out);
    refused(&s, &l, "columns.mean is nan");
    end(&s);
}

static void files_of_other_sizes_than_were_learned_are_refused(void **state)
{
    set s;
    lie l;

    (void)state;
    begin(&s, "libsvm", true);
    ps_data_set(&s.conf, "values", 1);
    write_set(&s, "", points, POINTS);
    learn(&s);
    begin_lie(&l);
    put_files(&l, 4, 3);
    refused(&s, &l, "part-004: has 3 records, 4 are expected");
    begin_lie(&l);
    put_files(&l, 3, 4);
    refused(&s, &l, "part-004: has 3 training samples, 4 are expected");
    end(&s);
}

static void what_is_learned_is_bounded(void **state)
{
    enum { WORDS = 300000, LENGTH = 240 };
    set s;
    ps_learned_parts parts;
    ps_strbuf text = {0};
    ps_status st;

    (void)state;
    begin(&s, "ngram", true);
    ps_data_set(&s.conf, "cutoff", 0);
    write_set(&s, "", sentences, SENTENCES);
    for (uint32_t i = 0; i < WORDS; i++) {
        ps_strbuf_printf(&text, "%0*u%c", LENGTH, i, i % 8 == 7 ? '\n' : ' ');
    }
    st = ps_file_write(temp_dir_file(&s.dir, names[0]), text.data, text.len);
    assert_string_equal(st.text, "");
    ps_strbuf_fini(&text);
    st = ps_data_look(s.dir.path, &s.conf);
    assert_string_equal(st.text, "");
    st = ps_data_learn(&s.conf, &s.feed, s.dir.path, s.dir.path, &parts);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(st.text, "data.params.most"));
    assert_non_null(strstr(st.text, "67108864 are allowed"));
    assert_int_equal(parts.count, 0);
    end(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_counted_in_all_files),
        cmocka_unit_test(noise_is_drawn_by_the_counts_of_all_files),
        cmocka_unit_test(columns_are_learned_from_all_files),
        cmocka_unit_test(files_may_have_their_columns_in_another_order),
        cmocka_unit_test(labels_are_those_of_all_files),
        cmocka_unit_test(samples_are_measured_in_all_files),
        cmocka_unit_test(facts_that_are_not_there_are_refused_with_advice),
        cmocka_unit_test(facts_that_cannot_be_are_refused),
        cmocka_unit_test(files_of_other_sizes_than_were_learned_are_refused),
        cmocka_unit_test(what_is_learned_is_bounded),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
