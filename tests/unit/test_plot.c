/* SPDX-License-Identifier: Apache-2.0 */
/* test_plot.c - the parts of psgd plot: ticks, columns, reports, facts and the pictures. */
#include "clients/psgd/plot_report.h"

#include "tests/support/cmocka_all.h"

#include "common/base/files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *ticks(double lo, double hi, ps_plot_unit unit, size_t most, bool is_rounded)
{
    static char all[512];
    char text[PS_SHOW_BYTES];
    ps_plot_axis axis;
    size_t n = 0;

    ps_plot_axis_init(&axis, lo, hi, unit, most, is_rounded);
    all[0] = '\0';
    for (size_t i = 0; i < axis.n; i++) {
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i > 0 ? " | " : "",
                              ps_plot_axis_text(&axis, axis.at[i], text));
    }
    return all;
}

static void ticks_are_round_numbers(void **state)
{
    (void)state;
    assert_string_equal(ticks(0, 936, PS_PLOT_COUNT, 6, false), "0 | 200 | 400 | 600 | 800");
    assert_string_equal(ticks(0.03, 2.49, PS_PLOT_NUMBER, 6, true), "0 | 0.5 | 1 | 1.5 | 2 | 2.5");
    assert_string_equal(ticks(0, 1e6, PS_PLOT_COUNT, 6, false),
                        "0 | 200k | 400k | 600k | 800k | 1000k");
    assert_string_equal(ticks(0, 3, PS_PLOT_COUNT, 12, false), "0 | 1 | 2 | 3");
    assert_string_equal(ticks(0.12, 0.97, PS_PLOT_SHARE, 6, true),
                        "0 % | 20 % | 40 % | 60 % | 80 % | 100 %");
    assert_string_equal(ticks(0, 1.7e9, PS_PLOT_BYTES, 6, false), "0 | 0.5 GB | 1 GB | 1.5 GB");
    assert_string_equal(ticks(0, 600, PS_PLOT_SECONDS, 6, false),
                        "0 | 2 min | 4 min | 6 min | 8 min | 10 min");
    assert_string_equal(ticks(0, 50000, PS_PLOT_SECONDS, 6, false), "0 | 3 h | 6 h | 9 h | 12 h");
    assert_string_equal(ticks(-0.002, 0.001, PS_PLOT_NUMBER, 4, true),
                        "-0.002 | -0.001 | 0 | 0.001");
}

static void ticks_of_odd_ranges_are_few_and_differ(void **state)
{
    static const double odd[][2] = {{0, 0},
                                    {5, 5},
                                    {-3, -3},
                                    {1, 0},
                                    {1e-300, 2e-300},
                                    {1e300, 1e305},
                                    {0, (double)INFINITY},
                                    {(double)NAN, 1},
                                    {1, 1 + 1e-12},
                                    {-1e9, 1e-9},
                                    {99999, 100001}};

    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        for (size_t most = 2; most <= PS_PLOT_TICKS_MAX; most++) {
            for (int unit = PS_PLOT_NUMBER; unit <= PS_PLOT_SECONDS; unit++) {
                for (int rounded = 0; rounded < 2; rounded++) {
                    char a[PS_SHOW_BYTES], b[PS_SHOW_BYTES];
                    ps_plot_axis axis;

                    ps_plot_axis_init(&axis, odd[i][0], odd[i][1], (ps_plot_unit)unit, most,
                                      rounded == 1);
                    assert_true(axis.lo < axis.hi && axis.n <= most);
                    assert_true(isfinite(axis.step) && axis.step > 0);
                    for (size_t t = 0; t < axis.n; t++) {
                        assert_true(ps_plot_axis_place(&axis, axis.at[t]) > -0.001);
                        assert_true(ps_plot_axis_place(&axis, axis.at[t]) < 1.001);
                    }
                    for (size_t t = 1; t < axis.n; t++) {
                        assert_string_not_equal(ps_plot_axis_text(&axis, axis.at[t - 1], a),
                                                ps_plot_axis_text(&axis, axis.at[t], b));
                    }
                }
            }
        }
    }
}

