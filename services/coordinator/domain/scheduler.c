/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler.c - chooses the nodes for a job, or says what it waits for. */
#include "services/coordinator/domain/scheduler.h"

#include "common/base/strbuf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NAMES_MAX = 5, /* a message names at most so many busy nodes, and as many of each other kind */
    /* as in known_nodes.c: a node that has missed so many heartbeats in a row is not chosen */
    MISSED_MAX = 3
};

static void take(ps_member *m, const ps_node_entry *node, uint32_t rank)
{
    *m = (ps_member){
        .role = node->role, .rank = rank, .rank_count = 1, .incarnation = node->incarnation};
    snprintf(m->id, sizeof m->id, "%s", node->id);
    snprintf(m->address, sizeof m->address, "%s", node->address);
}

/* The workers of a job are of two kinds, which do not stand in for each other. */
typedef struct kind {
    /* "": psgd's own workers; else programs of users that joined for the job of this title */
    const char *loop;
    uint32_t ranks, processes; /* processes: the most that these ranks take */
} kind;
enum { KINDS = 2 };

/* Splits the ranks of a job, and its processes, by kind: psgd's own first. Each kind that has ranks
 * gets at least one process. */
static void split(const Psgd__V1__JobSpec *spec, kind kinds[KINDS])
{
    bool is_foreign = spec->model != NULL && spec->model->n_foreign > 0;
    uint32_t programs = is_foreign ? spec->workers : spec->programs, own = spec->workers - programs,
             processes = ps_schedule_processes(spec), of_own;

    of_own = processes > programs ? processes - programs : 1;
    of_own = own == 0 ? 0 : of_own < own ? of_own : own;
    kinds[0] = (kind){.loop = "", .ranks = own, .processes = of_own};
    kinds[1] = (kind){.loop = spec->title,
                      .ranks = programs,
                      .processes = programs == 0 ? 0 : processes - of_own};
}

/* Returns whether a node has the role. A worker must also have registered with this `loop`, which
 * is that of a `kind`. */
static bool is_of(const ps_node_entry *node, Psgd__V1__NodeRole role, const char *loop)
{
    return node->role == role &&
           (role != PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER || strcmp(node->loop, loop) == 0);
}

void ps_schedule_count(const ps_nodes *nodes, int64_t now_us, ps_idle *out)
{
    *out = (ps_idle){0};
    for (size_t i = 0; i < nodes->count; i++) {
        const ps_node_entry *node = nodes->entries[i];

        if (ps_node_may_be_chosen(nodes, node, now_us) && node->loop[0] == '\0') {
            *(node->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ? &out->workers
                                                                  : &out->pservers) += 1;
        }
    }
}

uint32_t ps_schedule_processes(const Psgd__V1__JobSpec *spec)
{
    bool has_both = spec->programs > 0 && spec->programs < spec->workers;
    uint32_t processes = spec->worker_processes > 0 && spec->worker_processes < spec->workers
                             ? spec->worker_processes
                             : spec->workers;

    return has_both && processes < KINDS ? KINDS : processes;
}

/* Returns the least number of worker processes with which the job can begin or, if `is_after_loss`,
 * go on. */
static uint32_t least_processes(const Psgd__V1__JobSpec *spec, bool is_after_loss)
{
    uint32_t most = ps_schedule_processes(spec);

    if (spec->workers_min > 0) {
        return spec->workers_min < most ? spec->workers_min : most;
    }
    return is_after_loss ? 1 : most;
}

bool ps_schedule_may_fit(const ps_idle *idle, const Psgd__V1__JobSpec *spec)
{
    uint32_t least = least_processes(spec, false);
    kind kinds[KINDS];

    split(spec, kinds); /* idle->workers counts psgd's own workers only */
    least = kinds[0].processes < least ? kinds[0].processes : least;
    return least <= idle->workers && spec->pservers <= idle->pservers;
}

static void name_busy(ps_strbuf *text, unsigned *named, const ps_node_entry *node)
{
    if ((*named)++ < NAMES_MAX) {
        ps_strbuf_printf(text, "%s%s (job %s)", *named == 1 ? "; busy: " : ", ", node->id,
                         node->holder[0] ? node->holder : node->job_id);
    }
}

static void name_suspect(ps_strbuf *text, unsigned *named, const ps_node_entry *node)
{
    if ((*named)++ < NAMES_MAX) {
        ps_strbuf_printf(text, "%s%s (%s)", *named == 1 ? "; does not answer: " : ", ", node->id,
                         node->address);
    }
}

static void name_full(ps_strbuf *text, unsigned *named, const ps_node_entry *node)
{
    if ((*named)++ >= NAMES_MAX) {
        return;
    }
    ps_strbuf_printf(text, "%s%s", *named == 1 ? "; low disk: " : ", ", node->id);
    if (node->is_disk_low) {
        ps_strbuf_printf(text, " (%" PRIu64 " bytes free, its --min-free is %" PRIu64 ")",
                         node->disk_free_bytes, node->disk_needed_bytes);
    } else {
        ps_strbuf_puts(text, " (it had no room for the last job)");
    }
}

