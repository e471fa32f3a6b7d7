/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tally.c - any bytes as the written tally of any metric (libFuzzer). The first byte
 * chooses the metric, the rest are the tally. What is accepted is the one form of a
 * tally: written again it has the same bytes, and it can be merged and read off.
 */
#include "common/metric/tally.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct choice {
    size_t at, wanted;
    const ps_metric *metric;
} choice;

static void choose(const ps_metric *metric, void *arg)
{
    choice *c = arg;

    if (c->at++ == c->wanted) {
        c->metric = metric;
    }
}

static void use(ps_tally *tally, const uint8_t *data, size_t size)
{
    uint8_t *again = malloc(size + 1);
    ps_tally twice;

    if (again == NULL || ps_tally_bytes(tally) != size) {
        abort();
    }
    ps_tally_write(tally, again);
    if (memcmp(again, data, size) != 0) {
        abort();
    }
    ps_tally_init(&twice, tally->metric, &tally->params, &tally->facts);
    ps_tally_merge(&twice, tally);
    ps_tally_merge(&twice, tally);
    (void)ps_tally_value(&twice);
    ps_tally_fini(&twice);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ps_metric_facts facts = {
        .outputs = 6, .classes = 6, .target_width = 1, .link = PS_LINK_SOFTMAX};
    choice c = {.wanted = size > 0 ? data[0] % 15 : 0};
    ps_params params;
    ps_tally tally;
    ps_status st;

    if (size == 0) {
        return 0;
    }
    ps_metric_each(choose, &c);
    params = ps_params_default(c.metric->params);
    ps_tally_init(&tally, c.metric, &params, &facts);
    st = ps_tally_read(&tally, data + 1, size - 1);
    if (ps_is_ok(&st)) {
        use(&tally, data + 1, size - 1);
    }
    ps_tally_fini(&tally);
    return 0;
}
