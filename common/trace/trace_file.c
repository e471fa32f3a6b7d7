/* SPDX-License-Identifier: Apache-2.0 */
/* trace_file.c - see trace_file.h: the part of a thread.
 *
 * The arrows of one push have one id, made of rank, step and part of a server, so each process can
 * write its end of the arrow without knowing the others. */
#include "common/trace/trace_file.h"

#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TAKEN = 1024, ARROWS_MAX = 64 /* ranks, and parts of servers, that have arrows */ };

static const struct {
    const char *name, *category, *number;
} kinds[] = {
#define KIND(constant, name, category, number) {name, category, number},
    PS_TRACE_KINDS(KIND)
#undef KIND
};

/* An end of an arrow. */
typedef struct arrow_end {
    uint64_t step; /* 0: none */
    uint32_t part;
    int64_t at_ns;
} arrow_end;

typedef struct part_writer {
    ps_strbuf text;
    const ps_trace_track *track;
    uint64_t pushed[ARROWS_MAX];  /* by part: the step whose arrow has begun */
    arrow_end pulled[ARROWS_MAX]; /* by part: the last one so far */
    arrow_end stepped;            /* the last one so far */
} part_writer;

static void put_time(part_writer *w, const char *key, int64_t ns)
{
    ps_strbuf_printf(&w->text, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void put_place(part_writer *w)
{
    ps_strbuf_printf(&w->text, ",\"pid\":%u,\"tid\":%u", w->track->process, w->track->thread);
}

static void put_name(part_writer *w, const char *what, uint32_t thread, const char *name)
{
    ps_strbuf_printf(
        &w->text, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":", what,
        w->track->process, thread);
    ps_strbuf_json_string(&w->text, name, strlen(name));
    ps_strbuf_puts(&w->text, "}}\n");
}

/* Writes an end of the arrow of `rank`: 's' begins it, 't' is on its way, 'f' ends it. */
static void put_arrow(part_writer *w, char phase, uint32_t rank, const arrow_end *end)
{
    ps_strbuf_printf(
        &w->text,
        "{\"ph\":\"%c\",\"cat\":\"flow\",\"name\":\"push, step, pull\",\"id\":\"%u.%" PRIu64
        ".%u\"%s",
        phase, rank, end->step, end->part, phase == 'f' ? ",\"bp\":\"e\"" : "");
    put_place(w);
    put_time(w, "ts", end->at_ns);
    ps_strbuf_puts(&w->text, "}\n");
}

/* Writes the arrows' ends at the last update of a step by a server. */
static void end_stepped(part_writer *w)
{
    uint32_t arrows = w->track->workers < ARROWS_MAX ? w->track->workers : ARROWS_MAX;

    for (uint32_t rank = 0; w->stepped.step != 0 && rank < arrows; rank++) {
        put_arrow(w, 't', rank, &w->stepped);
    }
    w->stepped = (arrow_end){0};
}

/* Writes the arrow's end at the last weights of a step from a part. */
static void end_pulled(part_writer *w, uint32_t part)
{
    if (w->pulled[part].step != 0) {
        put_arrow(w, 'f', w->track->rank, &w->pulled[part]);
    }
    w->pulled[part] = (arrow_end){0};
}

static void note_arrow(part_writer *w, const ps_trace_record *r)
{
    arrow_end at = {.step = r->detail, .part = r->number, .at_ns = r->begin_ns};

    if (r->kind == PS_TRACE_APPLY) {
        if (w->stepped.step != r->detail) {
            end_stepped(w);
        }
        at.part = w->track->part;
        w->stepped = at;
    } else if (r->kind == PS_TRACE_SEND && r->number < ARROWS_MAX) {
        if (w->pushed[r->number] != r->detail) {
            put_arrow(w, 's', w->track->rank, &at);
        }
        w->pushed[r->number] = r->detail;
    } else if (r->kind == PS_TRACE_TAKE && r->number < ARROWS_MAX) {
        if (w->pulled[r->number].step != r->detail) {
            end_pulled(w, r->number);
        }
        w->pulled[r->number] = at;
    }
}

static void put_whom(part_writer *w, uint64_t whom)
{
    const char *comma = "";

    ps_strbuf_puts(&w->text, ",\"waits_for\":[");
    for (uint32_t i = 0; i < 64; i++) {
        if (whom >> i & 1) {
            ps_strbuf_printf(&w->text, "%s\"server %u%s\"", comma, i,
                             i == 63 ? " or a later one" : "");
            comma = ",";
        }
    }
    ps_strbuf_putc(&w->text, ']');
}

static void put_slice(part_writer *w, const ps_trace_record *r)
{
    ps_strbuf_printf(&w->text, "{\"ph\":\"X\",\"name\":\"%s", kinds[r->kind].name);
    if (r->what != NULL) {
        ps_strbuf_printf(&w->text, " %u %s", r->number, r->what);
    }
    ps_strbuf_printf(&w->text, "\",\"cat\":\"%s\"", kinds[r->kind].category);
    put_place(w);
    put_time(w, "ts", r->begin_ns);
    put_time(w, "dur", r->end_ns - r->begin_ns);
    ps_strbuf_printf(&w->text, ",\"args\":{\"step\":%" PRIu64, r->step);
    if (kinds[r->kind].number[0] != '\0') {
        ps_strbuf_printf(&w->text, ",\"%s\":%u", kinds[r->kind].number, r->number);
    }
    if (r->kind == PS_TRACE_WAIT) {
        put_whom(w, r->detail);
    }
    ps_strbuf_puts(&w->text, "}}\n");
}

static void put_lost(part_writer *w, uint64_t lost, int64_t at_ns)
{
    ps_strbuf_printf(&w->text, "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"%" PRIu64 " records lost\"",
                     lost);
    put_place(w);
    put_time(w, "ts", at_ns);
    ps_strbuf_printf(&w->text, ",\"args\":{\"lost\":%" PRIu64 ",\"ring\":%d}}\n", lost,
                     PS_TRACE_RECORDS);
}

ps_status ps_trace_write_part(const char *path, ps_trace_ring *ring, const ps_trace_track *track)
{
    part_writer w = {.track = track};
    ps_trace_record *taken = ps_xcalloc(TAKEN, sizeof *taken);
    ps_file_writer file;
    int64_t last_ns = 0;
    ps_status st = ps_file_writer_open_passing(&file, path);
    size_t n = TAKEN;

    if (!ps_is_ok(&st)) {
        free(taken);
        return st;
    }
    put_name(&w, "process_name", 0, track->process_name);
    put_name(&w, "thread_name", track->thread, track->thread_name);
    while (n > 0 && ps_is_ok(&st)) {
        n = ps_trace_take(ring, taken, TAKEN);
        for (size_t i = 0; i < n; i++) {
            note_arrow(&w, &taken[i]);
            put_slice(&w, &taken[i]);
            last_ns = taken[i].end_ns;
        }
        st = ps_file_writer_add(&file, ps_strbuf_text(&w.text), w.text.len);
        ps_strbuf_clear(&w.text);
    }
    end_stepped(&w);
    for (uint32_t part = 0; part < ARROWS_MAX; part++) {
        end_pulled(&w, part);
    }
    if (ps_trace_lost(ring) > 0) {
        put_lost(&w, ps_trace_lost(ring), last_ns);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_writer_add(&file, ps_strbuf_text(&w.text), w.text.len);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_writer_commit(&file);
    } else {
        ps_file_writer_abandon(&file);
    }
    ps_strbuf_fini(&w.text);
    free(taken);
    return st;
}
