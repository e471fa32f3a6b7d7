/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard_broadcast.c - a shard that sends what its weights changed by: replicas
 * that follow have its bits, those that missed something get the weights. */
#include "tests/support/cmocka_all.h"

#include "tests/support/shard_world.h"

#include "common/base/xalloc.h"
#include "common/codec/feedback.h"
#include "common/store/replica.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 4, SLICES = 5, ROUNDS = 500, VALUES_MAX = 4096 };

typedef struct replica {
    float w[VALUES_MAX];
    uint64_t version;
    uint64_t changes, wholes; /* pieces taken */
} replica;

typedef struct rig {
    world world;
    ps_store *shard;
    replica replicas[WORKERS];
} rig;

static void rig_begin(rig *r, const char *down, double feedback)
{
    memset(r, 0, sizeof *r);
    world_init(&r->world, "bsp", WORKERS, SLICES);
    world_codecs(&r->world, "f32", down);
    r->world.conf.broadcasts = true;
    r->world.slices[1].is_state = true;
    for (uint32_t s = 0; s < SLICES; s++) {
        int at = ps_param_find(r->world.slices[s].down->params, "error_feedback");

        if (at >= 0) {
            r->world.slices[s].down_params.v[at] = feedback;
        }
    }
    r->shard = ps_store_create(&r->world.conf);
    assert_true(ps_store_value_count(r->shard) <= VALUES_MAX);
}

static void push_all(rig *r, uint64_t clock)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t s = 0; s < SLICES; s++) {
            ps_store_outcome outcome;
            ps_status st = world_push(&r->world, r->shard, i, clock, i, s, &outcome);

            assert_string_equal(st.text, "");
        }
    }
}

static size_t place_of(const rig *r, uint32_t slice, uint32_t *place)
{
    size_t at = 0;

    for (*place = 0; r->world.slices[*place].index != slice; ++*place) {
        at += r->world.slices[*place].n;
    }
    return at;
}

/* What a worker does with a piece of an answer. */
static void take(rig *r, replica *to, const ps_store_piece *piece, const ps_store_answer *answer)
{
    uint32_t place;
    float *w = to->w + place_of(r, piece->head->slice, &place);
    const ps_store_slice *slice = &r->world.slices[place];
    static float change[PS_CODEC_VALUES];

    if (answer->is_change) {
        ps_status st = ps_codec_decode(slice->down, piece->head, piece->buf->data + piece->at,
                                       piece->len, PS_INTO_SET, change, slice->n);

        assert_string_equal(st.text, "");
        assert_true(to->version + 1 == answer->version);
        ps_replica_step(w, change, slice->n);
        to->changes++;
    } else {
        assert_true(ps_encoding_is_plain(piece->head));
        assert_int_equal(piece->len, slice->n * sizeof *w);
        memcpy(w, piece->buf->data + piece->at, piece->len);
        to->wholes++;
    }
    assert_true(ps_replica_checksum(w, slice->n) == piece->checksum);
}

/* Worker i asks for the clock and takes all of the answer. */
static void pull(rig *r, uint32_t i, uint64_t clock, bool whole)
{
    ps_status st = ps_store_pull_begin(r->shard, i, clock);
    ps_store_answer answer;

    assert_string_equal(st.text, "");
    if (whole) {
        ps_store_pull_whole(r->shard, i);
    }
    do {
        ps_store_piece pieces[2];

        ps_store_pull_next(r->shard, i, 1 << 20, pieces, 2, &answer);
        assert_true(answer.count > 0);
        for (size_t k = 0; k < answer.count; k++) {
            take(r, &r->replicas[i], &pieces[k], &answer);
        }
    } while (!answer.is_last);
    r->replicas[i].version = clock;
}

static void must_be_alike(rig *r, uint32_t i)
{
    assert_memory_equal(r->replicas[i].w, ps_store_weights(r->shard),
                        ps_store_value_count(r->shard) * sizeof(float));
}

/* Worker 3 misses each seventh round, and two in a row now and then. */
static void replicas_have_the_shard_s_bits_after_each_of_500_rounds(void **state)
{
    static const struct {
        const char *down;
        double feedback;
    } cases[] = {{"f32", 0}, {"int8", 0}, {"sign", 1}, {"topk", 1}, {"bf16", 0}};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        rig *r = ps_xcalloc(1, sizeof *r);
        bool missed = true; /* nobody has been given anything */

        rig_begin(r, cases[c].down, cases[c].feedback);
        for (uint64_t t = 0; t < ROUNDS; t++) {
            push_all(r, t);
            for (uint32_t i = 0; i < WORKERS; i++) {
                if (i == 3 && (t % 7 == 3 || t % 21 == 4)) {
                    missed = true;
                    continue;
                }
                if (i == 3) {
                    uint64_t wholes = r->replicas[3].wholes;

                    pull(r, 3, t + 1, false);
                    assert_int_equal(r->replicas[3].wholes - wholes, missed && t > 0 ? SLICES : 0);
                    missed = false;
                } else {
                    pull(r, i, t + 1, false);
                }
                must_be_alike(r, i);
            }
        }
        assert_int_equal(r->replicas[0].changes, ROUNDS * SLICES);
        assert_int_equal(r->replicas[0].wholes, 0);
        ps_store_destroy(r->shard);
        free(r);
    }
}

static void a_worker_that_asks_for_the_weights_is_given_them(void **state)
{
    rig *r = ps_xcalloc(1, sizeof *r);

    (void)state;
    rig_begin(r, "int8", 0);
    push_all(r, 0);
    pull(r, 0, 1, false);
    r->replicas[0].w[3] += 1.0f; /* its replica is damaged */
    pull(r, 0, 1, true);
    must_be_alike(r, 0);
    assert_int_equal(r->replicas[0].wholes, SLICES);
    push_all(r, 1);
    pull(r, 0, 2, false); /* and changes again */
    must_be_alike(r, 0);
    assert_int_equal(r->replicas[0].wholes, SLICES);
    ps_store_destroy(r->shard);
    free(r);
}

/* A change that is sent again is the same bytes: whoever has not had it can go on. */
static void a_change_can_be_had_again(void **state)
{
    rig *r = ps_xcalloc(1, sizeof *r);
    replica before;

    (void)state;
    rig_begin(r, "int8", 0);
    push_all(r, 0);
    before = r->replicas[0];
    pull(r, 0, 1, false);
    r->replicas[0] = before; /* the answer was lost */
    pull(r, 0, 1, false);
    must_be_alike(r, 0);
    assert_int_equal(r->replicas[0].wholes, 0);
    ps_store_destroy(r->shard);
    free(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_have_the_shard_s_bits_after_each_of_500_rounds),
        cmocka_unit_test(a_worker_that_asks_for_the_weights_is_given_them),
        cmocka_unit_test(a_change_can_be_had_again),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
