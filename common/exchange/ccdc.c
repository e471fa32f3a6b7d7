/* SPDX-License-Identifier: Apache-2.0 */
/* ccdc.c - coded multicast: one packet brings each of r nodes a different segment
 * that it lacks (Li, Maddah-Ali, Yu, Avestimehr, IEEE Trans. IT 64(1), 2018).
 *
 * Blocks are the r-subsets of the nodes (assignment iid), values are whole
 * numbers q = round(x * 10^8) of 32 bits; beyond +-21.47 that is an error, not a
 * wrap. A block's values are cut into r segments of L = ceil(n / r), the last
 * padded with zeros; segment p is the p-th holder's. For every group S of r + 1
 * nodes, node k of S says to the others the XOR, over j in S without k, of its
 * segment of block S without j. Node j knows all of these but one, as it holds
 * every block S without i but its own. C(n, r+1) (r+1) multicasts of L values:
 * an r-th of what ndc says, if the network carries a multicast once. Sums are of
 * 64 bits, so their order does not matter; result sum / 10^8.
 */
#include "common/exchange/mesh_impl.h"

#include "common/base/xalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_MAX = 1 << 18, WORDS = PS_CODEC_VALUES };
static const double scale = 1e8;

typedef struct ccdc_state {
    uint32_t r;
    size_t length;    /* L */
    uint32_t pieces;  /* packets of a segment */
    uint32_t groups;  /* that this node is in */
    uint32_t *member; /* (groups, r + 1), ascending */
    uint32_t *number; /* (groups): among all groups */
    uint8_t *have;    /* (groups, r + 1, pieces): by the one who says it */
    size_t left;      /* of those, not there yet */
    int32_t *own;     /* (held, n): fixed point */
    int64_t *sum;     /* (n) */
} ccdc_state;

static ccdc_state *state_of(const ps_mesh_node *node)
{
    return node->state;
}

/* C(n, k), or more than `limit` if it is more. */
static uint64_t choose(uint32_t n, uint32_t k, uint64_t limit)
{
    uint64_t c = 1;

    if (k > n) {
        return 0;
    }
    for (uint32_t i = 1; i <= k && c <= limit; i++) {
        c = c * (n - k + i) / i;
    }
    return c;
}

/* The next subset of k of n in lexicographic order; false: it was the last. */
static bool next_subset(uint32_t *s, uint32_t n, uint32_t k)
{
    for (uint32_t i = k; i-- > 0;) {
        if (s[i] < n - k + i) {
            s[i]++;
            for (uint32_t j = i + 1; j < k; j++) {
                s[j] = s[j - 1] + 1;
            }
            return true;
        }
    }
    return false;
}

static bool are_all_subsets(const ps_assignment *a)
{
    uint32_t *s = ps_xcalloc(a->redundancy, sizeof *s), b = 0;
    bool is_same = choose(a->workers, a->redundancy, PS_BLOCKS_MAX) == a->block_count;

    for (uint32_t i = 0; i < a->redundancy; i++) {
        s[i] = i;
    }
    while (is_same && b < a->block_count) {
        is_same = memcmp(s, a->holders + (size_t)b * a->redundancy, a->redundancy * sizeof *s) == 0;
        is_same = next_subset(s, a->workers, a->redundancy) == (++b < a->block_count) && is_same;
    }
    free(s);
    return is_same;
}

static ps_status check(const ps_mesh_conf *conf)
{
    const ps_assignment *a = conf->assignment;
    uint64_t groups = choose(a->workers, a->redundancy + 1, GROUPS_MAX);

    for (uint32_t p = 0; p < conf->part_count; p++) {
        const ps_mesh_codec *up = &conf->parts[p].up;

        if (!ps_codec_is_plain(up->codec, &up->params)) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "says fixed-point numbers, so codec %s of %s cannot be used: f32 is "
                           "allowed",
                           up->codec->name, conf->parts[p].name);
        }
    }
    if (!are_all_subsets(a)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "it needs a block for every %u of the %u workers: assignment iid is "
                       "allowed",
                       a->redundancy, a->workers);
    }
    if (groups * (a->redundancy + 1) > GROUPS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%u workers with redundancy %u would say more than %d multicasts",
                       a->workers, a->redundancy, GROUPS_MAX);
    }
    return ps_ok();
}

static bool is_in(const uint32_t *group, uint32_t count, uint32_t node)
{
    for (uint32_t i = 0; i < count; i++) {
        if (group[i] == node) {
            return true;
        }
    }
    return false;
}

