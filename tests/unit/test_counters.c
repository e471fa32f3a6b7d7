/* SPDX-License-Identifier: Apache-2.0 */
/* test_counters.c - the table of counters, held against the messages that it fills. */
#include "common/job/counts.h"

#include "psgd/v1/coordinator.pb-c.h"
#include "psgd/v1/node.pb-c.h"
#include "tests/support/cmocka_all.h"

#include <math.h>
#include <string.h>

typedef struct holder {
    const ProtobufCMessageDescriptor *type;
    unsigned of;
} holder;

static const holder holders[] = {
    {&psgd__v1__worker_progress__descriptor, PS_OF_WORKER},
    {&psgd__v1__server_counters__descriptor, PS_OF_SERVER},
    {&psgd__v1__progress__descriptor, PS_OF_JOB},
};

enum { HOLDERS = sizeof holders / sizeof holders[0] };

static bool is_number(const ProtobufCFieldDescriptor *field)
{
    return field->label != PROTOBUF_C_LABEL_REPEATED &&
           (field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_UINT64 ||
            field->type == PROTOBUF_C_TYPE_DOUBLE);
}

static const ps_counter *find(const char *name)
{
    for (size_t i = 0; i < PS_COUNTERS; i++) {
        if (strcmp(ps_counters[i].name, name) == 0) {
            return &ps_counters[i];
        }
    }
    return NULL;
}

