/* SPDX-License-Identifier: Apache-2.0 */
/* quotas.c - see quotas.h. */
#include "services/coordinator/quotas.h"

#include "common/base/document.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ENTRIES_MAX = 10000 };

typedef struct entry {
    ps_principal who; /* for whom the entry is; its kind is NONE in the entry `default` */
    ps_amounts most;
} entry;

/* The entries of a file of quotas. */
typedef struct table {
    entry *entries; /* (count) */
    size_t count;
} table;

struct ps_quotas {
    char file[PS_PATH_MAX];
    pthread_mutex_t reading; /* held while the file is read; guards time and why */
    /* modification time of the file when it was last read without a failure */
    struct timespec time;
    /* result of the last refresh; a failure with the same text is not logged again */
    ps_status why;
    pthread_mutex_t mutex; /* guards the table, and is never held while a disk is waited for */
    table table;
};

static const char *const names[] = {
#define X(constant, name) name,
    PS_QUOTA_KINDS(X)
#undef X
};

const char *ps_quota_name(ps_quota kind)
{
    return names[kind];
}

/* --- the file ------------------------------------------------------------------------- */

/* Reads one amount: a whole number from 0 to 1e18, also written as 1.0e10. Fails for a key that is
 * no name of a quota. */
static ps_status read_amount(const char *who, const char *key, const json_t *value, ps_amounts *out)
{
    double number = json_is_number(value) ? json_number_value(value) : -1;

    for (size_t i = 0; i < PS_QUOTA_COUNT; i++) {
        if (strcmp(key, names[i]) == 0 && number >= 0 && number <= 1e18 &&
            floor(number) == number) {
            out->of[i] =
                json_is_integer(value) ? (uint64_t)json_integer_value(value) : (uint64_t)number;
            return ps_ok();
        }
    }
    return ps_fail(PS_INVALID_ARGUMENT,
                   "%s: %s: whole numbers up to 1e18 of jobs, workers, parameters and "
                   "artifact_bytes are allowed",
                   PS_SHORT(who, 80), PS_SHORT(key, 40));
}

static ps_status read_entry(const char *key, json_t *numbers, entry *out)
{
    const char *name;
    json_t *value;
    ps_status st = ps_ok();

    memset(out->most.of, 0xff, sizeof out->most.of);
    out->who = (ps_principal){0};
    if (strcmp(key, "default") != 0) {
        st = ps_principal_parse(key, &out->who);
        if (!ps_is_ok(&st) || out->who.kind != PS_PRINCIPAL_SUBMITTER) {
            return ps_fail(PS_INVALID_ARGUMENT, "\"%s\": default and submitter/NAME are allowed",
                           PS_SHORT(key, 80));
        }
    }
    if (!json_is_object(numbers)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: a mapping of numbers is expected",
                       PS_SHORT(key, 80));
    }
    json_object_foreach(numbers, name, value)
    {
        st = ps_is_ok(&st) ? read_amount(key, name, value, &out->most) : st;
    }
    return st;
}

static ps_status read_entries(json_t *tree, table *out)
{
    ps_status st = ps_ok();
    const char *key;
    json_t *numbers;

    if (!json_is_object(tree) || json_object_size(tree) > ENTRIES_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "a mapping of at most %d entries is expected",
                       ENTRIES_MAX);
    }
    out->entries = ps_xcalloc(json_object_size(tree) + 1, sizeof out->entries[0]);
    json_object_foreach(tree, key, numbers)
    {
        if (ps_is_ok(&st)) {
            st = read_entry(key, numbers, &out->entries[out->count]);
            out->count += ps_is_ok(&st);
        }
    }
    return st;
}

static ps_status read_table(const char *file, table *out)
{
    char *text = NULL;
    json_t *tree = NULL;
    size_t n = 0;
    ps_status st = ps_file_read(file, PS_TREE_MAX_BYTES, &text, &n);

    *out = (table){0};
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_document_parse(text, n, &tree);
    free(text);
    if (ps_is_ok(&st)) {
        st = read_entries(tree, out);
    }
    json_decref(tree);
    if (!ps_is_ok(&st)) {
        free(out->entries);
        *out = (table){0};
    }
    return ps_wrap(st, "%s", PS_PATH_SHOWN(file));
}

/* Reads the file if it has changed since it was last read without a failure. The caller holds
 * `reading`, or others do not have the quotas yet. */
