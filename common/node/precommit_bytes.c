/* SPDX-License-Identifier: Apache-2.0 */
/* precommit_bytes.c - the packages of PreCommit that are big: weights into the
 * session's block, data sets into the cache or the store. */
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/node/packages.h"
#include "common/node/precommit_impl.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights travel little-endian");

bool ps_precommit_is_worker(const ps_precommit *pc)
{
    return pc->node->hooks->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
}

uint32_t ps_precommit_slice_count(const ps_precommit *pc)
{
    const ps_session *s = pc->session;

    return ps_precommit_is_worker(pc) ? s->plan->layout.slice_count
                                      : s->placement.owned_count[s->rank];
}

static const ps_slice *slice_at(const ps_precommit *pc, uint32_t i)
{
    const ps_session *s = pc->session;

    return &s->plan->layout.slices[ps_precommit_is_worker(pc) ? i : s->placement.owned[s->rank][i]];
}

/* --- weights ---------------------------------------------------------------- */

bool ps_precommit_make_room(ps_precommit *pc)
{
    ps_session *s = pc->session;

    if (s->weights != NULL) {
        return true;
    }
    s->weight_count = ps_precommit_is_worker(pc) ? s->plan->layout.param_count : 0;
    for (uint32_t i = 0; !ps_precommit_is_worker(pc) && i < ps_precommit_slice_count(pc); i++) {
        s->weight_count += slice_at(pc, i)->n;
    }
    s->weights = ps_aligned_alloc(s->weight_count * sizeof(float));
    if (s->weights == NULL) {
        ps_precommit_fail(pc, ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for the weights"), NULL);
        return false;
    }
    memset(s->weights, 0, s->weight_count * sizeof(float)); /* no slices come for sparse tables */
    return true;
}

/* Copies the next slice of a chunk to its place: on a worker its place in the model's block, on a
 * server behind the slices before it. */
static void take_slice(ps_precommit *pc, ps_payload *payload, size_t *at)
{
    const ps_slice *slice = slice_at(pc, pc->slices_in);
    size_t bytes = slice->n * sizeof(float);
    float *to = pc->session->weights + (ps_precommit_is_worker(pc) ? slice->at : pc->values_in);
    const uint8_t *from = ps_payload_view(payload, *at, bytes, to);

    if ((const void *)from != to) {
        memcpy(to, from, bytes);
    }
    (void)XXH3_64bits_update(pc->hash, to, bytes);
    pc->slices_in++;
    pc->values_in += slice->n;
    *at += bytes;
}

void ps_precommit_take_weights(ps_precommit *pc, const Psgd__V1__WeightsChunk *chunk,
                               ps_payload *payload)
{
    size_t values = 0, bytes = ps_payload_len(payload), at = 0;

    if (!ps_precommit_make_room(pc)) {
        return;
    }
    for (size_t k = 0; k < chunk->n_slices; k++) {
        if (pc->slices_in + k >= ps_precommit_slice_count(pc) ||
            chunk->slices[k] != slice_at(pc, pc->slices_in + (uint32_t)k)->index) {
            ps_precommit_fail(pc,
                              ps_fail(PS_INVALID_ARGUMENT,
                                      "slice %u of the weights is not the next one",
                                      chunk->slices[k]),
                              "BAD_WEIGHTS");
            return;
        }
        values += slice_at(pc, pc->slices_in + (uint32_t)k)->n;
    }
    if (values * sizeof(float) != bytes) {
        ps_precommit_fail(
            pc,
            ps_fail(PS_INVALID_ARGUMENT, "%zu bytes for %zu values of the weights", bytes, values),
            "BAD_WEIGHTS");
        return;
    }
    for (size_t k = 0; k < chunk->n_slices; k++) {
        take_slice(pc, payload, &at);
    }
    ps_precommit_read(pc);
}

/* --- data ------------------------------------------------------------------- */

static ps_status open_store(ps_precommit *pc)
{
    char folder[512];
    ps_status st = ps_datasets_folder(pc->node->datasets, pc->wanted.sha256, folder, sizeof folder);

    return ps_is_ok(&st) ? ps_data_store_open(&pc->store, folder, &pc->files) : st;
}

/* Handles the data set that was looked up after the offer, or loaded after it was sent. */
static void data_arrived(void *arg, const ps_status *st, ps_dataset *data)
{
    ps_precommit *pc = arg;
    bool need_files = pc->is_offer && st->code == PS_NOT_FOUND && pc->files.count > 0;
    uint64_t bytes = 0;
    ps_status opened;

    pc->request = NULL;
    if (ps_is_ok(st)) {
        pc->session->data = data;
    } else if (!need_files) {
        ps_precommit_fail(pc, ps_wrap(*st, "load the data set"), "BAD_DATA");
        return;
    }
    if (need_files) {
        for (size_t i = 0; i < pc->files.count; i++) {
            bytes += pc->files.at[i].size;
        }
        opened = ps_datasets_make_room(pc->node->datasets, &pc->wanted, bytes);
        if (!ps_is_ok(&opened)) {
            ps_precommit_fail(pc, opened, "NO_DATA_ROOM");
            return;
        }
        opened = open_store(pc);
        if (!ps_is_ok(&opened)) {
            ps_precommit_fail(pc, opened, NULL);
            return;
        }
        pc->expected = PS_PACKAGE_FILES;
    }
    if (pc->is_offer) {
        pc->is_offer = false;
        ps_precommit_acknowledge(pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA, need_files, 0);
    } else if (pc->is_sealed) {
        ps_precommit_seal(pc);
    }
}

void ps_precommit_take_offer(ps_precommit *pc, const Psgd__V1__DataPackage *package)
{
    ps_error error;

    pc->expected = PS_PACKAGE_WEIGHTS;
    if (!ps_precommit_is_worker(pc)) { /* a server needs no data set */
        ps_precommit_acknowledge(pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA, false, 0);
        return;
    }
    if (!ps_package_data(package, pc->session->plan, &pc->wanted, &pc->files, &error)) {
        ps_precommit_give_up(pc, &error);
        return;
    }
    pc->session->data = ps_datasets_cached(pc->node->datasets, &pc->wanted);
    if (pc->session->data != NULL) {
        ps_precommit_acknowledge(pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA, false, 0);
        return;
    }
    pc->is_offer = true;
    pc->request = ps_datasets_get(pc->node->datasets, &pc->wanted, data_arrived, pc);
}

void ps_precommit_take_data(ps_precommit *pc, const Psgd__V1__DataChunk *chunk, ps_payload *payload)
{
    size_t n = ps_payload_len(payload);
    bool is_complete = false;
    ps_status st;

    if (n == 0) {
        ps_precommit_fail(pc, ps_fail(PS_INVALID_ARGUMENT, "a piece of a data file without bytes"),
                          "BAD_DATA");
        return;
    }
    if (pc->scratch == NULL) {
        pc->scratch = ps_xmalloc(PS_PAYLOAD_MAX);
    }
    st = ps_data_store_add(&pc->store, chunk->file, chunk->offset,
                           ps_payload_view(payload, 0, n, pc->scratch), n, &is_complete);
    if (ps_is_ok(&st) && ps_data_store_has_all(&pc->store)) {
        st = ps_data_store_commit(&pc->store);
        if (ps_is_ok(&st)) {
            ps_log_with(PS_LOG_INFO, "node",
                        PS_LOG_FIELDS(PS_LOG_STR("data", pc->wanted.conf.source->name),
                                      PS_LOG_STR("sha256", pc->wanted.sha256)),
                        "data set received");
            pc->expected = PS_PACKAGE_WEIGHTS;
            pc->request = ps_datasets_get(pc->node->datasets, &pc->wanted, data_arrived, pc);
        }
    }
    if (!ps_is_ok(&st)) {
        ps_precommit_fail(pc, st, "BAD_DATA");
    } else if (is_complete) {
        ps_precommit_acknowledge(pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA_FILE, false,
                                 chunk->file);
    } else {
        ps_precommit_read(pc);
    }
}
