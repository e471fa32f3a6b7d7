/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.h - exchanges among workers, without a server: what each says to whom, so
 * that all end a step with the same sum of gradients.
 *
 * Pure: no I/O, no clock, no thread. A node is told the gradients of the blocks
 * that it holds, part by part as they become final, packets that came in, and the
 * time; it has packets that are to go out, and at last the sum. Docs: docs/exchanges.md.
 *
 * Words. A step is a clock, from 0. Letters: n nodes, r copies of a block, K
 * blocks; the assignment says who holds which. The result is the sum over all K
 * blocks, each counted once, of what encoding and decoding leave of it; it is
 * bit for bit the same on every node, whatever comes first. A gradient has parts,
 * the variables of a model, each with its codecs. A packet is one encoding of at most
 * PS_CODEC_VALUES values of one part: nodes may be one step apart, so one that is early
 * waits, one that comes again or late changes nothing.
 *
 * Rescue. When a step has not ended within its time, the node says again what
 * it has said in this step and the one before (a slower node may still need it),
 * what it may say for others, and asks those from which something is missing to
 * do so, which they do even if the step is over for them. When the time has
 * passed once more, that is an error that names them.
 *
 * To add one: common/mesh/NAME.c with `const ps_mesh ps_mesh_NAME`, a line in
 * list.h and one in CMakeLists.txt; the tests iterate.
 */
#ifndef PS_COMMON_MESH_MESH_H
#define PS_COMMON_MESH_MESH_H

#include "common/base/buf.h"
#include "common/base/status.h"
#include "common/codec/codec.h"
#include "common/data/assign.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message between nodes, or what came of one. Shared by counting, also among
 * threads; immutable once it is out. */
typedef struct ps_packet {
    atomic_uint refs;
    uint64_t clock;
    uint32_t from;
    uint32_t what, piece; /* which piece of the step; the exchange knows */
    uint32_t n;           /* values that it stands for, where this node has said it */
    ps_encoding head;     /* not of ccdc, whose bytes are coded otherwise */
    ps_buf *buf;          /* the packet's; others may hold it too */
    size_t len;
    uint8_t *bytes; /* (len), in buf */
} ps_packet;

/* Room for `cap` bytes, len 0, one reference. A size that the job chooses. */
ps_packet *ps_packet_create(size_t cap);
ps_packet *ps_packet_ref(ps_packet *packet);
void ps_packet_unref(ps_packet *packet); /* NULL is allowed */

typedef struct ps_mesh ps_mesh;

/* A codec with its numbers. */
typedef struct ps_mesh_codec {
    const ps_codec *codec;
    ps_params params;
} ps_mesh_codec;

/* A run of values that become final together and have codecs of their own. */
typedef struct ps_mesh_part {
    const char *name; /* for errors */
    size_t at, n;
    uint32_t step;      /* most values of a packet: 1..PS_CODEC_VALUES */
    ps_mesh_codec up;   /* of gradients and of sums of some */
    ps_mesh_codec down; /* of whole sums, where the exchange says those: ring, tree */
} ps_mesh_part;

typedef struct ps_mesh_conf {
    const ps_mesh *mesh;
    const ps_assignment *assignment; /* kept */
    uint32_t self;
    size_t n;                  /* values of a gradient; >= 1 */
    const ps_mesh_part *parts; /* (part_count), ascending, apart, >= 1; kept */
    uint32_t part_count;
    uint64_t seed;     /* of the job: rounding */
    int64_t window_us; /* time of a step before the rescue, and after it; > 0 */
} ps_mesh_conf;

typedef struct ps_mesh_node ps_mesh_node;

struct ps_mesh {
    const char *name;
    const char *summary;

    /* May it run so? INVALID_ARGUMENT with the reason, for whoever submits a job. */
    PS_MUST_USE ps_status (*check)(const ps_mesh_conf *conf);

    bool says_sums; /* whole sums, through the parts' codecs for the way down */

