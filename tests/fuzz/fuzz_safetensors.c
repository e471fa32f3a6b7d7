/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_safetensors.c - any bytes as a model file (libFuzzer).
 *
 * What is refused says where: an offset, a tensor, or the metadata. What is accepted is
 * there to the last value, and the bytes make no more of it than they are.
 */
#include "common/artifact/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ps_safetensors *file = NULL;
    ps_status st = ps_safetensors_parse(data, size, &file);
    volatile float last = 0;

    if (!ps_is_ok(&st)) {
        if (st.code != PS_INVALID_ARGUMENT ||
            (strstr(st.text, "offset ") == NULL && strstr(st.text, "tensor") == NULL &&
             strstr(st.text, "__metadata__") == NULL)) {
            abort();
        }
    } else {
        size_t bytes = 8;

        for (size_t i = 0; i < ps_safetensors_count(file); i++) {
            const ps_tensor *tensor = ps_safetensors_at(file, i);
            uint64_t n = 1;

            for (uint32_t d = 0; d < tensor->rank; d++) {
                n *= tensor->dim[d];
            }
            for (uint64_t v = 0; v < n; v++) {
                last = tensor->data[v]; /* every value is there */
            }
            bytes += n * sizeof(float);
        }
        (void)last;
        if (bytes > size) {
            abort();
        }
        (void)ps_safetensors_meta(file, "step");
    }
    ps_safetensors_close(file);
    return 0;
}
