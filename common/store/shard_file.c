/* SPDX-License-Identifier: Apache-2.0 */
/* shard_file.c - writes and reads the dense slices in the file of a store's state, by virtual shard
 * (store.h has the layout). The file leaves out what can be computed from the rest: least clocks,
 * and snapshots that encoding the weights again would give. */
#include "common/store/store_impl.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ENCODING_BYTES = 512, PAYLOAD_BYTES = 4 * PS_CODEC_VALUES + 8 };

/* Parts that a slice may have in the file. A slice's values are preceded by the bits of the parts
 * that it has. */
enum {
    HAS_SUM = 1,       /* the open sum, decoded */
    HAS_UNDECODED = 2, /* the open sum in the codec's form */
    HAS_STANDING = 4,  /* sum of all contributions, where workers send differences */
    HAS_KEPT = 8,      /* feedback state of the weights' codec */
    HAS_SNAP = 16,     /* a snapshot that encoding the weights would not make again */
    HAS_HAD = 32,      /* the weights that each worker has */
    HAS_MEAN_SQUARE = 64,
    /* the slice is ahead of others (shard_before.c): its weights from before its last step */
    HAS_BEFORE = 128
};

/* Parts that a slice in the file must have if the job needs them, and must not have if not. */
enum { ALWAYS = HAS_STANDING | HAS_KEPT | HAS_HAD | HAS_MEAN_SQUARE };

static uint32_t parts_of(const ps_store *store, const shard_slice *slice)
{
    bool has_sum = slice->sum != NULL;
    bool keeps_snap = slice->snap.buf != NULL && slice->snap.version == slice->col->version &&
                      (store->broadcasts || slice->kept != NULL);

    return (has_sum && slice->undecoded == NULL ? HAS_SUM : 0u) |
           (has_sum && slice->undecoded != NULL ? HAS_UNDECODED : 0u) |
           (slice->standing != NULL ? HAS_STANDING : 0u) | (slice->kept != NULL ? HAS_KEPT : 0u) |
           (keeps_snap ? HAS_SNAP : 0u) | (store->had != NULL ? HAS_HAD : 0u) |
           (store->mean_square != NULL ? HAS_MEAN_SQUARE : 0u) |
           (slice->is_ahead && !has_sum && slice->parked == NULL ? HAS_BEFORE : 0u);
}

static size_t state_floats(const ps_store *store, const shard_slice *slice)
{
    return store->descent.optim != NULL ? (size_t)slice->conf.n * store->descent.optim->slots : 0;
}

static size_t kept_floats(const shard_slice *slice)
{
    return ps_feedback_floats(slice->conf.down, &slice->conf.down_params, slice->conf.n);
}

/* ---- Writing ---- */

static void put_encoding(ps_state_out *out, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                         size_t len)
{
    uint8_t packed[ENCODING_BYTES];
    size_t size = psgd__v1__encoding__get_packed_size(head);

    assert(size <= sizeof packed && len <= PAYLOAD_BYTES);
    (void)psgd__v1__encoding__pack(head, packed);
    ps_state_put_u32(out, (uint32_t)size);
    ps_state_put(out, packed, size);
    ps_state_put_u32(out, (uint32_t)len);
    ps_state_put(out, bytes, len);
}

static void put_parked(const shard_slice *slice, ps_state_out *out)
{
    uint32_t count = 0;

    for (const ps_parked *p = slice->parked; p != NULL; p = p->next) {
        count++;
    }
    ps_state_put_u32(out, count);
    for (const ps_parked *p = slice->parked; p != NULL; p = p->next) {
        ps_state_put_u32(out, p->contributor);
        put_encoding(out, &p->head.msg, p->bytes, p->len);
    }
}

static void put_snap(const shard_snap *snap, ps_state_out *out)
{
    put_encoding(out, &snap->head.msg, snap->buf->data, snap->buf->len);
}

