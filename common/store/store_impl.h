/* SPDX-License-Identifier: Apache-2.0 */
/* store_impl.h - what a store is made of; for store*.c and shard*.c only.
 *
 * store*.c handle the store as a whole and the rows of sparse tables, shard*.c handle slices.
 * Letters: S slices, K contributors, W workers, n values of a slice.
 */
#ifndef PS_COMMON_STORE_STORE_IMPL_H
#define PS_COMMON_STORE_STORE_IMPL_H

#include "common/base/state.h"
#include "common/codec/feedback.h"
#include "common/store/clocks.h"
#include "common/store/heap.h"
#include "common/store/park.h"
#include "common/store/store.h"

/* An encoding that answers pulls of a slice. */
typedef struct shard_snap {
    ps_buf *buf; /* NULL: nothing was encoded yet */
    uint64_t version;
    ps_encoding head;
} shard_snap;

typedef struct shard_slice {
    ps_store_slice conf;
    size_t at;           /* offset of the first value in arrays of (value_count) */
    ps_book_column *col; /* the slice's column of the book */

    /* The open sum of a buffering policy. If sums are formed in order, `turn` is the contributor
     * that is added next: those below it are in the sum or dropped, parked ones are above it. */
    uint32_t turn;
    const float *sum;  /* (n) sum of the contributions that are not parked; NULL: there are none */
    ps_parked *parked; /* ascending by contributor */

    /* Memory that the slice's codecs need; each is NULL if they do not (shard_merge.c). */
    void *undecoded; /* the open sum in the codec's form; `sum` is then NULL or not, no more */
    float *standing; /* (n) sum of all contributions so far, if workers send differences */
    float *kept;     /* feedback state of the weights' codec (common/codec/feedback.h) */

    /* (n) float32. A pull may still send this buffer: write only through shard_weights_to_write. */
    ps_buf *weights;

    /* The encoded weights, without a buffer before the first pull, and always if the codec sends
     * float32. If the store broadcasts, the encoded change from the version before to this one. */
    shard_snap snap;
    /* The encoding before that one, if a codec with state has made it, which would not do so again,
     * and the store keeps earlier weights. */
    shard_snap snap_before;

    /* (n) float32 (shard_before.c). NULL if the store does not keep earlier weights, until a file
     * brings some. */
    ps_buf *other;
    bool has_before;         /* `other` has the weights before the last step, */
    uint64_t before_version; /* which had this version */
    bool is_ahead; /* the slice was read from a file in which it was ahead of others: it is given
                    * as it was before the last step to workers that ask for that clock */

    ps_encoding whole_head; /* head of the float32 weights, if the store broadcasts */
    bool has_checksum;
    uint64_t checksum, checksum_version;
} shard_slice;

/* A worker's pull of the slices of a clock. */
typedef struct shard_pull {
    uint64_t clock;      /* of the last pull */
    bool has_asked;      /* false: the worker has not pulled yet */
    bool is_open;        /* some slices have not been given yet */
    bool is_whole;       /* give weights instead of changes: the worker has lost its replica */
    uint32_t left;       /* slices not given yet */
    uint64_t *want;      /* bitmap (S): slices not given yet */
    uint64_t *unchecked; /* bitmap (S): slices that changed since the policy was last asked */
} shard_pull;

/* The rows of a contribution. */
typedef struct store_gift {
    struct store_gift *next;
    uint32_t contributor;
    ps_heap heaps[]; /* (table_count) */
} store_gift;

/* The parts that a worker has sent of a contribution that is not complete. */
typedef struct store_coming {
    uint64_t clock;   /* of the contribution */
    uint32_t parts;   /* number of parts that have arrived */
    store_gift *gift; /* their rows; NULL: no part has arrived */
} store_coming;

/* A worker's pull of rows. */
typedef struct store_rows_pull {
    bool is_open; /* not answered yet */
    uint64_t clock;
    uint64_t *keys; /* (count) ids: asked for, in every table, or to be given of one table */
    size_t count;

    /* Of a fixed vocabulary (store_follow.c). */
    bool has_given; /* an answer for this clock has begun before */
    bool is_listed; /* this answer has begun; keys[at..count) of `table` come next */
    uint32_t table;
    size_t at;
} store_rows_pull;

