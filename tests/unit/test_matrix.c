/* SPDX-License-Identifier: Apache-2.0 */
/* test_matrix.c - variables that go to the servers as the product of two thin matrices. */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/factors.h"
#include "common/wire/coder.h"
#include "common/wire/matrix.h"
#include "tests/support/plan_rig.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                      \
    "\"workers\":2,\"pservers\":3,\"model\":{\"preset\":\"mlp\",\"widths\":[64,300]},\"seed\":1"
#define UP(params) "{" MODEL ",\"codec\":{\"up\":{\"name\":\"powersgd\",\"params\":{" params "}}}}"

enum { VALUES = 50176, RANK = 4, ROWS = 64, COLUMNS = 784, SERVERS = 3 };

static void fill(float *x, size_t n, uint64_t what)
{
    uint64_t key = ps_draw_key(1, PS_DRAW_TEST, what, 0, 0);

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)ps_draw_normal(key, i);
    }
}

/* ---- The factors ---- */

/* |M - P^T Q|^2 / |M|^2. */
static double error_of(const ps_factors *f, const float *x)
{
    double lost = 0, all = 0;
    float y[COLUMNS];

    for (size_t i = 0; i < f->rows; i++) {
        ps_factors_multiply(f->p + i, f->rows, f->sent, f->rank, f->columns, i * f->columns,
                            f->columns, PS_INTO_SET, y);
        for (size_t j = 0; j < f->columns; j++) {
            double at = (double)x[i * f->columns + j];

            lost += (at - (double)y[j]) * (at - (double)y[j]);
            all += at * at;
        }
    }
    return all > 0 ? lost / all : lost;
}

/* A matrix of `rank`, times `scale`. */
static void fill_rank(float *x, size_t rank, float scale)
{
    float p[RANK * ROWS], q[RANK * COLUMNS];

    fill(p, rank * ROWS, 1);
    fill(q, rank * COLUMNS, 2);
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < COLUMNS; j++) {
            float sum = 0;

            for (size_t k = 0; k < rank; k++) {
                sum += p[k * ROWS + i] * q[k * COLUMNS + j];
            }
            x[i * COLUMNS + j] = sum * scale;
        }
    }
}

static void a_matrix_of_the_rank_is_all_there(void **state)
{
    static const float scales[] = {1.0f, 0x1p-80f, 0x1p100f};
    float *x = ps_xcalloc(VALUES, sizeof *x);
    ps_factors f;

    (void)state;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        fill_rank(x, RANK, scales[i]);
        ps_factors_init(&f, RANK, ROWS, COLUMNS);
        ps_factors_step(&f, 7, x);
        assert_true(error_of(&f, x) < 1e-10);
        ps_factors_fini(&f);
    }
    free(x);
}

/* What a worker begins with may be of rank one. */
static void rank_that_was_lost_comes_back(void **state)
{
    float *x = ps_xcalloc(VALUES, sizeof *x);
    ps_factors f;

    (void)state;
    ps_factors_init(&f, RANK, ROWS, COLUMNS);
    fill_rank(x, 1, 1.0f);
    ps_factors_step(&f, 7, x);
    assert_true(error_of(&f, x) < 1e-10);
    fill_rank(x, RANK, 1.0f);
    ps_factors_step(&f, 8, x);
    assert_true(error_of(&f, x) < 1e-10);
    ps_factors_fini(&f);
    free(x);
}

/* One matrix again and again, as paper's warm start: towards the largest singular vectors. */
static void steps_get_better_with_what_is_kept(void **state)
{
    float *x = ps_xcalloc(VALUES, sizeof *x), *low = ps_xcalloc(VALUES, sizeof *low);
    double first, last;
    ps_factors f;

    (void)state;
    fill(x, VALUES, 3);
    fill_rank(low, RANK, 0.5f);
    for (size_t i = 0; i < VALUES; i++) {
        x[i] += low[i];
    }
    ps_factors_init(&f, RANK, ROWS, COLUMNS);
    ps_factors_step(&f, 7, x);
    first = error_of(&f, x);
    for (int t = 0; t < 20; t++) {
        ps_factors_step(&f, 7, x);
    }
    last = error_of(&f, x);
    assert_true(last < first);
    assert_true(last < 0.52); /* noise of 1, low rank of 0.5^2 RANK: half of the square each */
    ps_factors_fini(&f);
    free(x);
    free(low);
}

