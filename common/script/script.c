/* SPDX-License-Identifier: Apache-2.0 */
/* script.c - see script.h. */
#include "common/script/script.h"

#include "common/base/clock.h"
#include "common/base/sha256.h"
#include "common/base/xalloc.h"
#include "common/script/script_impl.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LANES = 64, /* most idle sandboxes that a script keeps for later calls */
    /* A thread that has to wait for another one's sandbox tries at such intervals to start one
     * itself, and gives up after so long. */
    AGAIN_NS = 200 * 1000 * 1000,
    WAIT_US = 60 * 1000 * 1000
};

struct ps_script {
    struct ps_script *next;
    uint32_t users;
    uint64_t id;
    char *file, *text;
    size_t bytes;
    ps_script_about about;
    ps_script_plugin plugin;

    pthread_mutex_t lock; /* guards the members below */
    ps_sandbox *idle[LANES];
    size_t idle_count;
    uint32_t trials; /* threads that try it out (ps_script_trial_begin) */
    size_t lent;     /* sandboxes that threads have taken and not given back */
    ps_status failure;
    pthread_cond_t given; /* a sandbox was given back, or the script has failed */
};

/* All open scripts of the process. They are few, so a list is enough. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static ps_script *all;

/* Returns the first 53 bits of the text's SHA-256. */
static uint64_t id_of(const char *text, size_t bytes)
{
    char hex[PS_SHA256_HEX_BYTES], first[15];

    ps_sha256_of(text, bytes, hex);
    snprintf(first, sizeof first, "%.14s", hex);
    return strtoull(first, NULL, 16) >> 3;
}

static ps_script *find(uint64_t id)
{
    ps_script *s = all;

    while (s != NULL && s->id != id) {
        s = s->next;
    }
    return s;
}

/* Fills in s's plugin: the table of functions of its kind, such as codec or metric. */
static void make_plugin(ps_script *s)
{
    static const ps_param warmups[] = {PS_WARMUP_PARAM_LINES};
    static const struct {
        const char *name;
        void (*make)(const ps_script_about *about, ps_script_plugin *plugin);
    } kinds[] = {
        {"codec", ps_script_codec_make},         {"consistency", ps_script_consistency_make},
        {"metric", ps_script_metric_make},       {"schedule", ps_script_schedule_make},
        {"transform", ps_script_transform_make},
    };
    ps_script_plugin *plugin = &s->plugin;
    size_t n = 0;

    if (strcmp(s->about.kind, "schedule") == 0) {
        memcpy(plugin->params, warmups, sizeof warmups);
        n = PS_WARMUP_PARAMS;
    }
    plugin->params[n++] = (ps_param){
        .name = "script",
        .value = (double)s->id,
        .min = (double)s->id,
        .max = (double)s->id,
        .is_integer = true,
        .help = "which script: the first 53 bits of its SHA-256",
    };
    memcpy(plugin->params + n, s->about.numbers, s->about.number_count * sizeof(ps_param));
    plugin->param_count = n + s->about.number_count;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(s->about.kind, kinds[i].name) == 0) {
            kinds[i].make(&s->about, plugin);
        }
    }
}

ps_script *ps_script_open(const char *file, const char *text, size_t bytes,
                          const ps_script_about *about)
{
    uint64_t id = id_of(text, bytes);
    ps_script *s;

    pthread_mutex_lock(&all_lock);
    s = find(id);
    if (s == NULL) {
        s = ps_xcalloc(1, sizeof *s);
        s->id = id;
        s->file = ps_xstrdup(file);
        s->text = ps_xmalloc(bytes + 1);
        memcpy(s->text, text, bytes);
        s->text[bytes] = '\0';
        s->bytes = bytes;
        s->about = *about;
        ps_script_about_settle(&s->about);
        s->failure = ps_ok();
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->given, NULL);
        make_plugin(s);
        s->next = all;
        all = s;
    }
    s->users++;
    pthread_mutex_unlock(&all_lock);
    return s;
}

void ps_script_close(ps_script *script)
{
    ps_script **at = &all;

    if (script == NULL) {
        return;
    }
    pthread_mutex_lock(&all_lock);
    if (--script->users > 0) {
        pthread_mutex_unlock(&all_lock);
        return;
    }
    while (*at != script) {
        at = &(*at)->next;
    }
    *at = script->next;
    pthread_mutex_unlock(&all_lock);
    while (script->idle_count > 0) {
        ps_sandbox_end(script->idle[--script->idle_count]);
    }
    pthread_cond_destroy(&script->given);
    pthread_mutex_destroy(&script->lock);
    free(script->file);
    free(script->text);
    free(script);
}

