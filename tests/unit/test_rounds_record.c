/* SPDX-License-Identifier: Apache-2.0 */
/* test_rounds_record.c - the record of a job's rounds, made of what each rank left. */
#include "common/artifact/round_record.h"

#include "tests/support/temp_dir.h"

#include <math.h>
#include <string.h>

static const char *const metrics[] = {"accuracy"};

static void expect_ok(ps_status st)
{
    assert_string_equal(st.text, "");
}

static ps_round_entry entry_of(uint64_t round, uint64_t steps, double loss)
{
    return (ps_round_entry){.round = round,
                            .steps = steps,
                            .bytes_up = 100,
                            .bytes_down = 50,
                            .time_s = (double)round,
                            .loss = loss,
                            .compute_s = 0.5,
                            .exchange_s = 0.25,
                            .wait_s = 0.125};
}

static void write_part(const char *path, const ps_round_entry *entries, size_t count)
{
    ps_rounds *part = NULL;

    expect_ok(ps_rounds_open(path, 1, &part));
    for (size_t i = 0; i < count; i++) {
        ps_rounds_add(part, &entries[i]);
    }
    expect_ok(ps_rounds_close(part));
}

/* Merges the parts "0" and "1" of the folder, and returns the text; NULL: there is none. */
static char *merged(const temp_dir *dir, bool has_shares)
{
    char a[512], b[512], out[512], *paths[] = {a, b}, *text = NULL;
    ps_rounds_parts parts = {.ranks = 2,
                             .paths = paths,
                             .metrics = metrics,
                             .metric_count = 1,
                             .has_shares = has_shares};
    bool is_written;
    size_t n;

    snprintf(a, sizeof a, "%s", temp_dir_file(dir, "0"));
    snprintf(b, sizeof b, "%s", temp_dir_file(dir, "1"));
    snprintf(out, sizeof out, "%s", temp_dir_file(dir, "ROUND.csv"));
    expect_ok(ps_rounds_merge(&parts, out, &is_written));
    if (is_written) {
        expect_ok(ps_file_read(out, 1 << 24, &text, &n));
    }
    return text;
}

#define HEADER                                                                                     \
    "round,iterations,time_s,steps,loss,compute_s,exchange_s,wait_s,bytes_up,bytes_down,"          \
    "test_loss,test_accuracy,"                                                                     \
    "steps_0,loss_0,compute_s_0,exchange_s_0,wait_s_0,bytes_up_0,bytes_down_0,"                    \
    "steps_1,loss_1,compute_s_1,exchange_s_1,wait_s_1,bytes_up_1,bytes_down_1\n"

static void a_round_is_a_row(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_round_entry zero[] = {entry_of(1, 4, 2.0), entry_of(2, 4, 1.0)};
    ps_round_entry one[] = {entry_of(1, 12, 1.0), entry_of(2, 0, (double)NAN)};
    char *text;

    (void)state;
    one[0].time_s = 1.5;
    one[0].compute_s = 0.75;
    zero[1].is_evaluated = one[1].is_evaluated = true;
    zero[1].test_loss = 0.5;
    one[1].test_loss = 0.25;
    zero[1].values[0] = one[1].values[0] = 0.75;
    one[1].exchange_s = (double)NAN;
    write_part(temp_dir_file(&dir, "0"), zero, 2);
    write_part(temp_dir_file(&dir, "1"), one, 2);
    text = merged(&dir, false);
    assert_string_equal(text, HEADER "1,16,1.5,16,1.25,0.625,0.25,0.125,200,100,,,"
                                     "4,2,0.5,0.25,0.125,100,50,12,1,0.75,0.25,0.125,100,50\n"
                                     "2,20,2,4,1,0.5,0.25,0.125,200,100,0.375,0.75,"
                                     "4,1,0.5,0.25,0.125,100,50,0,,0.5,,0.125,100,50\n");
    free(text);
    text = merged(&dir, true); /* what a rank found in its share is not what came out */
    assert_non_null(strstr(text, "\n2,20,2,4,1,0.5,0.25,0.125,200,100,,,4,1,"));
    free(text);
    temp_dir_destroy(&dir);
}

static void a_rank_that_left_nothing_has_empty_cells(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_round_entry one[] = {entry_of(3, 1, 2.0)};
    char *text;

    (void)state;
    assert_null(merged(&dir, false));
    write_part(temp_dir_file(&dir, "1"), one, 0);
    assert_null(merged(&dir, false));
    write_part(temp_dir_file(&dir, "1"), one, 1);
    text = merged(&dir, false);
    assert_string_equal(text, HEADER "3,1,3,1,2,0.5,0.25,0.125,100,50,,,,,,,,,,"
                                     "1,2,0.5,0.25,0.125,100,50\n");
    free(text);
    temp_dir_destroy(&dir);
}