static void odd_values_leave_finite_factors(void **state)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 0x1p-149f, 0.0f};
    float *x = ps_xcalloc(VALUES, sizeof *x);
    ps_factors f;

    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        float y[COLUMNS];

        for (size_t j = 0; j < VALUES; j++) {
            x[j] = odd[i];
        }
        ps_factors_init(&f, RANK, ROWS, COLUMNS);
        ps_factors_step(&f, 7, x);
        ps_factors_multiply(f.p + 5, ROWS, f.sent, RANK, COLUMNS, 5 * COLUMNS, COLUMNS, PS_INTO_SET,
                            y);
        for (size_t j = 0; j < COLUMNS; j++) {
            assert_true(isfinite(y[j]));
        }
        ps_factors_fini(&f);
    }
    free(x);
}

/* ---- Which variables ---- */

static void matrices_go_whole_and_vectors_as_they_are(void **state)
{
    ps_plan *plan = plan_of(UP(""));
    int columns = ps_param_find(plan->up[0].codec->params, "columns");

    (void)state;
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_variable *var = &plan->layout.variables[v];
        const ps_codec_choice *up = &plan->up[v];
        bool is_vector = var->shape.rank == 1;

        assert_int_equal(plan->by_matrix[v], !is_vector && var->size > PS_SLICE_VALUES);
        if (is_vector) {
            assert_true(up->codec->size(&up->params, var->size) == var->size * sizeof(float));
        } else {
            assert_true(up->params.v[columns] == (double)(var->size / var->shape.dim[0]));
        }
    }
    assert_true(plan->by_matrix[0] && plan->by_matrix[2]);
    ps_plan_destroy(plan);
}

static void what_is_done_slice_by_slice_is_not_whole(void **state)
{
    static const char *const jobs[] = {
        UP("\"columns\":128"),
        UP("\"lossless\":1"),
        UP("\"rows\":1"),
        UP("\"difference\":1,\"error_feedback\":0"),
        UP("\"rank\":32,\"columns\":784"),
        "{" MODEL ",\"codec\":{\"down\":{\"name\":\"f32\"}}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan *plan = plan_of(jobs[i]);

        for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
            assert_false(plan->by_matrix[v]);
        }
        ps_plan_destroy(plan);
    }
}

#define NUMBER(name) "{\"name\":\"" name "\",\"min\":0,\"max\":9}"
#define OF_CODE(numbers)                                                                           \
    "{" MODEL                                                                                      \
    ",\"code\":[{\"file\":\"a.lua\",\"text\":\"return\",\"kind\":\"codec\",\"name\":\"a\","        \
    "\"bits\":32,\"numbers\":[" numbers                                                            \
    "]}],\"codec\":{\"up\":{\"name\":\"a\"},\"down\":{\"name\":\"a\"}}}"

/* A codec of code may have numbers of these names, which mean what the code makes of them. */
static void numbers_of_code_are_no_matrix(void **state)
{
    static const char *const jobs[] = {
        OF_CODE(NUMBER("columns")),
        OF_CODE(NUMBER("columns") "," NUMBER("rank")),
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan *plan = plan_of(jobs[i]);
        int columns = ps_param_find(plan->up[0].codec->params, "columns");

        for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
            assert_false(plan->by_matrix[v]);
            assert_true(plan->up[v].params.v[columns] == 0);
            assert_true(plan->down[v].params.v[columns] == 0);
        }
        ps_plan_destroy(plan);
    }
}

static void filters_are_the_rows_of_a_convolution(void **state)
{
    ps_plan *plan = plan_of("{\"model\":{\"preset\":\"cnn\"},\"codec\":{\"up\":{\"name\":"
                            "\"powersgd\"}}}");
    int columns = ps_param_find(plan->up[0].codec->params, "columns");
    uint32_t seen = 0;

    (void)state;
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_variable *var = &plan->layout.variables[v];

        if (var->shape.rank == 4) {
            double want = (double)var->shape.dim[1] * var->shape.dim[2] * var->shape.dim[3];

            assert_true(plan->up[v].params.v[columns] == want);
            seen++;
        }
    }
    assert_int_equal(seen, 2);
    ps_plan_destroy(plan);
}

