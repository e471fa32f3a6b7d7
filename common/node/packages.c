/* SPDX-License-Identifier: Apache-2.0 */
/* packages.c - see packages.h. */
#include "common/node/packages.h"

#include "common/base/address.h"
#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/data/file_list.h"
#include "common/data/learned.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t data_max_bytes = UINT64_C(16) << 30; /* most bytes of a set's files */

static bool refuse(ps_error *error, ps_status st, const char *reason)
{
    ps_error_init(error, st, reason);
    return false;
}

/* --- settings -------------------------------------------------------------- */

static void add_violation(void *arg, const char *field, const char *text)
{
    ps_error_violate(arg, field, "%s", text);
}

/* Adds one entry of the settings to the placement: a server, or the process of a worker's rank. */
static ps_status place(ps_placement *placement, const Psgd__V1__Placement *p)
{
    ps_address address;
    ps_status st = ps_address_parse(p->address, "", 0, &address);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (address.host[0] == '\0' || address.port == 0 || !ps_name_is_safe(p->node_id)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s at %s; a node id and host:port are needed",
                       PS_SHORT(p->node_id, 40), PS_SHORT(p->address, 60));
    }
    switch (p->role) {
    case PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER:
        st = ps_placement_set_server(placement, p->rank, p->node_id, p->address);
        return ps_is_ok(&st) && p->threads > 1
                   ? ps_placement_set_threads(placement, p->rank, p->threads)
                   : st;
    case PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER:
        return ps_placement_set_rank(placement, p->rank, p->node_id, p->address);
    default:
        return ps_fail(PS_INVALID_ARGUMENT, "role %d; worker and pserver are allowed",
                       (int)p->role);
    }
}

/* Reads the placement: every rank of both roles must occur once, with an address, and the map must
 * cover all virtual shards. */
static ps_status read_placement(const Psgd__V1__SettingsPackage *package, ps_session *s)
{
    const Psgd__V1__JobSpec *spec = s->plan->spec;
    ps_status st;

    ps_placement_init(&s->placement, &s->plan->layout, spec->pservers, spec->workers);
    if (package->n_placements != (size_t)spec->pservers + spec->workers) {
        return ps_fail(PS_INVALID_ARGUMENT, "%zu placements for %u workers and %u pservers",
                       package->n_placements, spec->workers, spec->pservers);
    }
    if (ps_plan_has_copies(s->plan)) {
        ps_placement_copy(&s->placement);
    }
    s->placement.epoch = package->placement_epoch;
    st = ps_placement_set_shards(&s->placement, package->server_of_shard,
                                 package->n_server_of_shard);
    for (size_t i = 0; ps_is_ok(&st) && i < package->n_placements; i++) {
        st = ps_wrap(place(&s->placement, package->placements[i]), "placements[%zu]", i);
    }
    return st;
}

/* Takes a server's rank from the package; it must be that of a server in the placement. */
static ps_status take_rank(const Psgd__V1__SettingsPackage *package, ps_session *s)
{
    if (package->rank >= s->placement.server_count) {
        return ps_fail(PS_INVALID_ARGUMENT, "rank: %u of %u servers", package->rank,
                       s->placement.server_count);
    }
    s->rank = package->rank;
    return ps_ok();
}

/* Takes the ranks of a worker from the package: ascending, and exactly those that the placement
 * gives to the process of the first one. */
static ps_status take_ranks(const Psgd__V1__SettingsPackage *package, ps_session *s)
{
    const ps_placement *placement = &s->placement;
    uint32_t here = 0;

    if (package->n_ranks == 0 || package->n_ranks > placement->rank_count) {
        return ps_fail(PS_INVALID_ARGUMENT, "ranks: %zu of them; 1 to %u are allowed",
                       package->n_ranks, placement->rank_count);
    }
    for (size_t i = 0; i < package->n_ranks; i++) {
        uint32_t rank = package->ranks[i];

        if (rank >= placement->rank_count || (i > 0 && rank <= package->ranks[i - 1]) ||
            placement->process_of[rank] != placement->process_of[package->ranks[0]]) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "ranks[%zu]: %u of %u; ascending ranks of one process are allowed", i,
                           rank, placement->rank_count);
        }
    }
    for (uint32_t rank = 0; rank < placement->rank_count; rank++) {
        here += placement->process_of[rank] == placement->process_of[package->ranks[0]];
    }
    if (here != package->n_ranks) {
        return ps_fail(PS_INVALID_ARGUMENT, "ranks: %zu of them; placements give this process %u",
                       package->n_ranks, here);
    }
    s->rank = package->ranks[0];
    s->rank_count = here;
    s->ranks = ps_xcalloc(here, sizeof *s->ranks);
    memcpy(s->ranks, package->ranks, here * sizeof *s->ranks);
    return ps_ok();
}

