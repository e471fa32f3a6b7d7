/* SPDX-License-Identifier: Apache-2.0 */
/* learned.c - see learned.h. */
#include "common/data/learned.h"

#include "common/base/bytes.h"
#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[PS_STATE_MAGIC + 1] = "PSLEARND";
enum { VERSION = 1 };
enum { FILES = 1, WORDS, COLUMN, VALUES }; /* kinds of sections of PS_LEARNED_FACTS */
enum { PART_MEMORY = 4 << 20 };            /* a part with more bytes goes from memory to a file */

/* --- parts ---------------------------------------------------------------------- */

static ps_learned_part *begin_part(ps_learned_parts *parts, const char *name, const char *scratch)
{
    ps_learned_part *part = &parts->at[parts->count++];

    part->name = name;
    part->content = ps_spill_create(scratch, PART_MEMORY);
    ps_sha256_init(&part->sha);
    return part;
}

static ps_status write_part(void *arg, const void *bytes, size_t len)
{
    ps_learned_part *part = arg;

    part->size += len;
    ps_sha256_add(&part->sha, bytes, len);
    return ps_spill_add(part->content, bytes, len);
}

static ps_status end_part(ps_learned_part *part)
{
    ps_sha256_finish(&part->sha, part->sha256);
    return ps_spill_end(part->content);
}

void ps_learned_parts_free(ps_learned_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        ps_spill_destroy(parts->at[i].content);
        ps_sha256_fini(&parts->at[i].sha);
    }
    *parts = (ps_learned_parts){.count = 0};
}

/* --- learning --------------------------------------------------------------------- */

static void keep_failure(ps_learned *l, ps_status st)
{
    if (ps_is_ok(&l->status)) {
        l->status = st;
    }
}

static void put_double(ps_learned *l, double x)
{
    uint8_t bytes[8];

    ps_put_f64(bytes, x);
    ps_state_put(&l->out, bytes, sizeof bytes);
}

/* Ends the section that is being written. If all sections would then exceed PS_LEARNED_BYTES_MAX,
 * drops it and keeps a failure for ps_learned_end. */
static void finish_section(ps_learned *l, const char *advice)
{
    uint64_t bytes = l->facts->size + l->out.section.len + PS_STATE_SECTION_BYTES;

    if (bytes > PS_LEARNED_BYTES_MAX - PS_STATE_SECTION_BYTES) {
        keep_failure(l, ps_fail(PS_RESOURCE_EXHAUSTED,
                                "%s: %llu bytes are learned from all files; with assignment modulo "
                                "each worker is sent them, and %d are allowed",
                                advice, (unsigned long long)bytes, PS_LEARNED_BYTES_MAX));
        ps_strbuf_clear(&l->out.section);
        return;
    }
    ps_state_finish(&l->out);
}

ps_status ps_learned_see(ps_learned *l, const ps_learned_record *r)
{
    ps_status st = ps_ok();

    if (l->has_walked) {
        return st;
    }
    if (r->is_header) {
        ps_strbuf_clear(&l->header);
        ps_strbuf_append(&l->header, r->text, r->len);
        ps_strbuf_putc(&l->header, '\n');
        return st;
    }
    l->files[r->file].records++;
    if (!r->is_test) {
        return st;
    }
    if (l->copied != r->file + 1) {
        l->copied = r->file + 1;
        st = write_part(l->test, "\0\n", 2);
        if (ps_is_ok(&st) && l->header.len > 0) {
            st = write_part(l->test, l->header.data, l->header.len);
        }
    }
    if (ps_is_ok(&st)) {
        st = write_part(l->test, r->text, r->len);
    }
    return ps_is_ok(&st) ? write_part(l->test, "\n", 1) : st;
}