static void a_spike_among_a_million_points_is_kept(void **state)
{
    ps_plot_columns columns;
    uint64_t count = 0;
    double least = 0, greatest = 0;

    (void)state;
    ps_plot_columns_init(&columns, 0, 1e6, 184);
    for (int i = 0; i <= 1000000; i++) {
        ps_plot_columns_add(&columns, i, i == 543210 ? 77 : i == 123456 ? -5 : 1);
    }
    ps_plot_columns_add(&columns, -1, 500);
    ps_plot_columns_add(&columns, 1, (double)NAN);
    ps_plot_columns_add(&columns, 1, (double)INFINITY);
    ps_plot_columns_add(&columns, (double)NAN, 1);
    for (size_t i = 0; i < columns.n; i++) {
        count += columns.at[i].count;
        least = fmin(least, columns.at[i].least);
        greatest = fmax(greatest, columns.at[i].greatest);
        assert_true(columns.at[i].count > 5000);
        assert_true(columns.at[i].x >= (double)i * 1e6 / 184 - 1);
    }
    assert_int_equal(count, 1000001);
    assert_true(least == -5 && greatest == 77);
    ps_plot_columns_fini(&columns);
}

static void halved_rows_keep_the_least_and_the_greatest_loss(void **state)
{
    double row[PS_PLOT_METRICS + 1] = {0};
    ps_plot_rows rows = {.stride = PS_PLOT_METRICS + 1};
    bool has_spike = false, has_dip = false;

    (void)state;
    for (int i = 0; i < 4096; i++) {
        row[PS_PLOT_STEP] = i;
        row[PS_PLOT_METRICS] = i == 1001 ? 9 : i == 2002 ? -9 : i % 7;
        ps_plot_rows_add(&rows, row);
    }
    for (int i = 0; i < 5; i++) {
        ps_plot_rows_halve(&rows);
    }
    assert_in_range(rows.n, 64, 256);
    for (size_t i = 0; i < rows.n; i++) {
        const double *r = rows.values + i * rows.stride;

        has_spike = has_spike || r[PS_PLOT_METRICS] > 8;
        has_dip = has_dip || r[PS_PLOT_METRICS] < -8;
        assert_true(i == 0 || r[PS_PLOT_STEP] > r[PS_PLOT_STEP - (int)rows.stride]);
    }
    assert_true(has_spike && has_dip);
    free(rows.values);
}

static void numbers_of_reports_have_all_their_bits(void **state)
{
    static const char *const numbers[] = {"0.309652949",
                                          "221491869",
                                          "-1.5e-08",
                                          "0",
                                          "1e99",
                                          "-0.25",
                                          "123456789012345678",
                                          "0.1234567890123456789",
                                          "7"};
    double value;

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[128];
        ps_report_csv csv;

        snprintf(text, sizeof text, "a\n%s\n", numbers[i]);
        assert_true(ps_report_csv_init(&csv, text, strlen(text)));
        assert_true(ps_report_csv_next(&csv, &value));
        assert_true(value == strtod(numbers[i], NULL));
        ps_report_csv_fini(&csv);
    }
}

static void odd_reports_are_read_or_refused(void **state)
{
    static const char odd[] = "a,b\n1,1e101\ninf,2,3\n\n4";
    double values[2];
    ps_report_csv csv;

    (void)state;
    assert_true(ps_report_csv_init(&csv, odd, sizeof odd - 1));
    assert_true(ps_report_csv_next(&csv, values));
    assert_true(values[0] == 1 && isnan(values[1]));
    assert_true(ps_report_csv_next(&csv, values));
    assert_true(isnan(values[0]) && values[1] == 2);
    assert_true(ps_report_csv_next(&csv, values));
    assert_true(isnan(values[0]) && isnan(values[1]));
    assert_false(ps_report_csv_next(&csv, values)); /* a line that still grows */
    ps_report_csv_fini(&csv);
    assert_false(ps_report_csv_init(&csv, "", 0));
    assert_false(ps_report_csv_init(&csv, "no end", 6));
    assert_false(ps_report_csv_init(&csv, "a,,b\n", 5));
}