/* Returns whether the file has the encoding of the weights from before the last step. It has it if
 * the encoding depends on the residual that the slice had then, so that it cannot be made again.
 * The weights of clock 0 have none: workers begin with them and never pull them. */
static bool has_snap_before(const ps_store *store, uint32_t s)
{
    return store->slices[s].kept != NULL && !store->broadcasts &&
           ps_book_open_clock(&store->book, s) > 1;
}

static void put_before(const ps_store *store, uint32_t s, ps_state_out *out)
{
    const shard_slice *slice = &store->slices[s];

    ps_state_put_u64(out, slice->before_version);
    ps_state_put(out, slice->other->data, slice->conf.n * sizeof(float));
    if (has_snap_before(store, s)) {
        /* if no snapshot was made since the step, the latest one is of the weights before it */
        put_snap(slice->snap.version == slice->before_version ? &slice->snap : &slice->snap_before,
                 out);
    }
}

/* Writes the values of a slice: weights, state of the optimizer, and each part whose bit is set in
 * `parts`. */
static void put_memory(const ps_store *store, uint32_t s, uint32_t parts, ps_state_out *out)
{
    const shard_slice *slice = &store->slices[s];
    size_t floats = slice->conf.n * sizeof(float);

    ps_state_put(out, slice->weights->data, floats);
    if (store->descent.optim != NULL) {
        ps_state_put(out, shard_state_of(store, slice), state_floats(store, slice) * sizeof(float));
    }
    if (parts & HAS_SUM) {
        ps_state_put(out, slice->sum, floats);
    }
    if (parts & HAS_UNDECODED) {
        ps_state_put(out, slice->undecoded, slice->conf.up->sum_bytes(slice->conf.n));
    }
    if (parts & HAS_STANDING) {
        ps_state_put(out, slice->standing, floats);
    }
    if (parts & HAS_KEPT) {
        ps_state_put(out, slice->kept, kept_floats(slice) * sizeof(float));
    }
    if (parts & HAS_SNAP) {
        put_snap(&slice->snap, out);
    }
    for (uint32_t w = 0; (parts & HAS_HAD) && w < store->book.workers; w++) {
        ps_state_put(out, store->had + w * store->value_count + slice->at, floats);
    }
    if (parts & HAS_MEAN_SQUARE) {
        ps_state_put(out, store->mean_square + slice->at, floats);
    }
    if (parts & HAS_BEFORE) {
        put_before(store, s, out);
    }
}

static void put_slice(const ps_store *store, uint32_t s, ps_state_out *out)
{
    const shard_slice *slice = &store->slices[s];
    uint32_t parts = parts_of(store, slice);

    ps_state_put_u32(out, slice->conf.index);
    ps_state_put_u32(out, slice->conf.n);
    ps_state_put_u32(out, parts);
    ps_state_put_u32(out, slice->turn);
    ps_book_put(&store->book, s, out);
    put_memory(store, s, parts, out);
    put_parked(slice, out);
}

void shard_put(const ps_store *store, uint32_t virtual_shard, ps_state_out *out)
{
    ps_state_put_u32(out, shard_count(store, virtual_shard));
    for (uint32_t s = 0; s < store->slice_count; s++) {
        if (store->slices[s].conf.index % PS_SHARDS == virtual_shard) {
            put_slice(store, s, out);
        }
    }
}

/* Writes a slice for the repetition of `clock`. If the slice was not stepped on that clock, writes
 * it as it was when the clock began. If it was, writes it as it was when the next clock began, with
 * its weights from before that step. */
static void put_slice_at(const ps_store *store, uint32_t s, uint64_t clock, ps_state_out *out)
{
    const shard_slice *slice = &store->slices[s];
    bool is_ahead = shard_is_ahead_of(store, s, clock);
    uint32_t parts = (parts_of(store, slice) & (ALWAYS | HAS_SNAP)) | (is_ahead ? HAS_BEFORE : 0u);

    ps_state_put_u32(out, slice->conf.index);
    ps_state_put_u32(out, slice->conf.n);
    ps_state_put_u32(out, parts);
    ps_state_put_u32(out, 0);
    ps_book_put_at(&store->book, s, is_ahead ? clock + 1 : clock, slice->col->version, out);
    put_memory(store, s, parts, out);
    ps_state_put_u32(out, 0); /* nothing is parked */
}

