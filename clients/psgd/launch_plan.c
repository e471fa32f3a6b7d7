/* SPDX-License-Identifier: Apache-2.0 */
/* launch_plan.c - see launch_plan.h. */
#include "clients/psgd/launch_plan.h"

#include "common/base/address.h"
#include "common/base/files.h"
#include "common/base/scalar.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTFILE_MAX = 64 << 10, SLOTS_MAX = 256 };

/* The hosts, as indices of the plan's hosts, that get the services without a given place in turn. A
 * host occurs once for each of its slots. */
typedef struct deal {
    bool (*is_own)(const char *host);
    size_t host[PS_LAUNCH_SERVICES_MAX];
    size_t n, next;
} deal;

static bool is_here(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

/* Sets *index to that of the host `name` in the plan, which is added if it is new; 0: this host.
 * Refuses names that look like a flag, because ssh gets the name as an argument. */
static ps_status add_host(ps_launch_plan *plan, const deal *d, const char *what, const char *name,
                          size_t *index)
{
    size_t n = strlen(name);

    if (is_here(name) || (d->is_own != NULL && d->is_own(name))) {
        *index = 0;
        return ps_ok();
    }
    if (n == 0 || n >= PS_LAUNCH_HOST_BYTES || name[0] == '-' ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@:") != n) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s: host \"%s\": 1 to %d of A-Z a-z 0-9 . _ - @ : are allowed, as in "
                       "\"node1\" or \"me@node1\"",
                       PS_SHORT(what, 40), PS_SHORT(name, 40), PS_LAUNCH_HOST_BYTES - 1);
    }
    for (size_t i = 1; i < plan->n_hosts; i++) {
        if (strcmp(plan->hosts[i], name) == 0) {
            *index = i;
            return ps_ok();
        }
    }
    if (plan->n_hosts == PS_LAUNCH_HOSTS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: %d hosts are allowed", PS_SHORT(what, 40),
                       PS_LAUNCH_HOSTS_MAX - 1);
    }
    memcpy(plan->hosts[plan->n_hosts], name, n + 1);
    *index = plan->n_hosts++;
    return ps_ok();
}

static ps_status deal_to(ps_launch_plan *plan, deal *d, const char *what, const char *name,
                         uint64_t slots)
{
    size_t host = 0;
    ps_status st = add_host(plan, d, what, name, &host);

    for (uint64_t i = 0; ps_is_ok(&st) && i < slots && d->n < PS_LAUNCH_SERVICES_MAX; i++) {
        d->host[d->n++] = host;
    }
    return st;
}

/* Copies the next entry of the list at *at to `out` (cap bytes, so it may be cut), without spaces
 * around it, and moves *at behind it. Returns false at the end of the list, or if the entry has
 * only spaces. */
static bool next_entry(const char **at, const char *separators, char *out, size_t cap)
{
    const char *text = *at;
    size_t n;

    text += strspn(text, separators);
    text += strspn(text, " \t");
    n = strcspn(text, separators);
    *at = text + n;
    while (n > 0 && isspace((unsigned char)text[n - 1])) {
        n--;
    }
    snprintf(out, cap, "%.*s", (int)(n < cap ? n : cap - 1), text);
    return n > 0;
}

uint64_t ps_launch_list_length(const char *list)
{
    char entry[PS_ADDRESS_TEXT_BYTES];
    uint64_t n = 0;

    while (list != NULL && next_entry(&list, ",", entry, sizeof entry)) {
        n++;
    }
    return n;
}

static ps_status take_hosts(ps_launch_plan *plan, deal *d, const char *list)
{
    char entry[PS_ADDRESS_TEXT_BYTES];
    ps_status st = ps_ok();

    while (ps_is_ok(&st) && next_entry(&list, ",", entry, sizeof entry)) {
        st = deal_to(plan, d, "--hosts", entry, 1);
    }
    return st;
}

/* Reads a line "HOST [slots=N]" of a hostfile, and gives the host N slots, 1 without N. Ignores
 * what follows a '#', and a line without a host. */
static ps_status take_host_line(ps_launch_plan *plan, deal *d, const char *what, char *line)
{
    char *name, *more, *rest;
    int64_t slots = 1;

    line[strcspn(line, "#")] = '\0';
    name = strtok_r(line, " \t\r", &rest);
    more = name != NULL ? strtok_r(NULL, " \t\r", &rest) : NULL;
    if (name == NULL) {
        return ps_ok();
    }
    if (more != NULL && (strncmp(more, "slots=", 6) != 0 || !ps_scalar_int(more + 6, &slots) ||
                         slots < 1 || slots > SLOTS_MAX)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s: \"%s\": slots=1 to slots=%d is allowed after a "
                       "host",
                       PS_SHORT(what, 40), PS_SHORT(more, 40), SLOTS_MAX);
    }
    return deal_to(plan, d, what, name, (uint64_t)slots);
}

