/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/kept_pushes.h"

#include "common/base/xalloc.h"
#include "common/codec/codec.h"
#include "common/wire/rank_reports.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "PSGDKEP1"

enum { VERSION = 1, HEAD = 1, CLOCK = 2 };
enum { FRAME_BYTES = 4096 };

/* What stands before the bytes of a push, in memory as in the file. */
typedef struct push_head {
    uint32_t block, slice, head_bytes, payload_bytes;
} push_head;

/* The contributions to a clock. */
typedef struct kept_clock {
    struct kept_clock *next; /* the one after it */
    uint64_t clock;
    uint8_t *bytes; /* (cap) */
    size_t len, cap;
} kept_clock;

struct ps_kept_pushes {
    const ps_plan *plan;
    uint32_t rank;
    size_t bytes_max, bytes; /* of all clocks, with their kept_clock */
    kept_clock *first, *last;
    kept_clock *spare; /* one that was dropped; its memory is used again */
    uint32_t block;    /* of the contribution in hand */
    uint8_t *has;      /* (slice_count) the contribution in hand has the slice */
    ps_rank_reports said;
};

ps_kept_pushes *ps_kept_pushes_create(const ps_plan *plan, uint32_t rank, size_t bytes_max)
{
    ps_kept_pushes *kept = ps_xcalloc(1, sizeof *kept);

    kept->plan = plan;
    kept->rank = rank;
    kept->bytes_max = bytes_max;
    kept->has = ps_xcalloc(plan->layout.slice_count + 1u, sizeof *kept->has);
    ps_rank_reports_init(&kept->said, 1);
    return kept;
}

static void free_clock(kept_clock *c)
{
    if (c != NULL) {
        free(c->bytes);
        free(c);
    }
}

static void drop_first(ps_kept_pushes *kept)
{
    kept_clock *c = kept->first;

    kept->first = c->next;
    kept->last = kept->first != NULL ? kept->last : NULL;
    kept->bytes -= sizeof *c + c->len;
    free_clock(kept->spare);
    kept->spare = c;
}

void ps_kept_pushes_destroy(ps_kept_pushes *kept)
{
    if (kept == NULL) {
        return;
    }
    while (kept->first != NULL) {
        drop_first(kept);
    }
    free_clock(kept->spare);
    ps_rank_reports_fini(&kept->said);
    free(kept->has);
    free(kept);
}

/* Makes room for `len` more bytes of the last clock, and returns where they go. */
static uint8_t *append(ps_kept_pushes *kept, size_t len)
{
    kept_clock *c = kept->last;

    if (c->len + len > c->cap) {
        c->cap = c->cap + c->cap / 2 > c->len + len ? c->cap + c->cap / 2 : c->len + len;
        c->bytes = ps_xrealloc(c->bytes, c->cap);
    }
    c->len += len;
    kept->bytes += len;
    return c->bytes + c->len - len;
}

/* Takes a push, and drops old clocks for it. A clock that lacks a push ends a replay, as one that
 * is not there does. */
static void take(ps_kept_pushes *kept, const push_head *at, const Psgd__V1__Encoding *head,
                 const uint8_t *bytes)
{
    size_t more = sizeof *at + at->head_bytes + at->payload_bytes;
    uint8_t *to;

    while (kept->bytes + more > kept->bytes_max && kept->first != kept->last) {
        drop_first(kept);
    }
    if (kept->bytes + more > kept->bytes_max) {
        return;
    }
    to = append(kept, more);
    memcpy(to, at, sizeof *at);
    if (head != NULL) {
        psgd__v1__encoding__pack(head, to + sizeof *at);
    }
    if (at->payload_bytes > 0) {
        memcpy(to + sizeof *at + at->head_bytes, bytes, at->payload_bytes);
    }
}

void ps_kept_pushes_begin(ps_kept_pushes *kept, uint64_t clock, uint32_t block)
{
    memset(kept->has, 0, kept->plan->layout.slice_count);
    kept->block = block;
    if (kept->last == NULL || kept->last->clock != clock) {
        kept_clock *c = kept->spare != NULL ? kept->spare : ps_xcalloc(1, sizeof *c);

        kept->spare = NULL;
        c->next = NULL;
        c->clock = clock;
        c->len = 0;
        if (c->bytes == NULL && kept->last != NULL && kept->last->len > 0) {
            c->cap = kept->last->len; /* most clocks take the same */
            c->bytes = ps_xmalloc(c->cap);
        }
        *(kept->last != NULL ? &kept->last->next : &kept->first) = c;
        kept->last = c;
        kept->bytes += sizeof *c;
    }
}

