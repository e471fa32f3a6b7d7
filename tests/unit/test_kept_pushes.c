/* SPDX-License-Identifier: Apache-2.0 */
/* test_kept_pushes.c - contributions that ranks keep, and stores that are computed of them. */
#include "common/wire/kept_pushes.h"

#include "common/base/xalloc.h"
#include "common/train/merge.h"
#include "common/wire/coder.h"
#include "common/wire/row_groups.h"
#include "tests/support/plan_rig.h"

#include <stdlib.h>

enum { SERVERS = 3, LOST = 1, RANKS = 2, CLOCKS = 6, BYTES_MAX = 1 << 20, ROWS = 32 };

static void assert_ok(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fail_msg("%s", st.text);
    }
}

/* A job of RANKS ranks, a store of server LOST that gets their contributions, and what they keep.
 */
typedef struct kept_world {
    ps_plan *plan;
    ps_placement placement;
    float *weights; /* all, initial */
    ps_store *store;
    ps_coder coders[RANKS];
    ps_kept_pushes *kept[RANKS];
    ps_buf *files[RANKS];
    uint64_t cut_at; /* the clock of which rows are kept in part */
} kept_world;

static ps_store *make_store(const kept_world *w)
{
    const ps_placement *placement = &w->placement;
    float *own = ps_xcalloc(ps_placement_value_count(placement, LOST) + 1, sizeof *own);
    size_t at = 0;
    ps_store *store;

    for (uint32_t k = 0; k < placement->owned_count[LOST]; k++) {
        const ps_slice *slice = &w->plan->layout.slices[placement->owned[LOST][k]];

        memcpy(own + at, w->weights + slice->at, slice->n * sizeof *own);
        at += slice->n;
    }
    store = ps_merge_store(w->plan, placement->owned[LOST], placement->owned_count[LOST], own,
                           ps_merge_tables(w->plan, placement, LOST));
    ps_store_keep_before(store);
    free(own);
    return store;
}

static void begin(kept_world *w, const char *json, size_t bytes_max)
{
    *w = (kept_world){.plan = plan_of(json), .cut_at = UINT64_MAX};
    ps_placement_init(&w->placement, &w->plan->layout, SERVERS, RANKS);
    w->weights = ps_xcalloc(w->plan->layout.param_count + 1u, sizeof *w->weights);
    for (size_t i = 0; i < w->plan->layout.param_count; i++) {
        w->weights[i] = (float)(i % 17) * 0.01f;
    }
    w->store = make_store(w);
    for (uint32_t r = 0; r < RANKS; r++) {
        ps_coder_init(&w->coders[r], w->plan, &w->placement, r);
        w->kept[r] = ps_kept_pushes_create(w->plan, r, bytes_max);
    }
}

static void end(kept_world *w)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        ps_coder_fini(&w->coders[r]);
        ps_kept_pushes_destroy(w->kept[r]);
        ps_buf_unref(w->files[r]);
    }
    ps_store_destroy(w->store);
    ps_placement_fini(&w->placement);
    ps_plan_destroy(w->plan);
    free(w->weights);
}

/* Encodes a slice of a gradient, keeps it, and pushes it to the store if that has it. */
static void push_slice(kept_world *w, uint32_t rank, uint64_t clock, uint32_t slice)
{
    const ps_slice *at = &w->plan->layout.slices[slice];
    float x[PS_CODEC_VALUES];
    uint8_t room[8 * PS_CODEC_VALUES];
    bool is_plain = ps_coder_is_plain(&w->coders[rank], slice);
    ps_store_outcome outcome;
    ps_encoding head;
    size_t n;

    for (size_t i = 0; i < at->n; i++) {
        x[i] = (float)((i * 31 + clock * 7 + rank * 3 + slice) % 101) * 0.02f - 1.0f;
    }
    n = ps_coder_encode(&w->coders[rank], w->placement.part_of[slice], slice, clock, rank, x,
                        is_plain ? NULL : room, &head);
    ps_kept_pushes_add(w->kept[rank], &head.msg, is_plain ? (const uint8_t *)x : room, n);
    if (w->placement.server_of[slice] == LOST) {
        assert_ok(ps_store_push(w->store, rank, clock, rank, &head.msg,
                                is_plain ? (const uint8_t *)x : room, n, &outcome));
    }
}