/* How workers come to rows: the one place that says what differs between tables that grow, whose
 * rows are pulled by key, and a fixed vocabulary, of which workers have all rows and follow the
 * changes. */
typedef struct store_rows_way {
    /* Allocate and free what the other functions need. */
    void (*init)(ps_store *store);
    void (*fini)(ps_store *store);
    /* Returns the number of a step for the rule; 0: each row counts its own steps. */
    uint64_t (*step_number)(uint64_t version);
    /* Notes that rows of a table were stepped. */
    void (*changed)(ps_store *store, uint32_t table, const uint64_t *keys, size_t count);
    /* Notes that the worker may lack any row that was ever stepped. */
    void (*changed_all)(ps_store *store, uint32_t worker);
    /* Follows a pull of slices for `clock`: opens a pull of the rows that were stepped since the
     * worker was given them. Says that the answer for an earlier clock has arrived. */
    void (*follow)(ps_store *store, uint32_t worker, uint64_t clock);
    /* Returns whether such a pull is open. */
    bool (*is_following)(const ps_store *store, uint32_t worker);
    /* Opens a pull of these keys. */
    ps_status (*ask)(ps_store *store, uint32_t worker, uint64_t clock, const uint64_t *keys,
                     size_t count);
    /* Does what ps_store_rows_next does for the open pull. */
    bool (*next)(ps_store *store, uint32_t worker, size_t most, ps_store_rows_answer *answer);
    /* Returns what ps_store_table_counters does. */
    ps_table_counters (*count)(const ps_tables *tables);
} store_rows_way;

typedef struct store_rows {
    const store_rows_way *way;
    ps_tables *tables;
    ps_table_counters counted; /* when they were lent */
    bool is_lent;            /* another thread writes the tables to files; rows are not used here */
    uint32_t column;         /* of the book */
    store_coming *coming;    /* (W) */
    store_rows_pull *pulls;  /* (W) */
    size_t width;            /* values of one id, summed over the tables */
    store_gift *sum;         /* contributions of the open sum; ascending if sums are in order */
    store_gift *idle;        /* unused ones, kept for their memory */
    ps_heap *merged;         /* (tables): scratch of a step; empty between steps */
    ps_heap_cursor *cursors; /* (cursor_cap): scratch of a step */
    size_t cursor_cap;
    uint64_t ticked;              /* number of clocks for which rows have aged */
    ps_store_at_clock_fn *due_fn; /* of ps_store_at_clock; NULL: nothing is due */
    void *due_arg;
    uint64_t due_clock;
    ps_status broken; /* failure of a step; every later push returns it */
    bool has_before;  /* the tables keep what rows were before the last step */
    bool has_taken;   /* at least one virtual shard was read from a file */
    /* (PS_SHARDS, K) of a store that was read from files of different clocks: the clock from which
     * rows of the virtual shard lack the contributor's contributions. Those before it are in these
     * rows, and perhaps not in others. NULL: all rows lack the same. */
    uint64_t *lacks;
    uint64_t lacks_end; /* no clock in `lacks` is above it */
    /* clocks of files that later ones may count from, with the tables' marks (ps_store_mark); clock
     * 0: none */
    struct {
        uint64_t clock;
        uint32_t mark;
    } marks[2];
    uint64_t **owed; /* (W, tables) bits of rows; of store_follow.c only */
    uint64_t **sent; /* likewise */
} store_rows;

/* A slice of conf.slices. */
typedef struct store_place {
    uint32_t slice; /* position among the dense slices; STORE_NO_SLICE: rows of a table */
    uint32_t n;     /* values */
    uint32_t table;
    uint64_t first_row;
    size_t row_count;
} store_place;

#define STORE_NO_SLICE UINT32_MAX

typedef struct store_cut store_cut; /* store_cut.c */

