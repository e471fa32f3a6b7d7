/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_csv.c - any bytes as a table (libFuzzer). The first bytes choose columns and the delimiter,
 * the rest are the file. */
#include "tests/fuzz/data_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const kinds[] = {"numeric", "hashed", "vocabulary", "target"};
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("csv"));

    if (size < 2) {
        return 0;
    }
    data_fuzz_column(&conf, "a", kinds[data[0] % 4]);
    data_fuzz_column(&conf, "b", kinds[data[0] / 4 % 4]);
    data_fuzz_column(&conf, "c", data[0] / 16 % 2 == 0 ? "label" : "target");
    if (data[0] / 32 % 2 == 1 && strcmp(conf.columns[1].kind->name, "vocabulary") == 0) {
        conf.columns[1].params.v[2] = 1; /* one_hot */
    }
    ps_data_set(&conf, "delimiter", data[1] % 4 == 0 ? 9 : 44);
    ps_data_set(&conf, "test_share", 0.3);
    data_fuzz_write("bytes", data + 2, size - 2);
    strcpy(conf.files[0], "bytes");
    conf.train_files = 1;
    return data_fuzz_run(&conf);
}
