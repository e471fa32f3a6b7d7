/* SPDX-License-Identifier: Apache-2.0 */
/* store_impl.h - the private structs of a store; for store*.c and shard*.c only.
 *
 * store*.c handle the store as a whole and the rows of sparse tables; shard*.c handle slices of
 * dense variables. Letters: S slices, K contributors, W workers, n values of a slice. */
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
    ps_buf *buf;      /* NULL: nothing was encoded yet */
    uint64_t version; /* version of the weights that are encoded */
    ps_encoding head;
} shard_snap;

typedef struct shard_slice {
    ps_store_slice conf;
    size_t at;           /* place of the slice's first value in arrays of (value_count) */
    ps_book_column *col; /* the slice's column of the book */

    /* The open sum of a buffering policy. If sums are formed in the order of contributors, `turn`
     * is the contributor whose contribution is added next. The contributions of lower contributors
     * are in the sum or were dropped; parked contributions are those of `turn` or of higher
     * contributors. */
    uint32_t turn;
    /* (n) sum of the contributions that are not parked; NULL: there are none yet */
    const float *sum;
    ps_parked *parked; /* ascending by contributor */

    /* Memory that the slice's codecs need (shard_merge.c); a pointer is NULL if they do not need
     * it. */
    /* the open sum in the form in which the codec adds; then `sum` only says by not being NULL that
     * there is one */
    void *undecoded;
    /* (n) sum of all contributions since the beginning, if workers send differences */
    float *standing;
    float *kept; /* feedback state of the codec of weights (common/codec/feedback.h) */

    /* (n) float32. A pull may still be sending this buffer: get it for writing from
     * shard_weights_to_write. */
    ps_buf *weights;

    /* The latest encoding of the weights. buf is NULL before the first encoding, and always if the
     * codec sends float32. If the store broadcasts: the encoded change that the last step made. */
    shard_snap snap;
    /* The encoding before `snap`. Kept only if the store keeps earlier weights and their codec has
     * state, so that encoding them again would give other bytes. */
    shard_snap snap_before;

    /* (n) float32: the slice's second buffer (shard_before.c). NULL if the store does not keep
     * earlier weights and no file has brought any. */
    ps_buf *other;
    bool has_before;         /* `other` has the weights from before the last step */
    uint64_t before_version; /* version of those weights */
    /* the slice was read from a file in which it had been stepped on a clock that other slices
     * still waited for; workers that ask for that clock are given the weights in `other` */
    bool is_ahead;

    /* head of the encoding of the weights as float32, if the store broadcasts */
    ps_encoding whole_head;
    bool has_checksum; /* `checksum` is that of the weights of checksum_version */
    uint64_t checksum, checksum_version;
} shard_slice;

/* A worker's pull of the slices of a clock. */
typedef struct shard_pull {
    uint64_t clock; /* clock of the worker's last pull */
    bool has_asked; /* false: the worker has not pulled yet */
    bool is_open;   /* some slices were not given yet */
    /* give weights instead of changes, because the worker has lost its replica */
    bool is_whole;
    uint32_t left;       /* number of slices that were not given yet */
    uint64_t *want;      /* bitmap (S): slices that were not given yet */
    uint64_t *unchecked; /* bitmap (S): slices that changed since the policy was last asked */
} shard_pull;

/* The rows of one contribution, all tables of it. */
typedef struct store_gift {
    struct store_gift *next;
    uint32_t contributor;
    ps_heap heaps[]; /* (table_count) */
} store_gift;

/* What a worker has sent so far of a contribution of rows whose last part has not arrived. */
typedef struct store_coming {
    uint64_t clock;   /* clock of the contribution */
    uint32_t parts;   /* number of parts that have arrived */
    store_gift *gift; /* the rows of these parts; NULL: no part has arrived */
} store_coming;

/* A worker's pull of rows. */
typedef struct store_rows_pull {
    bool is_open; /* not answered yet */
    uint64_t clock;
    /* (count) the ids that were asked for; of a fixed vocabulary, the ids of one table that are to
     * be given */
    uint64_t *keys;
    size_t count;

    /* Used only for a fixed vocabulary (store_follow.c). */
    bool has_given; /* for this clock an answer was begun already by an earlier pull */
    /* `keys` has the rows of `table` that this answer gives; keys[at .. count) come next */
    bool is_listed;
    uint32_t table;
    size_t at;
} store_rows_pull;

/* What differs between the two kinds of sparse tables, as functions. Of a table that grows, workers
 * pull rows by key. Of a fixed vocabulary, workers have all rows and are given those that
 * change. */