/* ---- On the way ---- */

/* The first variable on its way to each server. */
typedef struct way {
    ps_plan *plan;
    ps_placement placement;
    ps_coder coder;
    uint32_t leader[SERVERS];
    uint8_t *bytes[SERVERS];
    ps_encoding heads[SERVERS];
    float *grad, *got;
    uint32_t taken; /* slices */
} way;

static void way_init(way *w, const char *json)
{
    uint32_t slices = 0;

    *w = (way){.plan = plan_of(json)};
    ps_placement_init(&w->placement, &w->plan->layout, w->plan->spec->pservers, 0);
    ps_coder_init(&w->coder, w->plan, &w->placement, 0);
    w->grad = ps_xcalloc(w->plan->layout.param_count, sizeof *w->grad);
    w->got = ps_xcalloc(w->plan->layout.param_count, sizeof *w->got);
    for (uint32_t s = w->plan->layout.first_slice[1]; s > 0; s--) {
        if (ps_matrix_slices(w->plan, &w->placement, w->placement.part_of[s - 1], s - 1) > 0) {
            w->leader[w->placement.server_of[s - 1]] = s - 1;
        }
    }
    for (uint32_t i = 0; i < SERVERS; i++) {
        w->bytes[i] = ps_xmalloc(ps_coder_size(&w->coder, i, w->leader[i]));
        slices += ps_matrix_slices(w->plan, &w->placement, i, w->leader[i]);
    }
    assert_int_equal(slices, w->plan->layout.first_slice[1]); /* each is brought once */
}

static void way_fini(way *w)
{
    ps_coder_fini(&w->coder);
    ps_placement_fini(&w->placement);
    ps_plan_destroy(w->plan);
    free(w->grad);
    free(w->got);
    for (uint32_t i = 0; i < SERVERS; i++) {
        free(w->bytes[i]);
    }
}

/* What is in grad, as the contribution to `clock`. */
static void way_encode(way *w, uint64_t clock)
{
    const ps_layout *layout = &w->plan->layout;

    for (uint32_t i = 0; i < SERVERS; i++) {
        ps_coder_encode(&w->coder, i, w->leader[i], clock, 0,
                        w->grad + layout->slices[w->leader[i]].at, w->bytes[i], &w->heads[i]);
    }
}

static ps_status take(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len)
{
    way *w = arg;
    const ps_slice *at = &w->plan->layout.slices[head->slice];

    assert_true(ps_encoding_is_plain(head));
    assert_true(len == head->payload_bytes && len == at->n * sizeof(float));
    memcpy(w->got + at->at, bytes, len);
    w->taken++;
    return ps_ok();
}

static ps_status way_push(way *w, uint32_t server)
{
    return ps_matrix_push(w->plan, &w->placement, server, &w->heads[server].msg, w->bytes[server],
                          w->heads[server].msg.payload_bytes, take, w);
}

/* Encodings of single slices, by slice. */
typedef struct singles {
    way *w;
    uint8_t **bytes; /* (slice_count) */
    uint32_t count;
} singles;

static ps_status take_single(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                             size_t len)
{
    singles *x = arg;
    ps_status st = ps_matrix_check_single(x->w->plan, head->slice, head, len);

    assert_int_equal(st.code, PS_OK);
    assert_int_equal(ps_matrix_check_single(x->w->plan, head->slice, head, len - 1).code,
                     PS_DATA_LOSS);
    assert_null(x->bytes[head->slice]);
    x->bytes[head->slice] = ps_xmalloc(len);
    memcpy(x->bytes[head->slice], bytes, len);
    x->count++;
    return ps_ok();
}