    /* The rest is for mesh.c alone. State is zeroed memory of state_size. */
    size_t state_size;
    void (*init)(ps_mesh_node *node); /* once */
    void (*fini)(ps_mesh_node *node);
    /* A step begins; nothing is there yet or, of one without `ready`, all is. */
    PS_MUST_USE ps_status (*start)(ps_mesh_node *node);
    /* (optional) A part of a held block is there. NULL: a step begins when all are. */
    PS_MUST_USE ps_status (*ready)(ps_mesh_node *node, uint32_t held, uint32_t part);
    PS_MUST_USE ps_status (*take)(ps_mesh_node *node, ps_packet *packet); /* of this step */
    bool (*is_done)(const ps_mesh_node *node);
    void (*finish)(ps_mesh_node *node, float *sum); /* (n): the result */
    void (*rescue)(ps_mesh_node *node);             /* (optional) says what others have not said */
    void (*missing)(const ps_mesh_node *node, bool *peers); /* (nodes): sets those owing */
};

/* The numbers that every exchange takes in a job; ends with a name of NULL. */
enum { PS_MESH_WINDOW_MS };
extern const ps_param ps_mesh_params[];

const ps_mesh *ps_mesh_find(const char *name); /* NULL if there is none */
void ps_mesh_each(void (*fn)(const ps_mesh *mesh, void *arg), void *arg);

/* All of conf is checked: INVALID_ARGUMENT says what does not go together. */
PS_MUST_USE ps_status ps_mesh_create(const ps_mesh_conf *conf, ps_mesh_node **out);
void ps_mesh_destroy(ps_mesh_node *node); /* NULL is allowed */

/* The step `clock` begins, the next one after that which has ended (or 0):
 * blocks[i] (n) is the mean gradient of the i-th block that the node holds, in
 * the order of the assignment; borrowed until the step has ended, each part from when
 * it is ready. Packets that were early are taken now. Fails as take does. */
PS_MUST_USE ps_status ps_mesh_begin(ps_mesh_node *node, uint64_t clock, const float *const *blocks);

/* A part of blocks[held] is final, once a step; of each part in the order of blocks. The step's
 * time begins with the last. Fails as take does, or with OUT_OF_RANGE when a value cannot be
 * said (ccdc). */
PS_MUST_USE ps_status ps_mesh_ready(ps_mesh_node *node, uint32_t held, uint32_t part,
                                    int64_t now_us);

/* Bytes that codecs keep from step to step, error feedback and the like. */
size_t ps_mesh_memory(const ps_mesh_node *node);

/* A packet came in; the node keeps a reference if it has to.
 *
 * INVALID_ARGUMENT  no such node or piece, or not from one that may say it
 * OUT_OF_RANGE      more than one step ahead
 * DATA_LOSS         its bytes are not what they should be
 * The node is as it was then. */
PS_MUST_USE ps_status ps_mesh_take(ps_mesh_node *node, ps_packet *packet);

/* It is now_us: DEADLINE_EXCEEDED when a step is overdue for the second time. Who comes to say so
 * half a window late was away itself and has not listened: once a step it hears what was said
 * meanwhile, for a window more, before it blames anybody. */
PS_MUST_USE ps_status ps_mesh_tick(ps_mesh_node *node, int64_t now_us);
int64_t ps_mesh_deadline(const ps_mesh_node *node); /* of the next tick; INT64_MAX: none */

/* One packet that is to go out, and to whom; false: there is none. The packet
 * is the caller's reference; targets are the node's until the next call. */
typedef struct ps_mesh_out {
    ps_packet *packet;
    const uint32_t *targets; /* (count), ascending */
    uint32_t count;
} ps_mesh_out;

bool ps_mesh_next(ps_mesh_node *node, ps_mesh_out *out);

/* A step runs, and packets of it are used as they come; before, they are kept. */
bool ps_mesh_has_begun(const ps_mesh_node *node);

/* The step has ended: sum (n) may be read, once, before the next begins. */
bool ps_mesh_is_done(const ps_mesh_node *node);
void ps_mesh_sum(ps_mesh_node *node, float *sum);

/* From which nodes is something of the step that runs missing? peers is (nodes),
 * written; nobody when none runs. */
void ps_mesh_missing(const ps_mesh_node *node, bool *peers);

/* Since create. A multicast is one packet, and as many copies as it has targets;
 * bytes are those of packets, values what they stand for. */
typedef struct ps_mesh_counters {
    uint64_t packets, copies, bytes, bytes_copied;
    uint64_t values_copied, values_taken; /* said to each; taken, each packet once */
    uint64_t duplicates, rescues;
} ps_mesh_counters;

const ps_mesh_counters *ps_mesh_counters_of(const ps_mesh_node *node);

#endif
