/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.h - exchanges among workers, without a server: who sends what to whom, so that all workers
 * end a step with the same sum of gradients.
 *
 * A machine is one worker's part of such an exchange. It is pure: no I/O, no clock, no thread.
 * Inputs are the gradients of the blocks that the worker holds, part by part as they become final,
 * packets of other workers, and the time. Outputs are packets to send, and at the end the sum.
 * docs/exchanges.md describes each exchange.
 *
 * Words. A step is one clock, from 0. n workers hold K blocks; each block is held by r of them, its
 * holders; the assignment says who holds which. The parts of a gradient are the variables of a
 * model, each with its codecs. A packet has one encoding of at most PS_CODEC_VALUES values of one
 * part, a report, or a request to send again.
 *
 * Result. The sum counts each of the K blocks once, with the values to which the encodings (of
 * blocks or of partial sums) decode. It has the same bits on every worker, whatever the order of
 * arrival.
 *
 * Order. Workers may be one step apart. A packet of the next step is kept until that step begins. A
 * packet that arrives again, or after its step has ended, changes nothing.
 *
 * Repair. If a step does not end within its window (window_us), the worker sends again what it sent
 * in this step and in the one before, because a slower worker may still need that. It also sends
 * what silent workers should have sent, as far as it holds the same blocks. It asks the workers
 * from whom something is missing to send again; they do so even if the step has ended for them.
 * After a second window (after a third if the process was stopped, see ps_mesh_tick) the step
 * fails. The error names those from whom something is missing; if it can, only those who do not
 * wait themselves.
 *
 * Reports. With `has_reports` each worker sends all others a report with its part of a step: bytes
 * that the code of this room does not read. A step ends only when all reports have arrived. So a
 * process that has ended a step can continue any other worker from there.
 *
 * To add an exchange: common/mesh/NAME.c with `const ps_mesh ps_mesh_NAME`, a line in list.h and
 * one in CMakeLists.txt. The tests iterate.
 */
#ifndef PS_COMMON_MESH_MESH_H
#define PS_COMMON_MESH_MESH_H

#include "common/base/buf.h"
#include "common/base/state.h"
#include "common/base/status.h"
#include "common/codec/codec.h"
#include "common/data/assign.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message between two workers. Reference-counted, also across threads; immutable once it is
 * handed out by ps_mesh_next. */
typedef struct ps_packet {
    atomic_uint refs;
    uint64_t clock;       /* clock of its step */
    uint32_t from;        /* sender */
    uint32_t what, piece; /* which message of the step it is; each exchange has its own numbering */
    uint32_t n;           /* values that it represents; set only in packets that this worker made */
    /* says how to decode `bytes`; unset in ccdc, which has a coding of its own */
    ps_encoding head;
    ps_buf *buf; /* holds `bytes`; other packets may share it */
    size_t len;
    uint8_t *bytes; /* (len), in buf */
} ps_packet;

/* Returns an empty packet with room for `cap` bytes and one reference. Aborts when memory runs out;
 * the job bounds `cap`. */
ps_packet *ps_packet_create(size_t cap);

/* Adds a reference and returns the packet. Any thread. */
ps_packet *ps_packet_ref(ps_packet *packet);

/* Drops a reference; the last one frees the packet. Any thread; NULL is allowed. */
void ps_packet_unref(ps_packet *packet);

typedef struct ps_mesh ps_mesh;

/* A codec with its numbers. */
typedef struct ps_mesh_codec {
    const ps_codec *codec;
    ps_params params;
} ps_mesh_codec;

/* A range of values that become final together and have the same codecs. */
typedef struct ps_mesh_part {
    const char *name;   /* for errors */
    size_t at, n;       /* values [at, at + n) of the gradient */
    uint32_t step;      /* most values of a packet: 1..PS_CODEC_VALUES */
    ps_mesh_codec up;   /* codec of gradients and of partial sums */
    ps_mesh_codec down; /* codec of complete sums, in the exchanges that send them: ring, tree */
} ps_mesh_part;

typedef struct ps_mesh_conf {
    const ps_mesh *mesh;
    const ps_assignment *assignment; /* kept */
    uint32_t self;                   /* this worker */
    size_t n;                        /* values of a gradient; >= 1 */
    const ps_mesh_part *parts;       /* (part_count), ascending, disjoint, >= 1; kept */
    uint32_t part_count;
    uint64_t seed;    /* the job's seed, for stochastic rounding */
    bool has_reports; /* workers send reports; the same on all workers, and false with redundancy */
    /* (optional) Checks the report (len bytes) of `worker` for step `clock` when it arrives, before
     * it is kept and passed on. If it fails, ps_mesh_take refuses the packet with this failure. */
    ps_status (*check_report)(void *arg, uint32_t worker, uint64_t clock, const uint8_t *bytes,
                              size_t len);
    /* (optional) Returns whether anybody still waits for the exchange. ps_mesh_release calls it, on
     * the thread that called ps_mesh_release, between calls of a sandbox. */
    bool (*is_wanted)(void *arg);
    void *arg; /* first argument of check_report and is_wanted */
    /* in microseconds, > 0: time from the last ps_mesh_ready of a step until its repair, and from
     * the repair until the step fails */
    int64_t window_us;
} ps_mesh_conf;

