/* SPDX-License-Identifier: Apache-2.0 */
/* redial.c - see redial.h. */
#include "common/wire/redial.h"

#include "common/base/log.h"

#include <string.h>

enum { PAUSE_FIRST_US = 50000, PAUSE_LAST_US = 2000000 };

void ps_redial_init(ps_redial *redial, ps_loop *loop, ps_gate *gate,
                    void (*again)(ps_event *self, bool ok))
{
    *redial = (ps_redial){.loop = loop, .gate = gate, .pause_us = PAUSE_FIRST_US};
    redial->retry.event.fire = again;
}

void ps_redial_stop(ps_redial *redial)
{
    if (redial->loop != NULL) {
        ps_loop_cancel(redial->loop, &redial->retry);
    }
}

static bool may_pass(ps_code code)
{
    return code == PS_OK || code == PS_UNAVAILABLE || code == PS_CANCELLED || code == PS_UNKNOWN;
}

/* Returns the failure; its code is PS_ABORTED if the server has no job or another one. Such a
 * server was started anew: the attempt is over, but the job is not to blame. */
static ps_status as_seen(const ps_error *error)
{
    ps_status st = error->status;

    if (strcmp(error->reason, "NO_JOB") == 0 || strcmp(error->reason, "WRONG_JOB") == 0) {
        st.code = PS_ABORTED;
    }
    return st;
}

void ps_redial_ended(ps_redial *redial, const char *what, const char *who, const ps_error *error)
{
    if (!ps_gate_is_open(redial->gate)) {
        return;
    }
    if (redial->loop == NULL || !may_pass(error->status.code)) {
        ps_status st = ps_wrap(as_seen(error), "%s to %s", what, who);

        if (strcmp(error->reason, PS_DIVERGED) == 0) {
            ps_gate_diverge(redial->gate, &st);
        } else {
            ps_gate_fail(redial->gate, &st);
        }
        return;
    }
    ps_log(PS_LOG_WARN, "redial", "%s to %s broke (%s), opening again in %lld ms", what, who,
           error->status.text, (long long)(redial->pause_us / 1000));
    ps_loop_after(redial->loop, &redial->retry, redial->pause_us);
    redial->pause_us = redial->pause_us * 2 < PAUSE_LAST_US ? redial->pause_us * 2 : PAUSE_LAST_US;
}

void ps_redial_works(ps_redial *redial)
{
    redial->pause_us = PAUSE_FIRST_US;
}