void ps_kept_pushes_add(ps_kept_pushes *kept, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                        size_t len)
{
    const push_head at = {.block = kept->block,
                          .slice = head->slice,
                          .head_bytes = (uint32_t)psgd__v1__encoding__get_packed_size(head),
                          .payload_bytes = (uint32_t)len};

    if (!kept->has[head->slice]) {
        kept->has[head->slice] = true;
        take(kept, &at, head, bytes);
    }
}

void ps_kept_pushes_zeros(ps_kept_pushes *kept)
{
    const push_head at = {.block = kept->block, .slice = PS_KEPT_ALL_SLICES};

    take(kept, &at, NULL, NULL);
}

void ps_kept_pushes_say(ps_kept_pushes *kept, const uint8_t *bytes, size_t len, bool is_partial)
{
    ps_rank_reports_take(&kept->said, 0, kept->last->clock, bytes, len, is_partial);
}

void ps_kept_pushes_forget(ps_kept_pushes *kept, uint64_t clock)
{
    while (kept->first != kept->last && kept->first->clock < clock) {
        drop_first(kept);
    }
}

/* ---- Writing ---- */

static void put_head(const ps_kept_pushes *kept, ps_state_out *out)
{
    const struct ps_rank_report *r = kept->said.count > 0 ? &kept->said.ranks[0] : NULL;
    bool is_known = r != NULL && r->has_any && !r->is_partial;

    ps_state_begin(out, HEAD, 0);
    ps_state_put_u64(out, ps_plan_hash(kept->plan));
    ps_state_put_u32(out, kept->rank);
    ps_state_put_u32(out, is_known);
    if (is_known) {
        ps_state_put_u64(out, r->clock);
        ps_state_put_u64(out, r->at);
        ps_state_put_u64(out, r->bytes.len);
        ps_state_put(out, r->bytes.data, r->bytes.len);
    }
    ps_state_finish(out);
}

/* Returns the bytes of the push at `at`, with its head, and copies that. */
static size_t push_at(const kept_clock *c, size_t at, push_head *head)
{
    memcpy(head, c->bytes + at, sizeof *head);
    return sizeof *head + head->head_bytes + head->payload_bytes;
}

static bool is_wanted(const ps_placement *placement, const bool *is_lost, uint32_t slice)
{
    return slice == PS_KEPT_ALL_SLICES || is_lost[placement->server_of[slice]];
}

static void put_clock(const kept_clock *c, uint32_t index, const ps_placement *placement,
                      const bool *is_lost, ps_state_out *out)
{
    uint32_t count = 0;
    push_head head;

    for (size_t at = 0; at < c->len;) {
        at += push_at(c, at, &head);
        count += is_wanted(placement, is_lost, head.slice);
    }
    ps_state_begin(out, CLOCK, index);
    ps_state_put_u64(out, c->clock);
    ps_state_put_u32(out, count);
    for (size_t at = 0; at < c->len;) {
        size_t n = push_at(c, at, &head);

        if (is_wanted(placement, is_lost, head.slice)) {
            ps_state_put(out, c->bytes + at, n);
        }
        at += n;
    }
    ps_state_finish(out);
}

ps_status ps_kept_pushes_write(const ps_kept_pushes *kept, const ps_placement *placement,
                               const bool *is_lost, ps_state_write_fn *write, void *arg)
{
    ps_state_out out;
    uint32_t index = 0;

    ps_state_out_init(&out, MAGIC, VERSION, write, arg);
    put_head(kept, &out);
    for (const kept_clock *c = kept->first; c != NULL && ps_is_ok(&out.status); c = c->next) {
        put_clock(c, index++, placement, is_lost, &out);
    }
    return ps_state_out_end(&out);
}

uint64_t ps_kept_file_bytes(size_t bytes_max)
{
    /* the frame of a clock takes about what its kept_clock does */
    return PS_RANK_REPORTS_MAX + FRAME_BYTES + 2 * (uint64_t)bytes_max;
}

/* ---- Reading ---- */

/* Goes to the next section, or to the end. */
static ps_status next(ps_kept_file *file)
{
    uint64_t before = file->clock;
    uint32_t kind, index;
    ps_status st = ps_state_next(&file->in, true, &kind, &index);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (kind == 0) {
        file->clock = UINT64_MAX;
        return st;
    }
    file->clock = ps_state_take_u64(&file->in);
    if (kind != CLOCK || (index > 0 && file->clock <= before) || file->clock == UINT64_MAX) {
        ps_state_fail(&file->in, "section of kind %" PRIu32 " and clock %" PRIu64, kind,
                      file->clock);
    }
    return file->in.status;
}