typedef struct store_rows_way {
    /* Allocate and free what the other functions need. */
    void (*init)(ps_store *store);
    void (*fini)(ps_store *store);
    /* Returns the step number for the optimizer's rule, given the version of the rows; 0: each row
     * counts its own steps. */
    uint64_t (*step_number)(uint64_t version);
    /* Notes that rows of a table were stepped. */
    void (*changed)(ps_store *store, uint32_t table, const uint64_t *keys, size_t count);
    /* Notes that the worker may lack any row that was ever stepped, because it lost what it was
     * given. */
    void (*changed_all)(ps_store *store, uint32_t worker);
    /* Called when the worker pulls slices for `clock`: opens a pull of the rows that were stepped
     * since the worker was given them. If `clock` is above that of the worker's last pull,
     * everything given for that one has arrived. */
    void (*follow)(ps_store *store, uint32_t worker, uint64_t clock);
    /* Returns whether a pull that `follow` opened is not answered completely. */
    bool (*is_following)(const ps_store *store, uint32_t worker);
    /* Opens the worker's pull of these keys (ps_store_rows_begin). */
    ps_status (*ask)(ps_store *store, uint32_t worker, uint64_t clock, const uint64_t *keys,
                     size_t count);
    /* Gives the next rows of the open pull; ps_store_rows_next calls it. */
    bool (*next)(ps_store *store, uint32_t worker, ps_store_rows_cut *cut, const void *arg,
                 ps_store_rows_answer *answer);
    /* Returns the counters that ps_store_table_counters reports. */
    ps_table_counters (*count)(const ps_tables *tables);
} store_rows_way;

typedef struct store_rows {
    const store_rows_way *way;
    ps_tables *tables;
    ps_table_counters counted; /* the tables' counters when the tables were lent */
    /* another thread writes the tables to files; the store does not touch rows any more */
    bool is_lent;
    uint32_t column;        /* the column of the rows in the book of clocks */
    store_coming *coming;   /* (W) */
    store_rows_pull *pulls; /* (W) */
    size_t width;           /* values of one id, summed over the tables */
    /* contributions of the open sum; ascending by contributor if sums are formed in their order */
    store_gift *sum;
    store_gift *idle;        /* unused ones, kept for their memory */
    ps_heap *merged;         /* (tables): scratch of a step; empty between steps */
    ps_heap_cursor *cursors; /* (cursor_cap): scratch of a step */
    size_t cursor_cap;
    uint64_t ticked;              /* number of clocks for which rows have aged */
    ps_store_at_clock_fn *due_fn; /* function that ps_store_at_clock has arranged; NULL: none */
    void *due_arg;
    uint64_t due_clock;
    ps_status broken; /* failure of a step on rows; every later push returns it */
    /* the tables keep what rows were before the last step (ps_store_keep_before) */
    bool has_before;
    bool has_taken; /* at least one virtual shard was read from a file */
    /* (PS_SHARDS, K) of a store that was read from files of different clocks: the clock from which
     * rows of the virtual shard lack the contributor's contributions. Its contributions to earlier
     * clocks are in these rows, and perhaps not in those of other virtual shards. NULL: the rows of
     * all virtual shards lack the same contributions. */
    uint64_t *lacks;
    uint64_t lacks_end; /* no clock in `lacks` is above it */
    /* The clocks of the files that later files may count from, and the mark that the tables set
     * when each was written (ps_store_mark). clock 0: no such file. */
    struct {
        uint64_t clock;
        uint32_t mark;
    } marks[2];
    uint64_t **owed; /* (W, tables): bitmaps of rows; used by store_follow.c only */
    uint64_t **sent; /* (W, tables): bitmaps of rows; used by store_follow.c only */
} store_rows;

/* Where the values of an element of conf.slices are: in a dense slice, or in rows of a table. */
typedef struct store_place {
    uint32_t slice; /* index in store->slices; STORE_NO_SLICE: the values are rows of `table` */
    uint32_t n;     /* values */
    uint32_t table;
    uint64_t first_row;
    size_t row_count;
} store_place;

#define STORE_NO_SLICE UINT32_MAX

typedef struct store_cut store_cut; /* store_cut.c */