void ps_learned_count(ps_learned *l, uint32_t file, uint64_t samples)
{
    uint64_t sum = l->files[file].samples + samples;

    /* bounded by UINT32_MAX: ps_data_found_counts refuses a set of so many samples later */
    l->files[file].samples = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

void ps_learned_put_words(ps_learned *l, uint32_t index, const ps_vocabulary *words, uint32_t count,
                          const char *advice)
{
    ps_state_begin(&l->out, WORDS, index);
    ps_state_put_u64(&l->out, ps_vocabulary_total(words));
    ps_state_put_u32(&l->out, count);
    for (uint32_t i = 0; i < count; i++) {
        size_t len;
        const char *word = ps_vocabulary_word(words, i, &len);

        ps_state_put_u64(&l->out, ps_vocabulary_times(words, i));
        ps_state_put_u32(&l->out, (uint32_t)len);
        ps_state_put(&l->out, word, len);
    }
    finish_section(l, advice);
}

void ps_learned_put_column(ps_learned *l, uint32_t index, const ps_learned_column *column)
{
    ps_state_begin(&l->out, COLUMN, index);
    ps_state_put_u64(&l->out, column->count);
    put_double(l, column->mean);
    put_double(l, column->squares);
    put_double(l, column->least);
    put_double(l, column->most);
    finish_section(l, "data.columns");
}

static void put_files(ps_learned *l)
{
    ps_state_begin(&l->out, FILES, 0);
    ps_state_put_u32(&l->out, l->file_count);
    for (uint32_t i = 0; i < l->file_count; i++) {
        const ps_learned_file *f = &l->files[i];

        ps_state_put_u32(&l->out, (uint32_t)strlen(f->name));
        ps_state_put(&l->out, f->name, strlen(f->name));
        ps_state_put_u64(&l->out, f->records);
        ps_state_put_u32(&l->out, f->samples);
    }
    finish_section(l, "data.files");
}

void ps_learned_put_values(ps_learned *l, uint32_t place, const float *values, size_t count)
{
    ps_state_begin(&l->out, VALUES, place);
    ps_state_put_u32(&l->out, (uint32_t)count);
    for (size_t k = 0; k < count; k++) {
        put_double(l, (double)values[k]);
    }
    finish_section(l, "data.transforms");
}

ps_learned *ps_learned_begin(ps_learned_parts *parts, const char *scratch, bool has_test_files)
{
    ps_learned *l = ps_xcalloc(1, sizeof *l);

    *parts = (ps_learned_parts){.count = 0};
    l->is_learner = true;
    l->test = has_test_files ? NULL : begin_part(parts, PS_LEARNED_TEST, scratch);
    l->facts = begin_part(parts, PS_LEARNED_FACTS, scratch);
    ps_state_out_init(&l->out, magic, VERSION, write_part, l->facts);
    return l;
}

ps_status ps_learned_end(ps_learned *l, ps_learned_parts *parts, ps_status st)
{
    ps_status end;

    if (ps_is_ok(&st)) {
        put_files(l);
        st = l->status;
    }
    end = ps_state_out_end(&l->out);
    st = ps_is_ok(&st) ? end : st;
    for (size_t i = 0; i < parts->count && ps_is_ok(&st); i++) {
        st = end_part(&parts->at[i]);
    }
    if (!ps_is_ok(&st)) {
        ps_learned_parts_free(parts);
    }
    ps_learned_destroy(l);
    return st;
}

/* --- reading ------------------------------------------------------------------------ */

static double take_double(ps_state_in *in, const char *what, double least)
{
    uint64_t bits = ps_state_take_u64(in);
    double x;

    memcpy(&x, &bits, sizeof x);
    if (!isfinite(x) || x < least) {
        ps_state_fail(in, "%s is %g; finite numbers of %g and more are allowed", what, x, least);
        return 0;
    }
    return x;
}

static void take_files(ps_state_in *in, ps_learned *l)
{
    uint32_t count = ps_state_take_count(in, "files", PS_DATA_LIST_MAX);
    uint64_t records = 0, samples = 0;

    if (l->files != NULL) {
        ps_state_fail(in, "files come twice; once is allowed");
        return;
    }
    l->files = ps_xcalloc(count + 1, sizeof *l->files);
    for (uint32_t i = 0; i < count && ps_state_is_ok(in); i++) {
        ps_learned_file *f = &l->files[i];
        uint32_t len = ps_state_take_count(in, "files.name", sizeof f->name - 1);

        ps_state_take(in, f->name, len);
        f->first_record = records;
        f->first = (uint32_t)samples;
        f->records = ps_state_take_u64(in);
        f->samples = ps_state_take_u32(in);
        samples += f->samples;
        if (f->records > UINT64_MAX / 2 - records || samples > UINT32_MAX - 1) {
            ps_state_fail(in,
                          "files[%u] has %llu records and %u samples; %u samples in all are "
                          "allowed",
                          i, (unsigned long long)f->records, f->samples, UINT32_MAX - 1);
            return;
        }
        records += f->records;
        l->file_count++;
    }
}

static void take_words(ps_state_in *in, ps_learned *l, uint32_t index)
{
    uint64_t total = ps_state_take_u64(in), sum = 0;
    uint32_t count = ps_state_take_count(in, "words", PS_WORDS_MAX);
    ps_vocabulary *words;

    if (l->words[index] != NULL) {
        ps_state_fail(in, "words[%u] come twice; once is allowed", index);
        return;
    }
    words = l->words[index] = ps_vocabulary_create();
    for (uint32_t i = 0; i < count && ps_state_is_ok(in); i++) {
        uint64_t times = ps_state_take_u64(in);
        uint32_t len = ps_state_take_count(in, "words.length", PS_WORD_BYTES_MAX);
        const char *word = (const char *)ps_state_view(in, len);
        ps_status st;

        if (!ps_state_is_ok(in)) {
            return;
        }
        st = ps_vocabulary_give(words, word, len);
        if (ps_is_ok(&st) && times > 0) {
            st = ps_vocabulary_count(words, word, len, times);
        }
        if (!ps_is_ok(&st) || times > total - sum) {
            ps_state_fail(in, "words[%u][%u]: %s", index, i,
                          ps_is_ok(&st) ? "its count is more than is left of the sum" : st.text);
            return;
        }
        sum += times;
    }
    ps_vocabulary_count_rest(words, total - sum);
}

static void take_column(ps_state_in *in, ps_learned *l, uint32_t index)
{
    ps_learned_column *c = &l->columns[index];

    c->count = ps_state_take_u64(in);
    c->mean = take_double(in, "columns.mean", -HUGE_VAL);
    c->squares = take_double(in, "columns.squares", 0);
    c->least = take_double(in, "columns.least", -HUGE_VAL);
    c->most = take_double(in, "columns.most", c->least);
    l->has_column[index] = true;
}

static void take_values(ps_state_in *in, ps_learned *l, uint32_t place)
{
    uint32_t count = ps_state_take_count(in, "values", PS_LEARNED_BYTES_MAX / 8);
    ps_learned_values *values = &l->values[place];

    if (values->at != NULL) {
        ps_state_fail(in, "values[%u] come twice; once is allowed", place);
        return;
    }
    values->at = ps_xcalloc(count + 1, sizeof *values->at);
    values->count = count;
    for (uint32_t i = 0; i < count && ps_state_is_ok(in); i++) {
        values->at[i] = (float)take_double(in, "values", -HUGE_VAL);
        if (!isfinite(values->at[i])) {
            ps_state_fail(in, "values[%u][%u] does not fit into 32 bits", place, i);
        }
    }
}

static ps_status take_section(ps_state_in *in, ps_learned *l, uint32_t kind, uint32_t index)
{
    uint32_t most = kind == FILES    ? 1
                    : kind == VALUES ? PS_LEARNED_VALUES_MAX
                                     : PS_DATA_COLUMNS_MAX;

    if (kind > VALUES || index >= most) {
        ps_state_fail(in, "section %u[%u]; kinds 1 to %d and indices below %u are allowed", kind,
                      index, VALUES, most);
    } else if (kind == FILES) {
        take_files(in, l);
    } else if (kind == WORDS) {
        take_words(in, l, index);
    } else if (kind == COLUMN) {
        take_column(in, l, index);
    } else {
        take_values(in, l, index);
    }
    return ps_state_done(in);
}

static ps_status take_all(ps_learned *l, const char *bytes, size_t n)
{
    ps_state_in in;
    uint32_t kind = FILES, index;
    ps_status st = ps_state_in_init(&in, magic, VERSION, (const uint8_t *)bytes, n);

    while (ps_is_ok(&st)) {
        st = ps_state_next(&in, true, &kind, &index);
        if (!ps_is_ok(&st) || kind == 0) {
            break;
        }
        st = take_section(&in, l, kind, index);
    }
    return st;
}

/* Checks that the files have training samples, and not fewer than conf->train_limit. */
static ps_status check_all(const ps_learned *l, const ps_data_conf *conf)
{
    uint64_t samples = 0;

    for (uint32_t i = 0; i < l->file_count; i++) {
        samples += l->files[i].samples;
    }
    if (samples < conf->train_limit || samples == 0) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "files: have %llu training samples; %u and more are allowed (train_limit)",
                       (unsigned long long)samples, conf->train_limit);
    }
    return ps_ok();
}

