/* SPDX-License-Identifier: Apache-2.0 */
/* merge_records.c - see merge_records.h. A heap has the next record of each file; an executor is
 * given them in batches. */
#include "common/script/merge_records.h"

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file of records, of which `now` is the next one. */
typedef struct part_file {
    uint8_t *bytes; /* mapped; NULL: the file is empty */
    size_t n, at;
    ps_keyed now;
} part_file;

typedef struct merging {
    const ps_merge_conf *conf;
    part_file *parts; /* (conf->count) */
    uint32_t *heap;   /* (left) files with records left; the first has the least key */
    uint32_t left;
    int64_t deadline_us;
    /* input and output of ps_executor_merge: (PS_MERGE_IN_MAX), (PS_MERGE_OUT_MAX) */
    uint8_t *in, *out;
    size_t in_n;
} merging;

/* ---- The heap ---- */

static ps_status damaged(const merging *m, uint32_t i)
{
    return ps_fail(PS_DATA_LOSS, "the records of %s %u are damaged", m->conf->what, i + 1);
}

static bool is_before(const merging *m, uint32_t a, uint32_t b)
{
    int order = ps_record_compare(&m->parts[a].now, &m->parts[b].now);

    return order != 0 ? order < 0 : a < b;
}

static void sink(merging *m, uint32_t i)
{
    for (;;) {
        uint32_t least = i, kept = m->heap[i];

        for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < m->left; child++) {
            least = is_before(m, m->heap[child], m->heap[least]) ? child : least;
        }
        if (least == i) {
            return;
        }
        m->heap[i] = m->heap[least];
        m->heap[least] = kept;
        i = least;
    }
}

/* Moves the first file of the heap to its next record, or removes it if it has none left, and
 * restores the heap. */
static ps_status advance(merging *m)
{
    part_file *p = &m->parts[m->heap[0]];
    uint32_t which = m->heap[0];

    if (!ps_record_next(p->bytes, p->n, &p->at, &p->now)) {
        if (p->at != p->n) {
            return damaged(m, which);
        }
        m->heap[0] = m->heap[--m->left];
    }
    if (m->left > 0) {
        sink(m, 0);
    }
    return ps_ok();
}

static ps_status open_part(merging *m, uint32_t i)
{
    char name[PS_MERGE_NAME_BYTES], path[PS_PATH_MAX * 4];
    part_file *p = &m->parts[i];
    struct stat facts;
    int fd = -1;
    ps_status st;
    void *bytes;

    m->conf->name_of(name, i);
    st = ps_path_join(path, sizeof path, m->conf->folder, name);
    if (ps_is_ok(&st)) {
        st = ps_file_open(path, &fd, &facts);
    }
    if (!ps_is_ok(&st)) {
        st.code = PS_DATA_LOSS;
        return ps_wrap(st, "%s %u", m->conf->what, i + 1);
    }
    p->n = (size_t)facts.st_size;
    bytes = p->n > 0 ? mmap(NULL, p->n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (bytes == MAP_FAILED) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "%s %u: no memory for %zu bytes", m->conf->what,
                       i + 1, p->n);
    }
    p->bytes = bytes;
    if (p->n > 0) {
        m->heap[m->left++] = i;
        if (!ps_record_next(p->bytes, p->n, &p->at, &p->now)) {
            return damaged(m, i);
        }
    }
    return st;
}

/* ---- With an executor ---- */

/* Gives conf->take each record in m->out. If `keeps`, does not give it the last record: more values
 * of its key follow, so it becomes the first record of the next call's input. */
static ps_status give(merging *m, size_t n, bool keeps)
{
    size_t at = 0;
    ps_keyed record;
    ps_status st = ps_ok();

    m->in_n = 0;
    while (ps_is_ok(&st) && ps_record_next(m->out, n, &at, &record)) {
        if (keeps && at == n) {
            m->in_n = record.key_bytes + record.value_bytes;
            memcpy(m->in, record.at, m->in_n);
            break;
        }
        st = m->conf->take(m->conf->arg, &record);
    }
    return st;
}