struct ps_store {
    uint32_t slice_count; /* number of dense slices */
    uint32_t place_count;
    store_place *places; /* (place_count): an element for each of conf.slices */
    ps_book book;        /* a column for each slice, then one for all rows */
    uint64_t job;
    ps_descent descent;
    float merge_scale;
    uint64_t seed;
    bool broadcasts;
    bool workers_have_rows; /* as in ps_store_conf */
    const ps_codec *plain;  /* the codec f32 */
    ps_params plain_params;

    shard_slice *slices; /* (S); NULL after ps_store_drop_slices */
    shard_pull *pulls;   /* (W) */
    store_rows *rows;    /* NULL: the job has no sparse tables */

    size_t value_count; /* values of the dense slices */
    size_t flat_count;  /* values of all of conf.slices, with those in rows of tables */
    /* (flat_count): what ps_store_weights returns; NULL before its first call */
    float *flat;
    float *state;      /* (value_count * slots): the optimizer's state, slice by slice */
    bool keeps_before; /* slices keep their weights from before the last step */
    /* the store needs memory for open sums; false: no policy that buffers, or a single contribution
     * makes a sum */
    bool has_sums;
    /* (value_count): open sums, slice by slice; NULL: there are none, or each slice sums in
     * slice->other */
    float *sums;
    /* (PS_CODEC_VALUES): for the function that runs; several functions return values in it */
    float *scratch;
    ps_delay delay;
    /* (W, value_count): the weights that each worker was given last; NULL: delays are not
     * corrected */
    float *had;
    /* (value_count): mean square of gradients; NULL: the correction does not adapt */
    float *mean_square;
    float *change; /* (PS_CODEC_VALUES) scratch; NULL: the store does not broadcast */

    uint32_t waiting; /* number of workers with an open pull of slices */
    ps_park park;
    ps_store_counters counters;

    store_cut *cut; /* the cut that is under way (store_cut.c); NULL: none */

    /* For each virtual shard: whether its slices, and its rows, were read from a file. */
    bool slices_came[PS_SHARDS], rows_came[PS_SHARDS];
    /* clock of the last file from which the rows were read; 0: none, or a file that later files
     * cannot count from */
    uint64_t rows_clock[PS_SHARDS];
    bool *is_lost; /* (W): whether a file that was read lists the worker as lost */
};

/* store_rows.c */

/* Gives the store rows. Takes `tables`, and makes the last column of the book that of the rows. */
void store_rows_init(ps_store *store, ps_tables *tables);
/* Makes the tables keep, from now on, what rows were before the last step. */
void store_rows_keep_before(ps_store *store);
/* Frees the rows of the store; does nothing if it has none. */
void store_rows_fini(ps_store *store);
/* Cancels the worker's pull of rows. */
void store_rows_cancel(ps_store *store, uint32_t worker);
/* Steps on every sum of rows that may close, then ages the rows. Call it whenever a contribution,
 * the loss of a worker or the time may have completed a sum. */
void store_rows_go_on(ps_store *store);
/* Adds a contribution without rows to the open sum and returns it, to be filled. */
store_gift *store_rows_open(ps_store *store, uint32_t contributor);

/* store_follow.c: rows of a fixed vocabulary, all of which each worker has. */

extern const store_rows_way store_rows_followed;

/* store_rows_file.c: writes rows to a saved state and reads them back; store.h has the layout. */

/* Writes, for one virtual shard, the rows of all tables and the clocks of the column of rows.
 * `since`: only rows that changed or moved since that mark (ps_table_mark); 0: all rows. */
void store_rows_put(const ps_store *store, uint32_t virtual_shard, uint32_t since,
                    ps_state_out *out);
/* Returns the tables' mark that was set when the file of this clock was written; 0: no such file is
 * known. */
uint32_t store_rows_mark_of(const ps_store *store, uint64_t clock);
/* Returns whether rows have been stepped on the contributions to `clock`. */
bool store_rows_are_ahead_of(const ps_store *store, uint64_t clock);
/* Returns whether the store has the rows as they were when `clock` began. */
bool store_rows_have_at(const ps_store *store, uint64_t clock);
/* Writes the rows and clocks of a virtual shard as they were when `clock` began. Leaves out what
 * has arrived for that clock. store_rows_have_at must be true. */
void store_rows_put_at(const ps_store *store, uint32_t virtual_shard, uint64_t clock,
                       ps_state_out *out);
/* Reads the rows and clocks of a virtual shard, into tables to which nothing was pushed. has_all:
 * the file has all rows of the shard; else it has those that differ from the rows that an earlier
 * file brought. Fails `in` if the bytes are wrong or, under a policy that buffers, if the shard was
 * saved at another clock than the first one that was read. */
