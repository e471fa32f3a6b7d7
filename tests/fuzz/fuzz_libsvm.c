/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_libsvm.c - any bytes as sparse rows (libFuzzer). The first byte says whether labels are
 * values, the rest are the file. */
#include "tests/fuzz/data_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("libsvm"));

    if (size < 1) {
        return 0;
    }
    ps_data_set(&conf, "values", data[0] % 2);
    ps_data_set(&conf, "test_share", 0.3);
    data_fuzz_write("bytes", data + 1, size - 1);
    strcpy(conf.files[0], "bytes");
    conf.train_files = 1;
    return data_fuzz_run(&conf);
}
