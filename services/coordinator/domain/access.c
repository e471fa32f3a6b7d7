/* SPDX-License-Identifier: Apache-2.0 */
/* access.c - see access.h. */
#include "services/coordinator/domain/access.h"

#include "common/base/shorten.h"

#include <string.h>

bool ps_access_has(const ps_principal *caller, const char *owner, ps_access what)
{
    char text[PS_PRINCIPAL_TEXT_BYTES];

    switch (caller->kind) {
    case PS_PRINCIPAL_NONE:
    case PS_PRINCIPAL_ADMIN:
        return true;
    case PS_PRINCIPAL_OBSERVER:
    case PS_PRINCIPAL_COORDINATOR: /* a coordinator's web page shows the curves of all jobs */
        return what == PS_ACCESS_SEE;
    case PS_PRINCIPAL_SUBMITTER:
        return strcmp(ps_principal_text(caller, text), owner) == 0;
    case PS_PRINCIPAL_NODE:
        break;
    }
    return false;
}

ps_status ps_access_check(const ps_principal *caller, const Psgd__V1__Job *job, ps_access what)
{
    char who[PS_PRINCIPAL_TEXT_BYTES];

    if (ps_access_has(caller, job->owner, what)) {
        return ps_ok();
    }
    return ps_fail(PS_PERMISSION_DENIED, "job %s is not of %s, who may %s own jobs only",
                   PS_SHORT(job->id, 40), ps_principal_text(caller, who),
                   what == PS_ACCESS_SEE ? "see" : "change");
}

ps_status ps_access_check_code(const ps_principal *caller, const char *who)
{
    bool is_off = strcmp(who, "off") == 0;

    if (!is_off && (ps_access_has(caller, "", PS_ACCESS_CHANGE) || strcmp(who, "submitter") == 0)) {
        return ps_ok();
    }
    return ps_fail(PS_PERMISSION_DENIED,
                   "this coordinator takes no code %s (psgd-coordinator --code)",
                   is_off ? "from anybody" : "but from admins");
}

const char *ps_access_owner(const ps_principal *caller, char out[PS_PRINCIPAL_TEXT_BYTES])
{
    out[0] = '\0';
    return caller->kind == PS_PRINCIPAL_NONE ? out : ps_principal_text(caller, out);
}