/* Takes the clocks at which a server's sparse tables shrink. */
static ps_status take_shrinks(const Psgd__V1__SettingsPackage *package, ps_session *s)
{
    size_t count = package->n_table_shrinks;
    const uint64_t *clocks = package->table_shrinks;

    if (count > PS_SHRINKS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "table_shrinks: %zu of them; at most %d are allowed",
                       count, PS_SHRINKS_MAX);
    }
    for (size_t i = 1; i < count; i++) {
        if (clocks[i] <= clocks[i - 1]) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "table_shrinks[%zu]: %" PRIu64 "; ascending clocks are allowed", i,
                           clocks[i]);
        }
    }
    s->shrinks = ps_xcalloc(count + 1, sizeof *s->shrinks);
    if (count > 0) {
        memcpy(s->shrinks, clocks, count * sizeof *clocks);
    }
    s->shrink_count = count;
    return ps_ok();
}

bool ps_package_settings(const Psgd__V1__SettingsPackage *package, Psgd__V1__NodeRole role,
                         ps_session *session, ps_error *error)
{
    static const Psgd__V1__JobSpec nothing = PSGD__V1__JOB_SPEC__INIT;
    ps_status st;

    ps_error_init(error, ps_fail(PS_INVALID_ARGUMENT, "a job that cannot be"), "BAD_SPEC");
    st = ps_plan_create(package->spec != NULL ? package->spec : &nothing, add_violation, error,
                        &session->plan);
    if (!ps_is_ok(&st)) {
        error->status = st;
        return false;
    }
    if (package->plan_hash != ps_plan_hash(session->plan)) {
        return refuse(error,
                      ps_fail(PS_FAILED_PRECONDITION,
                              "this node resolves the job differently than its coordinator does; "
                              "install the same psgd on both, here it is %s",
                              PS_VERSION),
                      "PLAN_MISMATCH");
    }
    st = read_placement(package, session);
    if (!ps_is_ok(&st)) {
        return refuse(error, st, "BAD_PLACEMENTS");
    }
    st = role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ? take_ranks(package, session)
                                                       : take_rank(package, session);
    if (!ps_is_ok(&st)) {
        return refuse(error, st, "BAD_PLACEMENTS");
    }
    if (package->first_clock > 0 && package->first_clock > ps_plan_last_begin(session->plan)) {
        return refuse(error,
                      ps_fail(PS_INVALID_ARGUMENT,
                              "first_clock: %" PRIu64 " of a job with %" PRIu64 " clocks",
                              package->first_clock, session->plan->total_clocks),
                      "BAD_CHECKPOINT");
    }
    session->first_clock = package->first_clock;
    st = take_shrinks(package, session);
    return ps_is_ok(&st) || refuse(error, st, "BAD_TABLES");
}

/* --- data ------------------------------------------------------------------ */

static bool is_sha256(const char *hex)
{
    return strlen(hex) == 64 && strspn(hex, "0123456789abcdef") == 64;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ps_data_file *)a)->name, ((const ps_data_file *)b)->name);
}

/* Returns a name that occurs twice in the list, or NULL. `copy` (count) is room for a sorted copy.
 */
static const char *find_double(const ps_data_files *files, ps_data_file *copy)
{
    memcpy(copy, files->at, files->count * sizeof *copy);
    qsort(copy, files->count, sizeof *copy, by_name);
    for (size_t i = 1; i < files->count; i++) {
        if (strcmp(copy[i - 1].name, copy[i].name) == 0) {
            return copy[i].name;
        }
    }
    return NULL;
}

static bool check_doubles(const ps_data_files *files, ps_error *error)
{
    ps_data_file *copy = ps_xcalloc(files->count + 1, sizeof *copy);
    const char *name = find_double(files, copy);
    bool is_good = name == NULL ||
                   refuse(error, ps_fail(PS_INVALID_ARGUMENT, "%s comes twice", name), "BAD_DATA");

    free(copy);
    return is_good;
}