/* One worker's part of an exchange. One thread at a time. */
typedef struct ps_mesh_machine ps_mesh_machine;

struct ps_mesh {
    const char *name;
    const char *summary;

    /* Checks whether the exchange can run with this configuration. Fails with INVALID_ARGUMENT and
     * the reason, for the user who submits the job. */
    PS_MUST_USE ps_status (*check)(const ps_mesh_conf *conf);

    bool sends_sums; /* complete sums are sent too, through the codec `down` of parts */

    /* The members below are for mesh.c only. */
    size_t state_size;                /* bytes of state; zeroed before init */
    void (*init)(ps_mesh_machine *m); /* called once, by ps_mesh_create */
    void (*fini)(ps_mesh_machine *m);
    /* Begins a step. If the exchange has the function `ready`, no part of a gradient is final yet;
     * else all parts are. */
    PS_MUST_USE ps_status (*start)(ps_mesh_machine *m);
    /* (optional) Notes that a part of the held-th block that this worker holds is final. NULL: a
     * step begins when all parts are final. */
    PS_MUST_USE ps_status (*ready)(ps_mesh_machine *m, uint32_t held, uint32_t part);
    /* Takes a packet of the running step. */
    PS_MUST_USE ps_status (*take)(ps_mesh_machine *m, ps_packet *packet);
    /* (for exchanges that call mesh_encode and mesh_decode) `encoded` takes the packet that
     * mesh_encode has made. `decoded` notes that a packet was decoded into the sum of its cell. */
    PS_MUST_USE ps_status (*encoded)(ps_mesh_machine *m, ps_packet *packet);
    PS_MUST_USE ps_status (*decoded)(ps_mesh_machine *m, ps_packet *packet);
    /* Returns whether the sum is complete. */
    bool (*is_done)(const ps_mesh_machine *m);
    /* Writes the result into sum (n). */
    void (*finish)(ps_mesh_machine *m, float *sum);
    /* (optional) In a repair: sends what silent workers should have sent, as far as this worker has
     * it. */
    void (*repair)(ps_mesh_machine *m);
    /* Sets peers[i] (workers) to true for each worker i from which this one still needs a
     * packet. */
    void (*missing)(const ps_mesh_machine *m, bool *peers);
    /* (optional, both or none) `save` writes, and `load` reads, what the exchange keeps of a part
     * from one step to the next besides the states of codecs. */
    void (*save)(const ps_mesh_machine *m, uint32_t part, ps_state_out *out);
    void (*load)(ps_mesh_machine *m, uint32_t part, ps_state_in *in);
    /* (optional, both or none) The way of reports. `neighbours` writes the workers to which this
     * one sends packets to `to` (workers) and returns their number. `towards` returns the worker
     * from which this one gets the report of worker `origin`, another worker. NULL: each worker
     * sends its report to all others itself. */
    uint32_t (*neighbours)(const ps_mesh_machine *m, uint32_t *to);
    uint32_t (*towards)(const ps_mesh_machine *m, uint32_t origin);
};

/* The numbers that a job may set for every exchange, and their indices in ps_params.v. */
enum { PS_MESH_WINDOW_MS };
extern const ps_param ps_mesh_params[]; /* ends with a name of NULL */

/* Returns the exchange of this name, or NULL. */
const ps_mesh *ps_mesh_find(const char *name);

/* Calls fn for each exchange, in the order of list.h. */
void ps_mesh_each(void (*fn)(const ps_mesh *mesh, void *arg), void *arg);

/* Creates a machine. Fails with INVALID_ARGUMENT if the exchange refuses `conf` (`check`). */
PS_MUST_USE ps_status ps_mesh_create(const ps_mesh_conf *conf, ps_mesh_machine **out);

/* Frees the machine; NULL is allowed. */
void ps_mesh_destroy(ps_mesh_machine *m);

/* Begins step `clock`: the first one (0, or the clock of ps_mesh_start_at), or the one after the
 * step that has ended. blocks[i] (n) is the mean gradient of the i-th block that the worker holds,
 * in the order of the assignment. `blocks` is kept until the step has ended. A part of a block is
 * read only after ps_mesh_ready for it; from then on the caller must not change it. May take
 * packets of this step that arrived early, and then fails as ps_mesh_take does. */
PS_MUST_USE ps_status ps_mesh_begin(ps_mesh_machine *m, uint64_t clock, const float *const *blocks);

/* Tells the machine that a part of blocks[held] is final. Called once a step for each part of each
 * block; for one part, in the order of `held`. The window of the step begins with the last call.
 * Fails as ps_mesh_take does, or with OUT_OF_RANGE if a value cannot be encoded (ccdc). */
PS_MUST_USE ps_status ps_mesh_ready(ps_mesh_machine *m, uint32_t held, uint32_t part,
                                    int64_t now_us);