/* Keeps a message with these rows of server LOST, said to be of one of two of its parts. */
static void keep_rows(kept_world *w, uint32_t rank, uint32_t part, const uint64_t *keys,
                      const float *grads, size_t count)
{
    ps_row_groups of = {.plan = w->plan,
                        .choice = &w->plan->up[w->plan->tables[0].variable],
                        .keys = keys,
                        .count = count};
    uint32_t seen[ROWS] = {0};
    Psgd__V1__RowGradients rows = PSGD__V1__ROW_GRADIENTS__INIT;
    uint8_t room[8 * PS_CODEC_VALUES];
    Psgd__V1__Encoding *head_ptrs[ROWS];
    ps_encoding heads[ROWS];
    size_t n = ps_row_groups_encode(&of, 1, PS_DRAW_UP, grads, room, heads, &rows.n_values);

    for (size_t i = 0; i < rows.n_values; i++) {
        head_ptrs[i] = &heads[i].msg;
    }
    rows.part = part;
    rows.keys = (uint64_t *)(uintptr_t)keys;
    rows.shows = rows.clicks = seen;
    rows.n_keys = rows.n_shows = rows.n_clicks = count;
    rows.values = head_ptrs;
    rows.is_last = true; /* of its part */
    ps_kept_pushes_add_rows(w->kept[rank], LOST, 2, &rows, room, n);
}

/* A contribution's rows: of ids of the server, the even ones from one part and the odd ones from
 * another one. With is_cut the second message is not there. */
static void contribute_rows(kept_world *w, uint32_t rank, uint64_t clock, bool is_cut)
{
    uint64_t keys[ROWS], of_part[ROWS];
    uint32_t width, shows[ROWS] = {0};
    size_t count = 0;
    float *grads;

    if (w->plan->table_count == 0) {
        return;
    }
    width = w->plan->tables[0].width;
    grads = ps_xcalloc((size_t)ROWS * width, sizeof *grads);
    for (uint64_t key = clock % 3; key < 200 && count < ROWS; key += rank + 1) {
        if (w->placement.server_of_shard[ps_table_shard_of(key)] == LOST) {
            grads[count * width] = (float)(clock + key + rank) * 0.1f;
            keys[count++] = key;
        }
    }
    for (uint32_t part = 0; part < (is_cut ? 1 : 2); part++) {
        float *some = ps_xcalloc((size_t)ROWS * width, sizeof *some);
        size_t n = 0;

        for (size_t i = 0; i < count; i++) {
            if (keys[i] % 2 != part) {
                memcpy(some + n * width, grads + i * width, width * sizeof *some);
                of_part[n++] = keys[i];
            }
        }
        keep_rows(w, rank, part, of_part, some, n);
        free(some);
    }
    assert_ok(ps_store_push_rows(w->store, &(ps_store_rows){.worker = rank,
                                                            .clock = clock,
                                                            .contributor = rank,
                                                            .is_last = true,
                                                            .keys = keys,
                                                            .count = count,
                                                            .grads = grads,
                                                            .shows = shows,
                                                            .clicks = shows}));
    free(grads);
}

/* A contribution of all slices, of which some are sent twice; or of zeros. */
static void contribute(kept_world *w, uint32_t rank, uint64_t clock, bool is_nothing)
{
    char said[32];

    snprintf(said, sizeof said, "step %d of rank %d;", (int)clock, (int)rank);
    ps_kept_pushes_begin(w->kept[rank], clock, rank);
    ps_kept_pushes_say(w->kept[rank], (const uint8_t *)said, strlen(said), false);
    if (is_nothing) {
        ps_kept_pushes_zeros(w->kept[rank]);
        assert_ok(ps_store_push_zeros(w->store, rank, clock, rank));
        return;
    }
    for (uint32_t s = 0; s < w->plan->layout.slice_count; s++) {
        push_slice(w, rank, clock, s);
        if (s % 3 == 0) {
            push_slice(w, rank, clock, s);
        }
    }
    contribute_rows(w, rank, clock, clock == w->cut_at);
}

static void train(kept_world *w, uint64_t clocks)
{
    for (uint64_t clock = 0; clock < clocks; clock++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            contribute(w, (r + (uint32_t)clock) % RANKS, clock,
                       clock == 2 && r == 1 && w->plan->table_count == 0);
        }
    }
}

