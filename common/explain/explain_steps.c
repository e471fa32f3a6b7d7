/* SPDX-License-Identifier: Apache-2.0 */
#include "common/explain/explain_steps.h"

#include "common/base/xalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_LEAST = 3 };

const char *ps_explain_way_name(ps_explain_way way)
{
    static const char *const names[] = {[PS_WAY_UP] = "up",
                                        [PS_WAY_SERVER] = "server",
                                        [PS_WAY_DOWN] = "down",
                                        [PS_WAY_CODEC] = "codec"};

    return names[way];
}

typedef enum kind { BACKWARD, CODING, TAKING, SERVING, UPDATING, KINDS } kind;

/* A span of time in the timeline, in which a thread did one thing; times in microseconds. Perfetto
 * calls it a slice. */
typedef struct slice {
    uint64_t thread; /* upper 32 bits: id of the process; lower: id of the thread in it */
    uint64_t step;
    double begin, end;
    kind kind;
} slice;

typedef struct timeline {
    slice *slices; /* (count): sorted by thread; those of one thread by begin */
    size_t count;
} timeline;

/* Times in a step's exchange, in microseconds: at which the last worker has computed, the last
 * server has updated its weights, and the last worker has decoded them. */
typedef struct exchange {
    uint64_t step;
    double computed, updated, taken; /* NAN: the timeline has no such span of this step */
} exchange;

/* Returns the kind of a span of the timeline; KINDS for one that is not used here. */
static kind kind_of(const char *category, const char *name)
{
    bool is_server = strcmp(category, "server") == 0;

    if (is_server) {
        return strcmp(name, "wait") == 0 ? KINDS : strcmp(name, "step") == 0 ? UPDATING : SERVING;
    }
    return strncmp(name, "backward", 8) == 0 ? BACKWARD
           : strcmp(name, "encode") == 0     ? CODING
           : strcmp(name, "decode") == 0     ? TAKING
                                             : KINDS;
}

static const char *text_of(const json_t *event, const char *member)
{
    const char *text = json_string_value(json_object_get(event, member));

    return text != NULL ? text : "";
}

static uint64_t whole_of(const json_t *from, const char *member)
{
    json_int_t value = json_integer_value(json_object_get(from, member));

    return value > 0 ? (uint64_t)value : 0;
}