uint64_t ps_script_id(const ps_script *script)
{
    return script->id;
}

ps_script *ps_script_of_id(uint64_t id)
{
    ps_script *s;

    pthread_mutex_lock(&all_lock);
    s = find(id);
    pthread_mutex_unlock(&all_lock);
    return s;
}

const ps_script_about *ps_script_about_of(const ps_script *script)
{
    return &script->about;
}

const char *ps_script_file(const ps_script *script)
{
    return script->file;
}

const char *ps_script_text(const ps_script *script, size_t *bytes)
{
    *bytes = script->bytes;
    return script->text;
}

ps_script *ps_script_of_params(const ps_params *params)
{
    return ps_script_of_id((uint64_t)params->v[0]);
}

const ps_param *ps_script_params(const ps_script *script)
{
    return script->plugin.params;
}

const ps_codec *ps_script_codec(const ps_script *script)
{
    return script->plugin.codec.name != NULL ? &script->plugin.codec : NULL;
}

const ps_transform *ps_script_transform(const ps_script *script)
{
    return script->plugin.transform.name != NULL ? &script->plugin.transform : NULL;
}

const ps_schedule *ps_script_schedule(const ps_script *script)
{
    return script->plugin.schedule.name != NULL ? &script->plugin.schedule : NULL;
}

const ps_metric *ps_script_metric(const ps_script *script)
{
    return script->plugin.metric.name != NULL ? &script->plugin.metric : NULL;
}

const ps_consistency *ps_script_consistency(const ps_script *script)
{
    return script->plugin.policy.name != NULL ? &script->plugin.policy : NULL;
}

/* ---- Calls ---- */

/* Copies like memcpy, in pieces. A long one is done by `rep movsb`, which takes five times as long
 * on Zen 4 where the two places have about the same offset in a page (glibc bug 30994). */
static void copy(uint8_t *to, const void *from, size_t n)
{
    const volatile size_t below = 2048; /* glibc's least threshold; a constant is copied inline */
    const size_t piece = below;
    const uint8_t *p = from;

    for (; n > piece; to += piece, p += piece, n -= piece) {
        memcpy(to, p, piece);
    }
    memcpy(to, p, n);
}

/* Returns the bytes of an element of an argument. */
static size_t unit_of(const ps_script_value *a)
{
    return a->kind == PS_SANDBOX_VECTOR     ? sizeof(float)
           : a->kind == PS_SANDBOX_NUMBERED ? sizeof(double)
                                            : 1;
}

/* Returns the bytes that an argument takes in the shared memory besides its ps_sandbox_value. */
static size_t bytes_of(const ps_script_value *a)
{
    return a->in != NULL || a->room != NULL ? (size_t)a->count * unit_of(a) : 0;
}

/* Returns whether arguments fit into the shared memory from argument `first` and byte `at` on. */
static bool fits(size_t first, size_t at, const ps_script_value *arguments, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        at += bytes_of(&arguments[i]) + 64;
    }
    return first + count <= PS_SANDBOX_ARGUMENTS && at <= PS_SANDBOX_ROOM;
}

