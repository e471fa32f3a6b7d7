/* SPDX-License-Identifier: Apache-2.0 */
/* test_mesh_state.c - machines that are saved between two steps, and read into fresh machines, go
 * on with the same bits: every exchange with every codec that keeps something. */
#include "tests/support/cmocka_all.h"

#include "tests/support/bytes_file.h"
#include "tests/support/mesh_world.h"

#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, VALUES = 700, PARTS = 3 };

static const char magic[] = "PSGDTEST";

/* What codecs keep beyond their defaults. */
static const char *const numbers[] = {
    "", "error_feedback=1", "momentum=0.5", "difference=1", "difference=1,lazy=0.9", "lossless=1",
};

typedef struct setting {
    const char *mesh, *codec, *numbers;
    uint32_t nodes;
} setting;

/* Returns false if the exchange or the codec refuses these numbers. */
static bool begin(mesh_world *w, const setting *s)
{
    static const size_t sizes[PARTS] = {VALUES, 1, VALUES / 2};
    ps_mesh_codec codec = mesh_world_codec(s->codec, s->numbers);
    ps_status st;

    *w = (mesh_world){0};
    for (uint32_t p = 0; p < PARTS; p++) {
        w->part[w->part_count++] =
            (ps_mesh_part){.n = sizes[p], .up = codec, .down = mesh_world_codec("f32", "")};
        if (ps_mesh_find(s->mesh)->sends_sums) {
            w->part[p].down = codec;
        }
    }
    st = mesh_world_init_parts(w, s->mesh, "iid", s->nodes, 1, 7);
    if (!ps_is_ok(&st)) {
        mesh_world_fini(w);
    }
    return ps_is_ok(&st);
}

static void must_be_ok(const mesh_world *w, const setting *s)
{
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (!ps_is_ok(&w->failure[i])) {
            fail_msg("%s, %s %s: %s", s->mesh, s->codec, s->numbers, w->failure[i].text);
        }
    }
}

static void save(const mesh_world *w, uint32_t i, bytes_file *file)
{
    ps_state_out out;
    ps_status st;

    file->len = 0;
    ps_state_out_init(&out, magic, 1, bytes_file_add, file);
    for (uint32_t p = 0; p < PARTS; p++) {
        ps_state_begin(&out, 1, p);
        ps_mesh_save(w->node[i], p, &out);
        ps_state_finish(&out);
    }
    st = ps_state_out_end(&out);
    assert_string_equal(st.text, "");
}

static void load(mesh_world *w, uint32_t i, const bytes_file *file)
{
    uint32_t kind, index;
    ps_state_in in;
    ps_status st = ps_state_in_init(&in, magic, 1, file->bytes, file->len);

    for (uint32_t p = 0; p < PARTS && ps_is_ok(&st); p++) {
        st = ps_state_next(&in, true, &kind, &index);
        ps_mesh_load(w->node[i], p, &in);
        st = ps_is_ok(&st) ? ps_state_done(&in) : st;
    }
    assert_string_equal(st.text, "");
    ps_mesh_start_at(w->node[i], STEPS);
    w->step[i] = STEPS;
}

/* Runs a job without a break, and again with a break after STEPS. Returns whether the machines have
 * kept anything. */
static bool try_setting(const setting *s)
{
    static bytes_file file;
    mesh_world whole, first, second;
    bool keeps;

    if (!begin(&whole, s)) {
        return false;
    }
    assert_true(begin(&first, s) && begin(&second, s));
    keeps = ps_mesh_memory(first.node[0]) > 0;
    mesh_world_run_many(&whole, 2 * STEPS);
    must_be_ok(&whole, s);
    mesh_world_run_many(&first, STEPS);
    must_be_ok(&first, s);
    for (uint32_t i = 0; i < s->nodes; i++) {
        save(&first, i, &file);
        load(&second, i, &file);
    }
    second.draws = 1000003; /* another order of arrival */
    mesh_world_run_many(&second, 2 * STEPS);
    must_be_ok(&second, s);
    for (uint32_t i = 0; i < s->nodes; i++) {
        if (memcmp(whole.sum[i], second.sum[i], whole.n * sizeof(float)) != 0) {
            fail_msg("%s, %s %s: saved after step %d it goes on with other bits", s->mesh, s->codec,
                     s->numbers, STEPS);
        }
    }
    mesh_world_fini(&whole);
    mesh_world_fini(&first);
    mesh_world_fini(&second);
    return keeps;
}

static bool has_numbers(const ps_codec *codec, const char *text)
{
    char name[32];

    while (*text != '\0') {
        const char *end = strchr(text, ',');

        snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
        if (ps_param_find(codec->params, name) < 0) {
            return false;
        }
        text = end != NULL ? end + 1 : "";
    }
    return true;
}

typedef struct tally {
    const ps_mesh *mesh;
    uint32_t kept;
} tally;

static void try_codec(const ps_codec *codec, void *arg)
{
    tally *t = arg;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        setting s = {t->mesh->name, codec->name, numbers[i], 3};

        if (has_numbers(codec, numbers[i])) {
            t->kept += try_setting(&s);
        }
    }
}

static void try_mesh(const ps_mesh *mesh, void *arg)
{
    tally t = {.mesh = mesh};

    (void)arg;
    ps_codec_each(try_codec, &t);
    print_message("%s: %u codecs with numbers keep a state\n", mesh->name, t.kept);
    /* ccdc sends fixed-point numbers and keeps nothing */
    assert_true(strcmp(mesh->name, "ccdc") == 0 ? t.kept == 0 : t.kept > 3);
}

static void every_exchange_goes_on_with_the_same_bits_whatever_its_codec_keeps(void **state)
{
    (void)state;
    ps_mesh_each(try_mesh, NULL);
}

/* A machine that never ran has a different future: the test above would see a state that is lost.
 */
static void what_is_kept_matters(void **state)
{
    static const setting cases[] = {{"plain", "int8", "difference=1", 3},
                                    {"ndc", "sign", "error_feedback=1", 3},
                                    {"ring", "int8", "error_feedback=1", 3},
                                    {"tree", "int8", "error_feedback=1", 3}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mesh_world whole, fresh;

        assert_true(begin(&whole, &cases[i]) && begin(&fresh, &cases[i]));
        mesh_world_run_many(&whole, 2 * STEPS);
        for (uint32_t k = 0; k < fresh.nodes; k++) {
            ps_mesh_start_at(fresh.node[k], STEPS);
            fresh.step[k] = STEPS;
        }
        mesh_world_run_many(&fresh, 2 * STEPS);
        must_be_ok(&fresh, &cases[i]);
        assert_memory_not_equal(whole.sum[0], fresh.sum[0], whole.n * sizeof(float));
        mesh_world_fini(&whole);
        mesh_world_fini(&fresh);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_exchange_goes_on_with_the_same_bits_whatever_its_codec_keeps),
        cmocka_unit_test(what_is_kept_matters),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
