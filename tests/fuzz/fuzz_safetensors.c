/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_safetensors.c - any bytes as a model file (libFuzzer). */
#include "common/artifact/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ps_safetensors *file = NULL;
    ps_status st = ps_safetensors_parse(data, size, &file);
    volatile float last = 0;

    if (ps_is_ok(&st)) {
        for (size_t i = 0; i < ps_safetensors_count(file); i++) {
            const ps_tensor *tensor = ps_safetensors_at(file, i);
            uint64_t n = 1;

            for (uint32_t d = 0; d < tensor->rank; d++) {
                n *= tensor->dim[d];
            }
            for (uint64_t v = 0; v < n; v++) {
                last = tensor->data[v]; /* every value is there */
            }
        }
        (void)last;
        (void)ps_safetensors_meta(file, "step");
    }
    ps_safetensors_close(file);
    return 0;
}