static void write_files(kept_world *w)
{
    const bool is_lost[SERVERS] = {[LOST] = true};

    for (uint32_t r = 0; r < RANKS; r++) {
        ps_buf_unref(w->files[r]);
        w->files[r] = NULL;
        assert_ok(ps_kept_pushes_write(w->kept[r], &w->placement, is_lost, ps_state_write_buf,
                                       &w->files[r]));
    }
}

static void open_files(const kept_world *w, ps_kept_file files[RANKS])
{
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_ok(ps_kept_file_open(&files[r], w->plan, r, w->files[r]->data, w->files[r]->len));
    }
}

static void must_be_equal(const ps_store *a, const ps_store *b)
{
    ps_buf *files[2] = {NULL, NULL};

    assert_ok(ps_store_save(a, ps_state_write_buf, &files[0]));
    assert_ok(ps_store_save(b, ps_state_write_buf, &files[1]));
    assert_int_equal(files[0]->len, files[1]->len);
    assert_memory_equal(files[0]->data, files[1]->data, files[0]->len);
    ps_buf_unref(files[0]);
    ps_buf_unref(files[1]);
}

static void replay(const kept_world *w, ps_kept_file files[RANKS], ps_store *store)
{
    ps_store *stores[SERVERS] = {[LOST] = store};

    for (uint64_t clock = ps_store_clock(store); clock < CLOCKS; clock++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            while (files[r].clock < clock) {
                assert_ok(ps_kept_file_push(&files[r], w->plan, &w->placement, NULL));
            }
            if (files[r].clock == clock) {
                assert_ok(ps_kept_file_push(&files[r], w->plan, &w->placement, stores));
            }
        }
    }
}

#define WITH_TABLE                                                                                 \
    "{\"workers\":2,\"pservers\":3,\"data\":{\"name\":\"ngram\",\"files\":[\"a\"],\"train_"        \
    "limit\":2000,"                                                                                \
    "\"test_limit\":100,\"params\":{\"words\":50}},\"model\":{\"preset\":\"ngram\",\"params\":{"   \
    "\"width\":4,\"hidden\":256,\"rows\":1000},\"table\":{\"name\":\"sparse\"}}}"

static const char *const jobs[] = {
    "{\"workers\":2,\"pservers\":3}",
    "{\"workers\":2,\"pservers\":3,\"codec\":{\"up\":{\"name\":\"int8\"}},"
    "\"optimizer\":{\"rule\":{\"name\":\"adam\"}}}",
    "{\"workers\":2,\"pservers\":3,\"codec\":{\"up\":{\"name\":\"topk\"}},"
    "\"optimizer\":{\"rule\":{\"name\":\"momentum\"}}}",
    WITH_TABLE,
};

static void a_store_is_computed_anew_to_the_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_kept_file files[RANKS];
        kept_world w;
        ps_store *anew;
        size_t len;

        begin(&w, jobs[i], 64 * BYTES_MAX);
        train(&w, CLOCKS);
        write_files(&w);
        open_files(&w, files);
        anew = make_store(&w);
        replay(&w, files, anew);
        assert_int_equal(ps_store_clock(anew), CLOCKS);
        must_be_equal(anew, w.store);
        assert_int_equal(files[0].clock, UINT64_MAX);
        assert_memory_equal(ps_kept_file_said(&files[1], CLOCKS - 1, &len),
                            "step 0 of rank 1;step 1 of rank 1;", 34);
        assert_int_equal(len, 5 * 17);
        assert_non_null(ps_kept_file_said(&files[1], CLOCKS, &len));
        assert_int_equal(len, 6 * 17);
        assert_null(ps_kept_file_said(&files[1], CLOCKS - 2, &len));
        ps_store_destroy(anew);
        end(&w);
    }
}

/* A rank was lost while it sent the rows of clock 4: the server is computed up to there. */
static void rows_that_are_not_all_there_end_a_replay(void **state)
{
    ps_kept_file files[RANKS];
    kept_world w;
    ps_store *anew;

    (void)state;
    begin(&w, WITH_TABLE, 64 * BYTES_MAX);
    w.cut_at = 4;
    train(&w, CLOCKS - 1);
    write_files(&w);
    open_files(&w, files);
    anew = make_store(&w);
    replay(&w, files, anew);
    assert_int_equal(ps_store_clock(anew), 4);
    assert_true(ps_store_has_at(anew, 4));
    ps_store_destroy(anew);
    end(&w);
}

