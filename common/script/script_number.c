/* SPDX-License-Identifier: Apache-2.0 */
/* script_number.c - functions of a script that return a number. A script is a pure function, so
 * each thread remembers its last call and the result: a policy or schedule is asked the same for
 * one slice after the other. */
#include "common/script/script_impl.h"

#include <string.h>

enum { REMEMBERED = 1024 }; /* most bytes of function and arguments of a call to remember */

typedef struct question {
    size_t n;
    uint8_t bytes[REMEMBERED];
} question;

static void add(question *q, const void *bytes, size_t n)
{
    if (q->n + n <= REMEMBERED) {
        memcpy(q->bytes + q->n, bytes, n);
    }
    q->n += n;
}

/* Writes all that the result of a call depends on: script, function and arguments. q->n is the
 * number of bytes that these take. If it is more than REMEMBERED, q->bytes is not complete. */
static void write_question(const ps_script *script, const char *function,
                           const ps_script_value *arguments, size_t count, question *q)
{
    uint64_t id = ps_script_id(script);

    q->n = 0;
    add(q, &id, sizeof id);
    add(q, function, strlen(function) + 1);
    for (size_t i = 0; i < count; i++) {
        const ps_script_value *a = &arguments[i];

        add(q, &a->kind, sizeof a->kind);
        add(q, &a->count, sizeof a->count);
        add(q, &a->number, sizeof a->number);
        add(q, &a->integer, sizeof a->integer);
        if (a->in != NULL) {
            add(q, a->in,
                a->count * (a->kind == PS_SANDBOX_NUMBERED ? sizeof(double) : sizeof(float)));
        }
    }
}

ps_status ps_script_number(ps_script *script, const char *function,
                           const ps_script_value *arguments, size_t count, double *out)
{
    static _Thread_local question last;
    static _Thread_local double answer;
    ps_script_value result = {.kind = PS_SANDBOX_NUMBER};
    question q;
    ps_status st;

    write_question(script, function, arguments, count, &q);
    if (q.n <= REMEMBERED && q.n == last.n && memcmp(q.bytes, last.bytes, q.n) == 0) {
        *out = answer;
        return ps_ok();
    }
    st = ps_script_call(script, function, arguments, count, &result, 1);
    if (ps_is_ok(&st)) {
        last = q;
        answer = result.number;
        *out = answer;
    }
    return st;
}

ps_script_value ps_script_numbers(const ps_script *script, const ps_params *params, size_t at)
{
    return (ps_script_value){
        .kind = PS_SANDBOX_NUMBERED,
        .count = ps_script_about_of(script)->number_count,
        .in = params->v + at,
    };
}
