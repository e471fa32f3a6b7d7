/* SPDX-License-Identifier: Apache-2.0 */
/* commit_blame.c - decides which node is to blame when nodes give up waiting for others.
 *
 * A worker that gives up names the nodes for which it waits, but these may be waiting too. The
 * node that holds up all of them follows from what all nodes report (waits.h) and from which
 * nodes are silent.
 */
#include "services/coordinator/domain/commit_impl.h"

#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ps_commit_init_waits(ps_commit *c)
{
    uint32_t workers = 0, servers = 0;

    for (size_t i = 0; i < c->count; i++) {
        if (c->members[i].role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER) {
            workers += c->members[i].rank_count;
        } else {
            servers++;
        }
    }
    ps_waits_init(&c->who_waits, workers, servers);
}

/* Returns the vertex of a member's first rank in the graph of waits. Writes the number of its ranks
 * to *count; 0 if one of them lies outside the graph, which happens if the placements of a registry
 * leave gaps between ranks. */
static uint32_t vertex_of(const ps_commit *c, const ps_member *m, uint32_t *count)
{
    const ps_waits *w = &c->who_waits;
    bool is_worker = m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    uint32_t n = is_worker ? w->workers : w->servers, has = is_worker ? m->rank_count : 1;

    *count = m->rank <= n && has <= n - m->rank ? has : 0;
    return is_worker ? m->rank : w->workers + m->rank;
}

void ps_commit_waits(ps_commit *c, size_t node, uint32_t rank, const uint32_t *servers,
                     size_t n_servers, const uint32_t *workers, size_t n_workers)
{
    const ps_member *m = &c->members[node];
    uint32_t count, first = vertex_of(c, m, &count);

    if (!m->is_lost && rank >= m->rank && rank - m->rank < count) {
        ps_waits_set(&c->who_waits, first + (rank - m->rank), servers, n_servers, workers,
                     n_workers);
    }
}

/* Returns whether the member is silent now, for silent_us or longer, or was silent for
 * conf.silent_us or longer until some time after the first node gave up. */
static bool is_silent(const ps_commit *c, const ps_member *m, int64_t silent_us, int64_t now_us)
{
    return now_us - m->seen_us >= silent_us ||
           (c->blame_us != INT64_MAX && m->pause_end_us >= c->blame_us - c->conf.lease_us);
}

/* Writes into is_root (count) which members hold up others: one of their ranks is a root of the
 * graph (waits.h). What a member waits for counts if the member has given up or is not silent
 * (is_silent). Returns whether there is such a member. */
static bool find_roots(const ps_commit *c, int64_t silent_us, int64_t now_us, bool *is_root)
{
    uint32_t n = c->who_waits.workers + c->who_waits.servers, count;
    bool *flags = ps_xcalloc(3 * (size_t)n + 1, sizeof *flags);
    bool *silent = flags, *gone = flags + n, *roots = flags + 2 * (size_t)n;
    bool any = false;

    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];

        for (uint32_t v = vertex_of(c, m, &count), end = v + count; v < end; v++) {
            silent[v] = !m->is_blamed && is_silent(c, m, silent_us, now_us);
            gone[v] = m->is_lost;
        }
    }
    (void)ps_waits_find_roots(&c->who_waits, silent, gone, roots);
    for (size_t i = 0; i < c->count; i++) {
        is_root[i] = false;
        for (uint32_t v = vertex_of(c, &c->members[i], &count), end = v + count; v < end; v++) {
            is_root[i] = is_root[i] || roots[v];
        }
        any = any || is_root[i];
    }
    free(flags);
    return any;
}

/* Marks as culprits the members that hold up others, unless some are marked already. Does not mark
 * a member that is lost, or one that gave up itself: that one fails with its own error. */