bool ps_script_put_arguments(ps_sandbox_memory *shared, size_t first, size_t *at,
                             const ps_script_value *arguments, size_t count)
{
    if (!fits(first, *at, arguments, count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const ps_script_value *a = &arguments[i];
        ps_sandbox_value v = {.kind = a->kind, .count = a->count};

        if (a->kind == PS_SANDBOX_NUMBER) {
            v.as.number = a->number;
        } else if (a->in == NULL && a->room == NULL) {
            v.as.integer = a->integer;
        } else {
            *at = (*at + 63) / 64 * 64;
            v.at = (uint32_t)*at;
            if (a->in != NULL) {
                copy(shared->in + *at, a->in, bytes_of(a));
            } else {
                *a->room = (float *)(void *)(shared->in + *at);
            }
            *at += bytes_of(a);
        }
        shared->arguments[first + i] = v;
    }
    shared->argument_count = (uint32_t)count;
    return true;
}

void ps_script_set_call(ps_sandbox_memory *shared, uint32_t what, const char *function,
                        size_t result_max)
{
    shared->what = what;
    snprintf(shared->function, sizeof shared->function, "%s", function);
    shared->result_max = (uint32_t)result_max;
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {
        [PS_SANDBOX_NIL] = "nothing",     [PS_SANDBOX_BOOLEAN] = "a boolean",
        [PS_SANDBOX_NUMBER] = "a number", [PS_SANDBOX_INTEGER] = "an integer",
        [PS_SANDBOX_VECTOR] = "a vector", [PS_SANDBOX_WRITER] = "bytes",
        [PS_SANDBOX_TEXT] = "a string",   [PS_SANDBOX_SPARSE] = "a vector",
    };
    const char *name = kind < sizeof names / sizeof names[0] ? names[kind] : NULL;

    return name != NULL ? name : "something else";
}

/* Copies a value from shared memory, reading each member only once: the sandbox may change it at
 * any time, so checks must be of the copy. */
static ps_sandbox_value copy_value(const volatile ps_sandbox_value *from)
{
    return (ps_sandbox_value){
        .kind = from->kind, .at = from->at, .count = from->count, .as.integer = from->as.integer};
}

/* Reads a sparse result, as *r asks for it. `v` is a copy of what the sandbox wrote, which may be
 * anything. */
static ps_status take_sparse(const ps_sandbox_memory *shared, const ps_sandbox_value *v,
                             ps_script_value *r)
{
    uint16_t room[PS_SANDBOX_SPARSE_MAX], *at = r->positions != NULL ? r->positions : room;
    size_t k = (uint64_t)v->as.integer <= PS_SANDBOX_SPARSE_MAX ? (size_t)v->as.integer : SIZE_MAX;
    const uint8_t *floats = shared->out + v->at;
    float *y = r->out;

    if (k == SIZE_MAX || v->at > PS_SANDBOX_ROOM ||
        k * (sizeof *y + sizeof at[0]) > PS_SANDBOX_ROOM - v->at) {
        return ps_fail(PS_FAILED_PRECONDITION, "returns a sparse vector that is too long");
    }
    copy((uint8_t *)at, floats + k * sizeof *y, k * sizeof at[0]);
    for (size_t i = 0; i < k; i++) {
        if (at[i] >= r->count || (i > 0 && at[i] <= at[i - 1])) {
            return ps_fail(PS_FAILED_PRECONDITION,
                           "returns value %u of a vector of %u, not in ascending order", at[i],
                           r->count);
        }
    }
    if (r->positions != NULL) {
        r->kind = PS_SANDBOX_SPARSE;
        copy(r->out, floats, k * sizeof *y);
        return ps_ok();
    }
    memset(y, 0, r->count * sizeof *y);
    for (size_t i = 0; i < k; i++) {
        memcpy(&y[at[i]], floats + i * sizeof *y, sizeof *y);
    }
    return ps_ok();
}

/* Checks one result against the kind and size that *r asks for, and copies it to *r. `v` is a copy
 * of what the sandbox wrote, which may be anything. */
static ps_status take_result(const ps_sandbox_memory *shared, const ps_sandbox_value *v,
                             ps_script_value *r)
{
    size_t unit = r->kind == PS_SANDBOX_VECTOR ? sizeof(float) : 1;
    bool is_sparse = r->kind == PS_SANDBOX_VECTOR && v->kind == PS_SANDBOX_SPARSE;

    if (r->kind == PS_SANDBOX_NUMBER &&
        (v->kind == PS_SANDBOX_INTEGER || v->kind == PS_SANDBOX_BOOLEAN)) {
        r->number = (double)v->as.integer;
        return ps_ok();
    }
    if (r->kind == PS_SANDBOX_INTEGER && v->kind == PS_SANDBOX_NUMBER &&
        fabs(v->as.number) < 0x1p53 && v->as.number == floor(v->as.number)) {
        r->integer = (int64_t)v->as.number;
        return ps_ok();
    }
    if (v->kind != r->kind && !is_sparse) {
        return ps_fail(PS_FAILED_PRECONDITION, "returns %s; it has to return %s",
                       kind_name(v->kind), kind_name(r->kind));
    }
    r->number = v->as.number;
    r->integer = v->as.integer;
    if (r->kind == PS_SANDBOX_VECTOR && v->count != r->count) {
        return ps_fail(PS_FAILED_PRECONDITION, "returns %u values; it has to return %u", v->count,
                       r->count);
    }
    if (is_sparse) {
        return take_sparse(shared, v, r);
    }
    if (r->kind == PS_SANDBOX_VECTOR || r->kind == PS_SANDBOX_WRITER ||
        r->kind == PS_SANDBOX_TEXT) {
        if (v->count > r->count || v->at > PS_SANDBOX_ROOM ||
            v->count * unit > PS_SANDBOX_ROOM - v->at) {
            return ps_fail(PS_FAILED_PRECONDITION, "returns %u bytes; at most %u are allowed",
                           v->count, r->count);
        }
        r->count = v->count;
        copy(r->out, shared->out + v->at, v->count * unit);
    }
    return ps_ok();
}

ps_status ps_script_take_results(const ps_sandbox_memory *shared, uint32_t first,
                                 ps_script_value *results, size_t count)
{
    uint32_t has = shared->result_count;
    ps_status st = ps_ok();

    for (size_t i = 0; i < count && ps_is_ok(&st); i++) {
        ps_sandbox_value v = {.kind = PS_SANDBOX_NIL};

        if (first + i < has && first + i < PS_SANDBOX_RESULTS) {
            v = copy_value(&shared->results[first + i]);
        }
        st = take_result(shared, &v, &results[i]);
    }
    return st;
}

ps_status ps_script_load(const char *text, size_t bytes, const ps_sandbox_budget *budget,
                         ps_sandbox **out)
{
    ps_script_value argument = {.kind = PS_SANDBOX_TEXT, .count = (uint32_t)bytes, .in = text};
    ps_status st = ps_ok();

    *out = NULL;
    if (bytes > PS_SANDBOX_TEXT_MAX) {
        st = ps_fail(PS_INVALID_ARGUMENT, "has %zu bytes; at most %d are allowed", bytes,
                     PS_SANDBOX_TEXT_MAX);
    }
    if (ps_is_ok(&st)) {
        st = ps_sandbox_start(budget, out);
    }
    if (ps_is_ok(&st)) {
        ps_sandbox_memory *shared = ps_sandbox_shared(*out);

        size_t at = 0;

        ps_script_set_call(shared, PS_SANDBOX_LOAD, "", 1);
        (void)ps_script_put_arguments(shared, 0, &at, &argument, 1); /* PS_SANDBOX_TEXT_MAX fits */
        st = ps_sandbox_call(*out, 0, 1);
        if (!ps_is_ok(&st)) {
            ps_sandbox_end(*out);
            *out = NULL;
        }
    }
    return st;
}

void ps_script_trial_begin(ps_script *s)
{
    pthread_mutex_lock(&s->lock);
    s->trials++;
    pthread_mutex_unlock(&s->lock);
}

int64_t ps_script_trial_us(ps_script *s)
{
    int64_t us = 0;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->idle_count; i++) {
        us += ps_sandbox_used_us(s->idle[i]);
    }
    pthread_mutex_unlock(&s->lock);
    return us;
}