struct ps_store {
    uint32_t slice_count; /* dense ones */
    uint32_t place_count;
    store_place *places; /* (place_count), as conf.slices */
    ps_book book;        /* a column for each slice, then one for all rows */
    uint64_t job;
    ps_descent descent;
    float merge_scale;
    uint64_t seed;
    bool broadcasts;
    const ps_codec *plain; /* f32 */
    ps_params plain_params;

    shard_slice *slices; /* (S); NULL: freed early */
    shard_pull *pulls;   /* (W) */
    store_rows *rows;    /* NULL: the job has no sparse tables */

    size_t value_count; /* of dense slices */
    size_t flat_count;  /* of all */
    float *flat;        /* (flat_count): memory of ps_store_weights; NULL before its first call */
    float *state;       /* (value_count * slots): the optimizer's state, slice by slice */
    bool keeps_before;  /* slices keep their weights from before the last step */
    bool has_sums;      /* false: every push is stepped on at once */
    float *sums;    /* (value_count): open sums; NULL: there are none, or slice->other has them */
    float *scratch; /* (PS_CODEC_VALUES) */
    ps_delay delay;
    float *had; /* (W, value_count): weights that each worker has; NULL: no delay correction */
    float *mean_square; /* (value_count) of gradients; NULL: the delay does not use it */
    float *change;      /* (PS_CODEC_VALUES) scratch; NULL: the store does not broadcast */

    uint32_t waiting; /* open pulls of slices */
    ps_park park;
    ps_store_counters counters;

    store_cut *cut; /* NULL: no save is under way while the store goes on */

    /* Virtual shards that were read from files. */
    bool slices_came[PS_SHARDS], rows_came[PS_SHARDS];
    uint64_t rows_clock[PS_SHARDS]; /* clock of the last file that had the rows; 0: none, or none
                                     * that later ones count from */
    bool *is_lost;                  /* (W): workers that a file that was read lists as lost */
};

/* store_rows.c */

/* Gives the store rows. Takes `tables`; the last column of the book is theirs. */
void store_rows_init(ps_store *store, ps_tables *tables);
/* Has the tables keep from now on what rows were before the last step. */
void store_rows_keep_before(ps_store *store);
/* Frees the rows of the store; does nothing if it has none. */
void store_rows_fini(ps_store *store);
/* Cancels the worker's pull of rows. */
void store_rows_cancel(ps_store *store, uint32_t worker);
/* Steps on every sum of rows that is complete, then ages the rows. Call it when a contribution, a
 * lost worker or the time may have completed a sum. */
void store_rows_go_on(ps_store *store);
/* Adds an empty contribution to the open sum and returns it. */
store_gift *store_rows_open(ps_store *store, uint32_t contributor);

/* store_follow.c: rows of a fixed vocabulary, all of which each worker has. */

extern const store_rows_way store_rows_followed;

/* store_rows_file.c: writes rows to a saved state and reads them back; store.h has the layout. */

/* Writes the rows of a virtual shard, of all tables, and the clocks of the column of rows. `since`:
 * as ps_table_put_shard. */
void store_rows_put(const ps_store *store, uint32_t virtual_shard, uint32_t since,
                    ps_state_out *out);
/* Returns the mark of the file of this clock; 0: it has none. */
uint32_t store_rows_mark_of(const ps_store *store, uint64_t clock);
/* Returns whether rows have been stepped on `clock`. */
bool store_rows_are_ahead_of(const ps_store *store, uint64_t clock);
/* Returns whether rows are here as they were when `clock` began. */
bool store_rows_have_at(const ps_store *store, uint64_t clock);
/* Writes the rows of a virtual shard as they were when `clock` began, without anything of that
 * clock. */
void store_rows_put_at(const ps_store *store, uint32_t virtual_shard, uint64_t clock,
                       ps_state_out *out);
/* Reads a virtual shard, once each, into tables that nothing was pushed to. With has_all the file
 * has all rows of it, else those that differ from the ones here. Fails `in` if the bytes are wrong
 * or the shard was saved at another clock than the one that was read first. */
void store_rows_take(ps_store *store, uint32_t virtual_shard, bool has_all, ps_state_in *in);
/* Reads the rows alone of a virtual shard, out of a file before the one that store_rows_take reads.
 */
