/* SPDX-License-Identifier: Apache-2.0 */
/* ccdc.c - coded multicast: one packet brings each of r workers a different segment that it lacks
 * (Li, Maddah-Ali, Yu, Avestimehr, IEEE Trans. IT 64(1), 2018).
 *
 * Blocks are the subsets of r workers (assignment iid). Values travel as integers q = round(x *
 * 10^8) of 32 bits; a value beyond +-21.47 is an error, it does not wrap. Sums have 64 bits, so
 * their order does not matter; the result is sum / 10^8.
 *
 * A block is cut into r segments of L = ceil(n / r) values, the last padded with zeros; segment p
 * belongs to the p-th holder. In every group S of r + 1 workers, each worker k sends to the others
 * the XOR, over all other j of S, of its own segment of the block that all of S but j hold. Worker
 * j holds all these blocks but one, so it can take out all terms but one. In all there are C(n,
 * r+1) (r+1) multicasts of L values: an r-th of what ndc sends, if the network carries a multicast
 * once.
 *
 * `what` of a packet is the group. In a repair with r > 1 the other members of S send what a silent
 * worker k should have sent: to each j, uncoded, k's segment of the block that all of S but j hold.
 * `what` is then the number of all groups plus group * (r + 1) + the place of k in it.
 */
#include "common/mesh/groups.h"
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"
#include "common/codec/wrap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = PS_CODEC_VALUES };
static const double scale = 1e8;

typedef enum had { HAD_NOT, HAD_OF_ANOTHER, HAD } had;

typedef struct ccdc_state {
    uint32_t r;
    size_t length;   /* L, the values of a segment */
    uint32_t pieces; /* packets of a segment */
    groups in;       /* the groups with this worker */
    /* (groups, r + 1, pieces): by group, sender and piece, whether it has arrived: a value of
     * `had` */
    uint8_t *have;
    size_t left; /* number of pieces of other senders that are HAD_NOT */
    /* number of pieces that are HAD_OF_ANOTHER: not their sender but another member of the group
     * has sent them, in a repair */
    size_t unspoken;
    int32_t *own; /* (held, n): values of the held blocks, in fixed point */
    int64_t *sum; /* (n): all values so far, in fixed point */
} ccdc_state;

static ccdc_state *state_of(const ps_mesh_machine *m)
{
    return m->state;
}

/* Checks that a part has the codec f32 without anything that a sender would keep for it: the
 * integers that are sent in a step are made from the gradients of that step alone. */
static ps_status check_part(const ps_mesh_part *part)
{
    static const int kept[] = {PS_WRAP_FEEDBACK, PS_WRAP_MOMENTUM};
    const ps_mesh_codec *up = &part->up;

    if (!ps_codec_is_plain(up->codec, &up->params)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "sends fixed-point numbers, so codec %s of %s cannot be used: f32 is "
                       "allowed",
                       up->codec->name, part->name);
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        double value = ps_wrap_of(up->codec, &up->params, kept[i]);

        if (value != 0) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "keeps nothing at the sender, so %s %g of codec %s of %s cannot be "
                           "used: 0 is allowed",
                           up->codec->params[up->codec->own + (size_t)kept[i]].name, value,
                           up->codec->name, part->name);
        }
    }
    return ps_ok();
}

static ps_status check(const ps_mesh_conf *conf)
{
    const ps_assignment *a = conf->assignment;
    uint64_t count = groups_of(a->workers, a->redundancy);

    for (uint32_t p = 0; p < conf->part_count; p++) {
        ps_status st = check_part(&conf->parts[p]);

        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    if (!groups_have_all_blocks(a)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "it needs a block for every %u of the %u workers: assignment iid is "
                       "allowed",
                       a->redundancy, a->workers);
    }
    if (count * (a->redundancy + 1) > GROUPS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%u workers with redundancy %u would say more than %d multicasts",
                       a->workers, a->redundancy, GROUPS_MAX);
    }
    return ps_ok();
}

