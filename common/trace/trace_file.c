/* SPDX-License-Identifier: Apache-2.0 */
/* trace_file.c - see trace_file.h: the part of a process.
 *
 * The arrows of one push have one id, made of rank, step and part of a server, so each process can
 * write its end of the arrow without knowing the others. */
#include "common/trace/trace_file.h"

#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAKEN = 1024,
    /* a worker's track has ends of arrows for parts of servers below this, a server's track passes
     * on those of ranks below it */
    ARROWS_MAX = 64,
    LAST_BYTES_MAX = 1 << 16 /* most bytes of a record with its arrows, or of a track's end */
};

static const struct {
    const char *name, *category, *number;
} kinds[] = {
#define KIND(constant, name, category, number) {name, category, number},
    PS_TRACE_KINDS(KIND)
#undef KIND
};

/* A point of an arrow: its step, part and time. */
typedef struct arrow_end {
    uint64_t step; /* 0: none */
    uint32_t part;
    int64_t at_ns;
} arrow_end;

typedef struct part_writer {
    ps_strbuf text;
    const ps_trace_alignment *alignment; /* NULL: none */
    const ps_trace_track *track;
    size_t track_bytes;          /* bytes of this track in the file, without those in `text` */
    uint64_t left_out;           /* records left out because PS_TRACE_TRACK_BYTES are full */
    uint64_t pushed[ARROWS_MAX]; /* index: a part; the last step whose arrow was begun */
    /* index: a part; the latest weights of the step, not written yet */
    arrow_end pulled[ARROWS_MAX];
    arrow_end stepped; /* the latest update of the step by a server, not written yet */
} part_writer;

/* Writes a member of a JSON object: a time in nanoseconds, as microseconds with three decimals. */
static void put_us(part_writer *w, const char *key, int64_t ns)
{
    uint64_t n = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

    ps_strbuf_printf(&w->text, ",\"%s\":%s%" PRIu64 ".%03u", key, ns < 0 ? "-" : "", n / 1000,
                     (unsigned)(n % 1000));
}