void store_rows_take_earlier(ps_store *store, uint32_t virtual_shard, bool has_all,
                             ps_state_in *in);
/* Takes the clocks of the column of rows back to those that all virtual shards have, if these were
 * read from files of different clocks. Call it after the last virtual shard, before
 * ps_book_settle. Returns DATA_LOSS if they are too far apart. */
ps_status store_rows_join(ps_store *store);
/* Checks the rows after ps_book_settle. Returns DATA_LOSS if the number of clocks for which rows
 * have aged is not that of the complete clocks. */
ps_status store_rows_settle(const ps_store *store);

/* shard_file.c: writes slices to a saved state and reads them back. */

/* Returns the number of slices of a virtual shard in this store. */
uint32_t shard_count(const ps_store *store, uint32_t virtual_shard);
/* Writes the slices of a virtual shard. */
void shard_put(const ps_store *store, uint32_t virtual_shard, ps_state_out *out);
/* Does the same without anything of `clock` and later ones in slices that have not been stepped on
 * that clock. The others are written as they are, with the weights that they had when it began. */
void shard_put_at(const ps_store *store, uint32_t virtual_shard, uint64_t clock, ps_state_out *out);
/* Reads the slices of a virtual shard, to which nothing was pushed. Fails `in` if the bytes are
 * wrong or of other slices. */
void shard_take(ps_store *store, uint32_t virtual_shard, ps_state_in *in);
/* Makes the slices ready for use after the last virtual shard. Call ps_book_settle before. */
void shard_settle(ps_store *store);

/* store_file.c */

/* Begins a file of the store with its first section. */
void store_file_begin(const ps_store *store, ps_state_out *out, ps_state_write_fn *write,
                      void *arg);
/* Appends the section of a virtual shard's slices. */
void store_file_put_slices(const ps_store *store, uint32_t virtual_shard, ps_state_out *out);

/* store_cut.c: a save while the store goes on. */

/* Writes the virtual shard of slice s for the cut, unless it is written. */
void store_cut_before(ps_store *store, uint32_t s);
/* Writes all that is not written yet, if a cut is under way. */
void store_cut_all(ps_store *store);

/* Has the cut that is under way keep slice s as it is. Call it before anything of the slice changes
 * that its file has (shard_put). */
static inline void store_before(ps_store *store, uint32_t s)
{
    if (store->cut != NULL) {
        store_cut_before(store, s);
    }
}

/* shard_step.c */

/* Steps slice s on one contribution x to `clock`: w -= scale * step(x * merge_scale). Corrects x
 * for the worker's delay first if the job asks for it. */
void shard_apply(ps_store *store, uint32_t s, uint32_t worker, uint64_t clock,
                 const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len, float scale);
/* Adds a contribution of contributor k, whose clock was checked, to the open sum of slice s.
 * Returns false if it is parked instead, because k's turn has not come. */
bool shard_buffer(ps_store *store, uint32_t s, uint32_t k, bool is_late,
                  const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len);
/* Returns the memory (n) of the slice's open sum, if it is a sum of values. */
float *shard_sum_memory(const ps_store *store, shard_slice *slice);
/* Steps on the open sum of slice s and closes it, as often as it is complete. Call it after every
 * change of the slice's clocks under a buffering policy. */
void shard_close(ps_store *store, uint32_t s);
/* Copies the numbers of parked contributions to the store's counters. */
void shard_count_parked(ps_store *store);

/* Returns the weights (n) for writing. Replaces the buffer by a copy if a pull still sends it. */
float *shard_weights_to_write(shard_slice *slice);
/* Returns whether an optimizer steps the slice; false: contributions are subtracted as they are. */
bool shard_is_descending(const ps_store *store, const shard_slice *slice);
/* Returns the optimizer's state of the slice: (slots, n). */
float *shard_state_of(const ps_store *store, const shard_slice *slice);

/* shard_before.c */

/* Returns the other buffer (n) for writing. Replaces it if a pull still sends it. The slice forgets
 * what it was before its last step. */
float *shard_other_to_write(shard_slice *slice);
/* Makes the other buffer, to which the next weights were written, the weights, and keeps the
 * weights as those before the step. Call it before the version is incremented. */