/* Sets this worker's report of the running step, of at most PS_MESH_REPORT_MAX bytes, and takes the
 * reference. Call it before the last part is ready. Without this call the report is empty. */
enum { PS_MESH_REPORT_MAX = 64 << 10 };
void ps_mesh_report(ps_mesh_machine *m, ps_buf *report);

/* Returns the report of `worker`, which may be this one, in the step that has ended, and its length
 * in *len. Valid until the next step begins. NULL: the report is empty. */
const uint8_t *ps_mesh_report_of(const ps_mesh_machine *m, uint32_t worker, size_t *len);

/* Returns the bytes of memory that codecs keep from one step to the next, such as residuals. */
size_t ps_mesh_memory(const ps_mesh_machine *m);

/* Writes what the machine keeps of a part from one step to the next: the states of its codecs (such
 * as residuals), cell by cell, then what the exchange keeps, all f32. If codecs keep any state, no
 * step may run, and every worker must have ended the same steps. */
void ps_mesh_save(const ps_mesh_machine *m, uint32_t part, ps_state_out *out);

/* Reads what ps_mesh_save has written into a machine of the same worker that has begun no step. */
void ps_mesh_load(ps_mesh_machine *m, uint32_t part, ps_state_in *in);

/* Makes `clock` the first step of a machine that has begun none. */
void ps_mesh_start_at(ps_mesh_machine *m, uint64_t clock);

/* Handles a packet that has arrived; adds a reference if it keeps the packet. A failure leaves the
 * machine as it was:
 *
 *   INVALID_ARGUMENT  no such sender or piece, or the sender may not send it
 *   OUT_OF_RANGE      the packet is more than one step ahead, or too many packets came early
 *   DATA_LOSS         the bytes cannot be decoded
 *
 * Fails also as check_report does.
 */
PS_MUST_USE ps_status ps_mesh_take(ps_mesh_machine *m, ps_packet *packet);

/* Returns whether a codec of a part runs in a sandbox, so that encoding and decoding may block. */
bool ps_mesh_may_block(const ps_mesh_machine *m);

/* Has the machine put off all encoding and decoding of the calls that follow, until
 * ps_mesh_release. That function then has codecs in a sandbox do several cells in one call of the
 * sandbox. Does nothing unless ps_mesh_may_block. */
void ps_mesh_hold(ps_mesh_machine *m);
/* Ends ps_mesh_hold: encodes and decodes what was put off, and what follows from that. `st` is the
 * result of the calls since ps_mesh_hold; if it is a failure, drops what was put off and returns
 * `st`. Else fails as ps_mesh_take does if the code of a codec fails, or with CANCELLED if
 * is_wanted becomes false before all is done. After a failure the machine can only be destroyed. */
PS_MUST_USE ps_status ps_mesh_release(ps_mesh_machine *m, ps_status st);

/* Tells the machine the time. Begins the repair when the window of the step is over. Fails with
 * DEADLINE_EXCEEDED when the second window is over too. If that call comes half a window late or
 * more, this process was probably stopped and has not read its messages: instead of failing, the
 * step then gets one more window. That happens once in a step. */
PS_MUST_USE ps_status ps_mesh_tick(ps_mesh_machine *m, int64_t now_us);

/* Returns the time at which ps_mesh_tick has to be called next; INT64_MAX: not at all. */
int64_t ps_mesh_deadline(const ps_mesh_machine *m);

/* A packet that the caller has to send, and its receivers. */
typedef struct ps_mesh_out {
    ps_packet *packet; /* with a reference that the caller drops */
    /* (count): numbers of workers, ascending; valid until the next call of a function of the
     * machine */
    const uint32_t *targets;
    uint32_t count;
} ps_mesh_out;

/* Gives the next packet to send. Returns false if there is none. */
bool ps_mesh_next(ps_mesh_machine *m, ps_mesh_out *out);

/* Returns whether a step runs and uses packets as they arrive. Otherwise ps_mesh_take keeps packets
 * until the step begins. */
bool ps_mesh_has_begun(const ps_mesh_machine *m);

/* Returns whether a step has ended and the next one has not begun. Only then may ps_mesh_sum be
 * called. */
bool ps_mesh_is_done(const ps_mesh_machine *m);

/* Writes the sum of the step that has ended into sum (n). At most once a step. */
void ps_mesh_sum(ps_mesh_machine *m, float *sum);

/* Sets peers[i] (workers) to whether something of the running step is missing from worker i. All
 * become false if no step runs. */
void ps_mesh_missing(const ps_mesh_machine *m, bool *peers);

/* What a machine has counted since it was created, without reports. A packet to several targets is
 * one packet and as many copies. Bytes are those of encodings, without heads; values are the values
 * of gradients that packets represent. */
typedef struct ps_mesh_counters {
    uint64_t packets, copies, bytes, bytes_copied;
    uint64_t values_copied; /* values that were sent, counted once for each target */
    uint64_t values_taken;  /* values that were received in packets that were not duplicates */
    uint64_t duplicates, repairs;
} ps_mesh_counters;

const ps_mesh_counters *ps_mesh_counters_of(const ps_mesh_machine *m);

#endif
