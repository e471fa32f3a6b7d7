/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_idx.c - any bytes as the four IDX files of the source mnist (libFuzzer). The first
 * bytes say where each file but the last ends, the rest are the files. */
#include "tests/fuzz/data_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("mnist"));
    const uint8_t *ends = data;

    if (size < FILES - 1) {
        return 0;
    }
    data += FILES - 1;
    size -= FILES - 1;
    for (size_t i = 0; i < FILES; i++) {
        size_t n = i < FILES - 1 && ends[i] < size ? ends[i] : size;

        data_fuzz_write(conf.source->files[i], data, n);
        data += n;
        size -= n;
    }
    return data_fuzz_run(&conf);
}