void shard_put_at(const ps_store *store, uint32_t virtual_shard, uint64_t clock, ps_state_out *out)
{
    ps_state_put_u32(out, shard_count(store, virtual_shard));
    for (uint32_t s = 0; s < store->slice_count; s++) {
        if (store->slices[s].conf.index % PS_SHARDS == virtual_shard) {
            put_slice_at(store, s, clock, out);
        }
    }
}

uint32_t shard_count(const ps_store *store, uint32_t virtual_shard)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < store->slice_count; s++) {
        count += store->slices[s].conf.index % PS_SHARDS == virtual_shard;
    }
    return count;
}

/* ---- Reading ---- */

/* Reads an encoding: its head into *head, the number of its bytes into *len. Returns the bytes,
 * which stay in the memory of the file; NULL: the read has failed, or *len is 0. */
static const uint8_t *take_encoding(ps_state_in *in, ps_encoding *head, size_t *len)
{
    uint32_t size = ps_state_take_count(in, "bytes of an encoding's head", ENCODING_BYTES);
    const uint8_t *packed = ps_state_view(in, size);
    Psgd__V1__Encoding *msg = NULL;
    const uint8_t *bytes;

    if (packed != NULL) {
        msg = psgd__v1__encoding__unpack(NULL, size, packed);
    }
    if (msg == NULL) {
        ps_state_fail(in, "no encoding");
        return NULL;
    }
    ps_encoding_copy(head, msg);
    psgd__v1__encoding__free_unpacked(msg, NULL);
    *len = ps_state_take_count(in, "bytes of an encoding", PAYLOAD_BYTES);
    bytes = ps_state_view(in, *len);
    if (ps_state_is_ok(in) && *len != head->msg.payload_bytes) {
        ps_state_fail(in, "an encoding of %zu bytes that says it has %" PRIu32, *len,
                      head->msg.payload_bytes);
    }
    return bytes;
}

/* Reads a snapshot: the encoding of the weights of `version` or, if the store broadcasts, of the
 * change that led to them. */
static void take_snap(ps_store *store, const shard_slice *slice, shard_snap *snap, uint64_t version,
                      ps_state_in *in)
{
    size_t len = 0;
    ps_encoding head;
    const uint8_t *bytes = take_encoding(in, &head, &len);
    ps_status st;

    if (!ps_state_is_ok(in)) {
        return;
    }
    st = len <= slice->conf.down->size(&slice->conf.down_params, slice->conf.n)
             ? ps_codec_decode(slice->conf.down, &head.msg, bytes, len, PS_INTO_SET, store->scratch,
                               slice->conf.n)
             : ps_fail(PS_DATA_LOSS, "too long");
    if (!ps_is_ok(&st)) {
        ps_state_fail(in, "snapshot: %s", st.text);
        return;
    }
    shard_renew_snap(slice, snap);
    ps_encoding_copy(&snap->head, &head.msg);
    memcpy(snap->buf->data, bytes, len);
    snap->buf->len = len;
    snap->version = version;
}

/* Reads the parked contributions. Checks that they are for the open sum, and that their
 * contributors ascend and are not below the slice's turn. */
