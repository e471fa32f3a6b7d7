/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ngram.c - any bytes as text as n-grams (libFuzzer). The first byte chooses numbers, the rest
 * are the file. */
#include "tests/fuzz/data_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("ngram"));

    if (size < 1) {
        return 0;
    }
    ps_data_set(&conf, "n", 2 + data[0] % 4);
    ps_data_set(&conf, "cutoff", data[0] / 4 % 4);
    ps_data_set(&conf, "most", data[0] / 16 % 4);
    ps_data_set(&conf, "lower", data[0] / 64 % 2);
    ps_data_set(&conf, "test_share", 0.3);
    data_fuzz_write("bytes", data + 1, size - 1);
    strcpy(conf.files[0], "bytes");
    conf.train_files = 1;
    return data_fuzz_run(&conf);
}
