/* SPDX-License-Identifier: Apache-2.0 */
/* script_ahead.c - calls that are made together (script_impl.h). */
#include "common/script/script_impl.h"

#include <string.h>

/* The calls of one function that a thread has added, to be run together, and their results. */
typedef struct ahead {
    ps_script *script;   /* NULL: no call was added */
    ps_sandbox *sandbox; /* results stand in its memory until they are taken */
    const char *function;
    ps_ahead_id ids[PS_SANDBOX_TOGETHER];
    uint32_t count;
    size_t at; /* bytes that the arguments take so far in the shared memory */
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
        ps_script_set_call(ps_sandbox_shared(mine.sandbox), PS_SANDBOX_RUN, function,
                           arguments[count - 1].kind != PS_SANDBOX_WRITER);
    }
    if (mine.is_run || mine.script != script || strcmp(mine.function, function) != 0 ||
        mine.count == PS_SANDBOX_TOGETHER ||
        !ps_script_put_arguments(ps_sandbox_shared(mine.sandbox), mine.count * count, &mine.at,
                                 arguments, count)) {
        return false;
    }
    mine.ids[mine.count++] = id;
    return true;
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
    st = ps_wrap(ps_sandbox_call(mine.sandbox, mine.count - 1), "%s: %s",
                 ps_script_file(mine.script), mine.function);
    if (!ps_is_ok(&st)) {
        leave(&st);
    }
}

bool ps_script_ahead_take(ps_script *script, ps_ahead_id id, ps_script_value *result, ps_status *st)
{
    uint32_t i = 0;

    while (i < mine.count && (mine.ids[i].of != id.of || mine.ids[i].key != id.key)) {
        i++;
    }
    if (!mine.is_run || mine.script != script || i == mine.count) {
        return false;
    }
    *st = ps_wrap(ps_script_take_results(ps_sandbox_shared(mine.sandbox), i, result, 1), "%s: %s",
                  ps_script_file(script), mine.function);
    if (!ps_is_ok(st)) {
        leave(st);
    }
    return true;
}

void ps_script_ahead_end(void)
{
    ps_status st = ps_ok();

    if (mine.script != NULL) {
        leave(&st);
    }
}