static ps_status read_changed(ps_quotas *quotas)
{
    struct stat facts = {0};
    table changed, old;
    ps_status st;

    if (stat(quotas->file, &facts) == 0 && facts.st_mtim.tv_sec == quotas->time.tv_sec &&
        facts.st_mtim.tv_nsec == quotas->time.tv_nsec) {
        return ps_ok();
    }
    st = read_table(quotas->file, &changed);
    if (ps_is_ok(&st)) {
        pthread_mutex_lock(&quotas->mutex);
        old = quotas->table;
        quotas->table = changed;
        pthread_mutex_unlock(&quotas->mutex);
        free(old.entries);
        /* the time from before the read, so that changes since then are read next time */
        quotas->time = facts.st_mtim;
        ps_log(PS_LOG_INFO, "quotas", "read %zu entries, %s", changed.count,
               PS_PATH_SHOWN(quotas->file));
    }
    return st;
}

ps_status ps_quotas_create(const char *file, ps_quotas **out)
{
    ps_quotas *quotas = ps_xcalloc(1, sizeof *quotas);
    ps_status st = ps_ok();

    pthread_mutex_init(&quotas->reading, NULL);
    pthread_mutex_init(&quotas->mutex, NULL);
    quotas->why = ps_ok();
    if (strlen(file) >= sizeof quotas->file) {
        st = ps_fail(PS_INVALID_ARGUMENT, "the path has more than %d bytes", PS_PATH_MAX - 1);
    } else {
        snprintf(quotas->file, sizeof quotas->file, "%s", file);
        st = read_changed(quotas);
    }
    if (!ps_is_ok(&st)) {
        ps_quotas_destroy(quotas);
        return st;
    }
    *out = quotas;
    return st;
}

void ps_quotas_destroy(ps_quotas *quotas)
{
    if (quotas != NULL) {
        pthread_mutex_destroy(&quotas->mutex);
        pthread_mutex_destroy(&quotas->reading);
        free(quotas->table.entries);
        free(quotas);
    }
}

void ps_quotas_refresh(ps_quotas *quotas)
{
    ps_status st;

    if (quotas == NULL) {
        return;
    }
    pthread_mutex_lock(&quotas->reading);
    st = read_changed(quotas);
    if (!ps_is_ok(&st) && strcmp(st.text, quotas->why.text) != 0) {
        ps_log(PS_LOG_WARN, "quotas", "%s; the quotas before stay, and each submission tries again",
               st.text);
    }
    quotas->why = st;
    pthread_mutex_unlock(&quotas->reading);
}

/* --- amounts --------------------------------------------------------------------------- */

static const entry *find(const table *t, const ps_principal *who)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->entries[i].who.kind == who->kind && strcmp(t->entries[i].who.name, who->name) == 0) {
            return &t->entries[i];
        }
    }
    return NULL;
}

void ps_quotas_of(ps_quotas *quotas, const ps_principal *who, ps_amounts *most)
{
    static const ps_principal nobody = {.kind = PS_PRINCIPAL_NONE};
    const entry *own, *others;

    memset(most->of, 0xff, sizeof most->of);
    if (quotas == NULL || who->kind != PS_PRINCIPAL_SUBMITTER) {
        return;
    }
    pthread_mutex_lock(&quotas->mutex);
    own = find(&quotas->table, who);
    others = find(&quotas->table, &nobody);
    for (size_t i = 0; i < PS_QUOTA_COUNT; i++) {
        if (own != NULL && own->most.of[i] != UINT64_MAX) {
            most->of[i] = own->most.of[i];
        } else if (others != NULL) {
            most->of[i] = others->most.of[i];
        }
    }
    pthread_mutex_unlock(&quotas->mutex);
}

ps_status ps_quotas_check(const ps_principal *who, const ps_amounts *most, const ps_amounts *used,
                          const ps_amounts *wanted, ps_quota *kind)
{
    char text[PS_PRINCIPAL_TEXT_BYTES];

    for (size_t i = 0; i < PS_QUOTA_COUNT; i++) {
        uint64_t most_i = most->of[i], used_i = used->of[i], wanted_i = wanted->of[i];

        if (used_i > most_i || wanted_i > most_i - used_i) {
            *kind = (ps_quota)i;
            return ps_fail(PS_RESOURCE_EXHAUSTED,
                           "%s: %s may have %" PRIu64 ", has %" PRIu64 " and asks for %" PRIu64
                           " more; wait for jobs to end, cancel or delete some, or ask an admin",
                           names[i], ps_principal_text(who, text), most_i, used_i, wanted_i);
        }
    }
    return ps_ok();
}