void ps_script_trial_end(ps_script *s)
{
    ps_sandbox *slow[LANES];
    size_t n = 0, kept = 0;

    pthread_mutex_lock(&s->lock);
    s->trials--;
    for (size_t i = 0; i < s->idle_count; i++) {
        if (s->trials == 0 && ps_sandbox_is_background(s->idle[i])) {
            slow[n++] = s->idle[i];
        } else {
            s->idle[kept++] = s->idle[i];
        }
    }
    s->idle_count = kept;
    pthread_mutex_unlock(&s->lock);
    while (n > 0) {
        ps_sandbox_end(slow[--n]);
    }
}

/* Keeps the first failure. The caller holds the lock. */
static void keep_failure(ps_script *s, const ps_status *st)
{
    s->failure = ps_is_ok(&s->failure) ? *st : s->failure;
    pthread_cond_broadcast(&s->given);
}

void ps_script_give_back(ps_script *s, ps_sandbox *sandbox, ps_status *st)
{
    pthread_mutex_lock(&s->lock);
    if (!ps_is_ok(st)) {
        /* a code that ends the job; with other codes the job would go on with another attempt */
        st->code = PS_FAILED_PRECONDITION;
        keep_failure(s, st);
    }
    s->lent -= sandbox != NULL;
    if (sandbox != NULL && !ps_sandbox_is_over(sandbox) &&
        !ps_sandbox_is_old(sandbox, PS_SANDBOX_RESULTS) && s->idle_count < LANES &&
        (s->trials > 0 || !ps_sandbox_is_background(sandbox))) {
        s->idle[s->idle_count++] = sandbox;
        sandbox = NULL;
    }
    pthread_cond_signal(&s->given);
    pthread_mutex_unlock(&s->lock);
    ps_sandbox_end(sandbox);
}

/* Takes an idle sandbox. Returns false, with the script's failure in *st, if there is none. */
static bool take_idle(ps_script *s, ps_sandbox **out, ps_status *st)
{
    *st = s->failure;
    *out = ps_is_ok(st) && s->idle_count > 0 ? s->idle[--s->idle_count] : NULL;
    s->lent += *out != NULL;
    return *out != NULL;
}

/* Blocks until a sandbox was given back or it is time to try again to start one. The caller holds
 * the lock. */
static void wait_given(ps_script *s)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += AGAIN_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&s->given, &s->lock, &until);
}