static void init(ps_mesh_machine *m)
{
    const ps_assignment *a = m->conf.assignment;
    ccdc_state *s = state_of(m);

    s->r = a->redundancy;
    s->length = (m->conf.n + s->r - 1) / s->r;
    s->pieces = (uint32_t)((s->length + WORDS - 1) / WORDS);
    groups_init(&s->in, a, m->conf.self);
    s->have = ps_xcalloc((size_t)s->in.count * (s->r + 1) * s->pieces + 1, 1);
    s->own = ps_xcalloc(a->held_count[m->conf.self] * m->conf.n + 1, sizeof *s->own);
    s->sum = ps_xcalloc(m->conf.n, sizeof *s->sum);
}

static void fini(ps_mesh_machine *m)
{
    ccdc_state *s = state_of(m);

    groups_fini(&s->in);
    free(s->have);
    free(s->own);
    free(s->sum);
}

static uint32_t words_of(const ccdc_state *s, uint32_t piece)
{
    size_t left = s->length - (size_t)piece * WORDS;

    return left < WORDS ? (uint32_t)left : WORDS;
}

/* Computes words ^= the words (32-bit integers) of one piece of a segment of a held block. Values
 * after the gradient's last are taken as zeros. */
static void mix(const ps_mesh_machine *m, uint32_t held, uint32_t segment, uint32_t piece,
                uint32_t *words)
{
    const ccdc_state *s = state_of(m);
    const int32_t *from = s->own + (size_t)held * m->conf.n;
    size_t at = segment * s->length + (size_t)piece * WORDS;
    size_t left = at < m->conf.n ? m->conf.n - at : 0;
    size_t count = words_of(s, piece);

    count = left < count ? left : count;
    for (size_t i = 0; i < count; i++) {
        words[i] ^= (uint32_t)from[at + i];
    }
}

/* Computes words ^= all terms of the packet of sender k in a group, but the term that worker
 * `unknown` needs. */
static void mix_all(const ps_mesh_machine *m, const uint32_t *group, uint32_t k, uint32_t unknown,
                    uint32_t piece, uint32_t *words)
{
    const ccdc_state *s = state_of(m);

    for (uint32_t i = 0; i <= s->r; i++) {
        uint32_t j = group[i];

        if (j != k && j != unknown) {
            mix(m, groups_held_without(&s->in, group, j), groups_place_without(group, k, j), piece,
                words);
        }
    }
}

/* Returns x * 10^8, rounded to a whole number where it fits into 32 bits. */
static double fixed_of(float x)
{
    const double magic = 0x1.8p52; /* adding and subtracting it rounds to nearest even below 2^51 */

    return ((double)x * scale + magic) - magic;
}

static bool fits(double q)
{
    return fabs(q) <= 2147483647.0; /* false for NaN */
}

/* Converts x (n) to fixed point in q (n) and adds q to sum (n). A value that does not fit becomes
 * 0. Returns the index of the first such value; n: all fit. */
static size_t fix(const float *x, size_t n, int32_t *q, int64_t *sum)
{
    bool is_good = true;
    size_t bad = 0;

    for (size_t i = 0; i < n; i++) {
        double v = fixed_of(x[i]);

        is_good &= fits(v);
        q[i] = fits(v) ? (int32_t)v : 0;
        sum[i] += q[i];
    }
    while (!is_good && fits(fixed_of(x[bad]))) {
        bad++;
    }
    return is_good ? n : bad;
}

static ps_status to_fixed(ps_mesh_machine *m)
{
    const ps_assignment *a = m->conf.assignment;
    ccdc_state *s = state_of(m);
    size_t n = m->conf.n;

    for (uint32_t b = 0; b < a->held_count[m->conf.self]; b++) {
        const float *x = m->blocks[b];
        size_t bad = fix(x, n, s->own + b * n, s->sum);

        if (bad < n) {
            return ps_fail(PS_OUT_OF_RANGE,
                           "value %zu of block %u is %g; ccdc's fixed point says -21.47 to 21.47",
                           bad, a->held[m->conf.self][b], (double)x[bad]);
        }
    }
    return ps_ok();
}

/* Returns a new packet for a piece, whose words (32-bit integers) are 0. */
static ps_packet *packet_of(ps_mesh_machine *m, uint32_t what, uint32_t piece)
{
    uint32_t count = words_of(state_of(m), piece);
    ps_packet *packet = mesh_packet(m, what, piece, count * sizeof(uint32_t));

    packet->len = count * sizeof(uint32_t);
    packet->n = count;
    memset(packet->bytes, 0, packet->len);
    return packet;
}