void store_rows_take(ps_store *store, uint32_t virtual_shard, bool has_all, ps_state_in *in);
/* Reads only the rows of a virtual shard, out of a file that is older than the one for
 * store_rows_take. */
void store_rows_take_earlier(ps_store *store, uint32_t virtual_shard, bool has_all,
                             ps_state_in *in);
/* Takes the clocks of the column of rows back to those that all virtual shards have, if these were
 * read from files of different clocks. Call it after the last virtual shard was read, before
 * ps_book_settle. Returns DATA_LOSS if the clocks are too far apart. */
ps_status store_rows_join(ps_store *store);
/* Checks the rows after ps_book_settle. Returns DATA_LOSS if the number of clocks for which rows
 * have aged differs from the number of complete clocks. */
ps_status store_rows_settle(const ps_store *store);

/* shard_file.c: writes slices to a saved state and reads them back. */

/* Returns the number of slices of a virtual shard in this store. */
uint32_t shard_count(const ps_store *store, uint32_t virtual_shard);
/* Writes the slices of a virtual shard. */
void shard_put(const ps_store *store, uint32_t virtual_shard, ps_state_out *out);
/* Writes the slices of a virtual shard for the repetition of `clock`. A slice that was not stepped
 * on that clock is written without any contribution to it. A slice that was stepped is written as
 * it is, with the weights that it had when the clock began. */
void shard_put_at(const ps_store *store, uint32_t virtual_shard, uint64_t clock, ps_state_out *out);
/* Reads the slices of a virtual shard, to which nothing was pushed. Fails `in` if the bytes are
 * wrong or of other slices than the store has. */
void shard_take(ps_store *store, uint32_t virtual_shard, ps_state_in *in);
/* Makes the slices ready for use after the last virtual shard was read. The caller has called
 * ps_book_settle. */
void shard_settle(ps_store *store);

/* store_file.c */

/* Begins a file of the store with its first section. */
void store_file_begin(const ps_store *store, ps_state_out *out, ps_state_write_fn *write,
                      void *arg);
/* Appends the section of a virtual shard's slices. */
void store_file_put_slices(const ps_store *store, uint32_t virtual_shard, ps_state_out *out);

/* store_cut.c: a save while the store goes on. */

/* Writes the virtual shard that has slice s for the cut, unless it was written before. */
void store_cut_before(ps_store *store, uint32_t s);
/* Writes all virtual shards that were not written yet, if a cut is under way. */
void store_cut_all(ps_store *store);

/* Call it before anything of slice s changes that shard_put writes: a cut that is under way then
 * first writes the slice as it is. */
static inline void store_before(ps_store *store, uint32_t s)
{
    if (store->cut != NULL) {
        store_cut_before(store, s);
    }
}

/* shard_step.c */

/* Steps slice s on one contribution x to `clock`: w -= scale * step(x * merge_scale). If the job
 * corrects delays, x is corrected for the worker's delay first. */
void shard_apply(ps_store *store, uint32_t s, uint32_t worker, uint64_t clock,
                 const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len, float scale);
/* Adds to the open sum of slice s a contribution of contributor k that ps_book_check_clock has
 * accepted. Returns false if it is parked instead, because the contributions before k's are not in
 * the sum yet. */
bool shard_buffer(ps_store *store, uint32_t s, uint32_t k, bool is_late,
                  const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len);
/* Returns the memory (n) for the slice's open sum, of a codec whose contributions are decoded
 * before they are added. */
float *shard_sum_memory(const ps_store *store, shard_slice *slice);
/* Steps on the open sum of slice s and closes it, again and again while it may close. Call it after
 * every change of the slice's clocks under a buffering policy. */
void shard_close(ps_store *store, uint32_t s);
/* Copies the figures of parked contributions to the store's counters. */
void shard_count_parked(ps_store *store);

/* Returns the weights (n) for writing. If a pull is still sending the buffer, replaces it by a
 * copy. */
float *shard_weights_to_write(shard_slice *slice);
/* Returns whether an optimizer steps the slice; false: what is merged is subtracted as it is. */
bool shard_is_descending(const ps_store *store, const shard_slice *slice);
/* Returns the optimizer's state of the slice: (slots, n). */
float *shard_state_of(const ps_store *store, const shard_slice *slice);

/* shard_before.c */

/* Returns the slice's second buffer (n) for writing. If a pull is still sending it, replaces it.
 * The slice then no longer has its weights from before the last step. */
