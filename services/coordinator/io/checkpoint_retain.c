/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_retain.c - which checkpoints of a job stay, and which are removed; see
 * checkpoint_store.h. */
#include "services/coordinator/io/checkpoint_store_impl.h"

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "services/coordinator/domain/checkpoints.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ps_checkpoint_forget(const char *job_folder, uint64_t step)
{
    char name[PS_STEP_DIGITS + 1], aside[64], from[PS_FOLDER_MAX], to[PS_FOLDER_MAX];
    ps_status st;

    ps_checkpoint_step_name(name, step);
    snprintf(aside, sizeof aside, ".%s-del.tmp", name);
    st = ps_checkpoint_path(from, job_folder, name);
    if (ps_is_ok(&st)) {
        st = ps_checkpoint_path(to, job_folder, aside);
    }
    if (ps_is_ok(&st) && rename(from, to) == 0) {
        ps_checkpoint_discard(to);
    }
}

ps_status ps_checkpoint_set_latest(const char *job_folder, const char *name)
{
    char path[PS_FOLDER_MAX], text[PS_STEP_DIGITS + 2];
    ps_status st = ps_checkpoint_path(path, job_folder, "LATEST");
    int n = snprintf(text, sizeof text, "%s\n", name);

    return ps_is_ok(&st) ? ps_file_write(path, text, (size_t)n) : st;
}

/* Returns the index of the checkpoint of `step` among steps (count); count: it is not there. */
static size_t index_of(const uint64_t *steps, size_t count, uint64_t step)
{
    size_t i = 0;

    while (i < count && steps[i] != step) {
        i++;
    }
    return i;
}

/* The checkpoints of a job that are whole, by step. */
typedef struct stored {
    size_t count;
    uint64_t *steps;            /* (count) */
    ps_checkpoint_facts *facts; /* (count) */
    bool *drop;                 /* (count): is to be removed */
} stored;

static stored read_stored(const char *job_folder)
{
    uint64_t *steps;
    size_t count = ps_checkpoint_list(job_folder, &steps);
    stored s = {.steps = ps_xcalloc(count + 1, sizeof *s.steps),
                .facts = ps_xcalloc(count + 1, sizeof *s.facts),
                .drop = ps_xcalloc(count + 1, sizeof *s.drop)};

    for (size_t i = 0; i < count; i++) {
        ps_checkpoint c;
        ps_status st = ps_checkpoint_read(job_folder, steps[i], false, &c);

        if (ps_is_ok(&st)) {
            s.facts[s.count] = c.facts;
            s.steps[s.count++] = steps[i];
            ps_checkpoint_fini(&c);
        }
    }
    free(steps);
    return s;
}

/* Clears in s->drop what a kept checkpoint needs. has_other: as ps_checkpoints_keep_parents has
 * it. */
static void keep_parents(stored *s, bool has_other)
{
    size_t *parent = ps_xcalloc(s->count + 1, sizeof *parent);

    for (size_t i = 0; i < s->count; i++) {
        parent[i] =
            s->facts[i].parent > 0 ? index_of(s->steps, s->count, s->facts[i].parent) : s->count;
    }
    ps_checkpoints_keep_parents(parent, s->count, has_other, s->drop);
    free(parent);
}

/* Removes what s->drop marks, a parent after all that need it, because this may be interrupted.
 * Frees the members of s. */
static void forget_dropped(stored *s, const char *job_folder)
{
    for (size_t i = s->count; i-- > 0;) {
        if (s->drop[i]) {
            ps_checkpoint_forget(job_folder, s->steps[i]);
        }
    }
    free(s->steps);
    free(s->facts);
    free(s->drop);
}

void ps_checkpoint_retain(const ps_checkpoint_conf *conf)
{
    const Psgd__V1__CheckpointSpec *spec = conf->plan->spec->checkpoint;
    stored s = read_stored(conf->job_folder);

    if (spec != NULL) { /* else those that are not passing were asked for, and stay */
        ps_checkpoints_choose(s.steps, s.count, spec->keep, spec->keep_every,
                              ps_checkpoint_best(s.facts, s.count), s.drop);
    }
    for (size_t i = 0; i + 1 < s.count; i++) {
        s.drop[i] = s.drop[i] || s.facts[i].is_passing;
    }
    keep_parents(&s, spec != NULL && spec->keep > 1);
    forget_dropped(&s, conf->job_folder);
}

static void drop_latest(const char *job_folder)
{
    char path[PS_FOLDER_MAX];
    ps_status st = ps_checkpoint_path(path, job_folder, "LATEST");

    st = ps_is_ok(&st) ? ps_dir_remove(path) : st;
    (void)st; /* it then names a checkpoint that is not there; psgd itself does not read it */
}

void ps_checkpoint_drop_passing(const char *job_folder)
{
    stored s = read_stored(job_folder);
    char name[PS_STEP_DIGITS + 1];
    size_t newest = s.count;
    ps_status st = ps_ok();

    for (size_t i = 0; i < s.count; i++) {
        s.drop[i] = s.facts[i].is_passing;
    }
    keep_parents(&s, false);
    for (size_t i = 0; i < s.count; i++) {
        newest = s.drop[i] ? newest : i;
    }
    if (newest < s.count) {
        ps_checkpoint_step_name(name, s.steps[newest]);
        st = ps_checkpoint_set_latest(job_folder, name);
    } else if (s.count > 0) {
        drop_latest(job_folder);
    }
    if (!ps_is_ok(&st)) {
        memset(s.drop, 0, s.count * sizeof *s.drop);
    }
    forget_dropped(&s, job_folder);
}

void ps_checkpoint_go_back(const char *job_folder, uint64_t step)
{
    char name[PS_STEP_DIGITS + 1];
    uint64_t *steps;
    size_t count = ps_checkpoint_list(job_folder, &steps);
    ps_status st;

    ps_checkpoint_step_name(name, step);
    st = ps_checkpoint_set_latest(job_folder, name);
    if (!ps_is_ok(&st)) { /* only other programs read LATEST, so the job goes on */
        ps_log(PS_LOG_WARN, "job", "LATEST is removed: it cannot name step %" PRIu64 ": %s", step,
               st.text);
        drop_latest(job_folder);
    }
    while (count-- > 0) { /* parents last, as ps_checkpoint_retain() does */
        if (steps[count] > step) {
            ps_checkpoint_forget(job_folder, steps[count]);
        }
    }
    free(steps);
}