static void init(ps_mesh_node *node)
{
    const ps_assignment *a = node->conf.assignment;
    ccdc_state *s = state_of(node);
    uint32_t k = a->redundancy + 1, number = 0;
    uint64_t most = choose(node->nodes - 1, a->redundancy, GROUPS_MAX);
    uint32_t *group = ps_xcalloc(k, sizeof *group);

    s->r = a->redundancy;
    s->length = (node->conf.n + s->r - 1) / s->r;
    s->pieces = (uint32_t)((s->length + WORDS - 1) / WORDS);
    s->member = ps_xcalloc(most * k + 1, sizeof *s->member);
    s->number = ps_xcalloc(most + 1, sizeof *s->number);
    for (uint32_t i = 0; i < k; i++) {
        group[i] = i;
    }
    while (k <= node->nodes) {
        if (is_in(group, k, node->conf.self)) {
            memcpy(s->member + (size_t)s->groups * k, group, k * sizeof *group);
            s->number[s->groups++] = number;
        }
        number++;
        if (!next_subset(group, node->nodes, k)) {
            break;
        }
    }
    free(group);
    s->have = ps_xcalloc((size_t)s->groups * k * s->pieces + 1, 1);
    s->own = ps_xcalloc(a->held_count[node->conf.self] * node->conf.n + 1, sizeof *s->own);
    s->sum = ps_xcalloc(node->conf.n, sizeof *s->sum);
}

static void fini(ps_mesh_node *node)
{
    ccdc_state *s = state_of(node);

    free(s->member);
    free(s->number);
    free(s->have);
    free(s->own);
    free(s->sum);
}

