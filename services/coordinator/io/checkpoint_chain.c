/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_chain.c - see checkpoint_store.h: checkpoints whose rows count from an earlier one, as
 * the files of servers say (common/store/store.h). */
#include "services/coordinator/io/checkpoint_store.h"

#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "common/store/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert((int)PS_CHAIN_MAX == (int)PS_CHECKPOINT_CHANGES_MAX, "what is stored is read");

enum { HEAD_BYTES = 4096 };

/* Reads the parent of a checkpoint into c->parent. */
static ps_status read_parent(const char *job_folder, bool is_thorough, ps_checkpoint *c)
{
    char sha256[PS_SHA256_HEX_BYTES];
    ps_checkpoint *parent = ps_xcalloc(1, sizeof *parent);
    ps_status st = ps_checkpoint_read_alone(job_folder, c->facts.parent, is_thorough, parent);

    if (ps_is_ok(&st)) {
        c->parent = parent;
        st = ps_checkpoint_manifest_sha256(parent, sha256);
    } else {
        free(parent);
    }
    if (ps_is_ok(&st) && strcmp(sha256, c->facts.parent_sha256) != 0) {
        st = ps_fail(PS_DATA_LOSS,
                     "checkpoint of step %" PRIu64 ": its MANIFEST.json is another one",
                     c->facts.parent);
    }
    if (!ps_is_ok(&st)) {
        st = ps_wrap(st, "checkpoint of step %" PRIu64 " needs its parent", c->facts.step);
        st.code = PS_DATA_LOSS;
    }
    return st;
}

ps_status ps_checkpoint_read_with_parents(const char *job_folder, uint64_t step, bool is_thorough,
                                          bool are_thorough, ps_checkpoint *out)
{
    ps_status st = ps_checkpoint_read_alone(job_folder, step, is_thorough, out);
    ps_checkpoint *at = out;
    unsigned changes = 0;

    while (ps_is_ok(&st) && at->facts.parent > 0) {
        st = ++changes <= PS_CHECKPOINT_CHANGES_MAX
                 ? read_parent(job_folder, are_thorough, at)
                 : ps_fail(PS_DATA_LOSS, "checkpoint of step %" PRIu64 ": more than %d parents",
                           step, PS_CHECKPOINT_CHANGES_MAX);
        at = ps_is_ok(&st) ? at->parent : at;
    }
    if (!ps_is_ok(&st)) {
        ps_checkpoint_fini(out);
    }
    return st;
}

ps_status ps_checkpoint_read(const char *job_folder, uint64_t step, bool is_thorough,
                             ps_checkpoint *out)
{
    return ps_checkpoint_read_with_parents(job_folder, step, is_thorough, is_thorough, out);
}

static bool is_of_server(const char *name)
{
    return strncmp(name, "server-", strlen("server-")) == 0;
}

/* Reads the clock of a server's file, and the one from which its rows count. */
static ps_status read_clocks(const char *path, uint64_t *clock, uint64_t *base)
{
    uint8_t head[HEAD_BYTES];
    struct stat facts;
    ssize_t n;
    int fd;
    ps_status st = ps_file_open(path, &fd, &facts);

    if (!ps_is_ok(&st)) {
        return st;
    }
    n = pread(fd, head, sizeof head, 0);
    close(fd);
    return ps_store_file_clocks(head, n > 0 ? (size_t)n : 0, clock, base);
}

/* Reads the parent, and sets it in *facts. */
static ps_status set_parent(const ps_checkpoint_conf *conf, ps_checkpoint_facts *facts)
{
    ps_checkpoint parent;
    ps_status st;

    facts->parent = ps_checkpoint_step(conf->plan, conf->base);
    st = ps_checkpoint_read(conf->job_folder, facts->parent, false, &parent);
    if (ps_is_ok(&st)) {
        st = ps_checkpoint_manifest_sha256(&parent, facts->parent_sha256);
        ps_checkpoint_fini(&parent);
    }
    return st;
}

