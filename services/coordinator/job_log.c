/* SPDX-License-Identifier: Apache-2.0 */
/* job_log.c - the observer of jobs that logs their states. */
#include "services/coordinator/coordinator.h"

#include "common/base/log.h"
#include "services/coordinator/domain/job_message.h"

static void log_state(const Psgd__V1__Job *msg)
{
    ps_log_with(msg->state == PSGD__V1__JOB_STATE__JOB_STATE_FAILED ? PS_LOG_WARN : PS_LOG_INFO,
                "job",
                ((const ps_log_field[]){PS_LOG_STR("job", msg->id),
                                        PS_LOG_NUM("attempt", msg->attempt),
                                        PS_LOG_STR(msg->reason[0] ? "reason" : NULL, msg->reason),
                                        {.key = NULL}}),
                "%s%s%s", ps_state_name(msg->state), msg->message[0] ? ": " : "", msg->message);
}

static void log_saving(const ps_live *job)
{
    const char *id = job->record.job->id;

    if (job->is_unsaved) {
        ps_log_with(PS_LOG_ERROR, "registry", PS_LOG_FIELDS(PS_LOG_STR("job", id)),
                    "a change is not stored, it is tried again: %s", job->unsaved_why.text);
    } else {
        ps_log_with(PS_LOG_INFO, "registry", PS_LOG_FIELDS(PS_LOG_STR("job", id)),
                    "changes are stored again");
    }
}

void ps_job_log_changed(void *arg, ps_live *job, ps_job_news what)
{
    (void)arg;
    if (what == PS_JOB_STATE) {
        log_state(job->record.job);
    } else if (what == PS_JOB_SAVING) {
        log_saving(job);
    }
}