void ps_schedule_suspects(const ps_nodes *nodes, char *buf, size_t cap)
{
    size_t len = 0;
    unsigned named = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < nodes->count && named < NAMES_MAX; i++) {
        const ps_node_entry *node = nodes->entries[i];
        int n;

        if (!node->is_suspect) {
            continue;
        }
        n = snprintf(buf + len, cap - len, "%s%s", named++ ? ", " : "", node->id);
        if (n < 0 || len + (size_t)n >= cap) {
            return;
        }
        len += (size_t)n;
    }
}

/* Takes up to `want` nodes of a role that may be chosen now, workers only with this `loop`: those
 * that have missed fewer heartbeats first, then in the order of ids. Takes nodes that lacked
 * something for their last job only if there are fewer than `least` others. If there are fewer than
 * `least`, appends to `text` how many are needed, how many there are, and what the others do.
 * Returns the number of nodes taken. */
static uint32_t pick(const ps_nodes *nodes, Psgd__V1__NodeRole role, const char *loop,
                     uint32_t want, uint32_t least, int64_t now_us, ps_member *members,
                     ps_strbuf *text)
{
    uint32_t idle = 0, taken = 0, known = 0, silent = 0;
    ps_strbuf busy = {0}, suspects = {0}, full = {0};
    unsigned named = 0, suspected = 0, filled = 0;

    for (unsigned turn = 0; turn < 2 * MISSED_MAX; turn++) {
        bool of_short = turn >= MISSED_MAX;

        for (size_t i = 0; i < nodes->count; i++) {
            const ps_node_entry *node = nodes->entries[i];

            if (!is_of(node, role, loop) || !ps_node_may_be_chosen(nodes, node, now_us) ||
                ps_node_missed(nodes, node, now_us) != turn % MISSED_MAX ||
                ps_node_is_short(node, now_us) != of_short) {
                continue;
            }
            idle++;
            if (taken < (of_short ? least : want)) {
                take(&members[taken], node, taken);
                taken++;
            }
        }
    }
    for (size_t i = 0; i < nodes->count; i++) {
        const ps_node_entry *node = nodes->entries[i];

        if (!is_of(node, role, loop) || node->has_left) {
            continue;
        }
        known++;
        if (node->is_suspect) {
            name_suspect(&suspects, &suspected, node);
        } else if (!ps_node_is_alive(nodes, node, now_us) ||
                   ps_node_missed(nodes, node, now_us) >= MISSED_MAX) {
            silent++;
        } else if (!ps_node_is_idle(node)) {
            name_busy(&busy, &named, node);
        } else if (ps_node_lacks_room(node, now_us)) {
            name_full(&full, &filled, node);
        }
    }
    if (idle < least) {
        bool is_loop = loop[0] != '\0' && role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;

        ps_strbuf_printf(
            text, "%sneeds %" PRIu32 " %s%s%s%s, %" PRIu32 " idle of %" PRIu32 " known",
            text->len ? "; " : "", least, ps_role_name(role), least == 1 ? "" : "s",
            is_loop ? " whose programs have joined for " : "", is_loop ? loop : "", idle, known);
        if (silent > 0) {
            ps_strbuf_printf(text, ", %" PRIu32 " silent", silent);
        }
        ps_strbuf_puts(text, ps_strbuf_text(&busy));
        if (named > NAMES_MAX) {
            ps_strbuf_printf(text, " and %u more", named - NAMES_MAX);
        }
        ps_strbuf_puts(text, ps_strbuf_text(&suspects));
        if (suspected > NAMES_MAX) {
            ps_strbuf_printf(text, " and %u more", suspected - NAMES_MAX);
        }
        ps_strbuf_puts(text, ps_strbuf_text(&full));
        if (filled > NAMES_MAX) {
            ps_strbuf_printf(text, " and %u more", filled - NAMES_MAX);
        }
    }
    ps_strbuf_fini(&busy);
    ps_strbuf_fini(&suspects);
    ps_strbuf_fini(&full);
    return taken;
}

static const char *holder_of(const char *const *held, const char *address)
{
    for (size_t i = 0; held && held[i]; i += 2) {
        if (strcmp(held[i], address) == 0) {
            return held[i + 1];
        }
    }
    return NULL;
}

/* Takes `want` nodes of a role from those that the job names, in the job's order. Leaves out nodes
 * that another job holds and nodes without room on their disks. After a loss, also leaves out nodes
 * that are unknown or may not be chosen now. If fewer than `want` remain, appends to `text` which
 * were left out and why, and returns false. */
