/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c - see executor.h. */
#include "common/script/executor.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/script/record.h"
#include "common/script/script_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct ps_executor {
    ps_script *script;
    ps_sandbox_budget budget;
    pthread_mutex_t lock; /* guards the two below against ps_executor_stop of other threads */
    ps_sandbox *sandbox;
    bool is_stopped;
};

/* Names file and function in an error, and makes it one of the job's code. A call that took too
 * much time or memory is a failure of the code, not of the machine. PS_CANCELLED stays as it is. */
static ps_status of_code(ps_executor *x, ps_status st, const char *function)
{
    if (!ps_is_ok(&st) && st.code != PS_CANCELLED) {
        st.code = PS_FAILED_PRECONDITION;
        st = ps_wrap(st, "%s: %s", ps_script_file(x->script), function);
    }
    return st;
}

/* Ends the present sandbox, if there is one, starts another one and loads the code into it: in this
 * order, as there may be memory for one only. If the executor was stopped meanwhile, stops the new
 * one too. Returns RESOURCE_EXHAUSTED if none can be started. */
static ps_status start_sandbox(ps_executor *x)
{
    ps_sandbox *sandbox = NULL, *before = x->sandbox;
    size_t bytes;
    const char *text = ps_script_text(x->script, &bytes);
    ps_status st;

    pthread_mutex_lock(&x->lock);
    x->sandbox = NULL;
    pthread_mutex_unlock(&x->lock);
    ps_sandbox_end(before);
    st = ps_script_load(text, bytes, &x->budget, &sandbox);
    pthread_mutex_lock(&x->lock);
    x->sandbox = sandbox;
    if (x->is_stopped && ps_is_ok(&st)) {
        ps_sandbox_stop(sandbox);
    }
    pthread_mutex_unlock(&x->lock);
    st.code = st.code == PS_UNAVAILABLE ? PS_RESOURCE_EXHAUSTED : st.code;
    return ps_wrap(st, "%s", ps_script_file(x->script));
}

/* Makes the sandbox ready for a call: replaces it if its processor time is nearly used up. Returns
 * PS_CANCELLED if it has ended. */
static ps_status make_ready(ps_executor *x)
{
    if (x->sandbox == NULL || ps_sandbox_is_over(x->sandbox)) {
        return ps_fail(PS_CANCELLED, "the sandbox has ended");
    }
    return ps_sandbox_is_old(x->sandbox, 1) ? start_sandbox(x) : ps_ok();
}

ps_status ps_executor_start(ps_script *script, const ps_sandbox_budget *budget, ps_executor **out)
{
    ps_executor *x = ps_xcalloc(1, sizeof *x);
    ps_status st;

    x->script = script;
    x->budget = *budget;
    pthread_mutex_init(&x->lock, NULL);
    st = start_sandbox(x);
    if (!ps_is_ok(&st)) {
        ps_executor_end(x);
        return st;
    }
    *out = x;
    return st;
}

void ps_executor_stop(ps_executor *executor)
{
    pthread_mutex_lock(&executor->lock);
    executor->is_stopped = true;
    if (executor->sandbox != NULL) {
        ps_sandbox_stop(executor->sandbox);
    }
    pthread_mutex_unlock(&executor->lock);
}

void ps_executor_end(ps_executor *executor)
{
    if (executor != NULL) {
        ps_sandbox_end(executor->sandbox);
        pthread_mutex_destroy(&executor->lock);
        free(executor);
    }
}

/* Has the sandbox do `what` (PS_SANDBOX_MAP or PS_SANDBOX_MERGE), and checks that it writes sorted
 * records. `function` names the call in errors. The last argument is the writer; its count is the
 * room of `out` in bytes. Sets *n to the bytes of the records. */
static ps_status call(ps_executor *x, uint32_t what, const char *function,
                      const ps_script_value *arguments, size_t count, uint8_t *out, size_t *n)
{
    ps_script_value result = {
        .kind = PS_SANDBOX_WRITER, .count = arguments[count - 1].count, .out = out};
    ps_status st = make_ready(x);

    *n = 0;
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_script_run(x->sandbox, what, function, arguments, count, &result, 1);
    *n = result.count;
    if (ps_is_ok(&st) && !ps_records_are_sorted(out, *n)) {
        st = ps_fail(PS_FAILED_PRECONDITION, "gives bytes that are no sorted records");
    }
    return of_code(x, st, function);
}

ps_status ps_executor_map(ps_executor *executor, const ps_partition *part, const double *numbers,
                          uint8_t *records, size_t *n)
{
    const ps_script_about *about = ps_script_about_of(executor->script);
    const uint32_t integer = part->has_range ? PS_SANDBOX_INTEGER : PS_SANDBOX_NIL;
    char what[40];

    snprintf(what, sizeof what, "map of partition %u", part->number);
    if (part->text != NULL && part->bytes > PS_PART_TEXT_MAX) {
        return of_code(executor,
                       ps_fail(PS_FAILED_PRECONDITION,
                               "its text has %zu bytes; at most %d are allowed, so have more "
                               "partitions",
                               part->bytes, PS_PART_TEXT_MAX),
                       what);
    }
    return call(executor, PS_SANDBOX_MAP, what,
                (const ps_script_value[]){
                    {.kind = PS_SANDBOX_INTEGER, .integer = part->number},
                    {.kind = PS_SANDBOX_INTEGER, .integer = part->count},
                    {.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)part->key},
                    {.kind = integer, .integer = part->from},
                    {.kind = integer, .integer = part->to},
                    {.kind = part->text != NULL ? PS_SANDBOX_TEXT : PS_SANDBOX_NIL,
                     .count = (uint32_t)part->bytes,
                     .in = part->text},
                    {.kind = PS_SANDBOX_NUMBERED, .count = about->number_count, .in = numbers},
                    {.kind = PS_SANDBOX_WRITER, .count = PS_PART_RECORDS_MAX},
                },
                8, records, n);
}

ps_status ps_executor_merge(ps_executor *executor, const uint8_t *in, size_t n, bool goes_on,
                            const double *numbers, uint8_t *out, size_t *out_n)
{
    const ps_script_about *about = ps_script_about_of(executor->script);

    return call(executor, PS_SANDBOX_MERGE, "reduce and finish",
                (const ps_script_value[]){
                    {.kind = PS_SANDBOX_READER, .count = (uint32_t)n, .in = in},
                    {.kind = PS_SANDBOX_BOOLEAN, .integer = goes_on},
                    {.kind = PS_SANDBOX_NUMBERED, .count = about->number_count, .in = numbers},
                    {.kind = PS_SANDBOX_WRITER, .count = PS_MERGE_OUT_MAX},
                },
                4, out, out_n);
}