static void find_culprits(ps_commit *c, int64_t now_us)
{
    bool *is_root = ps_xcalloc(c->count, sizeof *is_root);

    for (size_t i = 0; i < c->count && !c->has_culprit; i++) {
        c->has_culprit = c->members[i].is_culprit;
    }
    if (!c->has_culprit && find_roots(c, c->conf.silent_us, now_us, is_root)) {
        for (size_t i = 0; i < c->count; i++) {
            ps_member *m = &c->members[i];

            m->is_culprit = is_root[i] && !m->is_blamed && !m->is_lost;
            c->has_culprit = c->has_culprit || m->is_culprit;
        }
    }
    free(is_root);
}

void ps_commit_take_failure(ps_commit *c, size_t node, const ps_status *error, int64_t now_us)
{
    ps_member *m = &c->members[node];
    bool blames_others =
        !m->has_diverged && (error->code == PS_UNAVAILABLE || error->code == PS_DEADLINE_EXCEEDED ||
                             error->code == PS_ABORTED);

    m->error = *error;
    m->step = PS_MEMBER_OVER;
    if (!blames_others) {
        ps_commit_lose(c, node, "NODE_FAILED", error->text, now_us);
        return;
    }
    m->is_blamed = true;
    if (c->blame_us == INT64_MAX) {
        c->blame_us = now_us + c->conf.lease_us;
        for (size_t i = 0; i < c->count; i++) {
            c->members[i].beats = 0;
        }
    }
    find_culprits(c, now_us);
}

/* Writes why a culprit holds up the others, as in "no heartbeat for 2.3 s"; "": it is not known. */
static void explain(const ps_commit *c, const ps_member *m, int64_t now_us, char *why, size_t cap)
{
    why[0] = '\0';
    if (now_us - m->seen_us >= c->conf.silent_us) {
        snprintf(why, cap, "no heartbeat for %.1f s", (double)(now_us - m->seen_us) / 1e6);
    } else if (is_silent(c, m, c->conf.silent_us, now_us)) {
        snprintf(why, cap, "no heartbeat for %.1f s until %.1f s ago", (double)m->pause_us / 1e6,
                 (double)(now_us - m->pause_end_us) / 1e6);
    }
}

/* Returns the member whose error stands for those of all members that gave up; NULL: none has. It
 * is one of two that wait for each other, as at both ends of a broken connection; if no two do, the
 * first that gave up in the order of members. */
static const ps_member *find_speaker(const ps_commit *c)
{
    const ps_member *first = NULL;
    uint32_t count;

    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];

        if (!m->is_blamed || m->is_lost) {
            continue;
        }
        first = first != NULL ? first : m;
        for (uint32_t v = vertex_of(c, m, &count), end = v + count; v < end; v++) {
            if (ps_waits_is_mutual(&c->who_waits, v)) {
                return m;
            }
        }
    }
    return first;
}

/* Returns whether the attempt can go on without the culprits: the policy survives a loss, no
 * culprit is a server, and a worker remains that is no culprit and has not given up. */
static bool can_spare(const ps_commit *c)
{
    bool has_other = false;

    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];
        bool is_worker = m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;

        if (m->is_culprit && !m->is_lost && !is_worker) {
            return false;
        }
        has_other = has_other || (is_worker && !m->is_lost && !m->is_blamed && !m->is_culprit);
    }
    return c->conf.survives_loss && has_other;
}

/* Handles the culprits: loses them if can_spare() allows it, and the attempt goes on; else ends the
 * attempt because of them. */
static void accuse(ps_commit *c, int64_t now_us)
{
    char what[PS_COMMIT_MESSAGE_MAX] = "";
    const ps_member *speaker = find_speaker(c);
    bool spares = can_spare(c);
    bool of_workers = false, of_servers = false;
    size_t len = 0;

    for (size_t i = 0; i < c->count; i++) {
        ps_member *m = &c->members[i];
        char why[60], one[400];

        if (!m->is_culprit || m->is_lost) {
            continue;
        }
        ps_commit_note_role(m, &of_workers, &of_servers);
        m->is_culprit = !spares;
        explain(c, m, now_us, why, sizeof why);
        if (spares) {
            ps_commit_lose(c, i, "NODE_STALLED", why, now_us);
        } else if (len < sizeof what) {
            ps_commit_describe_loss(m, "NODE_STALLED", why, one, sizeof one);
            len += (size_t)snprintf(what + len, sizeof what - len, "%s%s", len ? "; " : "", one);
        }
    }
    if (!spares && speaker != NULL) {
        ps_commit_decide_loss(c, of_workers, of_servers, "NODE_STALLED", now_us,
                              "%.300s; %s failed: %s", what, ps_member_name(speaker).text,
                              speaker->error.text);
        ps_commit_settle(c, now_us);
    }
}