static ps_status take_hostfile(ps_launch_plan *plan, deal *d, const char *path)
{
    char *text = NULL, *line, *rest = NULL, what[PS_NAME_MAX];
    size_t n = 0;
    ps_status st = ps_file_read(path, HOSTFILE_MAX, &text, &n);

    snprintf(what, sizeof what, "--hostfile %s", PS_SHORT(path, 80));
    for (line = ps_is_ok(&st) ? strtok_r(text, "\n", &rest) : NULL; line != NULL && ps_is_ok(&st);
         line = strtok_r(NULL, "\n", &rest)) {
        st = take_host_line(plan, d, what, line);
    }
    free(text);
    if (ps_is_ok(&st) && d->n == 0) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "%s: names no host; a line is \"HOST\" or \"HOST "
                     "slots=N\"",
                     what);
    }
    return ps_is_ok(&st) ? st : ps_wrap(st, "--hostfile");
}

static void add_place(ps_launch_plan *plan, ps_launch_role role, unsigned number, size_t host,
                      uint16_t port)
{
    plan->places[plan->n_places++] =
        (ps_launch_place){.role = role, .number = number, .host = host, .port = port};
}

/* Adds `count` services of a role to the plan: at the places in `list`, or, if that is NULL, on the
 * hosts in turn. Fails if the list has another number of places. */
static ps_status add_role(ps_launch_plan *plan, deal *d, ps_launch_role role, uint64_t count,
                          const char *what, const char *list)
{
    char entry[PS_ADDRESS_TEXT_BYTES];
    ps_status st = ps_ok();

    if (list != NULL && ps_launch_list_length(list) != count) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: has %llu places for %llu processes of the job",
                       what, (unsigned long long)ps_launch_list_length(list),
                       (unsigned long long)count);
    }
    for (unsigned i = 0; i < count && ps_is_ok(&st); i++) {
        ps_address at = {.port = 0};
        size_t host = 0;

        if (list == NULL) {
            host = d->n > 0 ? d->host[d->next++ % d->n] : 0;
        } else {
            (void)next_entry(&list, ",", entry, sizeof entry);
            st = ps_wrap(ps_address_parse(entry, "", 0, &at), "%s", what);
            if (ps_is_ok(&st)) {
                st = add_host(plan, d, what, at.host, &host);
            }
        }
        add_place(plan, role, i, host, at.port);
    }
    return st;
}

ps_status ps_launch_plan_make(const ps_launch_wish *wish, ps_launch_plan *out)
{
    deal *d = calloc(1, sizeof *d);
    ps_status st = ps_ok();

    *out = (ps_launch_plan){.n_hosts = 1};
    snprintf(out->hosts[0], sizeof out->hosts[0], "localhost");
    add_place(out, PS_LAUNCH_COORDINATOR, 0, 0, 0);
    if (d == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    d->is_own = wish->is_own;
    if (wish->workers + wish->pservers > PS_LAUNCH_SERVICES_MAX || wish->workers == 0) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "%llu workers and %llu servers: 1 worker or more, and %d processes at most "
                     "are allowed",
                     (unsigned long long)wish->workers, (unsigned long long)wish->pservers,
                     PS_LAUNCH_SERVICES_MAX);
    } else if (wish->hosts != NULL && wish->hostfile != NULL) {
        st = ps_fail(PS_INVALID_ARGUMENT, "--hosts and --hostfile exclude each other");
    } else if (wish->hosts != NULL) {
        st = take_hosts(out, d, wish->hosts);
    } else if (wish->hostfile != NULL) {
        st = take_hostfile(out, d, wish->hostfile);
    }
    if (ps_is_ok(&st) && wish->hosts != NULL && d->n == 0) {
        st = ps_fail(PS_INVALID_ARGUMENT, "--hosts: names no host");
    }
    if (ps_is_ok(&st)) {
        st = add_role(out, d, PS_LAUNCH_PSERVER, wish->pservers, "--servers", wish->server_places);
    }
    if (ps_is_ok(&st)) {
        st = add_role(out, d, PS_LAUNCH_WORKER, wish->workers, "--worker-endpoints",
                      wish->worker_places);
    }
    free(d);
    return st;
}

const char *ps_launch_name(const ps_launch_place *place, char out[PS_LAUNCH_NAME_BYTES])
{
    static const char *const names[] = {"coordinator", "pserver", "worker"};

    if (place->role == PS_LAUNCH_COORDINATOR) {
        snprintf(out, PS_LAUNCH_NAME_BYTES, "%s", names[place->role]);
    } else {
        snprintf(out, PS_LAUNCH_NAME_BYTES, "%s-%u", names[place->role], place->number);
    }
    return out;
}

const char *ps_launch_log(const ps_launch_place *place, char out[PS_LAUNCH_NAME_BYTES])
{
    static const char *const names[] = {"coordinatorlog", "serverlog", "workerlog"};

    if (place->role == PS_LAUNCH_COORDINATOR) {
        snprintf(out, PS_LAUNCH_NAME_BYTES, "%s", names[place->role]);
    } else {
        snprintf(out, PS_LAUNCH_NAME_BYTES, "%s.%u", names[place->role], place->number);
    }
    return out;
}

const char *ps_launch_program(ps_launch_role role)
{
    static const char *const names[] = {"psgd-coordinator", "psgd-pserver", "psgd-worker"};

    return names[role];
}