/* A checkpoint of clock 3 is stored: what is before it is dropped, and a replay begins there. */
static void what_a_checkpoint_has_is_forgotten(void **state)
{
    ps_kept_file files[RANKS];
    ps_buf *checkpoint = NULL;
    kept_world w;
    ps_store *anew;

    (void)state;
    begin(&w, jobs[1], 64 * BYTES_MAX);
    train(&w, 3);
    assert_ok(ps_store_save(w.store, ps_state_write_buf, &checkpoint));
    for (uint64_t clock = 3; clock < CLOCKS; clock++) {
        contribute(&w, 0, clock, false);
        contribute(&w, 1, clock, false);
    }
    ps_kept_pushes_forget(w.kept[0], 3);
    write_files(&w);
    assert_true(w.files[0]->len < w.files[1]->len);
    open_files(&w, files);
    assert_int_equal(files[0].clock, 3);
    assert_int_equal(files[1].clock, 0);
    anew = make_store(&w);
    assert_ok(ps_store_load(anew, checkpoint->data, checkpoint->len));
    assert_ok(ps_store_load_end(anew));
    replay(&w, files, anew);
    must_be_equal(anew, w.store);
    ps_store_destroy(anew);
    ps_buf_unref(checkpoint);
    end(&w);
}

/* Whole clocks go when there is no room; one that has no room itself is kept in part. */
static void the_oldest_go_beyond_the_bound(void **state)
{
    ps_kept_file file;
    size_t whole;
    kept_world w;

    (void)state;
    begin(&w, jobs[0], 64 * BYTES_MAX);
    train(&w, CLOCKS);
    write_files(&w);
    whole = w.files[0]->len;
    end(&w);
    begin(&w, jobs[0], BYTES_MAX);
    train(&w, CLOCKS);
    write_files(&w);
    assert_ok(ps_kept_file_open(&file, w.plan, 0, w.files[0]->data, w.files[0]->len));
    assert_true(file.clock > 0);
    assert_true(w.files[0]->len < whole);
    assert_true(w.files[0]->len < ps_kept_file_bytes(BYTES_MAX));
    end(&w);
    begin(&w, jobs[0], 1000);
    train(&w, CLOCKS);
    write_files(&w);
    assert_ok(ps_kept_file_open(&file, w.plan, 0, w.files[0]->data, w.files[0]->len));
    assert_int_equal(file.clock, CLOCKS - 1);
    end(&w);
}

/* Room for about two clocks, and checkpoints further apart. */
static void nothing_is_kept_where_checkpoints_are_too_far_apart(void **state)
{
    ps_kept_file file;
    kept_world w;

    (void)state;
    begin(&w, jobs[0], BYTES_MAX);
    for (uint64_t clock = 0; clock < 24; clock++) {
        contribute(&w, 0, clock, false);
        contribute(&w, 1, clock, false);
        ps_kept_pushes_forget(w.kept[0], clock / 6 * 6 - (clock >= 6 ? 5 : 0)); /* 1, 7, 13 */
        ps_kept_pushes_forget(w.kept[1], clock);
        write_files(&w);
        assert_ok(ps_kept_file_open(&file, w.plan, 0, w.files[0]->data, w.files[0]->len));
        assert_true(clock < 18 ? w.files[0]->len > 10000 : w.files[0]->len < 10000);
        assert_true(w.files[1]->len > 10000);
    }
    end(&w);
}