/* Nodes are not trusted, and disks are full. */
static void the_rest_of_a_damaged_part_is_left_out(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_round_entry back[] = {entry_of(1, 1, 1.0), entry_of(2, 1, 1.0), entry_of(2, 1, 1.0)};
    char path[512], *bytes = NULL, *text;
    size_t n;

    (void)state;
    snprintf(path, sizeof path, "%s", temp_dir_file(&dir, "0"));
    write_part(path, back, 3);
    text = merged(&dir, false);
    assert_non_null(strstr(text, "\n2,2,"));
    assert_null(strstr(text, "\n2,3,"));
    free(text);
    expect_ok(ps_file_read(path, 1 << 20, &bytes, &n));
    assert_int_equal(n, PS_ROUND_HEAD_BYTES + 3 * ps_round_entry_bytes(1));
    expect_ok(ps_file_write(path, bytes, PS_ROUND_HEAD_BYTES + ps_round_entry_bytes(1) + 7));
    text = merged(&dir, false);
    assert_non_null(strstr(text, "\n1,1,"));
    assert_null(strstr(text, "\n2,"));
    free(text);
    for (size_t cut = 0; cut < PS_ROUND_HEAD_BYTES; cut++) {
        expect_ok(ps_file_write(path, bytes, cut));
        assert_null(merged(&dir, false));
    }
    bytes[0] = 'x';
    expect_ok(ps_file_write(path, bytes, n));
    assert_null(merged(&dir, false));
    free(bytes);
    temp_dir_destroy(&dir);
}

static void long_jobs_are_merged_row_by_row(void **state)
{
    enum { ROUNDS = 5000 };
    temp_dir dir = temp_dir_create();
    ps_rounds *part[2];
    char *text, *at;

    (void)state;
    expect_ok(ps_rounds_open(temp_dir_file(&dir, "0"), 1, &part[0]));
    expect_ok(ps_rounds_open(temp_dir_file(&dir, "1"), 1, &part[1]));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        ps_round_entry e = entry_of(round, 1, 1.0);

        ps_rounds_add(part[round % 2], &e); /* each has every other round */
    }
    expect_ok(ps_rounds_close(part[0]));
    expect_ok(ps_rounds_close(part[1]));
    text = merged(&dir, false);
    at = text;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        char begin[32];

        at = strchr(at, '\n') + 1;
        snprintf(begin, sizeof begin, "%llu,%llu,", (unsigned long long)round,
                 (unsigned long long)round);
        assert_int_equal(strncmp(at, begin, strlen(begin)), 0);
    }
    free(text);
    temp_dir_destroy(&dir);
}

/* Reads the number in a column, from 0, of a line of CSV. */
static double cell(const char *line, int column)
{
    for (; column > 0; column--) {
        line = strchr(line, ',') + 1;
    }
    return strtod(line, NULL);
}

static void a_line_of_a_long_job_stands_for_several_rounds(void **state)
{
    enum { ROUNDS = 16384 * 7 + 2 }; /* lines of 1, 2 and 4 rounds, and one that is cut off */
    temp_dir dir = temp_dir_create();
    ps_rounds *part[2];
    double up = 0, compute_s = 0, loss = 0;
    uint64_t lines = 0, last = 0;
    char *text, *at;

    (void)state;
    expect_ok(ps_rounds_open(temp_dir_file(&dir, "0"), 1, &part[0]));
    expect_ok(ps_rounds_open(temp_dir_file(&dir, "1"), 1, &part[1]));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        ps_round_entry e = entry_of(round, 1 + round % 3, (double)(round % 5));

        e.exchange_s = round % 2 == 0 ? (double)NAN : 0.25;
        ps_rounds_add(part[0], &e);
        ps_rounds_add(part[1], &e);
        loss += 2 * e.loss * (double)e.steps;
    }
    expect_ok(ps_rounds_close(part[0]));
    expect_ok(ps_rounds_close(part[1]));
    text = merged(&dir, false);
    for (at = strchr(text, '\n') + 1; *at != '\0'; at = strchr(at, '\n') + 1) {
        uint64_t round = (uint64_t)cell(at, 0);

        lines++;
        assert_int_equal(round - last, lines <= 16384       ? 1
                                       : lines <= 2 * 16384 ? 2
                                       : lines <= 3 * 16384 ? 4
                                                            : 2);
        assert_true(cell(at, 2) == (double)round);
        assert_true(lines <= 16384 || cell(at, 6) == 0.25 * (double)(round - last) / 2);
        last = round;
        loss -= cell(at, 3) * cell(at, 4);
        compute_s += cell(at, 5);
        up += cell(at, 8);
    }
    assert_int_equal(lines, 3 * 16384 + 1);
    assert_int_equal(last, ROUNDS);
    assert_true(up == 2 * 100.0 * ROUNDS);
    assert_true(compute_s == 0.5 * ROUNDS);
    assert_true(fabs(loss) < 1);
    free(text);
    temp_dir_destroy(&dir);
}

static void the_name_is_the_job_s(void **state)
{
    char name[PS_NAME_MAX + 1], title[300];

    (void)state;
    ps_rounds_name(name, sizeof name, "my run");
    assert_string_equal(name, "ROUND-my_run.csv");
    memset(title, 'x', sizeof title);
    title[sizeof title - 1] = '\0';
    ps_rounds_name(name, sizeof name, title);
    assert_int_equal(strlen(name), PS_NAME_MAX);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_a_row),
        cmocka_unit_test(a_rank_that_left_nothing_has_empty_cells),
        cmocka_unit_test(the_rest_of_a_damaged_part_is_left_out),
        cmocka_unit_test(long_jobs_are_merged_row_by_row),
        cmocka_unit_test(a_line_of_a_long_job_stands_for_several_rounds),
        cmocka_unit_test(the_name_is_the_job_s),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