void shard_keep_before(shard_slice *slice);
/* Returns whether the weights are here that slice s had when `clock` began. */
bool shard_has_at(const ps_store *store, uint32_t s, uint64_t clock);
/* Returns whether slice s has been stepped on `clock`. */
bool shard_is_ahead_of(const ps_store *store, uint32_t s, uint64_t clock);

/* shard_merge.c */

/* Allocates what the slice's codecs need. Call it when store->has_sums is set. */
void shard_merge_init(const ps_store *store, shard_slice *slice);
void shard_merge_fini(shard_slice *slice);
/* Adds a contribution to the open sum without decoding it. Returns false if the codec cannot; the
 * caller then decodes. */
bool shard_add_undecoded(ps_store *store, shard_slice *slice, const Psgd__V1__Encoding *head,
                         const uint8_t *bytes, size_t len);
/* Returns the values (n) on which the slice steps when the open sum closes; NULL: the sum is empty.
 * They may lie in the store's scratch. Call it once for each sum. */
const float *shard_merged(ps_store *store, shard_slice *slice);
/* Adds what shard_encode_weights will encode to the slices of this thread that are encoded together
 * (ps_codec_encode_ahead). Returns false if it cannot be added. Uses the store's scratch. */
bool shard_encode_ahead(ps_store *store, const shard_slice *slice, const float *w, uint64_t key);
/* Encodes w (n), weights of the slice, into `out` and slice->snap.head. Returns the bytes. Uses the
 * store's scratch. */
size_t shard_encode_weights(ps_store *store, shard_slice *slice, const float *w, uint64_t key,
                            uint8_t *out);

/* shard_push.c */

/* Returns the position in store->slices of the slice with this index of the layout, or slice_count
 * if the store does not have it. */
uint32_t shard_find_slice(const ps_store *store, uint32_t index);

/* Notes that the worker contributes nothing more to the clocks before `clock`, which is at most one
 * above the open round. For policies that leave behind. */
void shard_leave_out(ps_store *store, uint32_t worker, uint64_t clock);

/* shard_delay.c: corrects gradients for the delay of their worker. If the job does not ask for
 * that, these functions do nothing. */

void shard_delay_init(ps_store *store);
void shard_delay_fini(ps_store *store);
/* Records the weights of slice s that the worker decodes from `piece`. */
void shard_delay_gave(ps_store *store, uint32_t worker, uint32_t s, const ps_store_piece *piece);
/* Returns the corrected g (n), in the store's scratch, or g itself if nothing is corrected. g may
 * lie in the scratch. */
const float *shard_delay_correct(ps_store *store, uint32_t worker, uint32_t s, const float *g);

/* shard_broadcast.c */

/* Encodes the increment in the store's scratch into the snapshot, and subtracts from w (n) what
 * workers will decode. */
void shard_broadcast(ps_store *store, shard_slice *slice, float *w);
/* Returns whether the worker gets the last change of slice s: it has the version before, or a newer
 * one. Else it gets the weights. */
bool shard_gives_change(const ps_store *store, uint32_t worker, uint32_t s);
/* Returns the float32 weights, of which slice->whole_head becomes the head; the slice keeps them.
 */
ps_buf *shard_whole(const ps_store *store, shard_slice *slice);
/* Returns the checksum of the slice's weights; computes it once for each version. */
uint64_t shard_checksum(shard_slice *slice);

/* shard_pull.c */

/* Gives `snap` a buffer that no pull still sends. */
void shard_renew_snap(const shard_slice *slice, shard_snap *snap);
/* Encodes the weights with which the open clock of the slice began, as they are pulled once under a
 * policy that keeps earlier weights, unless that was done. So the state of their codec is the same
 * where nobody pulls: in copies of shards, and where a lost server is computed anew. Call it before
 * the open clock gets a contribution. */
void shard_encode_unasked(ps_store *store, uint32_t s);

/* Marks slice s as changed, so that the policy is asked about it again for every open pull. */
void shard_changed(ps_store *store, uint32_t s);

#endif
