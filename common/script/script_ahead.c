/* SPDX-License-Identifier: Apache-2.0 */
/* script_ahead.c - calls that are made together (script_impl.h). */
#include "common/script/script_impl.h"

#include <string.h>

/* The calls of one function that a thread has added, to be run together, and their results. */
typedef struct ahead {
    ps_script *script;    /* NULL: no call was added */
    ps_sandbox *sandbox;  /* results stand in its memory until they are taken */
    const char *function; /* NULL: round trips */
    ps_ahead_id ids[PS_SANDBOX_TOGETHER];
    uint32_t values[PS_SANDBOX_TOGETHER]; /* number of values of the first argument of each call */
    uint32_t count;
    size_t at;     /* bytes that the arguments take so far in the shared memory */
    uint32_t back; /* round trip whose encoding was taken last; `count`: none */
    bool is_run;
} ahead;

static _Thread_local ahead mine;

/* Gives the sandbox of this thread's calls back to its script, with the status of the calls. */
static void leave(ps_status *st)
{
    ps_script *script = mine.script;
    ps_sandbox *sandbox = mine.sandbox;

    mine = (ahead){.script = NULL};
    ps_script_give_back(script, sandbox, st);
}

static bool is_same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool ps_script_ahead_add(ps_script *script, const char *function, ps_ahead_id id,
                         const ps_script_value *arguments, size_t count)
{
    ps_status st;

    if (mine.script == NULL) {
        st = ps_script_take(script, &mine.sandbox);
        if (!ps_is_ok(&st)) {
            return false; /* the script keeps the failure, with which the later call fails */
        }
        mine.script = script;
        mine.function = function;
        ps_script_set_call(ps_sandbox_shared(mine.sandbox),
                           function != NULL ? PS_SANDBOX_RUN : PS_SANDBOX_ROUND_TRIP,
                           function != NULL ? function : "encode",
                           arguments[count - 1].kind != PS_SANDBOX_WRITER);
    }
    if (mine.is_run || mine.script != script || !is_same(mine.function, function) ||
        mine.count == PS_SANDBOX_TOGETHER ||
        !ps_script_put_arguments(ps_sandbox_shared(mine.sandbox), mine.count * count, &mine.at,
                                 arguments, count)) {
        return false;
    }
    mine.values[mine.count] = arguments[0].count;
    mine.ids[mine.count++] = id;
    return true;
}

/* Returns the name of what failed, for messages. Of round trips the sandbox says which one it was,
 * if it could. */
static const char *failed_function(const ps_status *st)
{
    if (mine.function != NULL || st->code != PS_FAILED_PRECONDITION) {
        return mine.function != NULL ? mine.function : "encode and decode";
    }
    return ps_sandbox_shared(mine.sandbox)->failed == 2 ? "decode" : "encode";
}

void ps_script_ahead_run(void)
{
    ps_status st;

    if (mine.script == NULL || mine.is_run) {
        return;
    }
    if (mine.count == 0) {
        ps_script_ahead_end();
        return;
    }
    mine.is_run = true;
    mine.back = mine.count;
    st = ps_sandbox_call(mine.sandbox, mine.count - 1, mine.function != NULL ? 1 : 2);
    if (!ps_is_ok(&st)) {
        st = ps_wrap(st, "%s: %s", ps_script_file(mine.script), failed_function(&st));
        leave(&st);
    }
}

/* Reads result number `i` of those of all calls, which is one of `function`. */
static ps_status take(uint32_t i, const char *function, ps_script_value *result)
{
    ps_status st = ps_wrap(ps_script_take_results(ps_sandbox_shared(mine.sandbox), i, result, 1),
                           "%s: %s", ps_script_file(mine.script), function);

    if (!ps_is_ok(&st)) {
        leave(&st);
    }
    return st;
}

bool ps_script_ahead_take(ps_script *script, ps_ahead_id id, ps_script_value *result, ps_status *st)
{
    bool is_round_trip = mine.function == NULL;
    uint32_t i = 0;

    while (i < mine.count && (mine.ids[i].of != id.of || mine.ids[i].key != id.key)) {
        i++;
    }
    if (!mine.is_run || mine.script != script || i == mine.count) {
        return false;
    }
    mine.back = is_round_trip ? i : mine.count;
    *st = take(is_round_trip ? 2 * i : i, is_round_trip ? "encode" : mine.function, result);
    return true;
}

bool ps_script_ahead_take_back(ps_script *script, const uint8_t *bytes, size_t len,
                               ps_script_value *result, ps_status *st)
{
    uint8_t room[PS_CODEC_ROOM];
    ps_script_value written = {.kind = PS_SANDBOX_WRITER, .count = sizeof room, .out = room};
    uint32_t i = mine.back;
    ps_status seen;

    if (!mine.is_run || mine.script != script || mine.function != NULL || i == mine.count ||
        result->count != mine.values[i]) {
        return false;
    }
    seen = ps_script_take_results(ps_sandbox_shared(mine.sandbox), 2 * i, &written, 1);
    if (!ps_is_ok(&seen) || written.count != len || memcmp(room, bytes, len) != 0) {
        return false;
    }
    *st = take(2 * i + 1, "decode", result);
    return true;
}

void ps_script_ahead_end(void)
{
    ps_status st = ps_ok();

    if (mine.script != NULL) {
        leave(&st);
    }
}
