/* SPDX-License-Identifier: Apache-2.0 */
/* train_columns.c - see train_columns.h. */
#include "common/base/train_columns.h"

#include <string.h>

const char ps_train_columns[] =
    "time_s,epoch,batch,step,loss,accuracy,samples_per_s,bytes_up,bytes_down,wait_s";

bool ps_train_columns_have(const char *name)
{
    size_t len = strlen(name), n;

    for (const char *at = ps_train_columns; *at != '\0'; at += n + (at[n] == ',')) {
        n = strcspn(at, ",");
        if (n == len && memcmp(at, name, n) == 0) {
            return true;
        }
    }
    return false;
}
