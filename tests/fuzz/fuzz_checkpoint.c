/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_checkpoint.c - the texts of a checkpoint and the name of one, with any bytes: each is
 * refused, or what was read is within the bounds of its kind. The first byte chooses the kind:
 * state.json, MANIFEST.json, or "checkpoint:JOB@STEP". */
#include "common/artifact/manifest.h"
#include "common/base/files.h"
#include "common/job/plan.h"
#include "services/coordinator/io/checkpoint_store.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void read_facts(const char *text, size_t n)
{
    ps_checkpoint_facts f;
    ps_status st = ps_checkpoint_parse(text, n, &f);

    assert(ps_is_ok(&st) || (st.code == PS_DATA_LOSS && st.text[0] != '\0'));
    if (ps_is_ok(&st)) {
        assert(ps_name_is_safe(f.job_id) && f.ranks <= 256 && isfinite(f.value));
        assert(f.parent == 0 || (f.parent < f.step && strlen(f.parent_sha256) == 64));
    }
}

static ps_status look(void *arg, const ps_manifest_file *file)
{
    size_t *count = arg;

    assert(file->name[0] != '\0' && strlen(file->sha256) == 64);
    return ++*count > 3 ? ps_fail(PS_OUT_OF_RANGE, "enough") : ps_ok();
}

static void read_manifest(const char *text, size_t n)
{
    size_t count = 0;
    ps_status st = ps_manifest_parse(text, n, 5, look, &count);

    assert(ps_is_ok(&st) || st.text[0] != '\0');
    assert(count <= 4);
}

static void read_name(const char *text, size_t n)
{
    char job[PS_CHECKPOINT_JOB_MAX], *given = calloc(n + 1, 1);
    uint64_t step;

    memcpy(given, text, n);
    if (ps_init_from_checkpoint(given, job, &step)) {
        assert(strncmp(given, "checkpoint:", 11) == 0);
        assert(job[0] == '\0' ? step == UINT64_MAX : strncmp(given + 11, job, strlen(job)) == 0);
    }
    free(given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *text, size_t n) = {read_facts, read_manifest,
                                                                  read_name};

    if (size > 0) {
        readers[data[0] % 3]((const char *)data + 1, size - 1);
    }
    return 0;
}