static ps_status start(ps_mesh_machine *m)
{
    ccdc_state *s = state_of(m);
    uint32_t k = s->r + 1, self = m->conf.self;
    uint32_t *targets;
    ps_status st;

    memset(s->sum, 0, m->conf.n * sizeof *s->sum);
    memset(s->have, 0, (size_t)s->in.count * k * s->pieces);
    s->left = (size_t)s->in.count * s->r * s->pieces;
    s->unspoken = 0;
    st = to_fixed(m);
    targets = ps_xcalloc(k, sizeof *targets);
    for (uint32_t g = 0; g < s->in.count && ps_is_ok(&st); g++) {
        const uint32_t *group = groups_members(&s->in, g);
        uint32_t count = 0;

        for (uint32_t i = 0; i < k; i++) {
            targets[count] = group[i];
            count += group[i] != self;
        }
        for (uint32_t piece = 0; piece < s->pieces; piece++) {
            ps_packet *packet = packet_of(m, s->in.number[g], piece);

            mix_all(m, group, self, self, piece, (uint32_t *)(void *)packet->bytes);
            mesh_send(m, packet, targets, count);
        }
    }
    free(targets);
    return st;
}

static uint8_t *have_of(const ccdc_state *s, uint32_t g, uint32_t speaker, uint32_t piece)
{
    return &s->have[((size_t)g * (s->r + 1) + speaker) * s->pieces + piece];
}

/* Sends, in place of the silent sender `speaker`, to each further member of group g but this worker
 * one piece of the segment that the speaker owes that member. Sends it uncoded, because nobody
 * knows what the others have received. */
static void repair_from(ps_mesh_machine *m, uint32_t g, uint32_t speaker, uint32_t piece)
{
    const ccdc_state *s = state_of(m);
    const uint32_t *group = groups_members(&s->in, g);
    uint32_t k = s->r + 1, what = s->in.total + s->in.number[g] * k + speaker;

    for (uint32_t i = 0; i < k; i++) {
        if (i != speaker && group[i] != m->conf.self) {
            ps_packet *packet = packet_of(m, what, piece);

            mix(m, groups_held_without(&s->in, group, group[i]),
                groups_place_without(group, group[speaker], group[i]), piece,
                (uint32_t *)(void *)packet->bytes);
            mesh_send_to(m, packet, group[i]);
        }
    }
}

static void repair(ps_mesh_machine *m)
{
    const ccdc_state *s = state_of(m);

    for (uint32_t g = 0; g < s->in.count; g++) {
        for (uint32_t speaker = 0; speaker <= s->r; speaker++) {
            for (uint32_t piece = 0; piece < s->pieces; piece++) {
                if (groups_members(&s->in, g)[speaker] != m->conf.self &&
                    *have_of(s, g, speaker, piece) != HAD) {
                    repair_from(m, g, speaker, piece);
                }
            }
        }
    }
}

/* Finds the group of a packet, and the place in the group of the member whose segment the packet
 * brings. Returns false if there is no such piece or group, or `from` may not send it. */
static bool find(const ps_mesh_machine *m, const ps_packet *packet, uint32_t *g, uint32_t *speaker)
{
    const ccdc_state *s = state_of(m);
    uint32_t k = s->r + 1, total = s->in.total;
    bool is_coded = packet->what < total;
    const uint32_t *group;

    if (packet->piece >= s->pieces ||
        !groups_find(&s->in, is_coded ? packet->what : (packet->what - total) / k, g)) {
        return false;
    }
    group = groups_members(&s->in, *g);
    *speaker = is_coded ? 0 : (packet->what - total) % k;
    while (is_coded && *speaker < k && group[*speaker] != packet->from) {
        ++*speaker;
    }
    return *speaker < k && groups_is_in(group, k, packet->from) &&
           group[*speaker] != m->conf.self && (is_coded || group[*speaker] != packet->from);
}

/* Adds decoded words to the sum: a piece of the speaker's segment of the block that all of the
 * group but this worker hold. Fails with DATA_LOSS if the padding after its end is not zero. */