static void put_begin(part_writer *w, int64_t at_ns)
{
    put_us(w, "ts", at_ns + (w->alignment != NULL ? w->alignment->offset_ns : 0));
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

/* Writes a point of the arrow of `rank`. `phase` is 's' where it begins (the worker pushes), 't'
 * where it passes (a server steps), 'f' where it ends (the worker takes the weights). */
static void put_arrow(part_writer *w, char phase, uint32_t rank, const arrow_end *end)
{
    ps_strbuf_printf(
        &w->text,
        "{\"ph\":\"%c\",\"cat\":\"flow\",\"name\":\"push, step, pull\",\"id\":\"%u.%" PRIu64
        ".%u\"%s",
        phase, rank, end->step, end->part, phase == 'f' ? ",\"bp\":\"e\"" : "");
    put_place(w);
    put_begin(w, end->at_ns);
    ps_strbuf_puts(&w->text, "}\n");
}

/* Writes, at the server's last update of a step, the point that the arrow of each rank passes.
 * Does nothing if no update is noted. Forgets the noted one. */
static void end_stepped(part_writer *w)
{
    uint32_t arrows = w->track->workers < ARROWS_MAX ? w->track->workers : ARROWS_MAX;

    for (uint32_t rank = 0; w->stepped.step != 0 && rank < arrows; rank++) {
        put_arrow(w, 't', rank, &w->stepped);
    }
    w->stepped = (arrow_end){0};
}

/* Writes the end of the track's arrow at the last weights of a step that `part` gave. Does nothing
 * if no weights of `part` are noted. Forgets the noted ones. */
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

static void put_whom(part_writer *w, const char *role, uint64_t whom)
{
    const char *comma = "";

    ps_strbuf_puts(&w->text, ",\"waits_for\":[");
    for (uint32_t i = 0; i < 64; i++) {
        if (whom >> i & 1) {
            ps_strbuf_printf(&w->text, "%s\"%s %u%s\"", comma, role, i,
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
    put_begin(w, r->begin_ns);
    put_us(w, "dur", r->end_ns - r->begin_ns);
    ps_strbuf_printf(&w->text, ",\"args\":{\"step\":%" PRIu64, r->step);
    if (kinds[r->kind].number[0] != '\0') {
        ps_strbuf_printf(&w->text, ",\"%s\":%u", kinds[r->kind].number, r->number);
    }
    if (r->kind == PS_TRACE_WAIT) {
        put_whom(w, "server", r->detail);
    } else if (r->kind == PS_TRACE_AWAIT) {
        put_whom(w, "worker", r->detail);
    }
    ps_strbuf_puts(&w->text, "}}\n");
}

static void put_lost(part_writer *w, uint64_t lost, int64_t at_ns)
{
    ps_strbuf_printf(&w->text, "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"%" PRIu64 " records lost\"",
                     lost);
    put_place(w);
    put_begin(w, at_ns);
    ps_strbuf_printf(&w->text, ",\"args\":{\"lost\":%" PRIu64 ",\"ring\":%d}}\n", lost,
                     PS_TRACE_RECORDS);
}

/* Writes the name of the track's process and, if the clocks were compared, how wrong its times may
 * be. */
static void put_process(part_writer *w)
{
    put_name(w, "process_name", 0, w->track->process_name);
    if (w->alignment != NULL && w->alignment->error_ns >= 0) {
        double us = (double)w->alignment->error_ns / 1000;

        ps_strbuf_printf(&w->text,
                         "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":%u,\"tid\":0,\"args\":"
                         "{\"labels\":\"clock within %.0f us of the coordinator's\","
                         "\"clock_error_us\":%.3f}}\n",
                         w->track->process, us, us);
    }
}

static ps_status flush(part_writer *w, ps_file_writer *file)
{
    ps_status st = ps_file_writer_add(file, ps_strbuf_text(&w->text), w->text.len);

    w->track_bytes += w->text.len;
    ps_strbuf_clear(&w->text);
    return st;
}

static ps_status put_records(part_writer *w, ps_file_writer *file, ps_trace_record *taken,
                             int64_t *last_ns)
{
    size_t n = TAKEN;
    ps_status st = ps_ok();

    while (n > 0 && ps_is_ok(&st)) {
        n = ps_trace_take(w->track->ring, taken, TAKEN);
        for (size_t i = 0; i < n; i++) {
            if (w->track_bytes + w->text.len > PS_TRACE_TRACK_BYTES - 2 * LAST_BYTES_MAX) {
                w->left_out++;
                continue;
            }
            note_arrow(w, &taken[i]);
            put_slice(w, &taken[i]);
            *last_ns = taken[i].end_ns;
        }
        st = flush(w, file);
    }
    return st;
}

/* Writes a track with its records. is_first: it is the first track of its process, whose name is
 * then written too. */
static ps_status put_track(part_writer *w, bool is_first, ps_file_writer *file,
                           ps_trace_record *taken)
{
    uint64_t lost = ps_trace_lost(w->track->ring);
    int64_t last_ns = 0;
    ps_status st;

    if (is_first) {
        put_process(w);
    }
    put_name(w, "thread_name", w->track->thread, w->track->thread_name);
    st = put_records(w, file, taken, &last_ns);
    end_stepped(w);
    for (uint32_t part = 0; part < ARROWS_MAX; part++) {
        end_pulled(w, part);
    }
    if (lost + w->left_out > 0) {
        put_lost(w, lost + w->left_out, last_ns);
    }
    return ps_is_ok(&st) ? flush(w, file) : st;
}

ps_status ps_trace_write_part(const char *path, const ps_trace_track *tracks, size_t count,
                              const ps_trace_alignment *alignment)
{
    ps_trace_record *taken;
    ps_file_writer file;
    ps_status st = ps_file_writer_open_passing(&file, path);

    if (!ps_is_ok(&st)) {
        return st;
    }
    taken = ps_xcalloc(TAKEN, sizeof *taken);
    for (size_t i = 0; i < count && ps_is_ok(&st); i++) {
        part_writer w = {.track = &tracks[i], .alignment = alignment};

        st = put_track(&w, i == 0 || tracks[i].process != tracks[i - 1].process, &file, taken);
        ps_strbuf_fini(&w.text);
    }
    free(taken);
    if (ps_is_ok(&st)) {
        st = ps_file_writer_commit(&file);
    } else {
        ps_file_writer_abandon(&file);
    }
    return st;
}

ps_trace_track ps_trace_worker(ps_trace_ring *ring, uint32_t rank, uint32_t workers)
{
    ps_trace_track track = {.ring = ring,
                            .process = rank + 1,
                            .thread = 1,
                            .thread_name = "training",
                            .rank = rank,
                            .workers = workers};

    snprintf(track.process_name, sizeof track.process_name, "worker %u", rank);
    return track;
}