static int by_thread(const void *a, const void *b)
{
    const slice *x = a, *y = b;

    if (x->thread != y->thread) {
        return x->thread < y->thread ? -1 : 1;
    }
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void read_slices(const json_t *events, timeline *out)
{
    const json_t *event;
    size_t i;

    out->slices = ps_xcalloc(json_array_size(events) + 1, sizeof *out->slices);
    json_array_foreach(events, i, event)
    {
        double begin = json_number_value(json_object_get(event, "ts"));
        double length = json_number_value(json_object_get(event, "dur"));
        slice s = {.thread = whole_of(event, "pid") << 32 | (whole_of(event, "tid") & UINT32_MAX),
                   .step = whole_of(json_object_get(event, "args"), "step"),
                   .begin = begin,
                   .end = begin + length,
                   .kind = kind_of(text_of(event, "cat"), text_of(event, "name"))};

        if (strcmp(text_of(event, "ph"), "X") == 0 && s.kind != KINDS && s.step > 0 &&
            length >= 0) {
            out->slices[out->count++] = s;
        }
    }
    if (out->count > 1) {
        qsort(out->slices, out->count, sizeof *out->slices, by_thread);
    }
}

static int by_step(const void *a, const void *b)
{
    const exchange *x = a, *y = b;

    return (x->step > y->step) - (x->step < y->step);
}

/* Lists, by step, the exchanges of which the timeline has all three times in order. Returns their
 * number; the caller frees *out. */
static size_t list_exchanges(const timeline *t, exchange **out)
{
    exchange *all = ps_xcalloc(t->count + 1, sizeof *all);
    size_t count = 0, whole = 0;

    for (size_t i = 0; i < t->count; i++) {
        all[i] = (exchange){t->slices[i].step, NAN, NAN, NAN};
    }
    if (t->count > 1) {
        qsort(all, t->count, sizeof *all, by_step);
    }
    for (size_t i = 0; i < t->count; i++) {
        if (count == 0 || all[count - 1].step != all[i].step) {
            all[count++] = all[i];
        }
    }
    for (size_t i = 0; i < t->count; i++) {
        const slice *s = &t->slices[i];
        exchange *e = bsearch(&(exchange){.step = s->step}, all, count, sizeof *all, by_step);
        double *end = s->kind == BACKWARD   ? &e->computed
                      : s->kind == UPDATING ? &e->updated
                      : s->kind == TAKING   ? &e->taken
                                            : NULL;

        if (end != NULL) {
            *end = fmax(*end, s->end); /* fmax(NAN, x) is x */
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (all[i].computed <= all[i].updated && all[i].updated <= all[i].taken) {
            all[whole++] = all[i];
        }
    }
    *out = all;
    return whole;
}

/* Returns the microseconds from `begin` to `end` that are covered by the slices [from, to) of one
 * thread, without those of backward passes. Slices may lie within others; time counts once. */
static double covered(const slice *from, const slice *to, double begin, double end)
{
    double sum = 0, until = begin;

    for (; from < to; from++) {
        double b = fmax(from->begin, until), e = fmin(from->end, end);

        if (from->kind != BACKWARD && e > b) {
            sum += e - b;
            until = e;
        }
    }
    return sum;
}

/* Returns the microseconds for which the busiest thread of all servers (is_server), or else of all
 * workers, was busy from `begin` to `end`, as covered() counts. Sets *thread to that thread if it
 * was busy at all. */
static double busiest(const timeline *t, bool is_server, double begin, double end, uint64_t *thread)
{
    double most = 0;

    for (size_t from = 0, to; from < t->count; from = to) {
        double busy;

        for (to = from; to < t->count && t->slices[to].thread == t->slices[from].thread; to++) {
        }
        if ((t->slices[from].kind >= SERVING) != is_server) {
            continue;
        }
        busy = covered(&t->slices[from], &t->slices[to], begin, end);
        if (busy > most) {
            most = busy;
            *thread = t->slices[from].thread;
        }
    }
    return most;
}

/* Writes the names of a thread's process and of the thread, such as "server 0, serving". */
static void name_thread(const json_t *events, uint64_t thread, char *out, size_t cap)
{
    const char *process = "", *name = "";
    const json_t *event;
    size_t i;

    json_array_foreach(events, i, event)
    {
        const char *what = text_of(event, "name");

        if (whole_of(event, "pid") != thread >> 32 || strcmp(text_of(event, "ph"), "M") != 0) {
            continue;
        }
        if (strcmp(what, "process_name") == 0) {
            process = text_of(json_object_get(event, "args"), "name");
        } else if (strcmp(what, "thread_name") == 0 &&
                   whole_of(event, "tid") == (thread & UINT32_MAX)) {
            name = text_of(json_object_get(event, "args"), "name");
        }
    }
    snprintf(out, cap, "%.30s, %.30s", process, name);
}

ps_status ps_explain_timeline(const json_t *root, ps_explain_steps *out)
{
    const json_t *events = json_object_get(root, "traceEvents");
    timeline t = {0};
    exchange *all = NULL;
    uint64_t thread = 0;
    double length, most = -1;

    *out = (ps_explain_steps){0};
    read_slices(events, &t);
    out->count = list_exchanges(&t, &all);
    length = out->count >= STEPS_LEAST ? all[out->count - 1].computed - all[0].computed : 0;
    for (size_t i = 0; length > 0 && i < out->count; i++) {
        const exchange *e = &all[i];
        double up = e->updated - e->computed, down = e->taken - e->updated;
        uint64_t thread_up = 0, thread_down = 0;
        double served_up = busiest(&t, true, e->computed, e->updated, &thread_up);
        double served_down = busiest(&t, true, e->updated, e->taken, &thread_down);
        double coded_up = busiest(&t, false, e->computed, e->updated, &(uint64_t){0});
        double coded_down = busiest(&t, false, e->updated, e->taken, &(uint64_t){0});

        out->shares[PS_WAY_SERVER] += served_up + served_down;
        out->shares[PS_WAY_CODEC] += coded_up + coded_down;
        out->shares[PS_WAY_UP] += fmax(0, up - served_up - coded_up);
        out->shares[PS_WAY_DOWN] += fmax(0, down - served_down - coded_down);
        if (fmax(served_up, served_down) > most) {
            most = fmax(served_up, served_down);
            thread = served_up > served_down ? thread_up : thread_down;
        }
    }
    if (length > 0) {
        double steps = (double)(all[out->count - 1].step - all[0].step);

        out->step_s = length / steps * 1e-6;
        for (int w = 0; w < PS_WAYS; w++) {
            out->shares[w] /= (double)out->count * out->step_s * 1e6;
            out->way = out->shares[w] > out->shares[out->way] ? (ps_explain_way)w : out->way;
        }
        name_thread(events, thread, out->thread, sizeof out->thread);
        out->error_s = 2e-6 * json_number_value(json_object_get(json_object_get(root, "otherData"),
                                                                "clock_error_us"));
    }
    free(all);
    free(t.slices);
    return length > 0 ? ps_ok()
                      : ps_fail(PS_NOT_FOUND, "the timeline has fewer than %d steps with servers",
                                STEPS_LEAST);
}

bool ps_explain_is_close(const ps_explain_steps *s)
{
    static const double apart = 0.1; /* shares of a step that differ by less are close */
    bool is_close = false;

    for (int w = 0; w < PS_WAYS; w++) {
        is_close = is_close || (w != (int)s->way && s->shares[w] > s->shares[s->way] - apart);
    }
    return is_close;
}

bool ps_explain_is_doubtful(const ps_explain_steps *s)
{
    return (s->way == PS_WAY_UP || s->way == PS_WAY_DOWN) &&
           s->shares[s->way] * s->step_s <= s->error_s;
}