static void a_label_is_what_differs(void **state)
{
    static const char *const specs[] = {"{\"title\":\"t\",\"workers\":2,\"codec\":{\"up\":{"
                                        "\"name\":\"int8\",\"params\":{\"range\":1}}}}",
                                        "{\"title\":\"u\",\"workers\":4,\"codec\":{\"up\":{"
                                        "\"name\":\"sign\",\"params\":{\"scale\":0}}}}"};
    ps_plot_facts facts[2], paths;
    char label[PS_PLOT_LABEL_BYTES];

    (void)state;
    for (int i = 0; i < 2; i++) {
        json_t *json = json_loads(specs[i], 0, NULL);

        ps_plot_facts_init(&facts[i], json);
        json_decref(json);
    }
    ps_plot_facts_differ(facts, 2, &paths);
    ps_plot_facts_label(&facts[0], &paths, label);
    assert_string_equal(label, "codec.up int8, workers 2");
    ps_plot_facts_label(&facts[1], &paths, label);
    assert_string_equal(label, "codec.up sign, workers 4");
    assert_string_equal(ps_plot_facts_get(&facts[0], "codec.up.params.range"), "1");
    ps_plot_facts_fini(&paths);
    ps_plot_facts_differ(facts, 1, &paths);
    assert_int_equal(paths.n, 0);
    ps_plot_facts_fini(&paths);
    ps_plot_facts_fini(&facts[0]);
    ps_plot_facts_fini(&facts[1]);
}

static void text_of_others_is_escaped(void **state)
{
    ps_strbuf out = {0};

    (void)state;
    ps_plot_svg_text(&out, "<img src=x onerror='a(\"1\")'>&\x01\xff\xef\xbf\xbfé");
    assert_string_equal(ps_strbuf_text(&out),
                        "&lt;img src=x onerror=&#39;a(&quot;1&quot;)&#39;&gt;&amp;"
                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                        "é");
    ps_strbuf_fini(&out);
}

static void write_report(const char *dir, const char *name, const char *text)
{
    char path[256];
    ps_status st = ps_path_join(path, sizeof path, dir, name);

    assert_true(ps_is_ok(&st));
    st = ps_file_write(path, text, strlen(text));
    assert_true(ps_is_ok(&st));
}

