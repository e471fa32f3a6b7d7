/* SPDX-License-Identifier: Apache-2.0 */
#include "services/coordinator/io/replay.h"

#include "common/artifact/manifest.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "common/train/merge.h"
#include "common/train/trainer.h"
#include "common/wire/kept_pushes.h"
#include "common/wire/wire_parts.h"
#include "services/coordinator/io/checkpoint_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_BYTES_MAX ((size_t)1 << 40)

/* The file of contributions that a rank has kept, mapped into memory. */
typedef struct mapped {
    ps_kept_file file;
    void *bytes;
    size_t len;
} mapped;

typedef struct replay {
    const ps_replay_conf *conf;
    ps_store **stores; /* (placement->server_count) of lost servers; NULL: the server is not lost */
    mapped *ranks;     /* (placement->rank_count) */
    uint32_t rank_count;
    ps_intake_file *files; /* (count) */
    size_t count;
} replay;

/* --- the state to begin with -------------------------------------------------------- */

static void drop_stores(replay *r)
{
    for (uint32_t s = 0; s < r->conf->placement->server_count; s++) {
        ps_store_destroy(r->stores[s]);
        r->stores[s] = NULL;
    }
}

/* Makes the stores of the lost servers; `weights` are all of the model, or NULL for zeros. */
static void make_stores(replay *r, const float *weights)
{
    const ps_placement *placement = r->conf->placement;

    drop_stores(r);
    for (size_t i = 0; i < r->conf->server_count; i++) {
        uint32_t server = r->conf->servers[i], owned = placement->owned_count[server];
        float *own = ps_xcalloc(ps_placement_value_count(placement, server) + 1, sizeof *own);
        ps_tables *tables = ps_merge_tables(r->conf->plan, placement, server);
        size_t at = 0;

        if (tables != NULL) {
            ps_tables_shrink_at(tables, r->conf->shrinks, r->conf->shrink_count);
        }

        for (uint32_t k = 0; weights != NULL && k < owned; k++) {
            const ps_slice *slice = &placement->layout->slices[placement->owned[server][k]];

            memcpy(own + at, weights + slice->at, slice->n * sizeof *own);
            at += slice->n;
        }
        r->stores[server] =
            ps_merge_store(r->conf->plan, placement->owned[server], owned, own, tables);
        ps_store_keep_before(r->stores[server]);
        free(own);
    }
}

/* Gives the stores a file of the checkpoint at `clock`, or of one from which its rows count. */
static ps_status load_file(replay *r, uint64_t clock, const char *path)
{
    char *bytes = NULL;
    size_t n = 0;
    ps_status st = ps_file_read(path, STATE_BYTES_MAX, &bytes, &n);

    for (uint32_t s = 0; s < r->conf->placement->server_count && ps_is_ok(&st); s++) {
        if (r->stores[s] != NULL) {
            st = ps_store_load_of(r->stores[s], clock, (const uint8_t *)bytes, n);
        }
    }
    free(bytes);
    return st;
}

static ps_status end_load(replay *r, ps_status st)
{
    for (uint32_t s = 0; s < r->conf->placement->server_count && ps_is_ok(&st); s++) {
        if (r->stores[s] != NULL) {
            st = ps_store_load_end(r->stores[s]);
        }
    }
    return st;
}

/* A checkpoint that is being loaded. */
typedef struct loading {
    replay *r;
    uint64_t clock;
} loading;

static ps_status load_server(void *arg, const char *path, const ps_manifest_file *file)
{
    const loading *l = arg;

    (void)file;
    return load_file(l->r, l->clock, path);
}

static ps_status load_checkpoint(replay *r, const ps_checkpoint *from)
{
    loading l = {.r = r, .clock = from->facts.clock};
    ps_status st;

    make_stores(r, NULL);
    st = ps_checkpoint_each_server(from, load_server, &l);
    return ps_wrap(end_load(r, st), "checkpoint of step %" PRIu64, from->facts.step);
}

/* Reads the files that sparse tables start from into the stores. */
static ps_status load_tables(replay *r)
{
    const ps_init_tables *files = &r->conf->package->tables;
    ps_status st = ps_ok();

    for (size_t i = 0; i < r->conf->server_count && files->count > 0 && ps_is_ok(&st); i++) {
        st = ps_merge_read_tables(ps_store_tables(r->stores[r->conf->servers[i]]),
                                  (const char *const *)files->paths, files->count, false);
    }
    return st;
}

/* Gives the stores the state with which the attempt began: a checkpoint of another job, or initial
 * weights. For a job without a checkpoint of its own. */