static void take_parked(ps_store *store, uint32_t s, ps_state_in *in)
{
    shard_slice *slice = &store->slices[s];
    uint32_t count = ps_state_take_count(in, "parked contributions", store->book.contributors);
    uint32_t least = slice->turn;

    if (count > 0 && !store->book.in_order) {
        ps_state_fail(in, "%s parks nothing", store->book.policy->name);
    }
    for (uint32_t i = 0; ps_state_is_ok(in) && i < count; i++) {
        uint32_t k = ps_state_take_u32(in);
        size_t len = 0;
        ps_encoding head;
        const uint8_t *bytes = take_encoding(in, &head, &len);
        ps_status st;

        if (!ps_state_is_ok(in)) {
            return;
        }
        if (k < least || k >= store->book.contributors ||
            ps_book_next(&store->book, s, k) <= slice->col->clock) {
            ps_state_fail(in, "contributor %" PRIu32 " cannot be parked", k);
            return;
        }
        st = head.msg.lossless != 0
                 ? ps_fail(PS_DATA_LOSS, "of a kind that is not parked")
                 : ps_codec_check(slice->conf.up, &head.msg, bytes, len, slice->conf.n);
        if (!ps_is_ok(&st)) {
            ps_state_fail(in, "parked: %s", st.text);
            return;
        }
        ps_park_add(&store->park, &slice->parked, k, &head.msg, bytes, len);
        least = k + 1;
    }
}

static void take_undecoded(shard_slice *slice, ps_state_in *in)
{
    const ps_codec *up = slice->conf.up;

    ps_state_take(in, slice->undecoded, up->sum_bytes(slice->conf.n));
    if (ps_state_is_ok(in) && up->sum_check != NULL &&
        !up->sum_check(slice->undecoded, slice->conf.n)) {
        ps_state_fail(in, "a sum that %s does not make", up->name);
    }
}

/* Checks that the slice has the parts that this job needs, and no part that it cannot have, such as
 * a sum of another kind. */
static bool check_parts(const ps_store *store, const shard_slice *slice, uint32_t parts,
                        ps_state_in *in)
{
    uint32_t mine = parts_of(store, slice) & ALWAYS;
    bool may_sum = store->has_sums && slice->undecoded == NULL;
    bool may_be_ahead = store->book.policy->is_deterministic &&
                        (mine & (HAS_HAD | HAS_MEAN_SQUARE)) == 0 &&
                        (parts & (HAS_SUM | HAS_UNDECODED)) == 0;
    uint32_t may = mine | (may_sum ? HAS_SUM : 0u) |
                   (slice->undecoded != NULL ? HAS_UNDECODED : 0u) |
                   (store->broadcasts || slice->kept != NULL ? HAS_SNAP : 0u) |
                   (may_be_ahead ? HAS_BEFORE : 0u);

    if (ps_state_is_ok(in) && ((parts & ALWAYS) != mine || (parts & ~may) != 0)) {
        ps_state_fail(in,
                      "slice %" PRIu32 ": parts %#" PRIx32 "; this job's has %#" PRIx32
                      " and may have %#" PRIx32,
                      slice->conf.index, parts, mine, may);
    }
    return ps_state_is_ok(in);
}

/* Checks that every contributor below the turn has contributed: each is in the sum or was
 * dropped. */
static void check_turn(const ps_store *store, uint32_t s, ps_state_in *in)
{
    const shard_slice *slice = &store->slices[s];

    for (uint32_t k = 0; k < slice->turn; k++) {
        if (!store->book.in_order || ps_book_next(&store->book, s, k) <= slice->col->clock) {
            ps_state_fail(in, "turn: %" PRIu32 ", and contributor %" PRIu32 " has not come",
                          slice->turn, k);
            return;
        }
    }
}

static void take_before(ps_store *store, uint32_t s, ps_state_in *in)
{
    shard_slice *slice = &store->slices[s];
    uint64_t version = ps_state_take_u64(in);
    float *before = shard_other_to_write(slice);

    ps_state_take(in, before, slice->conf.n * sizeof *before);
    if (ps_state_is_ok(in) && (slice->col->clock == 0 || version > slice->col->version)) {
        ps_state_fail(in,
                      "slice %" PRIu32 ": version %" PRIu64
                      " before the last step, of clock %" PRIu64 " and version %" PRIu64,
                      slice->conf.index, version, slice->col->clock, slice->col->version);
        return;
    }
    if (has_snap_before(store, s)) {
        take_snap(store, slice, &slice->snap_before, version, in);
    }
    slice->has_before = slice->is_ahead = true;
    slice->before_version = version;
}