static bool pick_named(const ps_nodes *nodes, const ps_want *job, Psgd__V1__NodeRole role,
                       uint32_t want, const char *const *held, int64_t now_us, ps_member *members,
                       ps_strbuf *text)
{
    const Psgd__V1__JobSpec *spec = job->spec;
    uint32_t got = 0, named = 0;
    unsigned filled = 0, silent = 0;
    ps_strbuf busy = {0}, full = {0}, away = {0};

    for (size_t i = 0; i < spec->n_nodes && got < want; i++) {
        const Psgd__V1__NodeAddress *wanted = spec->nodes[i];
        const ps_node_entry *node;
        const char *holder;

        if (wanted->role != role) {
            continue;
        }
        node = ps_nodes_find_address(nodes, wanted->address, now_us);
        holder = node && node->holder[0] ? node->holder : holder_of(held, wanted->address);
        if (holder) {
            if (named++ < NAMES_MAX) {
                ps_strbuf_printf(&busy, "%s%s (job %s)", named == 1 ? "; busy: " : ", ",
                                 node ? node->id : wanted->address, holder);
            }
            continue;
        }
        if (node && ps_node_lacks_room(node, now_us)) {
            name_full(&full, &filled, node);
            continue;
        }
        if (job->is_after_loss && (!node || !ps_node_may_be_chosen(nodes, node, now_us))) {
            if (silent++ < NAMES_MAX) {
                ps_strbuf_printf(&away, "%s%s", silent == 1 ? "; not back yet: " : ", ",
                                 wanted->address);
            }
            continue;
        }
        /* The role is not compared with that of the registered node: a node of the other role
         * refuses CanCommit, and the error names it. */
        members[got] = (ps_member){.role = role, .rank = got, .rank_count = 1};
        snprintf(members[got].address, sizeof members[got].address, "%s", wanted->address);
        if (node) {
            snprintf(members[got].id, sizeof members[got].id, "%s", node->id);
            members[got].incarnation = node->incarnation;
        }
        got++;
    }
    if (got < want) {
        ps_strbuf_printf(text, "%sneeds %" PRIu32 " %s%s, %" PRIu32 " free of those named%s%s%s",
                         text->len ? "; " : "", want, ps_role_name(role), want == 1 ? "" : "s", got,
                         ps_strbuf_text(&busy), ps_strbuf_text(&full), ps_strbuf_text(&away));
    }
    ps_strbuf_fini(&away);
    ps_strbuf_fini(&full);
    ps_strbuf_fini(&busy);
    return got >= want;
}

/* Gives each process a run of neighbouring ranks from `first` on, the longer runs first. */
static void deal_ranks(ps_member *members, uint32_t processes, uint32_t first, uint32_t ranks)
{
    for (uint32_t i = 0; i < processes; i++) {
        members[i].rank = first;
        members[i].rank_count = ranks / processes + (i < ranks % processes);
        first += members[i].rank_count;
    }
}

/* Takes worker processes for a job that names no nodes, and deals the ranks to them. Adds their
 * number to *got. Returns whether they are enough. */
static bool pick_workers(const ps_nodes *nodes, const ps_want *want, int64_t now_us,
                         ps_member *members, uint32_t *got, ps_strbuf *text)
{
    uint32_t first = 0, least = least_processes(want->spec, want->is_after_loss);
    kind kinds[KINDS];
    bool fits = true;

    split(want->spec, kinds);
    for (uint32_t k = 0; k < KINDS; k++) {
        uint32_t needed = kinds[k].processes < least ? kinds[k].processes : least, n;

        n = pick(nodes, PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER, kinds[k].loop, kinds[k].processes,
                 needed, now_us, members + *got, text);
        deal_ranks(members + *got, n, first, kinds[k].ranks);
        first += kinds[k].ranks;
        *got += n;
        fits = fits && n >= needed;
    }
    return fits;
}

bool ps_schedule_job(const ps_nodes *nodes, const ps_want *want, const char *const *held,
                     int64_t now_us, ps_member *members, size_t *count, char *message, size_t cap)
{
    const Psgd__V1__NodeRole worker = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    const Psgd__V1__NodeRole pserver = PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER;
    const Psgd__V1__JobSpec *spec = want->spec;
    uint32_t processes = ps_schedule_processes(spec), servers = spec->pservers, got = 0,
             got_servers = servers, least = least_processes(spec, want->is_after_loss),
             least_servers = want->is_after_loss && servers > 0 ? 1 : servers;
    ps_strbuf text = {0};
    bool fits = true;

    if (spec->n_nodes > 0) {
        fits = pick_named(nodes, want, worker, processes, held, now_us, members, &text);
        fits =
            pick_named(nodes, want, pserver, servers, held, now_us, members + processes, &text) &&
            fits;
        got = processes;
        deal_ranks(members, got, 0, spec->workers);
    } else {
        fits = pick_workers(nodes, want, now_us, members, &got, &text);
        got_servers =
            pick(nodes, pserver, "", servers, least_servers, now_us, members + processes, &text);
        fits = fits && got_servers >= least_servers;
    }
    if (fits) {
        memmove(members + got, members + processes, got_servers * sizeof *members);
        *count = (size_t)got + got_servers;
    } else if (spec->workers_min > 0 && got < least) {
        snprintf(message, cap, "waits for %" PRIu32 " more worker%s (workers_min): %s", least - got,
                 least - got == 1 ? "" : "s", ps_strbuf_text(&text));
    } else {
        snprintf(message, cap, "%s", ps_strbuf_text(&text));
    }
    ps_strbuf_fini(&text);
    return fits;
}
