/* SPDX-License-Identifier: Apache-2.0 */
/* candidates.c - see candidates.h. */
#include "common/rpc/candidates.h"

#include <stdio.h>
#include <string.h>

/* Times in microseconds. A call to a coordinator that refuses connections fails at once, so such a
 * coordinator may be tried again soon. One that let a call wait in vain may do so again, and is
 * left alone for as long as the default lease of a leader. */
static const int64_t shun_us = 300000, shun_waited_us = 2000000;
/* Least time between two calls to one coordinator. */
static const int64_t again_us = 100000;

static const int64_t long_ago_us = INT64_MIN / 2;

static void set(ps_candidate *one, const char *address, size_t n)
{
    snprintf(one->address, sizeof one->address, "%.*s", (int)n, address);
    one->shunned_until_us = one->failed_us = long_ago_us;
}

void ps_candidates_init(ps_candidates *c, const char *list)
{
    *c = (ps_candidates){0};
    while (c->count < PS_CANDIDATES_MAX && list[0] != '\0') {
        size_t n = strcspn(list, ",");

        set(&c->all[c->count++], list, n);
        list += n + (list[n] == ',');
    }
}

const char *ps_candidates_address(const ps_candidates *c)
{
    return c->all[c->at].address;
}

bool ps_candidates_has_others(const ps_candidates *c)
{
    return c->count > 1 || c->at == c->count;
}

bool ps_candidates_know(const ps_candidates *c, const char *address)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->all[i].address, address) == 0) {
            return true;
        }
    }
    return strcmp(ps_candidates_address(c), address) == 0;
}

/* Writes the leader's address that a refusal names to `out`. Returns false if it names none, or
 * the address is invalid. */
static bool find_leader(const ps_error *error, char out[PS_ADDRESS_TEXT_BYTES])
{
    for (size_t i = 0; i < error->meta_count; i++) {
        ps_address address;
        ps_status st;

        if (strcmp(error->meta[i].key, "leader") != 0) {
            continue;
        }
        st = ps_address_parse(error->meta[i].value, "", 0, &address);
        if (!ps_is_ok(&st) || address.host[0] == '\0' || address.port == 0) {
            return false;
        }
        ps_address_format(&address, out);
        return true;
    }
    return false;
}

/* Returns the index of `address`, which takes the place outside the list if the list lacks it. */
static size_t index_of(ps_candidates *c, const char *address)
{
    size_t i = 0;

    while (i < c->count && strcmp(c->all[i].address, address) != 0) {
        i++;
    }
    if (i == c->count && strcmp(c->all[i].address, address) != 0) {
        set(&c->all[i], address, strlen(address));
    }
    return i;
}

/* Returns the next index of the list whose coordinator is neither shunned nor the present one. If
 * there is none: the present index if `may_stay`, else the next that is not the present one. */
static size_t next_of_list(const ps_candidates *c, bool may_stay, int64_t now_us)
{
    size_t other = c->at;

    for (size_t step = c->count; step > 0; step--) {
        size_t i = (c->turn + step) % c->count;

        if (i != c->at) {
            other = i;
        }
    }
    for (size_t step = 1; step <= c->count; step++) {
        size_t i = (c->turn + step) % c->count;

        if (i != c->at && now_us >= c->all[i].shunned_until_us) {
            return i;
        }
    }
    return may_stay ? c->at : other;
}

/* Points to index i. */
static ps_next go_to(ps_candidates *c, size_t i, int64_t now_us)
{
    bool is_other = i != c->at;

    c->at = i;
    c->turn = i < c->count ? i : c->turn;
    return is_other && now_us - c->all[i].failed_us >= again_us ? PS_NEXT_NOW : PS_NEXT_SOON;
}

ps_next ps_candidates_failed(ps_candidates *c, const ps_error *error, int64_t now_us)
{
    bool is_refusal = strcmp(error->reason, "NOT_LEADER") == 0;
    bool has_waited =
        error->status.code == PS_DEADLINE_EXCEEDED || strcmp(error->reason, "UNREACHABLE") == 0;
    ps_candidate *present = &c->all[c->at];
    char leader[PS_ADDRESS_TEXT_BYTES];

    if (error->status.code != PS_UNAVAILABLE && error->status.code != PS_DEADLINE_EXCEEDED) {
        return PS_NEXT_NONE;
    }
    present->failed_us = now_us;
    present->shunned_until_us =
        is_refusal ? long_ago_us : now_us + (has_waited ? shun_waited_us : shun_us);
    if (is_refusal && find_leader(error, leader)) {
        size_t i = index_of(c, leader);

        /* One that names a leader will name the next one, too, as soon as there is one. */
        return go_to(c, now_us < c->all[i].shunned_until_us ? c->at : i, now_us);
    }
    if (!is_refusal && !ps_candidates_has_others(c)) {
        return PS_NEXT_NONE;
    }
    return go_to(c, next_of_list(c, is_refusal, now_us), now_us);
}
