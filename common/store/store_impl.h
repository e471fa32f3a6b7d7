/* SPDX-License-Identifier: Apache-2.0 */
/* store_impl.h - what a store is made of; for store*.c and shard*.c only.
 *
 * store*.c are about the whole of it and about rows, shard*.c about its slices. Letters: S slices,
 * K contributors, W workers.
 */
#ifndef PS_COMMON_STORE_STORE_IMPL_H
#define PS_COMMON_STORE_STORE_IMPL_H

#include "common/base/state.h"
#include "common/codec/feedback.h"
#include "common/store/clocks.h"
#include "common/store/heap.h"
#include "common/store/park.h"
#include "common/store/store.h"

typedef struct shard_rows shard_rows; /* shard_rows.c */
typedef struct shard_rows_room shard_rows_room;

typedef struct shard_slice {
    ps_store_slice conf;
    shard_rows *rows;    /* NULL: steps are of all values */
    size_t at;           /* first value, in the store's */
    ps_book_column *col; /* the book's */

    /* Of a buffering policy: the open sum. Where sums are formed in order, contributors below
     * `turn` are in it or dropped, and parked ones are all above it, in order. */
    uint32_t turn;
    const float *sum; /* (n) of those that are not parked; NULL: none */
    ps_parked *parked;

    /* What the slice's codecs ask for beside that; each NULL without (shard_merge.c). */
    void *undecoded; /* the open sum, as the codec adds it: then `sum` says that there is one */
    float *standing; /* (n) of all that was ever sent, where differences are */
    float *kept;     /* of the codec of weights (common/codec/feedback.h) */

    ps_buf *weights; /* (n) float32; while others read them, written nowhere but in a copy */

    /* The weights encoded at snap_version; NULL before the first pull, and
     * always under a codec that sends them as they are. */
    ps_buf *snap;
    uint64_t snap_version;
    ps_encoding snap_head;

    /* Of a store that broadcasts: snap is the change that made snap_version. */
    ps_encoding whole_head; /* of the weights as they are; by rows, of no change */
    bool has_checksum;
    uint64_t checksum, checksum_version;
} shard_slice;

typedef struct shard_pull {
    uint64_t clock;      /* the last one asked for */
    bool has_asked;      /* clock is one */
    bool is_open;        /* not answered yet */
    bool is_whole;       /* no changes: the worker has lost its replica */
    uint32_t left;       /* slices not given yet */
    uint64_t *want;      /* bitmap (S): not given yet */
    uint64_t *unchecked; /* bitmap (S): may have become ready since looked at */
} shard_pull;

/* Rows of a contribution. */
typedef struct store_gift {
    struct store_gift *next;
    uint32_t contributor;
    ps_heap heaps[]; /* (tables) */
} store_gift;

/* What comes of a contributor's next clock. */
typedef struct store_coming {
    uint32_t parts;   /* that have come */
    store_gift *gift; /* NULL: none is there yet */
} store_coming;

/* A worker's pull of rows. */
typedef struct store_rows_pull {
    bool is_open; /* not answered yet */
    uint64_t clock;
    uint64_t *keys; /* (count) */
    size_t count;
} store_rows_pull;

typedef struct store_rows {
    ps_tables *tables;
    bool is_lent;           /* another thread writes their files */
    uint32_t column;        /* the book's */
    store_coming *coming;   /* (K) */
    store_rows_pull *pulls; /* (W) */
    size_t width;           /* of a row of every table together */
    store_gift *sum;        /* those of the open sum; where sums are in order, by contributor */
    store_gift *idle;       /* empty ones */
    uint64_t ticked;        /* clocks that rows have aged by */
    ps_status broken;       /* what a step failed with */
    bool has_taken;         /* a virtual shard out of a file */
} store_rows;