float *shard_other_to_write(shard_slice *slice);
/* Swaps the two buffers after a step wrote the new weights to the second one: the old weights are
 * kept as those from before the step. Call it before the version is incremented. */
void shard_keep_before(shard_slice *slice);
/* Returns whether the store has the weights that slice s had when `clock` began. */
bool shard_has_at(const ps_store *store, uint32_t s, uint64_t clock);
/* Returns whether slice s has been stepped on the contributions to `clock`. */
bool shard_is_ahead_of(const ps_store *store, uint32_t s, uint64_t clock);

/* shard_merge.c */

/* Allocates the memory that the slice's codecs need. The caller has set store->has_sums. */
void shard_merge_init(const ps_store *store, shard_slice *slice);
void shard_merge_fini(shard_slice *slice);
/* Adds a contribution to the open sum without decoding it. Returns false if the codec cannot do
 * that; the caller then decodes the contribution and adds it. */
bool shard_add_undecoded(ps_store *store, shard_slice *slice, const Psgd__V1__Encoding *head,
                         const uint8_t *bytes, size_t len);
/* Returns the values (n) on which the slice steps when the open sum closes; NULL: no contribution
 * is in the sum. The values may lie in the store's scratch. Call it only once for each sum, because
 * it changes the codec's state. */
const float *shard_merged(ps_store *store, shard_slice *slice);
/* Adds the weights w (n) to the slices that this thread has encoded together
 * (ps_codec_encode_ahead), before shard_encode_weights fetches the encoding. Returns false if they
 * cannot be added. Uses the store's scratch. */
bool shard_encode_ahead(ps_store *store, const shard_slice *slice, const float *w, uint64_t key);
/* Encodes w (n), weights of the slice, into `out` and slice->snap.head. Returns the number of
 * bytes. Uses the store's scratch. */
size_t shard_encode_weights(ps_store *store, shard_slice *slice, const float *w, uint64_t key,
                            uint8_t *out);

/* shard_push.c */

/* Returns the position in store->slices of the slice with this index of the layout, or slice_count
 * if the store does not have it. */
uint32_t shard_find_slice(const ps_store *store, uint32_t index);

/* Notes that the worker contributes nothing more to the clocks before `clock`, which is at most one
 * above the open round. Only under a policy that leaves workers behind. */
void shard_leave_out(ps_store *store, uint32_t worker, uint64_t clock);

/* shard_delay.c: corrects gradients for the delay of their worker. If the job does not ask for it,
 * each of these functions does nothing. */

void shard_delay_init(ps_store *store);
void shard_delay_fini(ps_store *store);
/* Records the weights of slice s that the worker will decode from `piece`, which it is being
 * given. */
void shard_delay_gave(ps_store *store, uint32_t worker, uint32_t s, const ps_store_piece *piece);
/* Returns the gradient g (n), corrected for the worker's delay, in the store's scratch; or g itself
 * if nothing is corrected. g may lie in the scratch. */
const float *shard_delay_correct(ps_store *store, uint32_t worker, uint32_t s, const float *g);

/* shard_broadcast.c */

/* Takes the increment in the store's scratch, encodes it into the slice's snapshot, and subtracts
 * from w (n) what workers will decode of it. */
void shard_broadcast(ps_store *store, shard_slice *slice, float *w);
/* Returns whether the worker is given the last change of slice s: the store broadcasts, the worker
 * was given the version before that change or a newer one, and does not ask for the weights. Else
 * it is given the weights. */
bool shard_gives_change(const ps_store *store, uint32_t worker, uint32_t s);
/* Returns the slice's weights as float32 and sets slice->whole_head to their head. The slice keeps
 * the buffer. */
ps_buf *shard_whole(const ps_store *store, shard_slice *slice);
/* Returns the checksum of the slice's weights; computes it once for each version. */
uint64_t shard_checksum(shard_slice *slice);

/* shard_pull.c */

/* Gives `snap` a buffer that no pull is still sending. */
void shard_renew_snap(const shard_slice *slice, shard_snap *snap);
/* Encodes the weights with which the open clock of the slice began, unless they are encoded
 * already. Does so only in a store that keeps earlier weights and does not broadcast, only if their
 * codec has state, and not for clock 0. So that state is the same whether or not somebody pulls: in
 * copies of shards, and where a lost server is computed anew. Call it before the open clock gets a
 * contribution. */
void shard_encode_unasked(ps_store *store, uint32_t s);

/* Marks slice s as changed, so that for every open pull the policy is asked about it again. */
void shard_changed(ps_store *store, uint32_t s);

#endif