static ps_status load_beginning(replay *r)
{
    const ps_package *package = r->conf->package;
    float *weights;
    ps_status st = ps_ok();

    if (package == NULL) {
        return ps_fail(PS_NOT_FOUND, "the job has no checkpoint, and its beginning is not known");
    }
    if (package->first_clock > 0) {
        make_stores(r, NULL);
        for (size_t i = 0; i < package->servers.count && ps_is_ok(&st); i++) {
            st = load_file(r, package->first_clock, package->servers.paths[i]);
        }
        return end_load(r, st);
    }
    weights = calloc(r->conf->plan->layout.param_count + 1u, sizeof *weights);
    st = weights != NULL ? ps_package_fill(package, weights)
                         : ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for the weights");
    if (ps_is_ok(&st)) {
        make_stores(r, weights);
        st = load_tables(r);
    }
    free(weights);
    return st;
}

/* Loads the job's newest checkpoint; if it has none, the state with which the attempt began. */
static ps_status load(replay *r)
{
    uint64_t *steps = NULL;
    size_t count = ps_checkpoint_list(r->conf->job_folder, &steps);
    ps_checkpoint from;
    ps_status st;

    if (count == 0) {
        st = load_beginning(r);
    } else {
        st = ps_checkpoint_read(r->conf->job_folder, steps[count - 1], false, &from);
        if (ps_is_ok(&st)) {
            st = load_checkpoint(r, &from);
            ps_checkpoint_fini(&from);
        }
    }
    free(steps);
    return st;
}

/* --- contributions ------------------------------------------------------------------ */

static ps_status map(mapped *m, const char *path)
{
    struct stat facts;
    int fd;
    ps_status st = ps_file_open(path, &fd, &facts);

    if (!ps_is_ok(&st)) {
        return st;
    }
    m->len = (size_t)facts.st_size;
    m->bytes = mmap(NULL, m->len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (m->bytes == MAP_FAILED) {
        m->bytes = NULL;
        st = ps_fail_errno(errno, "map %s", PS_PATH_SHOWN(path));
    }
    close(fd);
    return st;
}

static ps_status path_of(const replay *r, uint32_t rank, char path[PS_FOLDER_MAX])
{
    char name[PS_CHECKPOINT_NAME_MAX];

    ps_checkpoint_kept_name(name, rank);
    return ps_path_join(path, PS_FOLDER_MAX, r->conf->folder, name);
}

static ps_status open_ranks(replay *r)
{
    ps_status st = ps_ok();

    for (uint32_t rank = 0; rank < r->rank_count && ps_is_ok(&st); rank++) {
        mapped *m = &r->ranks[rank];
        char path[PS_FOLDER_MAX];

        st = path_of(r, rank, path);
        st = ps_is_ok(&st) ? map(m, path) : st;
        if (ps_is_ok(&st)) {
            st = ps_kept_file_open(&m->file, r->conf->plan, rank, m->bytes, m->len);
        }
        st = ps_wrap(st, "rank %" PRIu32, rank);
    }
    return st;
}

/* Returns the oldest clock that is not complete in at least one of the stores. */
static uint64_t clock_of(const replay *r)
{
    uint64_t clock = UINT64_MAX;

    for (uint32_t s = 0; s < r->conf->placement->server_count; s++) {
        if (r->stores[s] != NULL && ps_store_clock(r->stores[s]) < clock) {
            clock = ps_store_clock(r->stores[s]);
        }
    }
    return clock;
}

/* Adds the contributions of all ranks to `clock` to the stores. Skips those to earlier clocks. */
static ps_status push_clock(replay *r, uint64_t clock)
{
    ps_status st = ps_ok();

    for (uint32_t rank = 0; rank < r->rank_count && ps_is_ok(&st); rank++) {
        ps_kept_file *file = &r->ranks[rank].file;

        while (file->clock < clock && ps_is_ok(&st)) {
            st = ps_kept_file_push(file, r->conf->plan, r->conf->placement, NULL);
        }
        if (file->clock == clock && ps_is_ok(&st)) {
            st = ps_kept_file_push(file, r->conf->plan, r->conf->placement, r->stores);
        }
        st = ps_wrap(st, "rank %" PRIu32 ", clock %" PRIu64, rank, clock);
    }
    return st;
}

static ps_status push_all(replay *r, uint64_t *clock)
{
    ps_status st = ps_ok();

    *clock = clock_of(r);
    while (*clock < r->conf->until && ps_is_ok(&st)) {
        uint64_t now = *clock;

        st = push_clock(r, now);
        *clock = clock_of(r);
        if (*clock == now) { /* a contribution to `now` is missing */
            break;
        }
    }
    return st;
}

/* --- files -------------------------------------------------------------------------- */

static ps_status add(void *writer, const void *bytes, size_t len)
{
    return ps_file_writer_add(writer, bytes, len);
}

/* Writes the file `name` by write(r, index, clock, writer). Adds it to r->files unless its name
 * begins with a dot. */
static ps_status write_file(replay *r, const char *name, uint32_t index, uint64_t clock,
                            ps_status (*write)(replay *r, uint32_t index, uint64_t clock,
                                               ps_file_writer *writer))
{
    ps_manifest_file measured = {.name = name};
    char path[PS_FOLDER_MAX];
    ps_file_writer writer;
    ps_intake_file *file;
    ps_status st = ps_path_join(path, sizeof path, r->conf->folder, name);

    st = ps_is_ok(&st) ? ps_file_writer_open(&writer, path) : st;
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = write(r, index, clock, &writer);
    if (!ps_is_ok(&st)) {
        ps_file_writer_abandon(&writer);
        return st;
    }
    st = ps_file_writer_commit(&writer);
    if (name[0] == '.' || !ps_is_ok(&st)) {
        return st;
    }
    st = ps_manifest_measure(r->conf->folder, &measured);
    r->files = ps_xrealloc(r->files, (r->count + 1) * sizeof *r->files);
    file = &r->files[r->count++];
    *file = (ps_intake_file){.kind = PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL,
                             .size = measured.size};
    snprintf(file->name, sizeof file->name, "%s", name);
    memcpy(file->sha256, measured.sha256, sizeof file->sha256);
    return st;
}

static ps_status write_state(replay *r, uint32_t server, uint64_t clock, ps_file_writer *writer)
{
    return ps_store_save_at(r->stores[server], clock, add, writer);
}

static ps_status write_weights(replay *r, uint32_t server, uint64_t clock, ps_file_writer *writer)
{
    const ps_placement *placement = r->conf->placement;
    float values[PS_CODEC_VALUES];
    ps_status st = ps_ok();

    for (uint32_t k = 0; k < placement->owned_count[server] && ps_is_ok(&st); k++) {
        uint32_t n = placement->layout->slices[placement->owned[server][k]].n;

        ps_store_copy_slice_at(r->stores[server], k, clock, values);
        st = ps_file_writer_add(writer, values, n * sizeof *values);
    }
    return st;
}

static ps_status write_rank(replay *r, uint32_t rank, uint64_t clock, ps_file_writer *writer)
{
    size_t len = 0;
    const uint8_t *said = ps_kept_file_said(&r->ranks[rank].file, clock, &len);

    if (said == NULL) {
        return ps_fail(PS_FAILED_PRECONDITION, "the reports of rank %" PRIu32 " are not all here",
                       rank);
    }
    return ps_trainer_save_said(r->conf->plan, rank, clock, said, len, add, writer);
}

static ps_status write_server(replay *r, uint32_t server, uint64_t clock)
{
    const ps_placement *placement = r->conf->placement;
    char name[PS_CHECKPOINT_NAME_MAX];
    ps_status st;

    if (!ps_store_has_at(r->stores[server], clock)) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "server %" PRIu32 " cannot be computed for clock %" PRIu64, server, clock);
    }
    ps_checkpoint_store_name(name, server, 0);
    st = write_file(r, name, server, clock, write_state);
    ps_artifacts_part_name(name, server);
    st = ps_is_ok(&st) ? write_file(r, name, server, clock, write_weights) : st;
    /* If the plan cannot rescue, ranks have state, and gave their files themselves. Else the server
     * that kept the reports of ranks has their files. */
    if (!ps_plan_can_rescue(r->conf->plan) ||
        placement->parts[ps_wire_report_part(placement)].server != server) {
        return st;
    }
    for (uint32_t rank = 0; rank < r->rank_count && ps_is_ok(&st); rank++) {
        ps_checkpoint_rank_name(name, rank);
        st = write_file(r, name, rank, clock, write_rank);
    }
    return st;
}