/* For a rank that sends them again elsewhere, and keeps them there. */
static void the_newest_contributions_are_taken_as_they_were_sent(void **state)
{
    ps_kept_pushes *elsewhere;
    ps_kept_contribution c, sent[2];
    ps_buf *files[2] = {NULL, NULL};
    ps_kept_file file, again[2];
    kept_world w;

    (void)state;
    begin(&w, jobs[2], 64 * BYTES_MAX);
    elsewhere = ps_kept_pushes_create(w.plan, 1, 64 * BYTES_MAX);
    train(&w, 3);
    contribute(&w, 1, 3, false);
    assert_ok(
        ps_kept_pushes_write_newest(w.kept[1], &w.placement, 2, ps_state_write_buf, &files[0]));
    assert_ok(ps_kept_file_open(&file, w.plan, 1, files[0]->data, files[0]->len));
    assert_int_equal(file.clock, 2);
    while (file.clock != UINT64_MAX) {
        assert_ok(ps_kept_file_take(&file, w.plan, &c));
        assert_int_equal(c.is_nothing, c.clock == 2);
        assert_int_equal(c.block, 1);
        assert_true(c.is_nothing || c.head[0]->slice == 0);
        ps_kept_pushes_keep(elsewhere, &w.placement, &c);
        ps_kept_contribution_fini(&c, w.plan);
    }
    assert_ok(
        ps_kept_pushes_write_newest(elsewhere, &w.placement, 2, ps_state_write_buf, &files[1]));
    assert_int_equal(files[0]->len, files[1]->len);
    for (size_t i = 0; i < 2; i++) {
        assert_ok(ps_kept_file_open(&again[i], w.plan, 1, files[i]->data, files[i]->len));
        assert_ok(ps_kept_file_push(&again[i], w.plan, &w.placement, NULL)); /* that of zeros */
        assert_ok(ps_kept_file_take(&again[i], w.plan, &sent[i]));
    }
    for (uint32_t s = 0; s < w.plan->layout.slice_count; s++) {
        assert_int_equal(sent[0].len[s], sent[1].len[s]);
        assert_memory_equal(sent[0].bytes[s], sent[1].bytes[s], sent[0].len[s]);
    }
    for (size_t i = 0; i < 2; i++) {
        ps_kept_contribution_fini(&sent[i], w.plan);
        ps_buf_unref(files[i]);
    }
    ps_kept_pushes_destroy(elsewhere);

    ps_kept_pushes_begin(w.kept[0], 4, 0); /* only a part of its slices */
    push_slice(&w, 0, 4, 0);
    files[0] = NULL;
    assert_ok(
        ps_kept_pushes_write_newest(w.kept[0], &w.placement, 1, ps_state_write_buf, &files[0]));
    assert_ok(ps_kept_file_open(&file, w.plan, 0, files[0]->data, files[0]->len));
    assert_int_equal(ps_kept_file_take(&file, w.plan, &c).code, PS_DATA_LOSS);
    ps_kept_contribution_fini(&c, w.plan);
    ps_buf_unref(files[0]);
    end(&w);
}

static void files_of_others_and_damaged_ones_are_refused(void **state)
{
    ps_store *stores[SERVERS] = {NULL};
    ps_kept_file file;
    kept_world w, other;
    ps_status st;

    (void)state;
    begin(&w, jobs[1], 64 * BYTES_MAX);
    begin(&other, jobs[2], BYTES_MAX);
    train(&w, CLOCKS);
    write_files(&w);
    st = ps_kept_file_open(&file, w.plan, 1, w.files[0]->data, w.files[0]->len);
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_string_equal(st.text, "contributions are not of rank 1");
    st = ps_kept_file_open(&file, other.plan, 0, w.files[0]->data, w.files[0]->len);
    assert_string_equal(st.text, "contributions are of another job");
    st = ps_kept_file_open(&file, w.plan, 0, w.files[0]->data, 100);
    assert_int_equal(st.code, PS_DATA_LOSS);
    w.files[0]->data[w.files[0]->len / 2] ^= 1;
    st = ps_kept_file_open(&file, w.plan, 0, w.files[0]->data, w.files[0]->len);
    while (ps_is_ok(&st) && file.clock != UINT64_MAX) {
        st = ps_kept_file_push(&file, w.plan, &w.placement, stores);
    }
    assert_int_equal(st.code, PS_DATA_LOSS);
    end(&w);
    end(&other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_is_computed_anew_to_the_bit),
        cmocka_unit_test(what_a_checkpoint_has_is_forgotten),
        cmocka_unit_test(rows_that_are_not_all_there_end_a_replay),
        cmocka_unit_test(the_oldest_go_beyond_the_bound),
        cmocka_unit_test(nothing_is_kept_where_checkpoints_are_too_far_apart),
        cmocka_unit_test(the_newest_contributions_are_taken_as_they_were_sent),
        cmocka_unit_test(files_of_others_and_damaged_ones_are_refused),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