ps_status ps_learned_open(const char *folder, const ps_data_conf *conf, ps_learned **out)
{
    ps_learned *l = ps_xcalloc(1, sizeof *l);
    char path[1024], *bytes = NULL;
    size_t n = 0;
    ps_status st = ps_path_join(path, sizeof path, folder, PS_LEARNED_FACTS);

    l->folder = folder;
    if (ps_is_ok(&st)) {
        st = ps_file_read(path, PS_LEARNED_BYTES_MAX, &bytes, &n);
    }
    if (ps_is_ok(&st)) {
        st = take_all(l, bytes, n);
        free(bytes);
    }
    if (ps_is_ok(&st)) {
        st = check_all(l, conf);
    }
    if (!ps_is_ok(&st)) {
        ps_learned_destroy(l);
        return st.code == PS_NOT_FOUND
                   ? ps_fail(PS_NOT_FOUND,
                             PS_LEARNED_FACTS " is missing, which comes from the coordinator with "
                                              "a share of the files; submit the job again")
                   : ps_wrap(st, "what was learned from all files");
    }
    *out = l;
    return st;
}

void ps_learned_destroy(ps_learned *l)
{
    if (l == NULL) {
        return;
    }
    for (size_t i = 0; i < PS_DATA_COLUMNS_MAX; i++) {
        ps_vocabulary_destroy(l->words[i]);
    }
    for (size_t i = 0; i < PS_LEARNED_VALUES_MAX; i++) {
        free(l->values[i].at);
    }
    ps_strbuf_fini(&l->header);
    free(l->files);
    free(l);
}

ps_learned_values *ps_learned_take_values(ps_learned *l)
{
    ps_learned_values *values = ps_xcalloc(PS_LEARNED_VALUES_MAX, sizeof *values);

    memcpy(values, l->values, sizeof l->values);
    memset(l->values, 0, sizeof l->values);
    return values;
}

const ps_learned_file *ps_learned_find(ps_learned *l, const char *name)
{
    for (uint32_t i = 0; i < l->file_count; i++) {
        uint32_t at = (l->cursor + i) % l->file_count;

        if (strcmp(l->files[at].name, name) == 0) {
            l->cursor = at + 1;
            return &l->files[at];
        }
    }
    return NULL;
}

ps_status ps_learned_take_words(ps_learned *l, uint32_t index, ps_vocabulary **words)
{
    if (l->words[index] == NULL) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "what was learned from all files: words[%u] are not there", index);
    }
    ps_vocabulary_destroy(*words);
    *words = l->words[index];
    l->words[index] = NULL;
    return ps_ok();
}

ps_status ps_learned_take_column(const ps_learned *l, uint32_t index, ps_learned_column *column)
{
    if (!l->has_column[index]) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "what was learned from all files: columns[%u] is not there", index);
    }
    *column = l->columns[index];
    return ps_ok();
}
