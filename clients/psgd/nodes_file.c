/* SPDX-License-Identifier: Apache-2.0 */
/* nodes_file.c - see nodes_file.h. */
#include "clients/psgd/nodes_file.h"

#include "common/base/address.h"
#include "common/base/document.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ID_PSERVER = -2 };

typedef struct entry {
    Psgd__V1__NodeRole role;
    /* The nodes of a role are taken in the order of their ids. It is a worker's id in the file; for
     * servers, and in a file without ids, the position in the file or in the role's list. */
    json_int_t id;
    char address[PS_ADDRESS_TEXT_BYTES];
} entry;

typedef struct entries {
    entry *list; /* room for PS_NODES_FILE_MAX entries, of which n are set */
    size_t n;
} entries;

static ps_status add(entries *e, Psgd__V1__NodeRole role, json_int_t id, const json_t *address)
{
    bool is_worker = role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    const char *text = json_string_value(address);
    ps_address parsed;
    ps_status st;

    if (e->n == PS_NODES_FILE_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "more than %d nodes", PS_NODES_FILE_MAX);
    }
    if (text == NULL || text[0] == '\0') {
        return ps_fail(PS_INVALID_ARGUMENT, "entry %zu: the address is not a text", e->n);
    }
    st = ps_address_parse(text, "127.0.0.1",
                          is_worker ? PS_NODES_WORKER_PORT : PS_NODES_PSERVER_PORT, &parsed);
    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "entry %zu", e->n);
    }
    for (size_t i = 0; i < e->n; i++) {
        if (e->list[i].role == role && e->list[i].id == id) {
            return ps_fail(PS_INVALID_ARGUMENT, "entry %zu: id %lld occurs twice", e->n,
                           (long long)id);
        }
    }
    e->list[e->n].role = role;
    e->list[e->n].id = id;
    ps_address_format(&parsed, e->list[e->n++].address);
    return ps_ok();
}

static bool find_role(const json_t *json, Psgd__V1__NodeRole *out)
{
    const char *text = json_string_value(json);

    if (text == NULL) {
        return false;
    }
    if (strcasecmp(text, "worker") == 0) {
        *out = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
        return true;
    }
    *out = PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER;
    return strcasecmp(text, "ps") == 0 || strcasecmp(text, "pserver") == 0;
}

/* Adds the nodes of a role, whose address or list of addresses is `json`. */
static ps_status read_addresses(entries *e, Psgd__V1__NodeRole role, const json_t *json)
{
    ps_status st = ps_ok();

    if (!json_is_array(json)) {
        return add(e, role, 0, json);
    }
    for (size_t i = 0; i < json_array_size(json) && ps_is_ok(&st); i++) {
        st = add(e, role, (json_int_t)i, json_array_get(json, i));
    }
    return st;
}

static ps_status read_object(entries *e, const json_t *json)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)json, key, value)
    {
        Psgd__V1__NodeRole role;
        json_t *name = json_string(key);
        bool is_role = find_role(name, &role);
        ps_status st;

        json_decref(name);
        if (!is_role) {
            return ps_fail(PS_INVALID_ARGUMENT, "unknown key '%s'; allowed: PS, Worker",
                           PS_SHORT(key, 40));
        }
        st = read_addresses(e, role, value);
        if (!ps_is_ok(&st)) {
            return ps_wrap(st, "%s", PS_SHORT(key, 40));
        }
    }
    return ps_ok();
}

static ps_status read_row(entries *e, size_t i, const json_t *row)
{
    const json_t *first = json_array_get(row, 0);
    Psgd__V1__NodeRole role;

    if (json_array_size(row) == 2 && find_role(first, &role)) {
        return add(e, role, (json_int_t)i, json_array_get(row, 1));
    }
    if (json_array_size(row) == 3 && json_is_integer(first)) {
        json_int_t id = json_integer_value(first);

        /* All servers have this id in the file, so their positions in the file order them. */
        if (id == ID_PSERVER) {
            return add(e, PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER, (json_int_t)i,
                       json_array_get(row, 2));
        }
        if (id >= 0) {
            return add(e, PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER, id, json_array_get(row, 2));
        }
        return ps_fail(PS_INVALID_ARGUMENT,
                       "entry %zu: id is %lld; allowed: 0 and up, or %d for "
                       "the parameter server",
                       i, (long long)id, ID_PSERVER);
    }
    return ps_fail(PS_INVALID_ARGUMENT,
                   "entry %zu: is neither [role, address] with role PS or Worker, nor "
                   "[id, uuid, address]",
                   i);
}

