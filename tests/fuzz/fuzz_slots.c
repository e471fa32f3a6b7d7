/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_slots.c - any bytes as click logs (libFuzzer). The bytes are the file. */
#include "tests/fuzz/data_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("slots"));

    ps_data_set(&conf, "test_share", 0.3);
    data_fuzz_write("bytes", data, size);
    strcpy(conf.files[0], "bytes");
    conf.train_files = 1;
    return data_fuzz_run(&conf);
}
