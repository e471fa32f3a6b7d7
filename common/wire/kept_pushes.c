/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/kept_pushes.h"

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/codec/codec.h"
#include "common/wire/kept_rows.h"
#include "common/wire/matrix.h"
#include "common/wire/rank_reports.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAGIC "PSGDKEP1"

enum { VERSION = 2, HEAD = 1, CLOCK = 2 };
enum { FRAME_BYTES = 4096, SHORT_MAX = 3 };

/* The fixed part of a push, in memory and in the file. The packed head of the push's message and
 * the payload follow it. */
typedef struct push_head {
    uint32_t block, slice, server, parts, head_bytes, payload_bytes;
} push_head;

/* Where the contributions to one clock lie in the ring. */
typedef struct kept_clock {
    uint64_t clock;
    uint64_t at; /* number of bytes that were kept, since the process began, before this clock */
} kept_clock;

/* Bytes lie in a ring: the n-th byte that was kept since the process began is at n % bytes_max. So
 * memory is allocated only once. The ring is left out of copies of the process
 * (common/base/snapshot.h), because with it the kernel would copy each page at the next write to
 * it. */
struct ps_kept_pushes {
    const ps_plan *plan;
    uint32_t rank;
    size_t bytes_max;
    uint8_t *ring;      /* (bytes_max) */
    uint64_t end;       /* number of bytes that were kept since the process began */
    kept_clock *clocks; /* (cap): a ring of `count` entries, of which the oldest is at `first` */
    size_t first, count, cap;
    uint64_t clock; /* clock of the contribution in hand */
    uint32_t block; /* block of the contribution in hand */
    uint8_t *has;   /* (slice_count): the contribution in hand has the slice */
    uint8_t *head;  /* (head_cap): buffer for the packed head of a message */
    size_t head_cap;
    ps_rank_reports said;
    uint64_t checkpoint; /* the clock of the last ps_kept_pushes_forget */
    uint32_t short_of;   /* number of checkpoints in a row that were older than all kept clocks */
};