static ps_status read_entries(entries *e, const json_t *json)
{
    if (json_is_object(json)) {
        return read_object(e, json);
    }
    if (!json_is_array(json)) {
        return ps_fail(PS_INVALID_ARGUMENT, "is neither an object nor a list");
    }
    for (size_t i = 0; i < json_array_size(json); i++) {
        ps_status st = read_row(e, i, json_array_get(json, i));

        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    return ps_ok();
}

static int by_role_and_id(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->role != y->role) {
        return x->role < y->role ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

/* Sets *out to the number of nodes of a role to take: `wanted`, or if that is 0 all of the file.
 * Fails if the file has fewer, or no worker. It may have no server if `wanted` is 0: the job is
 * then for an exchange among workers. */
static ps_status count(const entries *e, Psgd__V1__NodeRole role, uint64_t wanted, size_t *out)
{
    bool is_worker = role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    size_t n = 0;

    for (size_t i = 0; i < e->n; i++) {
        n += e->list[i].role == role;
    }
    if (n == 0 && is_worker) {
        return ps_fail(PS_INVALID_ARGUMENT, "names no worker (Worker)");
    }
    if (wanted > n) {
        return ps_fail(PS_INVALID_ARGUMENT, "names %zu %s, but %llu are asked for", n,
                       is_worker ? "workers" : "pservers", (unsigned long long)wanted);
    }
    *out = wanted == 0 ? n : (size_t)wanted;
    return ps_ok();
}

static void fill(const entries *e, size_t n_workers, size_t n_pservers, Psgd__V1__JobSpec *spec)
{
    size_t workers = 0, pservers = 0, n = 0;

    for (size_t i = 0; i < spec->n_nodes; i++) {
        protobuf_c_message_free_unpacked(&spec->nodes[i]->base, NULL);
    }
    free(spec->nodes);
    spec->nodes = ps_xcalloc(n_workers + n_pservers, sizeof *spec->nodes);
    for (size_t i = 0; i < e->n; i++) {
        bool is_worker = e->list[i].role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
        Psgd__V1__NodeAddress *node;

        if (is_worker ? workers++ >= n_workers : pservers++ >= n_pservers) {
            continue;
        }
        node = ps_xcalloc(1, sizeof *node);
        psgd__v1__node_address__init(node);
        node->role = e->list[i].role;
        node->address = ps_xstrdup(e->list[i].address);
        spec->nodes[n++] = node;
    }
    spec->n_nodes = n;
    spec->workers = (uint32_t)n_workers;
    spec->pservers = (uint32_t)n_pservers;
}

ps_status ps_nodes_take(const json_t *json, uint64_t n_workers, uint64_t n_pservers,
                        Psgd__V1__JobSpec *spec)
{
    entries e = {.list = ps_xcalloc(PS_NODES_FILE_MAX, sizeof *e.list)};
    size_t workers = 0, pservers = 0;
    ps_status st = read_entries(&e, json);

    if (ps_is_ok(&st)) {
        st = count(&e, PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER, n_workers, &workers);
    }
    if (ps_is_ok(&st)) {
        st = count(&e, PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER, n_pservers, &pservers);
    }
    if (ps_is_ok(&st)) {
        qsort(e.list, e.n, sizeof *e.list, by_role_and_id);
        fill(&e, workers, pservers, spec);
    }
    free(e.list);
    return st;
}

ps_status ps_nodes_take_file(const char *path, uint64_t n_workers, uint64_t n_pservers,
                             Psgd__V1__JobSpec *spec)
{
    json_t *json = NULL;
    ps_status st = ps_document_parse_file(path, &json);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_nodes_take(json, n_workers, n_pservers, spec);
    json_decref(json);
    return ps_is_ok(&st) ? st : ps_wrap(st, "%s", PS_SHORT(path, 40));
}