static bool read_files(const Psgd__V1__DataPackage *package, const ps_data_conf *conf,
                       ps_data_files *files, ps_error *error)
{
    uint64_t total = 0;

    files->at = ps_xcalloc(package->n_files + 1, sizeof *files->at);
    for (size_t i = 0; i < package->n_files; i++) {
        const Psgd__V1__DataFile *f = package->files[i];
        ps_data_file *file = &files->at[i];

        bool is_learned =
            strcmp(f->name, PS_LEARNED_FACTS) == 0 || strcmp(f->name, PS_LEARNED_TEST) == 0;

        if ((!is_learned && !ps_file_name_is_safe(f->name)) ||
            strlen(f->name) >= sizeof file->name || !ps_file_list_may_have(conf, f->name) ||
            !is_sha256(f->sha256) || f->size == 0 || f->size > data_max_bytes ||
            (total += f->size) > data_max_bytes) {
            return refuse(error,
                          ps_fail(PS_INVALID_ARGUMENT,
                                  "file %zu, \"%s\", is none of %s, has no sha256, or is too big",
                                  i, PS_SHORT(f->name, 40), conf->source->name),
                          "BAD_DATA");
        }
        snprintf(file->name, sizeof file->name, "%s", f->name);
        snprintf(file->sha256, sizeof file->sha256, "%s", f->sha256);
        file->size = f->size;
        files->count++;
        files->learned += is_learned;
    }
    return check_doubles(files, error);
}

/* Fills *files with the package's list, or with what this node knows of a set that has no files.
 * Fails if the checksum of *files is not the one that the package says. */
static bool take_files(const Psgd__V1__DataPackage *package, const ps_plan *plan,
                       ps_data_files *files, ps_error *error)
{
    ps_status st = ps_ok();

    if (package->n_files == 0) {
        st = ps_data_describe(&plan->data_conf, "", files);
    } else if (!read_files(package, &plan->data_conf, files, error)) {
        return false;
    } else {
        ps_data_files_sum(files);
    }
    if (!ps_is_ok(&st)) {
        return refuse(error, st, "BAD_DATA");
    }
    if (strcmp(files->sha256, package->sha256) != 0) {
        return refuse(error,
                      ps_fail(PS_FAILED_PRECONDITION, "%s has checksum %.12s.. here, %.12s.. there",
                              plan->spec->data->name, files->sha256, package->sha256),
                      "DATA_MISMATCH");
    }
    return true;
}

/* Checks that the files with what was learned from all data are the last of the list if the job
 * needs them, and are not in it otherwise. Sets wanted->own_sha256 to the checksum of the list
 * without them. */
static bool take_learned(const ps_data_files *files, ps_data_wanted *wanted, ps_error *error)
{
    ps_data_files own = *files;
    size_t needed = !ps_data_is_part(&wanted->conf) ? 0 : wanted->conf.test_files == 0 ? 2 : 1;

    if (files->learned != needed ||
        (needed > 0 && strcmp(files->at[files->count - 1].name, PS_LEARNED_FACTS) != 0) ||
        (needed > 1 && strcmp(files->at[files->count - 2].name, PS_LEARNED_TEST) != 0)) {
        return refuse(error,
                      ps_fail(PS_INVALID_ARGUMENT,
                              "files: %zu of them were learned from all; %zu are allowed%s",
                              files->learned, needed, needed > 0 ? ", at the end" : ""),
                      "BAD_DATA");
    }
    own.count -= needed;
    ps_data_files_sum(&own);
    snprintf(wanted->own_sha256, sizeof wanted->own_sha256, "%s", own.sha256);
    return true;
}

bool ps_package_data(const Psgd__V1__DataPackage *package, const ps_session *session,
                     ps_data_wanted *wanted, ps_data_files *files, ps_error *error)
{
    const ps_plan *plan = session->plan;
    const Psgd__V1__DataSpec *own = plan->spec->data, *data = package->data;
    ps_data_files listed = {.count = 0};

    if (data == NULL || !ps_plan_is_data(plan, data)) {
        return refuse(error,
                      ps_fail(PS_FAILED_PRECONDITION, "the data set is not the one of the job, %s",
                              own->name),
                      "DATA_MISMATCH");
    }
    if (!is_sha256(package->sha256) || package->n_files > PS_DATA_LIST_MAX ||
        (package->n_files == 0) != (ps_data_file_count(&plan->data_conf) == 0)) {
        return refuse(
            error, ps_fail(PS_INVALID_ARGUMENT, "no sha256, or not the files of a %s", own->name),
            "BAD_DATA");
    }
    if (!take_files(package, plan, &listed, error)) {
        ps_data_files_free(&listed);
        return false;
    }
    wanted->conf = plan->data_conf;
    wanted->conf.share = ps_plan_share(
        plan, session->ranks[0], session->ranks[session->rank_count - 1] - session->ranks[0] + 1);
    if (!take_learned(&listed, wanted, error)) {
        ps_data_files_free(&listed);
        return false;
    }
    snprintf(wanted->sha256, sizeof wanted->sha256, "%s", package->sha256);
    *files = listed;
    return true;
}
