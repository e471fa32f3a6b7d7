/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_kept.c - the contributions that a rank has kept with bytes that are others, under checksums
 * that are right: the reader refuses them and says why, or the store does with them what it does
 * with pushes. The first byte of the input chooses a job; each three bytes behind it are a place in
 * the file and what stands there. */
#include "tests/fuzz/state_fuzz.h"
#include "tests/support/plan_rig.h"

#include "common/train/merge.h"
#include "common/wire/coder.h"
#include "common/wire/kept_pushes.h"

#include <stdlib.h>

enum { JOBS = 3, CLOCKS = 3, BYTES_MAX = 1 << 20 };

#define SMALL "{\"workers\":2,\"model\":{\"widths\":[2]},\"data\":{\"name\":\"glyphs\"}"

static const char *const specs[JOBS] = {
    SMALL "}",
    SMALL ",\"codec\":{\"up\":{\"name\":\"int8\"}}}",
    SMALL ",\"codec\":{\"up\":{\"name\":\"topk\"}},\"update\":{\"name\":\"gradient_average\"}}",
};

typedef struct kept_job {
    ps_plan *plan;
    ps_placement placement;
    ps_buf *file; /* of rank 0; NULL: there is no job yet */
} kept_job;

static kept_job jobs[JOBS];

static void must_be_ok(ps_status st)
{
    if (!ps_is_ok(&st)) {
        (void)fprintf(stderr, "%s\n", st.text);
        abort();
    }
}

static void push_slice(const kept_job *job, ps_coder *coder, ps_kept_pushes *kept, uint64_t clock,
                       uint32_t slice)
{
    static float x[PS_CODEC_VALUES];
    static uint8_t room[8 * PS_CODEC_VALUES];
    bool is_plain = ps_coder_is_plain(coder, slice);
    ps_encoding head;
    size_t n;

    for (size_t i = 0; i < job->plan->layout.slices[slice].n; i++) {
        x[i] = (float)(i % 7) - (float)clock;
    }
    n = ps_coder_encode(coder, job->placement.part_of[slice], slice, clock, 0, x,
                        is_plain ? NULL : room, &head);
    ps_kept_pushes_add(kept, &head.msg, is_plain ? (const uint8_t *)x : room, n);
}

static void write_file(kept_job *job)
{
    ps_kept_pushes *kept = ps_kept_pushes_create(job->plan, 0, BYTES_MAX);
    const bool is_lost[1] = {true};
    ps_coder coder;

    ps_coder_init(&coder, job->plan, &job->placement, 0);
    for (uint64_t clock = 0; clock < CLOCKS; clock++) {
        ps_kept_pushes_begin(kept, clock, 0);
        ps_kept_pushes_say(kept, (const uint8_t *)"said", 4, false);
        for (uint32_t s = 0; clock != 1 && s < job->plan->layout.slice_count; s++) {
            push_slice(job, &coder, kept, clock, s);
        }
        if (clock == 1) {
            ps_kept_pushes_zeros(kept);
        }
    }
    must_be_ok(
        ps_kept_pushes_write(kept, &job->placement, is_lost, ps_state_write_buf, &job->file));
    ps_coder_fini(&coder);
    ps_kept_pushes_destroy(kept);
}

static void end_jobs(void)
{
    for (uint32_t i = 0; i < JOBS; i++) {
        if (jobs[i].file != NULL) {
            ps_placement_fini(&jobs[i].placement);
            ps_plan_destroy(jobs[i].plan);
            ps_buf_unref(jobs[i].file);
        }
    }
}

static kept_job *job_of(uint32_t which)
{
    static bool has_begun;
    kept_job *job = &jobs[which];

    if (!has_begun && atexit(end_jobs) != 0) {
        abort();
    }
    has_begun = true;
    if (job->file == NULL) {
        job->plan = plan_of(specs[which]);
        ps_placement_init(&job->placement, &job->plan->layout, 1, 2);
        write_file(job);
    }
    return job;
}

/* Reads a file to its end, and pushes what it has. */
static ps_status replay(const kept_job *job, const uint8_t *bytes, size_t len)
{
    ps_store *store = ps_merge_store(job->plan, job->placement.owned[0],
                                     job->placement.owned_count[0], NULL, NULL);
    ps_store *const stores[1] = {store};
    ps_kept_file file;
    size_t said = 0;
    ps_status st = ps_kept_file_open(&file, job->plan, 0, bytes, len);

    while (ps_is_ok(&st) && file.clock != UINT64_MAX) {
        const uint8_t *from = ps_kept_file_said(&file, file.clock, &said);

        if (from != NULL && (from < bytes || from + said > bytes + len)) {
            abort();
        }
        st = ps_kept_file_push(&file, job->plan, &job->placement, stores);
    }
    ps_store_destroy(store);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const kept_job *job = job_of(size == 0 ? 0 : data[0] % JOBS);
    uint8_t *bytes = malloc(job->file->len);
    ps_status st;

    if (bytes == NULL) {
        return 0;
    }
    memcpy(bytes, job->file->data, job->file->len);
    if (size > 0) {
        state_fuzz_change(bytes, job->file->len, data + 1, size - 1);
    }
    st = replay(job, bytes, job->file->len);
    if (!ps_is_ok(&st) && st.text[0] == '\0') {
        abort();
    }
    free(bytes);
    return 0;
}