static ps_status write_all(replay *r, uint64_t clock)
{
    ps_status st = ps_ok();

    for (size_t i = 0; i < r->conf->server_count && ps_is_ok(&st); i++) {
        st = write_server(r, r->conf->servers[i], clock);
    }
    return st;
}

static void end(replay *r)
{
    for (uint32_t rank = 0; rank < r->rank_count; rank++) {
        char path[PS_FOLDER_MAX];
        ps_status st = path_of(r, rank, path);

        if (r->ranks[rank].bytes != NULL) {
            munmap(r->ranks[rank].bytes, r->ranks[rank].len);
        }
        st = ps_is_ok(&st) ? ps_dir_remove(path) : st;
        (void)st; /* no manifest lists the file, so it only takes room */
    }
    drop_stores(r);
    free(r->stores);
    free(r->ranks);
}

ps_status ps_replay(const ps_replay_conf *conf, uint64_t *clock, ps_intake_file **files,
                    size_t *count)
{
    replay r = {.conf = conf, .rank_count = conf->placement->rank_count};
    ps_status st;

    *files = NULL;
    *count = 0;
    r.stores = ps_xcalloc(conf->placement->server_count, sizeof *r.stores);
    r.ranks = ps_xcalloc(r.rank_count, sizeof *r.ranks);
    st = load(&r);
    st = ps_is_ok(&st) ? open_ranks(&r) : st;
    st = ps_is_ok(&st) ? push_all(&r, clock) : st;
    st = ps_is_ok(&st) ? write_all(&r, *clock) : st;
    end(&r);
    if (!ps_is_ok(&st)) {
        free(r.files);
        return ps_wrap(st, "computing lost servers anew");
    }
    *files = r.files;
    *count = r.count;
    return st;
}
