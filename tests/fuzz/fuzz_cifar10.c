/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_cifar10.c - any bytes as CIFAR-10's batches (libFuzzer). The bytes, each repeated so that
 * few of them make records, are a training file and the test file. */
#include "tests/fuzz/data_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { REPEAT = 439, MOST = 64 }; /* 7 * 439 is a record's 3073 bytes */
    static uint8_t bytes[REPEAT * MOST + 1];
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("cifar10"));
    size_t n = 0;

    if (size < 1) {
        return 0;
    }
    for (size_t i = 1; i < size && i <= MOST; i++) {
        memset(bytes + n, data[i], REPEAT);
        n += REPEAT;
    }
    n += data[0] % 4 == 1;      /* a byte too many */
    n -= data[0] % 4 == 2 && n; /* or too few */
    data_fuzz_write("data_batch_3.bin", bytes, n);
    data_fuzz_write("test_batch.bin", bytes, data[0] / 4 % 2 == 0 ? n : n / 2);
    return data_fuzz_run(&conf);
}