ps_kept_pushes *ps_kept_pushes_create(const ps_plan *plan, uint32_t rank, size_t bytes_max)
{
    ps_kept_pushes *kept = ps_xcalloc(1, sizeof *kept);

    kept->plan = plan;
    kept->rank = rank;
    kept->bytes_max = bytes_max;
    kept->ring = mmap(NULL, bytes_max, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (kept->ring == MAP_FAILED) {
        kept->ring = NULL;
        kept->bytes_max = 0; /* without memory no contribution is kept */
    } else {
        (void)madvise(kept->ring, bytes_max, MADV_DONTFORK);
        (void)madvise(kept->ring, bytes_max, MADV_HUGEPAGE);
    }
    kept->has = ps_xcalloc(plan->layout.slice_count + 1u, sizeof *kept->has);
    ps_rank_reports_init(&kept->said, 1);
    return kept;
}

static void drop_ring(ps_kept_pushes *kept)
{
    if (kept->ring != NULL) {
        munmap(kept->ring, kept->bytes_max);
    }
    kept->ring = NULL;
    kept->bytes_max = 0;
    kept->count = 0;
}

void ps_kept_pushes_destroy(ps_kept_pushes *kept)
{
    if (kept == NULL) {
        return;
    }
    drop_ring(kept);
    ps_rank_reports_fini(&kept->said);
    free(kept->clocks);
    free(kept->head);
    free(kept->has);
    free(kept);
}

/* Returns entry number `place` of the kept clocks; 0 is the oldest. */
static kept_clock *clock_at(const ps_kept_pushes *kept, size_t place)
{
    return &kept->clocks[(kept->first + place) % kept->cap];
}

static void drop_first(ps_kept_pushes *kept)
{
    kept->first = (kept->first + 1) % kept->cap;
    kept->count--;
}

/* Returns the bytes that count against bytes_max: those of all kept pushes and of their clocks'
 * entries. */
static size_t used(const ps_kept_pushes *kept)
{
    return kept->count == 0
               ? 0
               : (size_t)(kept->end - clock_at(kept, 0)->at) + kept->count * sizeof *kept->clocks;
}

static void append(ps_kept_pushes *kept, const void *bytes, size_t len)
{
    size_t at = (size_t)(kept->end % kept->bytes_max);
    size_t before = len < kept->bytes_max - at ? len : kept->bytes_max - at;

    if (bytes != NULL) {
        memcpy(kept->ring + at, bytes, before);
        memcpy(kept->ring, (const uint8_t *)bytes + before, len - before);
    }
    kept->end += len;
}

/* Keeps a push, and drops the oldest clocks to make room. If the push's clock alone is too large,
 * leaves it out: a replay then ends before this clock, as it would before a clock that was
 * dropped. */
static void take(ps_kept_pushes *kept, const push_head *at, const uint8_t *head,
                 const uint8_t *bytes)
{
    size_t more = sizeof *at + at->head_bytes + at->payload_bytes;

    while (used(kept) + more > kept->bytes_max && kept->count > 1) {
        drop_first(kept);
    }
    if (used(kept) + more <= kept->bytes_max) {
        append(kept, at, sizeof *at);
        append(kept, head, at->head_bytes);
        append(kept, bytes, at->payload_bytes);
    }
}

/* Doubles the room for entries of clocks (16 at first). The oldest entry then has index 0. */
static void grow(ps_kept_pushes *kept)
{
    size_t cap = kept->cap == 0 ? 16 : 2 * kept->cap;
    kept_clock *clocks = ps_xcalloc(cap, sizeof *clocks);

    for (size_t i = 0; i < kept->count; i++) {
        clocks[i] = *clock_at(kept, i);
    }
    free(kept->clocks);
    kept->clocks = clocks;
    kept->first = 0;
    kept->cap = cap;
}

void ps_kept_pushes_begin(ps_kept_pushes *kept, uint64_t clock, uint32_t block)
{
    memset(kept->has, 0, kept->plan->layout.slice_count);
    kept->clock = clock;
    kept->block = block;
    if (kept->count > 0 && clock_at(kept, kept->count - 1)->clock == clock) {
        return;
    }
    while (used(kept) + sizeof *kept->clocks > kept->bytes_max && kept->count > 1) {
        drop_first(kept);
    }
    if (kept->count == kept->cap) {
        grow(kept);
    }
    *clock_at(kept, kept->count++) = (kept_clock){.clock = clock, .at = kept->end};
}

/* Keeps a push that consists of the packed `head` and of `bytes`. `at` has the other members of the
 * push's fixed part. */
static void take_message(ps_kept_pushes *kept, push_head at, const ProtobufCMessage *head,
                         const uint8_t *bytes)
{
    at.head_bytes = (uint32_t)protobuf_c_message_get_packed_size(head);
    if (at.head_bytes > kept->head_cap) {
        kept->head_cap = 2 * (size_t)at.head_bytes;
        kept->head = ps_xrealloc(kept->head, kept->head_cap);
    }
    protobuf_c_message_pack(head, kept->head);
    take(kept, &at, kept->head, bytes);
}

void ps_kept_pushes_add(ps_kept_pushes *kept, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                        size_t len)
{
    if (kept->ring == NULL || kept->has[head->slice]) {
        return;
    }
    kept->has[head->slice] = true;
    take_message(
        kept,
        (push_head){.block = kept->block, .slice = head->slice, .payload_bytes = (uint32_t)len},
        &head->base, bytes);
}

void ps_kept_pushes_add_rows(ps_kept_pushes *kept, uint32_t server, uint32_t parts,
                             const Psgd__V1__RowGradients *head, const uint8_t *bytes, size_t len)
{
    if (kept->ring != NULL) {
        take_message(kept,
                     (push_head){.block = kept->block,
                                 .slice = PS_KEPT_ROWS,
                                 .server = server,
                                 .parts = parts,
                                 .payload_bytes = (uint32_t)len},
                     &head->base, bytes);
    }
}

void ps_kept_pushes_zeros(ps_kept_pushes *kept)
{
    const push_head at = {.block = kept->block, .slice = PS_KEPT_ALL_SLICES};

    take(kept, &at, NULL, NULL);
}

void ps_kept_pushes_say(ps_kept_pushes *kept, const uint8_t *bytes, size_t len, bool is_partial)
{
    ps_rank_reports_take(&kept->said, 0, kept->clock, bytes, len, is_partial);
}

/* Notes a checkpoint of `clock`. If this checkpoint and the SHORT_MAX - 1 before it were all of
 * earlier clocks than the oldest kept contribution, frees the ring, and nothing is kept any more:
 * the ring is too small for a replay from a checkpoint. */
static void look_back(ps_kept_pushes *kept, uint64_t clock)
{
    kept->short_of = clock_at(kept, 0)->clock <= clock ? 0 : kept->short_of + 1;
    if (kept->short_of == SHORT_MAX) {
        ps_log(PS_LOG_INFO, "wire",
               "rank %" PRIu32 ": %zu MiB hold the contributions to %zu steps, and checkpoints are "
               "stored more than that apart: no more are kept",
               kept->rank, kept->bytes_max >> 20, kept->count);
        drop_ring(kept);
    }
}

void ps_kept_pushes_forget(ps_kept_pushes *kept, uint64_t clock)
{
    if (kept->ring != NULL && kept->count > 0 && clock > kept->checkpoint) {
        kept->checkpoint = clock;
        look_back(kept, clock);
    }
    while (kept->count > 1 && clock_at(kept, 0)->clock < clock) {
        drop_first(kept);
    }
}

/* ---- Writing ---- */

static void put_head(const ps_kept_pushes *kept, bool with_said, ps_state_out *out)
{
    const struct ps_rank_report *r =
        with_said && kept->said.count > 0 ? &kept->said.ranks[0] : NULL;
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

/* Copies n bytes out of the ring, beginning at the byte with number `from`. */
static void read_ring(const ps_kept_pushes *kept, uint64_t from, void *to, size_t n)
{
    size_t at = (size_t)(from % kept->bytes_max);
    size_t before = n < kept->bytes_max - at ? n : kept->bytes_max - at;

    memcpy(to, kept->ring + at, before);
    memcpy((uint8_t *)to + before, kept->ring, n - before);
}

/* Copies the fixed part of the push at byte number `at` into *head. Returns the number of bytes of
 * the whole push. */
static size_t push_at(const ps_kept_pushes *kept, uint64_t at, push_head *head)
{
    read_ring(kept, at, head, sizeof *head);
    return sizeof *head + head->head_bytes + head->payload_bytes;
}

static void put_push(const ps_kept_pushes *kept, uint64_t from, size_t n, ps_state_out *out)
{
    size_t at = (size_t)(from % kept->bytes_max);
    size_t before = n < kept->bytes_max - at ? n : kept->bytes_max - at;

    ps_state_put(out, kept->ring + at, before);
    ps_state_put(out, kept->ring, n - before);
}

static bool is_wanted(const ps_placement *placement, const bool *is_lost, const push_head *head)
{
    return head->slice == PS_KEPT_ALL_SLICES ||
           is_lost[head->slice == PS_KEPT_ROWS ? head->server : placement->server_of[head->slice]];
}

/* Returns the number of the byte at which the pushes of a kept clock end; `place` as for
 * clock_at. */
static uint64_t end_of(const ps_kept_pushes *kept, size_t place)
{
    return place + 1 < kept->count ? clock_at(kept, place + 1)->at : kept->end;
}

static void put_clock(const ps_kept_pushes *kept, size_t place, const ps_placement *placement,
                      const bool *is_lost, ps_state_out *out)
{
    const kept_clock *c = clock_at(kept, place);
    uint64_t end = end_of(kept, place);
    uint32_t count = 0;
    push_head head;

    for (uint64_t at = c->at; at < end;) {
        at += push_at(kept, at, &head);
        count += is_wanted(placement, is_lost, &head);
    }
    ps_state_begin(out, CLOCK, (uint32_t)place);
    ps_state_put_u64(out, c->clock);
    ps_state_put_u32(out, count);
    for (uint64_t at = c->at; at < end;) {
        size_t n = push_at(kept, at, &head);

        if (is_wanted(placement, is_lost, &head)) {
            put_push(kept, at, n, out);
        }
        at += n;
    }
    ps_state_finish(out);
}

ps_status ps_kept_pushes_write(const ps_kept_pushes *kept, const ps_placement *placement,
                               const bool *is_lost, ps_state_write_fn *write, void *arg)
{
    ps_state_out out;

    ps_state_out_init(&out, MAGIC, VERSION, write, arg);
    put_head(kept, true, &out);
    for (size_t i = 0; i < kept->count && ps_is_ok(&out.status); i++) {
        put_clock(kept, i, placement, is_lost, &out);
    }
    return ps_state_out_end(&out);
}

/* What put_single needs to write one slice of a push as a push of its own. */
typedef struct splitting {
    ps_state_out *out;
    uint32_t block;
    uint8_t *packed; /* (cap) */
    size_t cap;
} splitting;

static ps_status put_single(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                            size_t len)
{
    splitting *x = arg;
    const push_head at = {.block = x->block,
                          .slice = head->slice,
                          .head_bytes = (uint32_t)psgd__v1__encoding__get_packed_size(head),
                          .payload_bytes = (uint32_t)len};

    if (at.head_bytes > x->cap) {
        x->cap = 2 * (size_t)at.head_bytes;
        x->packed = ps_xrealloc(x->packed, x->cap);
    }
    psgd__v1__encoding__pack(head, x->packed);
    ps_state_put(x->out, &at, sizeof at);
    ps_state_put(x->out, x->packed, at.head_bytes);
    ps_state_put(x->out, bytes, len);
    return x->out->status;
}

/* Writes a push of a variable that is sent whole, which begins at byte number `from`, as one push
 * for each of its slices. */
static void split_push(const ps_kept_pushes *kept, const ps_placement *placement, uint64_t from,
                       splitting *x)
{
    push_head at;
    size_t n = push_at(kept, from, &at);
    uint8_t *bytes = ps_xmalloc(n);
    Psgd__V1__Encoding *head;
    ps_status st;

    read_ring(kept, from, bytes, n);
    head = psgd__v1__encoding__unpack(NULL, at.head_bytes, bytes + sizeof at);
    x->block = at.block;
    st = ps_matrix_split(kept->plan, placement, placement->part_of[at.slice], head,
                         bytes + sizeof at + at.head_bytes, at.payload_bytes, put_single, x);
    (void)st; /* x->out keeps a failure of writing */
    psgd__v1__encoding__free_unpacked(head, NULL);
    free(bytes);
}

static bool is_whole(const ps_kept_pushes *kept, uint32_t slice)
{
    const ps_plan *plan = kept->plan;

    return slice < plan->layout.slice_count && plan->by_matrix[plan->layout.slices[slice].variable];
}

static void put_clock_split(const ps_kept_pushes *kept, size_t place, const ps_placement *placement,
                            ps_state_out *out)
{
    const kept_clock *c = clock_at(kept, place);
    uint64_t end = end_of(kept, place);
    splitting x = {.out = out};
    uint32_t count = 0;
    push_head head;

    for (uint64_t at = c->at; at < end;) {
        at += push_at(kept, at, &head);
        count += is_whole(kept, head.slice)
                     ? ps_matrix_slices(kept->plan, placement, placement->part_of[head.slice],
                                        head.slice)
                     : 1;
    }
    ps_state_begin(out, CLOCK, (uint32_t)place);
    ps_state_put_u64(out, c->clock);
    ps_state_put_u32(out, count);
    for (uint64_t at = c->at; at < end;) {
        size_t n = push_at(kept, at, &head);

        if (is_whole(kept, head.slice)) {
            split_push(kept, placement, at, &x);
        } else {
            put_push(kept, at, n, out);
        }
        at += n;
    }
    ps_state_finish(out);
    free(x.packed);
}

ps_status ps_kept_pushes_write_newest(const ps_kept_pushes *kept, const ps_placement *placement,
                                      size_t clocks, ps_state_write_fn *write, void *arg)
{
    size_t first = kept->ring != NULL && kept->count > clocks ? kept->count - clocks : 0;
    ps_state_out out;

    ps_state_out_init(&out, MAGIC, VERSION, write, arg);
    put_head(kept, false, &out);
    for (size_t i = first; i < kept->count && ps_is_ok(&out.status); i++) {
        put_clock_split(kept, i, placement, &out);
    }
    return ps_state_out_end(&out);
}

uint64_t ps_kept_file_bytes(size_t bytes_max)
{
    /* The frame of a clock in the file has about twice the bytes of its kept_clock, which count
     * against bytes_max. */
    return PS_RANK_REPORTS_MAX + FRAME_BYTES + 4 * (uint64_t)bytes_max;
}

/* ---- Reading ---- */

/* Reads the head of the next section, and sets file->clock to the clock of its contributions;
 * UINT64_MAX at the end of the file. */
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

/* What push_one needs to push a slice to a store. */
typedef struct pushing {
    const ps_kept_file *file;
    uint32_t contributor;
    ps_store *store;
} pushing;

static ps_status push_one(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                          size_t len)
{
    const pushing *p = arg;
    ps_store_outcome outcome;

    return ps_store_push(p->store, p->file->rank, p->file->clock, p->contributor, head, bytes, len,
                         &outcome);
}

/* Pushes the slices of one encoding to p->store. */
static ps_status push_slice(pushing *p, const ps_plan *plan, const ps_placement *placement,
                            const push_head *at, const uint8_t *packed, const uint8_t *bytes)
{
    Psgd__V1__Encoding *head = psgd__v1__encoding__unpack(NULL, at->head_bytes, packed);
    ps_status st;

    if (head == NULL || head->slice != at->slice) {
        st = ps_fail(PS_DATA_LOSS, "slice %" PRIu32 " has no head", at->slice);
    } else {
        st = ps_matrix_push(plan, placement, placement->part_of[at->slice], head, bytes,
                            at->payload_bytes, push_one, p);
    }
    if (head != NULL) {
        psgd__v1__encoding__free_unpacked(head, NULL);
    }
    return st;
}

/* What push_next needs to push the contributions of a section to stores. */
typedef struct target {
    const ps_plan *plan;
    const ps_placement *placement;
    ps_store *const *stores; /* (server_count) */
    ps_kept_rows *rows;      /* rows of the contribution in hand */
    uint32_t contributor;
} target;

/* Makes the contribution of `block` the one in hand. If it is another one than before, first pushes
 * the rows of the one before, which are complete. */
static ps_status turn_to(const ps_kept_file *file, target *to, uint32_t block)
{
    uint32_t contributor = to->plan->update->per_block ? block : file->rank;
    ps_status st = ps_ok();

    if (contributor != to->contributor) {
        st = ps_kept_rows_push(to->rows, file->rank, file->clock, to->contributor, to->stores);
    }
    to->contributor = contributor;
    return st;
}

/* Reads the next push of the section. Pushes slices to the store of the server that has them, and
 * zeros for all slices to every store. Collects rows in to->rows; these are pushed when the
 * contribution is complete. */
static ps_status push_next(ps_kept_file *file, target *to)
{
    const uint8_t *packed, *bytes;
    ps_status st = ps_ok();
    push_head at;

    ps_state_take(&file->in, &at, sizeof at);
    packed = ps_state_view(&file->in, at.head_bytes);
    bytes = ps_state_view(&file->in, at.payload_bytes);
    if (at.slice >= to->plan->layout.slice_count && at.slice != PS_KEPT_ALL_SLICES &&
        at.slice != PS_KEPT_ROWS) {
        ps_state_fail(&file->in, "slice %" PRIu32, at.slice);
    }
    if (!ps_state_is_ok(&file->in)) {
        return file->in.status;
    }
    st = turn_to(file, to, at.block);
    if (ps_is_ok(&st) && at.slice == PS_KEPT_ROWS) {
        return ps_kept_rows_add(to->rows, at.server, at.parts, packed, at.head_bytes, bytes,
                                at.payload_bytes);
    }
    for (uint32_t s = 0; s < to->placement->server_count && ps_is_ok(&st); s++) {
        ps_store *store = to->stores[s];

        if (store != NULL && at.slice == PS_KEPT_ALL_SLICES) {
            st = ps_store_push_zeros(store, file->rank, file->clock, to->contributor);
        } else if (store != NULL && to->placement->server_of[at.slice] == s) {
            st =
                push_slice(&(pushing){.file = file, .contributor = to->contributor, .store = store},
                           to->plan, to->placement, &at, packed, bytes);
        }
    }
    return st;
}

/* Pushes the contributions of the section to the stores of the servers that have their slices and
 * rows. */
static ps_status push_section(ps_kept_file *file, const ps_plan *plan,
                              const ps_placement *placement, ps_store *const *stores)
{
    target to = {.plan = plan, .placement = placement, .stores = stores, .contributor = file->rank};
    uint32_t count = ps_state_take_u32(&file->in);
    ps_status st = file->in.status;

    to.rows = ps_kept_rows_create(plan, placement->server_count);
    for (uint32_t i = 0; i < count && ps_is_ok(&st); i++) {
        st = push_next(file, &to);
    }
    if (ps_is_ok(&st)) {
        st = ps_kept_rows_push(to.rows, file->rank, file->clock, to.contributor, stores);
    }
    ps_kept_rows_destroy(to.rows);
    return ps_is_ok(&st) ? ps_state_done(&file->in) : st;
}

ps_status ps_kept_file_push(ps_kept_file *file, const ps_plan *plan, const ps_placement *placement,
                            ps_store *const *stores)
{
    ps_status st = file->in.status;

    if (stores == NULL) {
        ps_state_skip(&file->in);
    } else {
        st = push_section(file, plan, placement, stores);
    }
    return ps_is_ok(&st) ? next(file) : st;
}

/* ---- Contributions that another process sends again ---- */

static ps_status take_slice(ps_kept_file *file, const ps_plan *plan, ps_kept_contribution *out,
                            bool is_first)
{
    const uint8_t *packed;
    push_head at;

    ps_state_take(&file->in, &at, sizeof at);
    packed = ps_state_view(&file->in, at.head_bytes);
    if (!ps_state_is_ok(&file->in)) {
        return file->in.status;
    }
    if (!is_first && (out->is_nothing || at.block != out->block)) {
        ps_state_fail(&file->in, "two contributions to a clock");
        return file->in.status;
    }
    out->block = at.block;
    out->is_nothing = at.slice == PS_KEPT_ALL_SLICES;
    if (out->is_nothing) {
        return file->in.status;
    }
    if (at.slice >= plan->layout.slice_count || out->head[at.slice] != NULL) {
        ps_state_fail(&file->in, "slice %" PRIu32 " is not there, or there twice", at.slice);
        return file->in.status;
    }
    out->head[at.slice] = psgd__v1__encoding__unpack(NULL, at.head_bytes, packed);
    out->len[at.slice] = at.payload_bytes;
    out->bytes[at.slice] = ps_state_view(&file->in, at.payload_bytes);
    if (ps_state_is_ok(&file->in) &&
        (out->head[at.slice] == NULL || out->head[at.slice]->slice != at.slice)) {
        ps_state_fail(&file->in, "slice %" PRIu32 " has no head", at.slice);
    }
    if (ps_state_is_ok(&file->in) && plan->by_matrix[plan->layout.slices[at.slice].variable]) {
        return ps_matrix_check_single(plan, at.slice, out->head[at.slice], at.payload_bytes);
    }
    return file->in.status;
}

ps_status ps_kept_file_take(ps_kept_file *file, const ps_plan *plan, ps_kept_contribution *out)
{
    uint32_t slices = plan->layout.slice_count, count = ps_state_take_u32(&file->in);
    ps_status st = file->in.status;

    *out = (ps_kept_contribution){
        .clock = file->clock,
        .head = ps_xcalloc(slices + 1u, sizeof *out->head),
        .bytes = ps_xcalloc(slices + 1u, sizeof *out->bytes),
        .len = ps_xcalloc(slices + 1u, sizeof *out->len),
    };
    for (uint32_t i = 0; i < count && ps_is_ok(&st); i++) {
        st = take_slice(file, plan, out, i == 0);
    }
    if (ps_is_ok(&st) && count != (out->is_nothing ? 1 : slices)) {
        ps_state_fail(&file->in, "%" PRIu32 " of %" PRIu32 " slices of a contribution", count,
                      slices);
        st = file->in.status;
    }
    st = ps_is_ok(&st) ? ps_state_done(&file->in) : st;
    return ps_is_ok(&st) ? next(file) : st;
}

void ps_kept_contribution_fini(ps_kept_contribution *c, const ps_plan *plan)
{
    for (uint32_t s = 0; c->head != NULL && s < plan->layout.slice_count; s++) {
        if (c->head[s] != NULL) {
            psgd__v1__encoding__free_unpacked(c->head[s], NULL);
        }
    }
    free(c->head);
    free(c->bytes);
    free(c->len);
    *c = (ps_kept_contribution){0};
}

size_t ps_kept_contribution_encode(const ps_kept_contribution *c, const ps_plan *plan,
                                   const ps_placement *placement, uint32_t part, uint32_t slice,
                                   uint8_t *out, ps_encoding *head)
{
    if (plan->by_matrix[plan->layout.slices[slice].variable]) {
        return ps_matrix_join(plan, placement, part, slice, c->bytes, out, head);
    }
    memcpy(out, c->bytes[slice], c->len[slice]);
    ps_encoding_copy(head, c->head[slice]);
    return c->len[slice];
}

/* Keeps the encoding of a variable that is sent whole, for the part that has slice `leader`, which
 * is the part's first slice of the variable. */
static void keep_leader(ps_kept_pushes *kept, const ps_placement *placement,
                        const ps_kept_contribution *c, uint32_t leader)
{
    uint32_t part = placement->part_of[leader];
    uint8_t *bytes = ps_xmalloc(ps_matrix_size(kept->plan, placement, part, leader));
    ps_encoding head;
    size_t n = ps_kept_contribution_encode(c, kept->plan, placement, part, leader, bytes, &head);

    ps_kept_pushes_add(kept, &head.msg, bytes, n);
    free(bytes);
}

void ps_kept_pushes_keep(ps_kept_pushes *kept, const ps_placement *placement,
                         const ps_kept_contribution *c)
{
    ps_kept_pushes_begin(kept, c->clock, c->block);
    if (c->is_nothing) {
        ps_kept_pushes_zeros(kept);
    }
    for (uint32_t s = 0; !c->is_nothing && s < kept->plan->layout.slice_count; s++) {
        if (!is_whole(kept, s)) {
            ps_kept_pushes_add(kept, c->head[s], c->bytes[s], c->len[s]);
        } else if (ps_matrix_slices(kept->plan, placement, placement->part_of[s], s) > 0) {
            keep_leader(kept, placement, c, s);
        }
    }
}

const uint8_t *ps_kept_file_said(const ps_kept_file *file, uint64_t clock, size_t *len)
{
    if (!file->has_said || (clock != file->said_clock && clock != file->said_clock + 1)) {
        return NULL;
    }
    *len = clock == file->said_clock ? file->said_at : file->said_len;
    return file->said;
}