static void a_folder_becomes_a_picture(void **state)
{
    char dir[] = "/tmp/psgd-plot-XXXXXX";
    ps_plot_set set = {0};
    ps_strbuf out = {0};
    ps_status st;

    (void)state;
    assert_non_null(mkdtemp(dir));
    st = ps_plot_job_read(&set.jobs[0], dir, 1 << 20);
    assert_int_equal(st.code, PS_NOT_FOUND);
    ps_plot_job_fini(&set.jobs[0]);
    write_report(dir, "TR-t-N(0).csv",
                 "time_s,epoch,batch,step,loss,accuracy,bytes_up,bytes_down,wait_s\n"
                 "1,1,1,1,2.5,0.1,100,10,0.5\n3,1,2,2,1.5,0.2,300,30,1\n");
    write_report(dir, "TR-t-N(1).csv",
                 "time_s,epoch,batch,step,loss,accuracy,bytes_up,bytes_down,wait_s\n"
                 "2,1,1,1,2.4,0.1,100,10,1\n3,1,2,2,1.4,nan,200,20,2\n");
    write_report(dir, "EV-t-N(0).csv",
                 "epoch,step,loss,accuracy,time_s,bytes_up,bytes_down\n1,2,1,0.25,3,0,0\n");
    write_report(dir, "EV-t-N(1).csv",
                 "epoch,step,loss,accuracy,time_s,bytes_up,bytes_down\n1,2,2,0.75,3,0,0\n");
    write_report(dir, "summary.json",
                 "{\"id\":\"t-1\",\"spec\":{\"title\":\"<img src=x onerror=alert(1)>\"}}");
    st = ps_plot_job_read(&set.jobs[0], dir, 1 << 20);
    assert_true(ps_is_ok(&st));
    set.n = 1;
    assert_int_equal(set.jobs[0].n_ranks, 2);
    assert_int_equal(set.jobs[0].tests.n, 1);
    assert_true(set.jobs[0].tests.values[PS_PLOT_METRICS] == 1.5);
    assert_true(set.jobs[0].tests.values[PS_PLOT_METRICS + 1] == 0.5);
    assert_float_equal(ps_plot_job_bytes(&set.jobs[0], 3, true), 500, 1e-3);
    assert_float_equal(ps_plot_job_bytes(&set.jobs[0], 1, true), 150, 1);
    assert_float_equal(ps_plot_job_bytes(&set.jobs[0], 9, false), 50, 1e-3);
    ps_plot_set_compare(&set);
    for (int x = PS_PLOT_BY_STEP; x <= PS_PLOT_BY_BYTES; x++) {
        set.x = (ps_plot_x)x;
        ps_plot_report_html(&out, &set);
        ps_plot_report_svg(&out, &set);
    }
    assert_null(strstr(ps_strbuf_text(&out), "<img"));
    assert_non_null(strstr(ps_strbuf_text(&out), "&lt;img src=x onerror=alert(1)&gt;"));
    assert_null(strstr(ps_strbuf_text(&out), "nan"));
    assert_null(strstr(ps_strbuf_text(&out), "<script"));
    assert_null(strstr(ps_strbuf_text(&out), "href"));
    ps_strbuf_fini(&out);
    ps_plot_set_fini(&set);
    st = ps_dir_remove(dir);
    assert_true(ps_is_ok(&st));
}

/* Returns how often `part` stands in text. */
static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;

    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

static void parts_of_bars_have_colours_of_their_own(void **state)
{
    static const ps_plot_bar bar = {.label = "worker 0", .parts = {1, 2, 3}};
    static const ps_plot_bars bars = {
        .title = "t", .x_title = "x", .parts = {"a", "b", "c"}, .bars = &bar, .n = 1};
    ps_strbuf style = {0}, out = {0};
    size_t n = 0;

    (void)state;
    ps_plot_svg_style(&style);
    ps_plot_svg_bars(&out, &bars);
    for (const char *at = strstr(ps_strbuf_text(&out), "<rect class=\""); at != NULL;
         at = strstr(at + 1, "<rect class=\"")) {
        char rule[16], colour[8];
        const char *found;

        snprintf(rule, sizeof rule, ".%.2s{fill:", at + strlen("<rect class=\""));
        found = strstr(ps_strbuf_text(&style), rule);
        assert_non_null(found);
        snprintf(colour, sizeof colour, "%s", found + strlen(rule));
        assert_int_equal(count_of(ps_strbuf_text(&style), colour), 1);
        n++;
    }
    assert_int_equal(n, 6); /* three parts, and three squares of the key */
    ps_strbuf_fini(&style);
    ps_strbuf_fini(&out);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round_numbers),
        cmocka_unit_test(ticks_of_odd_ranges_are_few_and_differ),
        cmocka_unit_test(a_spike_among_a_million_points_is_kept),
        cmocka_unit_test(halved_rows_keep_the_least_and_the_greatest_loss),
        cmocka_unit_test(numbers_of_reports_have_all_their_bits),
        cmocka_unit_test(odd_reports_are_read_or_refused),
        cmocka_unit_test(a_label_is_what_differs),
        cmocka_unit_test(text_of_others_is_escaped),
        cmocka_unit_test(a_folder_becomes_a_picture),
        cmocka_unit_test(parts_of_bars_have_colours_of_their_own),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