/* The block of all members but one: its place among those held by this node. */
static uint32_t held_without(const ps_mesh_node *node, const uint32_t *group, uint32_t without)
{
    const ps_assignment *a = node->conf.assignment;
    const ccdc_state *s = state_of(node);
    uint32_t low = 0, high = a->held_count[node->conf.self] - 1;

    while (low < high) { /* they are in lexicographic order */
        uint32_t middle = (low + high) / 2;
        const uint32_t *holders = mesh_holders(node, a->held[node->conf.self][middle]);
        int order = 0;

        for (uint32_t i = 0, h = 0; i <= s->r && order == 0; i++) {
            if (group[i] != without) {
                order = (holders[h] > group[i]) - (holders[h] < group[i]);
                h++;
            }
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Place of a member among the others when one is left out. */
static uint32_t place_without(const uint32_t *group, uint32_t member, uint32_t without)
{
    uint32_t place = 0;

    for (uint32_t i = 0; group[i] != member; i++) {
        place += group[i] != without;
    }
    return place;
}

static uint32_t words_of(const ccdc_state *s, uint32_t piece)
{
    size_t left = s->length - (size_t)piece * WORDS;

    return left < WORDS ? (uint32_t)left : WORDS;
}

/* words ^= a piece of a segment of a held block; zeros beyond its end. */
static void mix(const ps_mesh_node *node, uint32_t held, uint32_t segment, uint32_t piece,
                uint32_t *words)
{
    const ccdc_state *s = state_of(node);
    const int32_t *from = s->own + (size_t)held * node->conf.n;
    size_t at = segment * s->length + (size_t)piece * WORDS;
    size_t left = at < node->conf.n ? node->conf.n - at : 0;
    size_t count = words_of(s, piece);

    count = left < count ? left : count;
    for (size_t i = 0; i < count; i++) {
        words[i] ^= (uint32_t)from[at + i];
    }
}

/* For speaker k of a group: all its parts but that which is `unknown`'s to have. */
static void mix_all(const ps_mesh_node *node, const uint32_t *group, uint32_t k, uint32_t unknown,
                    uint32_t piece, uint32_t *words)
{
    for (uint32_t i = 0; i <= state_of(node)->r; i++) {
        uint32_t j = group[i];

        if (j != k && j != unknown) {
            mix(node, held_without(node, group, j), place_without(group, k, j), piece, words);
        }
    }
}

/* A whole number, if it is one that fits. */
static double fixed_of(float x)
{
    const double magic = 0x1.8p52; /* added and taken off: rounds to nearest even below 2^51 */

    return ((double)x * scale + magic) - magic;
}

static bool fits(double q)
{
    return fabs(q) <= 2147483647.0; /* not NaN either */
}

/* The first value that does not fit; n: all do. */
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

static ps_status to_fixed(ps_mesh_node *node)
{
    const ps_assignment *a = node->conf.assignment;
    ccdc_state *s = state_of(node);
    size_t n = node->conf.n;

    for (uint32_t b = 0; b < a->held_count[node->conf.self]; b++) {
        const float *x = node->blocks[b];
        size_t bad = fix(x, n, s->own + b * n, s->sum);

        if (bad < n) {
            return ps_fail(PS_OUT_OF_RANGE,
                           "value %zu of block %u is %g; ccdc's fixed point says -21.47 to 21.47",
                           bad, a->held[node->conf.self][b], (double)x[bad]);
        }
    }
    return ps_ok();
}

static ps_status start(ps_mesh_node *node)
{
    ccdc_state *s = state_of(node);
    uint32_t k = s->r + 1, self = node->conf.self;
    uint32_t *targets, words[WORDS];
    ps_status st;

    memset(s->sum, 0, node->conf.n * sizeof *s->sum);
    memset(s->have, 0, (size_t)s->groups * k * s->pieces);
    s->left = (size_t)s->groups * s->r * s->pieces;
    st = to_fixed(node);
    targets = ps_xcalloc(k, sizeof *targets);
    for (uint32_t g = 0; g < s->groups && ps_is_ok(&st); g++) {
        const uint32_t *group = s->member + (size_t)g * k;
        uint32_t count = 0;

        for (uint32_t i = 0; i < k; i++) {
            targets[count] = group[i];
            count += group[i] != self;
        }
        for (uint32_t piece = 0; piece < s->pieces; piece++) {
            size_t bytes = words_of(s, piece) * sizeof words[0];
            ps_packet *packet = mesh_packet(node, s->number[g], piece, bytes);

            memset(words, 0, bytes);
            mix_all(node, group, self, self, piece, words);
            memcpy(packet->bytes, words, bytes);
            packet->len = bytes;
            packet->n = words_of(s, piece);
            mesh_say(node, packet, targets, count);
        }
    }
    free(targets);
    return st;
}

/* The group of that number, or NULL if this node is not in it. */
static const uint32_t *find_group(const ccdc_state *s, uint32_t number, uint32_t *at)
{
    uint32_t low = 0, high = s->groups;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (s->number[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *at = low;
    return low < s->groups && s->number[low] == number ? s->member + (size_t)low * (s->r + 1)
                                                       : NULL;
}

static ps_status take(ps_mesh_node *node, ps_packet *packet)
{
    ccdc_state *s = state_of(node);
    uint32_t at, words[WORDS], speaker = 0, count, piece = packet->piece;
    const uint32_t *group = find_group(s, packet->what, &at);
    size_t first;
    uint8_t *have;

    if (group == NULL || piece >= s->pieces || !is_in(group, s->r + 1, packet->from)) {
        return ps_fail(PS_INVALID_ARGUMENT, "group %u, part %u from worker %u: not for worker %u",
                       packet->what, piece, packet->from, node->conf.self);
    }
    while (group[speaker] != packet->from) {
        speaker++;
    }
    have = &s->have[((size_t)at * (s->r + 1) + speaker) * s->pieces + piece];
    count = words_of(s, piece);
    if (*have) {
        node->counters.duplicates++;
        return ps_ok();
    }
    if (packet->len != count * sizeof words[0]) {
        return ps_fail(PS_DATA_LOSS, "group %u, part %u: %zu bytes, not %zu", packet->what, piece,
                       packet->len, count * sizeof words[0]);
    }
    memcpy(words, packet->bytes, packet->len);
    mix_all(node, group, packet->from, node->conf.self, piece, words);
    first = place_without(group, packet->from, node->conf.self) * s->length + (size_t)piece * WORDS;
    for (uint32_t i = 0; i < count; i++) {
        if (first + i >= node->conf.n && words[i] != 0) {
            return ps_fail(PS_DATA_LOSS,
                           "group %u, part %u from worker %u: what pads it is not zero: holders "
                           "of a block differ",
                           packet->what, piece, packet->from);
        }
    }
    for (uint32_t i = 0; i < count && first + i < node->conf.n; i++) {
        s->sum[first + i] += (int32_t)words[i];
    }
    node->counters.values_taken += count;
    *have = 1;
    s->left--;
    return ps_ok();
}

static bool is_done(const ps_mesh_node *node)
{
    return state_of(node)->left == 0;
}

static void finish(ps_mesh_node *node, float *sum)
{
    for (size_t i = 0; i < node->conf.n; i++) {
        sum[i] = (float)((double)state_of(node)->sum[i] / scale);
    }
}

static void missing(const ps_mesh_node *node, bool *peers)
{
    const ccdc_state *s = state_of(node);
    size_t k = s->r + 1;

    for (size_t i = 0; i < s->groups * k; i++) {
        for (uint32_t piece = 0; piece < s->pieces; piece++) {
            if (s->member[i] != node->conf.self && !s->have[i * s->pieces + piece]) {
                peers[s->member[i]] = true;
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
    .missing = missing,
};