ps_status ps_kept_file_open(ps_kept_file *file, const ps_plan *plan, uint32_t rank,
                            const uint8_t *bytes, size_t len)
{
    uint64_t job, at, said_len;
    ps_status st;

    *file = (ps_kept_file){.rank = rank};
    st = ps_state_open(&file->in, MAGIC, VERSION, HEAD, bytes, len);
    if (!ps_is_ok(&st)) {
        return st;
    }
    job = ps_state_take_u64(&file->in);
    if (ps_state_is_ok(&file->in) && job != ps_plan_hash(plan)) {
        return ps_fail(PS_FAILED_PRECONDITION, "contributions are of another job");
    }
    if (ps_state_take_u32(&file->in) != rank && ps_state_is_ok(&file->in)) {
        return ps_fail(PS_FAILED_PRECONDITION, "contributions are not of rank %" PRIu32, rank);
    }
    file->has_said = ps_state_take_count(&file->in, "whether reports are known", 1) == 1;
    if (file->has_said) {
        file->said_clock = ps_state_take_u64(&file->in);
        at = ps_state_take_u64(&file->in);
        said_len = ps_state_take_u64(&file->in);
        if (at > said_len || said_len > PS_RANK_REPORTS_MAX) {
            ps_state_fail(&file->in, "%" PRIu64 " bytes of reports, the newest from %" PRIu64,
                          said_len, at);
        }
        file->said_at = (size_t)at;
        file->said_len = (size_t)said_len;
        file->said = ps_state_view(&file->in, file->said_len);
    }
    st = ps_state_done(&file->in);
    return ps_is_ok(&st) ? next(file) : st;
}

/* Pushes a slice to its store. */
static ps_status push_slice(const ps_kept_file *file, uint32_t contributor, ps_store *store,
                            const push_head *at, const uint8_t *packed, const uint8_t *bytes)
{
    Psgd__V1__Encoding *head = psgd__v1__encoding__unpack(NULL, at->head_bytes, packed);
    ps_store_outcome outcome;
    ps_status st;

    if (head == NULL || head->slice != at->slice) {
        st = ps_fail(PS_DATA_LOSS, "slice %" PRIu32 " has no head", at->slice);
    } else {
        st = ps_store_push(store, file->rank, file->clock, contributor, head, bytes,
                           at->payload_bytes, &outcome);
    }
    if (head != NULL) {
        psgd__v1__encoding__free_unpacked(head, NULL);
    }
    return st;
}

/* Takes the next push of the section to the stores. */
static ps_status push_next(ps_kept_file *file, const ps_plan *plan, const ps_placement *placement,
                           ps_store *const *stores)
{
    const uint8_t *packed, *bytes;
    uint32_t contributor;
    ps_status st = ps_ok();
    push_head at;

    ps_state_take(&file->in, &at, sizeof at);
    packed = ps_state_view(&file->in, at.head_bytes);
    bytes = ps_state_view(&file->in, at.payload_bytes);
    if (at.slice >= plan->layout.slice_count && at.slice != PS_KEPT_ALL_SLICES) {
        ps_state_fail(&file->in, "slice %" PRIu32, at.slice);
    }
    if (!ps_state_is_ok(&file->in)) {
        return file->in.status;
    }
    contributor = plan->update->per_block ? at.block : file->rank;
    for (uint32_t s = 0; s < placement->server_count && ps_is_ok(&st); s++) {
        if (stores[s] != NULL && at.slice == PS_KEPT_ALL_SLICES) {
            st = ps_store_push_zeros(stores[s], file->rank, file->clock, contributor);
        } else if (stores[s] != NULL && placement->server_of[at.slice] == s) {
            st = push_slice(file, contributor, stores[s], &at, packed, bytes);
        }
    }
    return st;
}

ps_status ps_kept_file_push(ps_kept_file *file, const ps_plan *plan, const ps_placement *placement,
                            ps_store *const *stores)
{
    uint32_t count = stores != NULL ? ps_state_take_u32(&file->in) : 0;
    ps_status st = file->in.status;

    for (uint32_t i = 0; i < count && ps_is_ok(&st); i++) {
        st = push_next(file, plan, placement, stores);
    }
    if (stores == NULL) {
        ps_state_skip(&file->in);
    } else if (ps_is_ok(&st)) {
        st = ps_state_done(&file->in);
    }
    return ps_is_ok(&st) ? next(file) : st;
}

const uint8_t *ps_kept_file_said(const ps_kept_file *file, uint64_t clock, size_t *len)
{
    if (!file->has_said || (clock != file->said_clock && clock != file->said_clock + 1)) {
        return NULL;
    }
    *len = clock == file->said_clock ? file->said_at : file->said_len;
    return file->said;
}
