/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - see fault.h. */
#include "common/node/fault.h"
#include "common/base/shorten.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static ps_phase phase_named(const char *name)
{
    for (ps_phase p = PS_PHASE_IDLE; p <= PS_PHASE_FAILED; p++) {
        if (strcasecmp(ps_phase_name(p), name) == 0) {
            return p;
        }
    }
    return (ps_phase)0;
}

ps_status ps_faults_add(ps_faults *faults, const char *text)
{
    const char *colon = strchr(text, ':');
    const char *value = colon != NULL ? colon + 1 : "";
    char *end = NULL;

    if (strncmp(text, "exit-at:", 8) == 0 && phase_named(value) != 0) {
        faults->exit_at = phase_named(value);
        return ps_ok();
    }
    if (strncmp(text, "stop-at:", 8) == 0 && phase_named(value) != 0) {
        faults->stop_at = phase_named(value);
        return ps_ok();
    }
    if (strncmp(text, "drop-ack:", 9) == 0 && value[0] >= '1' && value[0] <= '9') {
        faults->drop_ack = strtoull(value, &end, 10);
        if (*end == '\0') {
            return ps_ok();
        }
    }
    return ps_fail(PS_INVALID_ARGUMENT,
                   "fault \"%s\": exit-at:PHASE, stop-at:PHASE, drop-ack:N are allowed",
                   PS_SHORT(text, 40));
}

void ps_faults_at(const ps_faults *faults, ps_phase phase)
{
    if (faults->exit_at == phase) {
        (void)raise(SIGKILL);
    }
    if (faults->stop_at == phase) {
        (void)raise(SIGSTOP);
    }
}
