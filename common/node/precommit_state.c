/* SPDX-License-Identifier: Apache-2.0 */
/* precommit_state.c - the packages of PreCommit with the files of a checkpoint. They are put
 * together from their messages and kept in memory for the role, which reads them in prepare. */
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "common/node/precommit_impl.h"

#include <inttypes.h>

/* most: of 64 servers with 64 threads, with those from which rows count; a worker gets one a rank
 */
enum { FILES_MAX = 64 * 64 * (1 + PS_CHECKPOINT_CHANGES_MAX) };
static const uint64_t file_max = UINT64_C(1) << 36;

bool ps_precommit_wants_states(const ps_precommit *pc)
{
    char job[PS_CHECKPOINT_JOB_MAX];
    uint64_t step;

    return ps_init_from_checkpoint(pc->session->plan->spec->init_from, job, &step);
}

/* Returns file `file`, the one that is received now; NULL: nothing of it has arrived. */
static ps_buf *current(const ps_session *s, uint32_t file)
{
    return file < s->state_count ? s->states[file] : NULL;
}

static ps_status begin_file(ps_precommit *pc, const Psgd__V1__StateChunk *chunk)
{
    ps_session *s = pc->session;

    if (chunk->files == 0 || chunk->files > FILES_MAX || chunk->size == 0 ||
        chunk->size > file_max) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%" PRIu32 " files of a checkpoint, one of %" PRIu64
                       " bytes; 1 to %d files of 1 to %" PRIu64 " bytes are allowed",
                       chunk->files, chunk->size, FILES_MAX, file_max);
    }
    if (s->states == NULL) {
        s->states = ps_xcalloc(chunk->files, sizeof *s->states);
        s->state_count = chunk->files;
    }
    s->states[chunk->file] = ps_buf_try_create((size_t)chunk->size);
    return s->states[chunk->file] != NULL
               ? ps_ok()
               : ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a file of %" PRIu64 " bytes",
                         chunk->size);
}

static ps_status take_piece(ps_precommit *pc, const Psgd__V1__StateChunk *chunk,
                            ps_payload *payload)
{
    ps_session *s = pc->session;
    ps_buf *to = current(s, pc->state_files);
    size_t n = ps_payload_len(payload), in = to != NULL ? to->len : 0;
    ps_status st = ps_ok();

    if (n == 0 || chunk->file != pc->state_files || chunk->offset != in ||
        (s->states != NULL && (chunk->files != s->state_count || chunk->file >= s->state_count)) ||
        (s->states == NULL && chunk->file != 0) || (to != NULL && chunk->size != to->cap)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%zu bytes at %" PRIu64 " of file %" PRIu32
                       " of the checkpoint; the piece at %zu of file %" PRIu32 " is the next one",
                       n, chunk->offset, chunk->file, in, pc->state_files);
    }
    if (to == NULL) {
        st = begin_file(pc, chunk);
        to = current(s, pc->state_files);
    }
    if (ps_is_ok(&st) && n > to->cap - in) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%zu bytes at %zu of a file of %zu", n, in, to->cap);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    ps_precommit_copy(pc, payload, 0, n, to->data + in);
    to->len += n;
    pc->state_files += to->len == to->cap;
    return st;
}

void ps_precommit_take_state(ps_precommit *pc, const Psgd__V1__StateChunk *chunk,
                             ps_payload *payload)
{
    ps_status st = take_piece(pc, chunk, payload);

    if (!ps_is_ok(&st)) {
        ps_precommit_fail(pc, st, "BAD_CHECKPOINT");
    } else {
        ps_precommit_read(pc);
    }
}

ps_status ps_precommit_end_states(const ps_precommit *pc)
{
    if (ps_precommit_wants_states(pc) &&
        (pc->session->states == NULL || pc->state_files < pc->session->state_count)) {
        return ps_fail(PS_FAILED_PRECONDITION, "sealed without all files of the checkpoint");
    }
    return ps_ok();
}