/* On fewer servers, each with two threads, and with copies. */
static void a_contribution_is_sent_again_to_other_parts(void **state)
{
    uint32_t slices;
    ps_placement to;
    singles x;
    way w;

    (void)state;
    way_init(&w, UP(""));
    slices = w.plan->layout.first_slice[1];
    x = (singles){.w = &w, .bytes = ps_xcalloc(slices, sizeof *x.bytes)};
    fill(w.grad, VALUES, 3);
    ps_coder_begin(&w.coder);
    way_encode(&w, 1);
    for (uint32_t i = 0; i < SERVERS; i++) {
        assert_int_equal(way_push(&w, i).code, PS_OK);
        assert_int_equal(ps_matrix_split(w.plan, &w.placement, i, &w.heads[i].msg, w.bytes[i],
                                         w.heads[i].msg.payload_bytes, take_single, &x)
                             .code,
                         PS_OK);
    }
    assert_int_equal(x.count, slices);
    ps_placement_init(&to, &w.plan->layout, 2, 0);
    ps_placement_copy(&to);
    assert_int_equal(ps_placement_set_threads(&to, 1, 2).code, PS_OK);
    for (uint32_t part = 0, k = 0; part < to.part_count; part++, k = 0) {
        while (k < to.parts[part].owned_count && to.parts[part].owned[k] >= slices) {
            k++;
        }
        if (k < to.parts[part].owned_count) {
            uint32_t leader = to.parts[part].owned[k];
            size_t size = ps_matrix_size(w.plan, &to, part, leader);
            uint8_t *joined = ps_xmalloc(size);
            float *before = ps_xmalloc(VALUES * sizeof *before);
            ps_encoding head;

            assert_int_equal(ps_matrix_join(w.plan, &to, part, leader,
                                            (const uint8_t *const *)x.bytes, joined, &head),
                             size);
            memcpy(before, w.got, VALUES * sizeof *before);
            w.taken = 0;
            assert_int_equal(
                ps_matrix_push(w.plan, &to, part, &head.msg, joined, size, take, &w).code, PS_OK);
            assert_int_equal(w.taken, ps_matrix_slices(w.plan, &to, part, leader));
            assert_memory_equal(before, w.got, VALUES * sizeof *before);
            free(before);
            free(joined);
        }
    }
    for (uint32_t s = 0; s < slices; s++) {
        free(x.bytes[s]);
    }
    free(x.bytes);
    ps_placement_fini(&to);
    way_fini(&w);
}

static void what_is_sent_and_what_is_kept_are_the_gradient(void **state)
{
    double owed = 0, sent_all = 0;
    float *sum = ps_xcalloc(VALUES, sizeof *sum), *given = ps_xcalloc(VALUES, sizeof *given);
    way w;

    (void)state;
    way_init(&w, UP(""));
    for (uint64_t clock = 0; clock < 5; clock++) {
        w.taken = 0;
        ps_coder_begin(&w.coder);
        fill(w.grad, VALUES, 10 + clock);
        for (size_t i = 0; i < VALUES; i++) {
            given[i] += w.grad[i];
        }
        way_encode(&w, clock);
        for (uint32_t i = 0; i < SERVERS; i++) {
            ps_status st = way_push(&w, i);

            assert_int_equal(st.code, PS_OK);
        }
        assert_int_equal(w.taken, w.plan->layout.first_slice[1]);
        for (size_t i = 0; i < VALUES; i++) {
            sum[i] += w.got[i];
        }
        for (uint32_t s = 0; s < w.plan->layout.first_slice[1]; s++) { /* to the bit */
            size_t at = w.plan->layout.slices[s].at;

            for (size_t i = 0; i < w.plan->layout.slices[s].n; i++) {
                assert_true(w.coder.kept_of[s][i] == w.grad[at + i] - w.got[at + i]);
            }
        }
    }
    for (uint32_t s = 0; s < w.plan->layout.first_slice[1]; s++) {
        for (size_t i = 0; i < w.plan->layout.slices[s].n; i++) {
            size_t at = w.plan->layout.slices[s].at + i;
            float lost = w.coder.kept_of[s][i];

            assert_true(fabsf(given[at] - sum[at] - lost) < 1e-4f);
            owed += (double)lost * (double)lost;
            sent_all += (double)sum[at] * (double)sum[at];
        }
    }
    assert_true(owed > 0 && sent_all > 0);
    free(sum);
    free(given);
    way_fini(&w);
}