struct ps_store {
    uint32_t slice_count;
    ps_book book; /* a column for each slice, and then one for rows */
    uint64_t job;
    ps_descent descent;
    float merge_scale;
    uint64_t seed;
    bool broadcasts;
    const ps_codec *plain; /* f32 */
    ps_params plain_params;

    shard_slice *slices; /* NULL: dropped */
    shard_pull *pulls;   /* (W) */
    store_rows *rows;    /* NULL: there are none */

    size_t value_count;
    float *flat;    /* (value_count): what ps_store_weights gave; NULL before */
    float *state;   /* (value_count * slots), slice by slice */
    float *sums;    /* (value_count); NULL when no sum outlives a push */
    float *scratch; /* (PS_CODEC_VALUES) */
    ps_delay delay;
    float *had; /* (W, value_count) what each worker was given; NULL: nothing is corrected */
    float *mean_square;         /* (value_count) of gradients; NULL: not asked for */
    float *change;              /* (PS_CODEC_VALUES); NULL: does not broadcast */
    shard_rows_room *rows_room; /* scratch; NULL: no slice goes by rows */

    uint32_t waiting; /* open pulls of slices */
    ps_park park;
    ps_store_counters counters;

    bool has_come[PS_SHARDS]; /* out of a file */
    bool *is_lost;            /* (W), says a file */
};

/* store_rows.c */

/* Makes what rows need; the tables are taken. Their column is the book's last. */
void store_rows_init(ps_store *store, ps_tables *tables);
void store_rows_fini(ps_store *store); /* none are allowed */
/* Cancels the worker's pull of rows. */
void store_rows_cancel(ps_store *store, uint32_t worker);
/* Contributions, losses or the time have changed what is whole: steps on it, and rows age. */
void store_rows_go_on(ps_store *store);
/* Adds an empty contribution to the open sum. */
store_gift *store_rows_open(ps_store *store, uint32_t contributor);

/* store_rows_file.c: rows in the file of a state. store.h has the layout. */

/* Puts what a virtual shard has of all tables, and the rows' clocks, which are those of all. */
void store_rows_put(const ps_store *store, uint32_t virtual_shard, ps_state_out *out);
/* Takes it into tables that nothing was pushed to, each virtual shard once. Those that were written
 * at different clocks do not go together. A failure is `in`'s. */
void store_rows_take(ps_store *store, uint32_t virtual_shard, ps_state_in *in);
/* The rows live on from what was taken. DATA_LOSS: they have not aged by all of their clocks. */
ps_status store_rows_settle(const ps_store *store);

/* shard_file.c: slices in the file of a state. */

/* Returns how many slices of a virtual shard there are. */
uint32_t shard_count(const ps_store *store, uint32_t virtual_shard);
void shard_put(const ps_store *store, uint32_t virtual_shard, ps_state_out *out);
/* Takes them into slices that nothing was pushed to. A failure is `in`'s. */
void shard_take(ps_store *store, uint32_t virtual_shard, ps_state_in *in);
/* The slices live on from what was taken; the book is settled. */
void shard_settle(ps_store *store);

/* shard_step.c */

/* Steps slice s on one contribution to `clock`: w -= scale * step(x * merge_scale), x
 * corrected for the worker's delay if the job asks for it. */
void shard_apply(ps_store *store, uint32_t s, uint32_t worker, uint64_t clock,
                 const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len, float scale);
/* Adds a contribution of k, whose clock was checked, to the open sum of slice s,
 * or parks it for its turn: then false. */
bool shard_buffer(ps_store *store, uint32_t s, uint32_t k, bool is_late,
                  const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len);
/* Closes what is whole by now of slice s. After every change of a buffering
 * store's clocks. */
void shard_close(ps_store *store, uint32_t s);
/* Brings the counters of what is parked up to date. */
void shard_count_parked(ps_store *store);

/* The weights of a slice, to be written: what is on its way stays as it is. */
float *shard_weights_to_write(shard_slice *slice);
bool shard_is_descending(const ps_store *store, const shard_slice *slice); /* by an optimizer */
float *shard_state_of(const ps_store *store, const shard_slice *slice);