/* Returns whether a number says who or where, and counts nothing. */
static bool is_place(const char *name)
{
    static const char *const places[] = {"rank", "held_at", "evaluated_step", "weights_clock"};

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (strcmp(name, places[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void every_number_of_a_message_is_in_the_table(void **state)
{
    (void)state;
    for (size_t h = 0; h < HOLDERS; h++) {
        for (unsigned f = 0; f < holders[h].type->n_fields; f++) {
            const ProtobufCFieldDescriptor *field = &holders[h].type->fields[f];
            const ps_counter *counter = find(field->name);

            if (is_number(field) && !is_place(field->name) &&
                (counter == NULL || (counter->of & holders[h].of) == 0)) {
                fail_msg("%s.%s is not in the table", holders[h].type->short_name, field->name);
            }
        }
    }
}

static void every_counter_is_a_number_of_its_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < PS_COUNTERS; i++) {
        assert_non_null(ps_counters[i].name);
        assert_non_null(ps_counters[i].unit);
        assert_non_null(ps_counters[i].help);
        assert_true(find(ps_counters[i].name) == &ps_counters[i]); /* each name once */
        assert_int_not_equal(ps_counters[i].of, 0);
        for (size_t h = 0; h < HOLDERS; h++) {
            const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(
                holders[h].type, ps_counters[i].name);

            if ((ps_counters[i].of & holders[h].of) != 0 && (field == NULL || !is_number(field))) {
                fail_msg("%s has no number %s", holders[h].type->short_name, ps_counters[i].name);
            }
        }
    }
}

static void what_is_put_into_a_message_is_what_it_gives(void **state)
{
    Psgd__V1__WorkerProgress worker = PSGD__V1__WORKER_PROGRESS__INIT;
    Psgd__V1__ServerCounters server = PSGD__V1__SERVER_COUNTERS__INIT;
    ProtobufCMessage *const messages[] = {&worker.base, &server.base};
    ps_counts counts;

    (void)state;
    for (size_t i = 0; i < PS_COUNTERS; i++) {
        counts.v[i] = (double)(1000 + i);
    }
    worker.rank = 7;
    for (size_t h = 0; h < 2; h++) {
        ps_counts back;

        ps_counts_put(&counts, holders[h].of, messages[h]);
        back = ps_counts_get(messages[h], holders[h].of);
        for (size_t i = 0; i < PS_COUNTERS; i++) {
            bool has = (ps_counters[i].of & holders[h].of) != 0;

            assert_true(back.v[i] == (has ? counts.v[i] : 0));
        }
    }
    assert_int_equal(worker.bytes_up, 1000 + PS_COUNT_BYTES_UP);
    assert_int_equal(worker.epoch, 1000 + PS_COUNT_EPOCH);
    assert_true(worker.loss == 1000 + PS_COUNT_LOSS);
    assert_int_equal(worker.rank, 7);
    assert_int_equal(server.version, 1000 + PS_COUNT_VERSION);
}

static void a_job_is_the_sum_the_least_and_the_mean_of_its_ranks(void **state)
{
    ps_counts ranks[3] = {{{0}}}, job;
    ps_counts_sum sum = {0};
    Psgd__V1__Progress progress = PSGD__V1__PROGRESS__INIT;

    (void)state;
    for (size_t r = 0; r < 3; r++) { /* the first is lost */
        ranks[r].v[PS_COUNT_STEP] = (double)(r + 5);
        ranks[r].v[PS_COUNT_TOTAL_STEPS] = (double)(100 - r);
        ranks[r].v[PS_COUNT_LOSS] = (double)(10 * r);
        ranks[r].v[PS_COUNT_BYTES_UP] = (double)(1 << r);
        ranks[r].v[PS_COUNT_SAMPLES] = 3;
        ps_counts_add(&sum, &ranks[r], r == 0);
    }
    job = ps_counts_of_job(&sum);
    progress.samples_per_second = 9;
    progress.workers_alive = 2;
    ps_counts_put(&job, PS_OF_JOB, &progress.base);
    assert_int_equal(progress.step, 6);
    assert_int_equal(progress.total_steps, 99);
    assert_true(progress.loss == 10);       /* of the rank at step 6; the other is further */
    assert_int_equal(progress.bytes_up, 7); /* what a lost rank sent was sent */
    assert_true(progress.samples_per_second == 9);
    assert_int_equal(progress.workers_alive, 2);
}

static void loss_and_accuracy_are_those_of_the_step(void **state)
{
    static const struct {
        double step, loss;
    } ranks[] = {{8, 1}, {7, 2}, {9, 16}, {7, 4}};
    ps_counts_sum sum = {0};
    ps_counts job;

    (void)state;
    for (size_t r = 0; r < 4; r++) {
        ps_counts one = {.v = {[PS_COUNT_STEP] = ranks[r].step,
                               [PS_COUNT_LOSS] = ranks[r].loss,
                               [PS_COUNT_ACCURACY] = ranks[r].loss / 8}};

        ps_counts_add(&sum, &one, false);
    }
    job = ps_counts_of_job(&sum);
    assert_true(job.v[PS_COUNT_STEP] == 7);
    assert_true(job.v[PS_COUNT_LOSS] == 3);
    assert_true(job.v[PS_COUNT_ACCURACY] == 0.375);
}

static void ranks_without_a_value_do_not_count(void **state)
{
    static const double steps[] = {5, 4, 4, 4},
                        said[] = {0.5, (double)NAN, 0.25,
                                  0.75}; /* as a program's that has said nothing */
    ps_counts_sum sum = {0}, silent = {0};
    ps_counts job;

    (void)state;
    for (size_t r = 0; r < 4; r++) {
        ps_counts one = {.v = {[PS_COUNT_STEP] = steps[r], [PS_COUNT_ACCURACY] = said[r]}};

        ps_counts_add(&sum, &one, false);
        one.v[PS_COUNT_ACCURACY] = (double)NAN;
        ps_counts_add(&silent, &one, false);
    }
    job = ps_counts_of_job(&sum);
    assert_true(job.v[PS_COUNT_ACCURACY] == 0.5);
    job = ps_counts_of_job(&silent);
    assert_true(isnan(job.v[PS_COUNT_ACCURACY]) && job.v[PS_COUNT_LOSS] == 0);
}

static void a_job_without_a_live_rank_has_no_step(void **state)
{
    ps_counts one = {.v = {[PS_COUNT_STEP] = 4, [PS_COUNT_LOSS] = 2, [PS_COUNT_BYTES_DOWN] = 8}};
    ps_counts_sum sum = {0};
    ps_counts job;

    (void)state;
    ps_counts_add(&sum, &one, true);
    job = ps_counts_of_job(&sum);
    assert_true(job.v[PS_COUNT_STEP] == 0);
    assert_true(job.v[PS_COUNT_LOSS] == 0);
    assert_true(job.v[PS_COUNT_BYTES_DOWN] == 8);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_a_message_is_in_the_table),
        cmocka_unit_test(every_counter_is_a_number_of_its_messages),
        cmocka_unit_test(what_is_put_into_a_message_is_what_it_gives),
        cmocka_unit_test(a_job_is_the_sum_the_least_and_the_mean_of_its_ranks),
        cmocka_unit_test(loss_and_accuracy_are_those_of_the_step),
        cmocka_unit_test(ranks_without_a_value_do_not_count),
        cmocka_unit_test(a_job_without_a_live_rank_has_no_step),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