/* Returns an error if the next record, of so many bytes, has no room in m->in. */
static ps_status check_room(const merging *m, size_t bytes)
{
    return m->in_n + bytes <= PS_MERGE_IN_MAX
               ? ps_ok()
               : ps_fail(PS_FAILED_PRECONDITION,
                         "%s: reduce gives a value of %zu bytes, and the next one of its key has "
                         "%zu; %d are allowed together",
                         m->conf->code, m->in_n, bytes, (int)PS_MERGE_IN_MAX);
}

/* Appends records of all files to m->in, in the order of keys, until it is half full; at least one.
 * Sets *goes_on to whether the next call begins with the last key of this one. */
static ps_status gather(merging *m, bool *goes_on)
{
    ps_keyed last = {.at = NULL};
    bool has_new = false;
    size_t at = 0;
    ps_status st = ps_ok();

    *goes_on = false;
    if (m->in_n > 0) {
        (void)ps_record_next(m->in, m->in_n, &at, &last);
    }
    while (ps_is_ok(&st) && m->left > 0) {
        const ps_keyed *next = &m->parts[m->heap[0]].now;
        size_t bytes = next->key_bytes + next->value_bytes;

        if (has_new && m->in_n + bytes > PS_MERGE_IN_MAX / 2) {
            *goes_on = ps_record_compare(&last, next) == 0;
            break;
        }
        st = check_room(m, bytes);
        if (ps_is_ok(&st)) {
            memcpy(m->in + m->in_n, next->at, bytes);
            last = (ps_keyed){.at = m->in + m->in_n, .key_bytes = next->key_bytes};
            m->in_n += bytes;
            has_new = true;
            st = advance(m);
        }
    }
    return st;
}

static ps_status reduce(merging *m)
{
    bool goes_on = false;
    ps_status st = ps_ok();

    while (ps_is_ok(&st) && (m->left > 0 || m->in_n > 0)) {
        size_t n = 0;

        st = gather(m, &goes_on);
        if (ps_is_ok(&st) && ps_clock_us() > m->deadline_us) {
            st = ps_fail(PS_FAILED_PRECONDITION,
                         "%s: reduce and finish take longer than %.3g s for all keys",
                         m->conf->code, (double)m->conf->within_us / 1e6);
        }
        if (ps_is_ok(&st)) {
            st = ps_executor_merge(m->conf->executor, m->in, m->in_n, goes_on, m->conf->numbers,
                                   m->out, &n);
        }
        if (ps_is_ok(&st)) {
            st = give(m, n, goes_on);
        }
    }
    return st;
}

/* ---- Without one ---- */

/* Gives conf->take all records. Fails if keys do not ascend: a file is not sorted, or two have a
 * key. */
static ps_status join(merging *m)
{
    ps_keyed last = {.at = NULL};
    ps_status st = ps_ok();

    while (ps_is_ok(&st) && m->left > 0) {
        const ps_keyed next = m->parts[m->heap[0]].now;

        if (last.at != NULL && ps_record_compare(&last, &next) >= 0) {
            return damaged(m, m->heap[0]);
        }
        last = next;
        st = m->conf->take(m->conf->arg, &next);
        if (ps_is_ok(&st)) {
            st = advance(m);
        }
    }
    return st;
}

ps_status ps_merge(const ps_merge_conf *conf)
{
    merging m = {.conf = conf,
                 .parts = ps_xcalloc(conf->count, sizeof *m.parts),
                 .heap = ps_xcalloc(conf->count, sizeof *m.heap),
                 .deadline_us = ps_clock_us() + conf->within_us,
                 .in = ps_xmalloc(PS_MERGE_IN_MAX),
                 .out = ps_xmalloc(PS_MERGE_OUT_MAX)};
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < conf->count && ps_is_ok(&st); i++) {
        st = open_part(&m, i);
    }
    for (uint32_t i = m.left / 2; i-- > 0 && ps_is_ok(&st);) {
        sink(&m, i);
    }
    if (ps_is_ok(&st)) {
        st = (conf->executor != NULL ? reduce : join)(&m);
    }
    for (uint32_t i = 0; i < conf->count; i++) {
        if (m.parts[i].bytes != NULL) {
            munmap(m.parts[i].bytes, m.parts[i].n);
        }
    }
    free(m.parts);
    free(m.heap);
    free(m.in);
    free(m.out);
    return st;
}