static ps_status add(ps_mesh_machine *m, const ps_packet *packet, const uint32_t *group,
                     uint32_t speaker, const uint32_t *words)
{
    ccdc_state *s = state_of(m);
    uint32_t count = words_of(s, packet->piece);
    size_t first = groups_place_without(group, group[speaker], m->conf.self) * s->length +
                   (size_t)packet->piece * WORDS;

    for (uint32_t i = 0; i < count; i++) {
        if (first + i >= m->conf.n && words[i] != 0) {
            return ps_fail(PS_DATA_LOSS,
                           "group %u, part %u from worker %u: what pads it is not zero: holders "
                           "of a block differ",
                           packet->what, packet->piece, packet->from);
        }
    }
    for (uint32_t i = 0; i < count && first + i < m->conf.n; i++) {
        s->sum[first + i] += (int32_t)words[i];
    }
    m->counters.values_taken += count;
    return ps_ok();
}

/* Notes that a sender's own packet has arrived, after another member has sent the same values in
 * the sender's place. */
static void hear_again(ccdc_state *s, uint8_t *have, bool is_coded)
{
    if (is_coded && *have == HAD_OF_ANOTHER) {
        *have = HAD;
        s->unspoken--;
    }
}

static ps_status take(ps_mesh_machine *m, ps_packet *packet)
{
    ccdc_state *s = state_of(m);
    bool is_coded = packet->what < s->in.total;
    uint32_t g, speaker, words[WORDS];
    const uint32_t *group;
    uint8_t *have;
    ps_status st;

    if (!find(m, packet, &g, &speaker)) {
        return ps_fail(PS_INVALID_ARGUMENT, "group %u, part %u from worker %u: not for worker %u",
                       packet->what, packet->piece, packet->from, m->conf.self);
    }
    group = groups_members(&s->in, g);
    have = have_of(s, g, speaker, packet->piece);
    if (*have != HAD_NOT) {
        m->counters.duplicates++;
        hear_again(s, have, is_coded);
        return ps_ok();
    }
    if (packet->len != words_of(s, packet->piece) * sizeof words[0]) {
        return ps_fail(PS_DATA_LOSS, "group %u, part %u: %zu bytes, not %zu", packet->what,
                       packet->piece, packet->len, words_of(s, packet->piece) * sizeof words[0]);
    }
    memcpy(words, packet->bytes, packet->len);
    if (is_coded) {
        mix_all(m, group, packet->from, m->conf.self, packet->piece, words);
    }
    st = add(m, packet, group, speaker, words);
    if (ps_is_ok(&st)) {
        *have = is_coded ? HAD : HAD_OF_ANOTHER;
        s->unspoken += !is_coded;
        s->left--;
    }
    return st;
}

/* Returns whether all values have arrived. If some of them came only from another worker in place
 * of a silent one, the step ends after this worker's own repair: this worker may be the only one
 * that holds what a third worker lacks. */
static bool is_done(const ps_mesh_machine *m)
{
    const ccdc_state *s = state_of(m);

    return s->left == 0 && (s->unspoken == 0 || m->is_repaired);
}

static void finish(ps_mesh_machine *m, float *sum)
{
    for (size_t i = 0; i < m->conf.n; i++) {
        sum[i] = (float)((double)state_of(m)->sum[i] / scale);
    }
}

static void missing(const ps_mesh_machine *m, bool *peers)
{
    const ccdc_state *s = state_of(m);

    for (uint32_t g = 0; g < s->in.count; g++) {
        for (uint32_t speaker = 0; speaker <= s->r; speaker++) {
            uint32_t who = groups_members(&s->in, g)[speaker];

            for (uint32_t piece = 0; piece < s->pieces && who != m->conf.self; piece++) {
                uint8_t have = *have_of(s, g, speaker, piece);

                peers[who] |= have == HAD_NOT || (have != HAD && !m->is_repaired);
            }
        }
    }
}

const ps_mesh ps_mesh_ccdc = {
    .name = "ccdc",
    .summary = "XOR-coded multicasts: each brings r workers a segment they lack; assignment iid",
    .check = check,
    .state_size = sizeof(ccdc_state),
    .init = init,
    .fini = fini,
    .start = start,
    .take = take,
    .is_done = is_done,
    .finish = finish,
    .repair = repair,
    .missing = missing,
};
