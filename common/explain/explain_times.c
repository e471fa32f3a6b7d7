/* SPDX-License-Identifier: Apache-2.0 */
#include "common/explain/explain_times.h"

#include "common/base/xalloc.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A span of time in the timeline, in which a worker did one thing; times in microseconds. Perfetto
 * calls it a slice. */
typedef struct worked {
    uint64_t process, thread;
    ps_explain_work work; /* PS_WORKS: the span is a whole step */
    double begin, end;
} worked;

const char *ps_explain_work_name(ps_explain_work work)
{
    static const char *const names[] = {
        [PS_WORK_DATA] = "data", [PS_WORK_COMPUTE] = "compute", [PS_WORK_ENCODE] = "encode",
        [PS_WORK_SEND] = "send", [PS_WORK_WAIT] = "wait",       [PS_WORK_DECODE] = "decode"};

    return names[work];
}

static const char *text_at(const json_t *event, const char *member)
{
    const char *text = json_string_value(json_object_get(event, member));

    return text != NULL ? text : "";
}

/* Sets *work to what an event of the timeline stands for. Returns false for an event that does not
 * count: it is not a span of a worker, or its name does not begin as one of `kinds`. */
static bool find_work(const json_t *event, ps_explain_work *work)
{
    static const struct {
        const char *begins;
        ps_explain_work work;
    } kinds[] = {{"forward", PS_WORK_COMPUTE}, {"backward", PS_WORK_COMPUTE},
                 {"data", PS_WORK_DATA},       {"encode", PS_WORK_ENCODE},
                 {"send", PS_WORK_SEND},       {"decode", PS_WORK_DECODE},
                 {"wait", PS_WORK_WAIT},       {"step", PS_WORKS}};
    const char *name = text_at(event, "name");

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strncmp(name, kinds[i].begins, strlen(kinds[i].begins)) == 0) {
            *work = kinds[i].work;
            return strcmp(text_at(event, "ph"), "X") == 0 &&
                   strcmp(text_at(event, "cat"), "worker") == 0;
        }
    }
    return false;
}

static uint64_t id_of(const json_t *event, const char *member)
{
    json_int_t value = json_integer_value(json_object_get(event, member));

    return value > 0 ? (uint64_t)value : 0;
}

static int by_begin(const void *a, const void *b)
{
    const worked *x = a, *y = b;

    if (x->process != y->process) {
        return x->process < y->process ? -1 : 1;
    }
    if (x->thread != y->thread) {
        return x->thread < y->thread ? -1 : 1;
    }
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static size_t read_work(const json_t *events, worked *out)
{
    const json_t *event;
    size_t i, n = 0;

    json_array_foreach(events, i, event)
    {
        double begin = json_number_value(json_object_get(event, "ts"));
        double length = json_number_value(json_object_get(event, "dur"));
        ps_explain_work work;

        if (find_work(event, &work) && length >= 0) {
            out[n++] = (worked){.process = id_of(event, "pid"),
                                .thread = id_of(event, "tid"),
                                .work = work,
                                .begin = begin,
                                .end = begin + length};
        }
    }
    if (n > 1) {
        qsort(out, n, sizeof *out, by_begin);
    }
    return n;
}

/* Adds the steps and milliseconds of the slices of a rank's process to *out. Subtracts a wait
 * within a layer's slice from the time of computing. */
static void add_work(const worked *slices, size_t n, uint64_t process, ps_explain_times *out)
{
    const worked *layer = NULL;

    for (size_t i = 0; i < n; i++) {
        const worked *s = &slices[i];

        if (s->process != process) {
            continue;
        }
        if (s->work == PS_WORKS) {
            out->steps++;
            continue;
        }
        out->ms[s->work] += 1e-3 * (s->end - s->begin);
        if (s->work == PS_WORK_COMPUTE) {
            layer = s;
        } else if (s->work == PS_WORK_WAIT && layer != NULL && layer->thread == s->thread &&
                   s->end <= layer->end) {
            out->ms[PS_WORK_COMPUTE] -= 1e-3 * (s->end - s->begin);
        }
    }
}

void ps_explain_times_read(const json_t *timeline, ps_explain_times *out, size_t n)
{
    const json_t *events = json_object_get(timeline, "traceEvents"), *event;
    worked *slices = ps_xcalloc(json_array_size(events) + 1, sizeof *slices);
    size_t count = read_work(events, slices), i;

    for (size_t r = 0; r < n; r++) {
        out[r] = (ps_explain_times){0};
    }
    json_array_foreach(events, i, event)
    {
        const char *name = text_at(json_object_get(event, "args"), "name");
        unsigned rank;

        if (strcmp(text_at(event, "ph"), "M") == 0 &&
            strcmp(text_at(event, "name"), "process_name") == 0 &&
            sscanf(name, "worker %u", &rank) == 1 && rank < n && out[rank].steps == 0) {
            add_work(slices, count, id_of(event, "pid"), &out[rank]);
        }
    }
    for (size_t r = 0; r < n; r++) {
        for (int w = 0; w < PS_WORKS && out[r].steps > 0; w++) {
            out[r].ms[w] = fmax(0, out[r].ms[w] / (double)out[r].steps);
        }
    }
    free(slices);
}