ps_status ps_script_take(ps_script *s, ps_sandbox **out)
{
    ps_sandbox_budget budget;
    int64_t until_us = ps_clock_us() + WAIT_US;
    ps_status st;

    pthread_mutex_lock(&s->lock);
    while (!take_idle(s, out, &st) && ps_is_ok(&st)) {
        s->lent++; /* so that others wait for the sandbox that is being started */
        budget = s->trials > 0 ? ps_sandbox_budget_trial() : ps_sandbox_budget_default();
        pthread_mutex_unlock(&s->lock);
        st = ps_script_load(s->text, s->bytes, &budget, out);
        if (st.code == PS_UNAVAILABLE) {
            /* Whoever waits has no sandbox, so of those that have one nobody waits. */
            ps_script_ahead_end();
        }
        pthread_mutex_lock(&s->lock);
        s->lent -= *out == NULL;
        if (*out != NULL) {
            break;
        }
        if (st.code == PS_UNAVAILABLE && (s->lent > 0 || s->idle_count > 0) &&
            ps_clock_us() < until_us) {
            if (s->idle_count == 0 && ps_is_ok(&s->failure)) {
                wait_given(s);
            }
            continue;
        }
        /* The node lacks what a sandbox needs, so the job may go on elsewhere. What code does wrong
         * it does everywhere. */
        st.code = st.code == PS_UNAVAILABLE ? PS_RESOURCE_EXHAUSTED : PS_FAILED_PRECONDITION;
        st = ps_wrap(st, "%s", s->file);
        keep_failure(s, &st);
        break;
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

ps_status ps_script_run(ps_sandbox *sandbox, uint32_t what, const char *function,
                        const ps_script_value *arguments, size_t argument_count,
                        ps_script_value *results, size_t result_count)
{
    ps_sandbox_memory *shared = ps_sandbox_shared(sandbox);
    bool has_writer = false;
    size_t at = 0;
    ps_status st;

    for (size_t i = 0; i < argument_count; i++) {
        has_writer |= arguments[i].kind == PS_SANDBOX_WRITER;
    }
    ps_script_set_call(shared, what, function, result_count - has_writer);
    if (!ps_script_put_arguments(shared, 0, &at, arguments, argument_count)) {
        return ps_fail(PS_FAILED_PRECONDITION, "its arguments take more than %d bytes",
                       PS_SANDBOX_ROOM);
    }
    st = ps_sandbox_call(sandbox, 0, 1);
    return ps_is_ok(&st) ? ps_script_take_results(shared, 0, results, result_count) : st;
}

ps_status ps_script_call(ps_script *script, const char *function, const ps_script_value *arguments,
                         size_t argument_count, ps_script_value *results, size_t result_count)
{
    ps_sandbox *sandbox;
    ps_status st = ps_script_take(script, &sandbox);

    if (sandbox == NULL) {
        return st;
    }
    st = ps_wrap(ps_script_run(sandbox, PS_SANDBOX_RUN, function, arguments, argument_count,
                               results, result_count),
                 "%s: %s", script->file, function);
    ps_script_give_back(script, sandbox, &st);
    return st;
}

void ps_script_fail(ps_script *script, const char *fmt, ...)
{
    char text[PS_STATUS_TEXT_BYTES];
    va_list ap;
    ps_status st;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    st = ps_fail(PS_FAILED_PRECONDITION, "%s: %s", script->file, text);
    ps_script_give_back(script, NULL, &st);
}

ps_status ps_script_failure(ps_script *script)
{
    ps_status st;

    pthread_mutex_lock(&script->lock);
    st = script->failure;
    pthread_mutex_unlock(&script->lock);
    return st;
}

/* ---- Descriptions ---- */

ps_status ps_script_describe(const char *text, size_t bytes, ps_script_about *about)
{
    ps_script_value said = {.kind = PS_SANDBOX_TEXT, .count = PS_SCRIPT_SAID_MAX};
    char room[PS_SCRIPT_SAID_MAX + 1];
    ps_sandbox_budget budget = ps_sandbox_budget_trial();
    ps_sandbox *sandbox;
    ps_status st;

    st = ps_script_load(text, bytes, &budget, &sandbox);
    if (ps_is_ok(&st)) {
        said.out = room;
        st = ps_script_take_results(ps_sandbox_shared(sandbox), 0, &said, 1);
        ps_sandbox_end(sandbox);
    }
    if (ps_is_ok(&st)) {
        room[said.count] = '\0';
        st = ps_script_about_read(room, about);
    }
    if (!ps_is_ok(&st) && st.code != PS_UNAVAILABLE) {
        st.code = PS_INVALID_ARGUMENT;
    }
    return st;
}