/* shard_rows.c: of slices that go by rows. */

/* After the store's sums are there; nothing of other slices. */
void shard_rows_init(ps_store *store, shard_slice *slice);
void shard_rows_fini(shard_slice *slice);
void shard_rows_room_fini(ps_store *store);
/* As shard_apply; adds a contribution to the open sum; steps on that, and it is empty. */
void shard_rows_apply(ps_store *store, shard_slice *slice, uint64_t clock,
                      const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                      float scale);
void shard_rows_add(ps_store *store, shard_slice *slice, const Psgd__V1__Encoding *head,
                    const uint8_t *bytes, size_t len);
void shard_rows_close(ps_store *store, shard_slice *slice, ps_moment at, float merge);
/* Notes that the worker pulls this clock, so it has what it was given for earlier ones. */
void shard_rows_asked(ps_store *store, uint32_t worker, uint64_t clock);
/* The worker has nothing of what it was given. */
void shard_rows_forget(ps_store *store, uint32_t worker);
/* What has changed since then, encoded. */
ps_buf *shard_rows_give(ps_store *store, shard_slice *slice, uint32_t worker,
                        const Psgd__V1__Encoding **head);

/* The memory of the open sum; NULL: none is kept. */
float *shard_rows_sum(const shard_slice *slice);
/* In the file of a state. */
void shard_rows_put(const ps_store *store, const shard_slice *slice, ps_state_out *out);
void shard_rows_take(ps_store *store, shard_slice *slice, ps_state_in *in);

/* shard_merge.c */

/* After the store's sums are there. */
void shard_merge_init(const ps_store *store, shard_slice *slice);
void shard_merge_fini(shard_slice *slice);
/* Adds a contribution to the open sum without decoding it; false: it has to be. */
bool shard_add_undecoded(ps_store *store, shard_slice *slice, const Psgd__V1__Encoding *head,
                         const uint8_t *bytes, size_t len);
/* What the slice steps on when the open sum closes: (n), may be the store's scratch; NULL:
 * nothing. Once a sum. */
const float *shard_merged(ps_store *store, shard_slice *slice);
/* The slice's weights through its codec, and its snap_head. Uses the scratch. */
size_t shard_encode_weights(ps_store *store, shard_slice *slice, uint64_t key, uint8_t *out);

/* store.c */

/* The place of the slice with that index, or slice_count. */
uint32_t shard_find_slice(const ps_store *store, uint32_t index);

/* Worker brings nothing more to clocks before `clock`, which is at most one above
 * the open round. Under a policy that leaves behind. */
void shard_leave_out(ps_store *store, uint32_t worker, uint64_t clock);

/* shard_delay.c: nothing happens where delays are not corrected. */

void shard_delay_init(ps_store *store);
void shard_delay_fini(ps_store *store);
void shard_delay_gave(ps_store *store, uint32_t worker, uint32_t s, const ps_store_piece *piece);
/* g, or what it becomes in scratch, where g may be. */
const float *shard_delay_correct(ps_store *store, uint32_t worker, uint32_t s, const float *g);

/* shard_broadcast.c */

/* w -= what the change in scratch is after encoding; the encoding is kept. */
void shard_broadcast(ps_store *store, shard_slice *slice, float *w);
/* Is the worker to be given the last change, not the weights? */
bool shard_gives_change(const ps_store *store, uint32_t worker, uint32_t s);
ps_buf *shard_whole(const ps_store *store, shard_slice *slice);
uint64_t shard_checksum(shard_slice *slice);

/* shard_pull.c */

/* The snapshot's buffer becomes one that nobody reads. */
void shard_renew_snap(shard_slice *slice);

/* Notes that slice s has changed: open pulls ask the policy about it again. */
void shard_changed(ps_store *store, uint32_t s);

#endif
