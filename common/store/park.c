/* SPDX-License-Identifier: Apache-2.0 */
/* park.c - see park.h. */
#include "common/store/park.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void ps_park_init(ps_park *park)
{
    *park = (ps_park){0};
}

void ps_park_fini(ps_park *park)
{
    assert(park->now == 0 && park->bytes_now == 0);
    for (size_t c = 0; c < PS_PARK_CLASSES; c++) {
        while (park->idle[c] != NULL) {
            ps_parked *next = park->idle[c]->next;

            free(park->idle[c]);
            park->idle[c] = next;
        }
    }
}

static ps_parked *take_buffer(ps_park *park, size_t len)
{
    uint32_t c = 0;
    ps_parked *node;

    while (((size_t)PS_PARK_LEAST_BYTES << c) < len) {
        c++;
    }
    assert(c < PS_PARK_CLASSES);
    node = park->idle[c];
    if (node != NULL) {
        park->idle[c] = node->next;
        return node;
    }
    node = ps_xmalloc(sizeof *node + ((size_t)PS_PARK_LEAST_BYTES << c));
    node->size_class = c;
    park->pool_bytes += sizeof *node + ((size_t)PS_PARK_LEAST_BYTES << c);
    return node;
}

void ps_park_add(ps_park *park, ps_parked **list, uint32_t contributor,
                 const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len)
{
    ps_parked *node = take_buffer(park, len);

    while (*list != NULL && (*list)->contributor < contributor) {
        list = &(*list)->next;
    }
    assert(*list == NULL || (*list)->contributor != contributor);
    node->contributor = contributor;
    node->len = len;
    ps_encoding_copy(&node->head, head);
    if (len > 0) {
        memcpy(node->bytes, bytes, len);
    }
    node->next = *list;
    *list = node;
    park->now++;
    park->total++;
    park->bytes_now += len;
    if (park->bytes_now > park->bytes_peak) {
        park->bytes_peak = park->bytes_now;
    }
}

void ps_park_remove_first(ps_park *park, ps_parked **list)
{
    ps_parked *node = *list;

    *list = node->next;
    park->now--;
    park->bytes_now -= node->len;
    node->next = park->idle[node->size_class];
    park->idle[node->size_class] = node;
}