ps_status ps_checkpoint_find_parent(const ps_checkpoint_conf *conf, ps_checkpoint_facts *facts,
                                    ps_checkpoint_rows *rows)
{
    ps_status st = ps_ok();

    *rows = (ps_checkpoint_rows){.is_whole = true};
    for (size_t i = 0; i < conf->count && ps_is_ok(&st); i++) {
        char path[PS_FOLDER_MAX];
        uint64_t clock = 0, base = 0;

        if (!is_of_server(conf->files[i].name)) {
            continue;
        }
        st = ps_path_join(path, sizeof path, conf->gathered, conf->files[i].name);
        st = ps_is_ok(&st) ? ps_wrap(read_clocks(path, &clock, &base), "%s",
                                     PS_SHORT(conf->files[i].name, 60))
                           : st;
        if (ps_is_ok(&st) &&
            ((base > 0 && base != conf->base) || (clock > 0 && clock != conf->facts.clock))) {
            st = ps_fail(PS_DATA_LOSS,
                         "%s is of clock %" PRIu64 " and counts from %" PRIu64 "; %" PRIu64
                         " from %" PRIu64 " is expected",
                         PS_SHORT(conf->files[i].name, 60), clock, base, conf->facts.clock,
                         conf->base);
        }
        rows->is_whole = rows->is_whole && base == 0;
        rows->bytes += conf->files[i].size;
    }
    return ps_is_ok(&st) && !rows->is_whole ? set_parent(conf, facts) : st;
}

/* Does what ps_checkpoint_each_server does with the checkpoint alone. A parent's files without rows
 * have no clock, and are not needed. */
static ps_status each_of(const ps_checkpoint *c, bool is_parent, ps_checkpoint_server_fn *fn,
                         void *arg)
{
    ps_status st = ps_ok();

    for (size_t i = 0; i < c->count && ps_is_ok(&st); i++) {
        char path[PS_FOLDER_MAX];
        uint64_t clock = 1, base;

        if (!is_of_server(c->files[i].name)) {
            continue;
        }
        st = ps_path_join(path, sizeof path, c->folder, c->files[i].name);
        if (ps_is_ok(&st) && is_parent) {
            st = ps_wrap(read_clocks(path, &clock, &base), "%s", PS_SHORT(c->files[i].name, 60));
        }
        st = ps_is_ok(&st) && clock > 0 ? fn(arg, path, &c->files[i]) : st;
    }
    return ps_wrap(st, "checkpoint of step %" PRIu64, c->facts.step);
}

static ps_status each_parent(const ps_checkpoint *c, ps_checkpoint_server_fn *fn, void *arg)
{
    const ps_checkpoint *chain[PS_CHECKPOINT_CHANGES_MAX];
    size_t count = 0;
    ps_status st = ps_ok();

    for (const ps_checkpoint *at = c->parent; at != NULL; at = at->parent) {
        chain[count++] = at;
    }
    while (count > 0 && ps_is_ok(&st)) {
        st = each_of(chain[--count], true, fn, arg);
    }
    return st;
}

ps_status ps_checkpoint_each_server(const ps_checkpoint *c, ps_checkpoint_server_fn *fn, void *arg)
{
    ps_status st = each_parent(c, fn, arg);

    return ps_is_ok(&st) ? each_of(c, false, fn, arg) : st;
}

void ps_checkpoint_find_chain(const char *job_folder, uint64_t *clock, ps_chain *chain)
{
    const ps_checkpoint *of[PS_CHECKPOINT_CHANGES_MAX + 1];
    uint64_t *steps = NULL;
    size_t count = ps_checkpoint_list(job_folder, &steps), length = 0;
    ps_checkpoint newest;
    ps_status st = count > 0 ? ps_checkpoint_read(job_folder, steps[count - 1], false, &newest)
                             : ps_fail(PS_NOT_FOUND, "no checkpoint");

    free(steps);
    *clock = 0;
    *chain = (ps_chain){0};
    if (!ps_is_ok(&st)) {
        return;
    }
    *clock = newest.facts.clock;
    /* since a passing one another attempt has begun, whose servers do not know what has changed */
    for (const ps_checkpoint *c = &newest; c != NULL && !newest.facts.is_passing; c = c->parent) {
        of[length++] = c;
    }
    while (length > 0) {
        const ps_checkpoint *c = of[--length];
        uint64_t bytes = 0;

        for (size_t i = 0; i < c->count; i++) {
            bytes += is_of_server(c->files[i].name) ? c->files[i].size : 0;
        }
        ps_chain_stored(chain, c->facts.clock, c->parent == NULL, bytes);
    }
    ps_checkpoint_fini(&newest);
}
