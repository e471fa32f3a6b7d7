/* SPDX-License-Identifier: Apache-2.0 */
/* connection_replica.c - weights that are sent as changes. The worker's weights are a replica of
 * the servers' weights and take the same steps. A checksum of each slice shows whether they are
 * equal. */
#include "common/wire/connection_impl.h"

#include "common/store/replica.h"

ps_status ps_connection_apply_replica(ps_connection *conn,
                                      const Psgd__V1__PullWeightsResponse *reply, size_t i,
                                      const ps_incoming *payload, size_t at, bool *is_new)
{
    connection_exchange *x = conn->x;
    const Psgd__V1__Encoding *head = reply->slices[i];
    const ps_slice *slice = &x->layout->slices[head->slice];
    uint32_t position = x->position[head->slice];
    uint8_t scratch[PS_SLICE_VALUES * sizeof(float)];
    float *to = x->weights + slice->at;
    ps_status st;

    if (reply->n_checksums != reply->n_slices) {
        return ps_fail(PS_DATA_LOSS, "%zu checksums of %zu slices", reply->n_checksums,
                       reply->n_slices);
    }
    if (reply->is_change && conn->request_whole) {
        return ps_fail(PS_DATA_LOSS, "slice %u: a change, where the weights were asked for",
                       head->slice);
    }
    if (reply->is_change && conn->version[position] + 1 != reply->version) {
        conn->request_bad++; /* the replica lacks an earlier change, so this change does not fit */
        return ps_ok();
    }
    st = ps_coder_decode_replica(x->plan, head, head->slice, reply->is_change,
                                 ps_incoming_view(payload, at, head->payload_bytes, scratch), to);
    if (!ps_is_ok(&st)) {
        return st;
    }
    conn->version[position] = reply->version;
    if (ps_replica_checksum(to, slice->n) != reply->checksums[i]) {
        if (!reply->is_change) {
            return ps_fail(PS_DATA_LOSS, "slice %u: the weights are not of their checksum",
                           head->slice);
        }
        conn->request_bad++;
        conn->version[position] = UINT64_MAX - 1; /* so that no later change fits it */
        return ps_ok();
    }
    atomic_fetch_add(&x->exchange.count.verified, 1);
    *is_new = true;
    return ps_ok();
}