static void two_factors_are_what_is_sent(void **state)
{
    size_t all = 0;
    way w;

    (void)state;
    way_init(&w, UP(""));
    for (uint32_t i = 0; i < SERVERS; i++) {
        all += ps_coder_size(&w.coder, i, w.leader[i]);
    }
    /* Rows that slices share are there twice: at most two a slice; Q once a server. */
    assert_in_range(all, RANK * (ROWS + SERVERS * COLUMNS) * sizeof(float),
                    RANK * (ROWS + 2 * w.plan->layout.first_slice[1] + SERVERS * COLUMNS) *
                        sizeof(float));
    way_fini(&w);
}

static void again_is_the_same_again(void **state)
{
    uint8_t *before;
    size_t size;
    way w;

    (void)state;
    way_init(&w, UP(""));
    size = ps_coder_size(&w.coder, 1, w.leader[1]);
    before = ps_xmalloc(size);
    ps_coder_begin(&w.coder);
    fill(w.grad, VALUES, 20);
    way_encode(&w, 0);
    memcpy(before, w.bytes[1], size);
    memset(w.bytes[1], 0, size);
    way_encode(&w, 0);
    assert_memory_equal(before, w.bytes[1], size);
    ps_coder_begin(&w.coder);
    fill(w.grad, VALUES, 20);
    way_encode(&w, 1); /* the next contribution has what was lost */
    assert_memory_not_equal(before, w.bytes[1], size);
    free(before);
    way_fini(&w);
}

/* Who comes first counts, so copies of a block have to be the same, whatever came before. */
static void copies_of_a_block_are_the_same(void **state)
{
    static const char job[] =
        "{" MODEL ",\"assignment\":{\"name\":\"iid\",\"params\":{\"redundancy\":2}},\"codec\":{"
        "\"up\":{\"name\":\"powersgd\",\"params\":{\"error_feedback\":0}}}}";
    way w, other;

    (void)state;
    way_init(&w, job);
    way_init(&other, job);
    other.coder.rank = 1;
    ps_coder_begin(&w.coder);
    fill(w.grad, VALUES, 30);
    way_encode(&w, 0);
    for (uint64_t clock = 1; clock < 3; clock++) {
        ps_coder_begin(&w.coder);
        fill(w.grad, VALUES, 30 + clock);
        way_encode(&w, clock);
    }
    ps_coder_begin(&other.coder);
    memcpy(other.grad, w.grad, VALUES * sizeof *w.grad);
    way_encode(&other, 2);
    for (uint32_t i = 0; i < SERVERS; i++) {
        assert_memory_equal(w.bytes[i], other.bytes[i], w.heads[i].msg.payload_bytes);
    }
    way_fini(&w);
    way_fini(&other);
}

/* ---- From strangers ---- */

typedef void spoil(way *w);

static void less_rank(way *w)
{
    w->heads[0].u.powersgd.rank--;
}
static void other_columns(way *w)
{
    w->heads[0].u.powersgd.columns = UINT32_MAX;
}
static void one_slice(way *w)
{
    w->heads[0].u.powersgd.slices = 0;
}
static void more_slices(way *w)
{
    w->heads[0].u.powersgd.slices = UINT32_MAX;
}
static void other_leader(way *w)
{
    w->heads[0].msg.slice = w->leader[1];
}
static void fewer_bytes(way *w)
{
    w->heads[0].msg.payload_bytes--;
}
static void compressed(way *w)
{
    w->heads[0].msg.lossless = PSGD__V1__LOSSLESS__LOSSLESS_ZSTD;
}
static void some_rows(way *w)
{
    w->heads[0].msg.row_width = 7;
}
static void other_codec(way *w)
{
    w->heads[0].msg.codec_case = PSGD__V1__ENCODING__CODEC_F32;
}

