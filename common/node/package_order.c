/* SPDX-License-Identifier: Apache-2.0 */
/* package_order.c - see package_order.h. */
#include "common/node/package_order.h"

static const struct {
    const char *name;
    Psgd__V1__PreCommitRequest__PackageCase package;
    /* whether a worker, or a server, may be sent no package of this step */
    bool may_lack_worker, may_lack_server;
} steps[] = {
    [PS_PACKAGE_SETTINGS] = {"settings", PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_SETTINGS, false,
                             false},
    [PS_PACKAGE_DATA] = {"data", PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_DATA, false, true},
    [PS_PACKAGE_FILES] = {"data files", PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_DATA_CHUNK, false,
                          true},
    [PS_PACKAGE_WEIGHTS] = {"weights", PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_WEIGHTS, true, true},
    [PS_PACKAGE_TABLES] = {"tables", PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_TABLE, true, true},
    [PS_PACKAGE_STATE] = {"state", PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_STATE, true, true},
    [PS_PACKAGE_SEAL] = {"the seal", PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_SEAL, false, false},
    [PS_PACKAGE_NONE] = {"nothing", PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE__NOT_SET, false, false},
};

ps_package_step ps_package_of(const Psgd__V1__PreCommitRequest *request)
{
    ps_package_step step = PS_PACKAGE_SETTINGS;

    while (step < PS_PACKAGE_NONE && steps[step].package != request->package_case) {
        step++;
    }
    return step;
}

bool ps_package_may_come(ps_package_step expected, ps_package_step package, bool is_worker)
{
    if (package < expected || package == PS_PACKAGE_NONE) {
        return false;
    }
    for (ps_package_step s = expected; s < package; s++) {
        if (is_worker ? !steps[s].may_lack_worker : !steps[s].may_lack_server) {
            return false;
        }
    }
    return true;
}

const char *ps_package_name(ps_package_step step)
{
    return steps[step].name;
}