static void take_memory(ps_store *store, uint32_t s, uint32_t parts, ps_state_in *in)
{
    shard_slice *slice = &store->slices[s];
    size_t floats = slice->conf.n * sizeof(float);

    ps_state_take(in, shard_weights_to_write(slice), floats);
    if (store->descent.optim != NULL) {
        ps_state_take(in, shard_state_of(store, slice), state_floats(store, slice) * sizeof(float));
    }
    if (parts & HAS_SUM) {
        float *sum = shard_sum_memory(store, slice);

        ps_state_take(in, sum, floats);
        slice->sum = sum;
    }
    if (parts & HAS_UNDECODED) {
        take_undecoded(slice, in);
        /* Any pointer but NULL says that there is a sum; shard_merged decodes it to the scratch. */
        slice->sum = store->scratch;
    }
    if (parts & HAS_STANDING) {
        ps_state_take(in, slice->standing, floats);
    }
    if (parts & HAS_KEPT) {
        ps_state_take(in, slice->kept, kept_floats(slice) * sizeof(float));
    }
    if (parts & HAS_SNAP) {
        take_snap(store, slice, &slice->snap, slice->col->version, in);
    }
    for (uint32_t w = 0; (parts & HAS_HAD) && w < store->book.workers; w++) {
        ps_state_take(in, store->had + w * store->value_count + slice->at, floats);
    }
    if (parts & HAS_MEAN_SQUARE) {
        ps_state_take(in, store->mean_square + slice->at, floats);
    }
    if (parts & HAS_BEFORE) {
        take_before(store, s, in);
    }
}

static void take_slice(ps_store *store, uint32_t virtual_shard, uint32_t *least, ps_state_in *in)
{
    uint32_t index = ps_state_take_u32(in), n = ps_state_take_u32(in),
             parts = ps_state_take_u32(in), turn = ps_state_take_u32(in);
    uint32_t s = shard_find_slice(store, index);

    if (!ps_state_is_ok(in)) {
        return;
    }
    if (s == store->slice_count || index % PS_SHARDS != virtual_shard || index < *least ||
        n != store->slices[s].conf.n) {
        ps_state_fail(in,
                      "slice %" PRIu32 " of %" PRIu32 " values is not of this job or out of "
                      "order",
                      index, n);
        return;
    }
    *least = index + 1;
    if (!check_parts(store, &store->slices[s], parts, in)) {
        return;
    }
    store->slices[s].turn = turn <= store->book.contributors ? turn : 0;
    ps_book_take(&store->book, s, in);
    if (ps_state_is_ok(in) && turn > store->book.contributors) {
        ps_state_fail(in, "turn: %" PRIu32 " of %" PRIu32, turn, store->book.contributors);
    }
    if (ps_state_is_ok(in)) {
        check_turn(store, s, in);
    }
    if (ps_state_is_ok(in)) {
        take_memory(store, s, parts, in);
    }
    if (ps_state_is_ok(in)) {
        take_parked(store, s, in);
    }
}

void shard_take(ps_store *store, uint32_t virtual_shard, ps_state_in *in)
{
    uint32_t mine = shard_count(store, virtual_shard), count = ps_state_take_u32(in), least = 0;

    if (ps_state_is_ok(in) && count != mine) {
        ps_state_fail(in,
                      "%" PRIu32 " slices of virtual shard %" PRIu32 "; this store has %" PRIu32,
                      count, virtual_shard, mine);
    }
    for (uint32_t i = 0; ps_state_is_ok(in) && i < count; i++) {
        take_slice(store, virtual_shard, &least, in);
    }
}

void shard_settle(ps_store *store)
{
    shard_count_parked(store);
    for (uint32_t s = 0; s < store->slice_count; s++) {
        store->slices[s].has_checksum = false;
        shard_changed(store, s);
    }
}