static void what_is_not_as_planned_is_refused(void **state)
{
    static const struct {
        spoil *spoil;
        ps_code code;
        const char *words;
    } cases[] = {
        {less_rank, PS_DATA_LOSS, "rank 3"},
        {other_columns, PS_DATA_LOSS, "4294967295 columns"},
        {one_slice, PS_INVALID_ARGUMENT, "of 0 slices"},
        {more_slices, PS_INVALID_ARGUMENT, "of 4294967295 slices"},
        {other_leader, PS_INVALID_ARGUMENT, "this part has"},
        {fewer_bytes, PS_DATA_LOSS, "bytes"},
        {compressed, PS_INVALID_ARGUMENT, "comes whole"},
        {some_rows, PS_INVALID_ARGUMENT, "comes whole"},
        {other_codec, PS_INVALID_ARGUMENT, "dense0.weight"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ps_status st;
        way w;

        way_init(&w, UP(""));
        ps_coder_begin(&w.coder);
        fill(w.grad, VALUES, 40);
        way_encode(&w, 0);
        cases[i].spoil(&w);
        st = way_push(&w, 0);
        if (st.code != cases[i].code || strstr(st.text, cases[i].words) == NULL || w.taken != 0) {
            fail_msg("case %zu: %d %s", i, (int)st.code, st.text);
        }
        way_fini(&w);
    }
}

/* Any numbers are factors: values come of them, and nothing else happens. */
static void any_bytes_of_the_right_number_are_values(void **state)
{
    way w;

    (void)state;
    way_init(&w, UP(""));
    ps_coder_begin(&w.coder);
    way_encode(&w, 0);
    for (uint64_t t = 0; t < 20; t++) {
        uint64_t key = ps_draw_key(2, PS_DRAW_TEST, t, 0, 0);
        ps_status st;

        for (size_t i = 0; i < w.heads[2].msg.payload_bytes; i++) {
            w.bytes[2][i] = (uint8_t)ps_draw_u64(key, i);
        }
        st = way_push(&w, 2);
        assert_int_equal(st.code, PS_OK);
    }
    way_fini(&w);
}

static ps_status see(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len)
{
    (void)head;
    (void)bytes;
    (void)len;
    ++*(uint32_t *)arg;
    return ps_fail(PS_ABORTED, "seen");
}

static void others_are_handed_on_as_they_are(void **state)
{
    ps_plan *plan = plan_of(UP(""));
    Psgd__V1__Encoding head = PSGD__V1__ENCODING__INIT;
    uint32_t seen = 0;
    ps_placement placement;
    ps_status st;

    (void)state;
    ps_placement_init(&placement, &plan->layout, plan->spec->pservers, 0);
    head.slice = plan->layout.first_slice[1]; /* a bias */
    head.payload_bytes = 5;
    st = ps_matrix_push(plan, &placement, 0, &head, (const uint8_t *)"12345", 5, see, &seen);
    assert_int_equal(st.code, PS_ABORTED);
    head.slice = UINT32_MAX;
    st = ps_matrix_push(plan, &placement, 0, &head, (const uint8_t *)"12345", 5, see, &seen);
    assert_int_equal(st.code, PS_ABORTED);
    head.slice = 0; /* no bytes stand for zeros, of any slice */
    head.payload_bytes = 0;
    st = ps_matrix_push(plan, &placement, 0, &head, NULL, 0, see, &seen);
    assert_int_equal(st.code, PS_ABORTED);
    assert_int_equal(seen, 3);
    ps_placement_fini(&placement);
    ps_plan_destroy(plan);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matrix_of_the_rank_is_all_there),
        cmocka_unit_test(rank_that_was_lost_comes_back),
        cmocka_unit_test(steps_get_better_with_what_is_kept),
        cmocka_unit_test(a_contribution_is_sent_again_to_other_parts),
        cmocka_unit_test(odd_values_leave_finite_factors),
        cmocka_unit_test(matrices_go_whole_and_vectors_as_they_are),
        cmocka_unit_test(what_is_done_slice_by_slice_is_not_whole),
        cmocka_unit_test(numbers_of_code_are_no_matrix),
        cmocka_unit_test(filters_are_the_rows_of_a_convolution),
        cmocka_unit_test(what_is_sent_and_what_is_kept_are_the_gradient),
        cmocka_unit_test(two_factors_are_what_is_sent),
        cmocka_unit_test(again_is_the_same_again),
        cmocka_unit_test(copies_of_a_block_are_the_same),
        cmocka_unit_test(what_is_not_as_planned_is_refused),
        cmocka_unit_test(any_bytes_of_the_right_number_are_values),
        cmocka_unit_test(others_are_handed_on_as_they_are),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