/* Returns whether every member that is not lost and has not given up has sent at least two
 * heartbeats since the first node gave up. */
static bool all_were_heard(const ps_commit *c)
{
    for (size_t i = 0; i < c->count; i++) {
        if (!c->members[i].is_lost && !c->members[i].is_blamed && c->members[i].beats < 2) {
            return false;
        }
    }
    return true;
}

void ps_commit_settle_blame(ps_commit *c, int64_t now_us)
{
    const ps_member *speaker;

    if (c->blame_us == INT64_MAX || c->stage != PS_STAGE_GOING) {
        return;
    }
    find_culprits(c, now_us);
    if (!all_were_heard(c) && now_us < c->blame_us) {
        return;
    }
    if (c->has_culprit) {
        accuse(c, now_us);
    }
    c->has_culprit = false;
    c->blame_us = INT64_MAX;
    while (c->stage == PS_STAGE_GOING && (speaker = find_speaker(c)) != NULL) {
        size_t i = (size_t)(speaker - c->members);

        c->members[i].is_blamed = false;
        ps_commit_lose(c, i, "NODE_FAILED", c->members[i].error.text, now_us);
    }
}

/* Returns the worker that carries the rank; NULL: none does. */
static ps_member *carrier_of(const ps_commit *c, uint32_t rank)
{
    for (size_t i = 0; i < c->count; i++) {
        ps_member *m = &c->members[i];

        if (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER && rank >= m->rank &&
            rank - m->rank < m->rank_count) {
            return m;
        }
    }
    return NULL;
}

void ps_commit_lied(ps_commit *c, size_t node, const char *why, int64_t now_us)
{
    ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_FAILED, "NODE_FAILED", now_us,
                     "%s failed: it says that it has finished, but %s",
                     ps_member_name(&c->members[node]).text, why);
    ps_commit_settle(c, now_us);
}

void ps_commit_accuse_missing(ps_commit *c, size_t server, int64_t now_us)
{
    uint32_t count, v = vertex_of(c, &c->members[server], &count);
    const ps_wait_list *list = &c->who_waits.of[v];

    for (uint32_t i = 0; count > 0 && i < list->count && c->stage == PS_STAGE_GOING; i++) {
        ps_member *m = list->whom[i] < c->who_waits.workers ? carrier_of(c, list->whom[i]) : NULL;
        char why[160];

        if (m != NULL && !m->is_lost) {
            snprintf(why, sizeof why, "contributions of its rank %u are missing on %s",
                     list->whom[i], c->members[server].id);
            ps_commit_lied(c, (size_t)(m - c->members), why, now_us);
        }
    }
}

/* Appends the id of a member, or its address if the id is not known, to the list in buf[0..cap). */
static void append(const ps_member *m, char *buf, size_t cap)
{
    size_t len = strlen(buf);

    snprintf(buf + len, cap - len, "%s%s", len > 0 ? ", " : "", m->id[0] ? m->id : m->address);
}

void ps_commit_name_roots(const ps_commit *c, int64_t now_us, char *buf, size_t cap)
{
    bool *is_root = ps_xcalloc(c->count, sizeof *is_root);
    bool any = find_roots(c, c->conf.late_us, now_us, is_root);

    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];

        if (any ? is_root[i] : !m->is_lost && now_us - m->seen_us >= c->conf.late_us) {
            append(m, buf, cap);
        }
    }
    free(is_root);
}
