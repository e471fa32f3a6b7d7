/* SPDX-License-Identifier: Apache-2.0 */
/* lane_replica.c - weights that come as changes: the worker's block is a replica of
 * the servers', stepped as they step theirs, and proved by a checksum a slice. */
#include "services/worker/server_exchange_impl.h"

#include "common/shard/replica.h"

#include <string.h>

/* The slice's weights themselves. */
static ps_status take_whole(const Psgd__V1__Encoding *head, const ps_slice *slice,
                            const uint8_t *bytes, float *to)
{
    if (!ps_encoding_is_plain(head) || head->payload_bytes != slice->n * sizeof *to) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %u bytes that are not its %u weights as float32",
                       head->slice, head->payload_bytes, slice->n);
    }
    memcpy(to, bytes, head->payload_bytes);
    return ps_ok();
}

/* What the last update took from them. */
static ps_status take_off(const ps_lane *lane, const Psgd__V1__Encoding *head,
                          const ps_slice *slice, const uint8_t *bytes, float *to)
{
    float change[PS_SLICE_VALUES];
    ps_status st = ps_codec_decode(lane->x->plan->down[slice->variable].codec, head, bytes,
                                   head->payload_bytes, PS_INTO_SET, change, slice->n);

    if (ps_is_ok(&st)) {
        ps_replica_step(to, change, slice->n);
    }
    return st;
}

ps_status ps_lane_take_change(ps_lane *lane, const Psgd__V1__PullWeightsResponse *reply, size_t i,
                              const uint8_t *bytes, bool *is_new)
{
    ps_server_exchange *x = lane->x;
    const Psgd__V1__Encoding *head = reply->slices[i];
    const ps_slice *slice = &x->layout->slices[head->slice];
    uint32_t position = x->position[head->slice];
    float *to = x->weights + slice->at;
    ps_status st;

    if (reply->n_checksums != reply->n_slices) {
        return ps_fail(PS_DATA_LOSS, "%zu checksums of %zu slices", reply->n_checksums,
                       reply->n_slices);
    }
    if (reply->is_change && lane->wish_whole) {
        return ps_fail(PS_DATA_LOSS, "slice %u: a change, where the weights were asked for",
                       head->slice);
    }
    if (reply->is_change && lane->version[position] + 1 != reply->version) {
        lane->wish_bad++; /* an update was missed */
        return ps_ok();
    }
    st = reply->is_change ? take_off(lane, head, slice, bytes, to)
                          : take_whole(head, slice, bytes, to);
    if (!ps_is_ok(&st)) {
        return st;
    }
    lane->version[position] = reply->version;
    if (ps_replica_checksum(to, slice->n) != reply->checksums[i]) {
        if (!reply->is_change) {
            return ps_fail(PS_DATA_LOSS, "slice %u: the weights are not of their checksum",
                           head->slice);
        }
        lane->wish_bad++;
        lane->version[position] = UINT64_MAX - 1; /* of no version: no change applies to it */
        return ps_ok();
    }
    atomic_fetch_add(&x->verified, 1);
    atomic_fetch_add(&x->float32_down, slice->n * sizeof(float));
    lane->got[position] = lane->wish;
    *is_new = true;
    return ps_ok();
}
