/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tables.c - any bytes as the file of a sparse table (libFuzzer).
 *
 * Checksums are made right as far as the sections can be followed, else nothing behind the head
 * would ever be met. What is refused has changed nothing; what is accepted can be pulled, aged
 * and saved.
 */
#include "common/store/tables_file.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { WIDTH = 2, KEY_END = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sum(uint8_t *bytes, size_t from, size_t to)
{
    uint64_t h = XXH3_64bits(bytes + from, to - from);

    memcpy(bytes + to, &h, sizeof h);
}

static void mend(uint8_t *bytes, size_t size)
{
    size_t at = PS_TABLE_HEAD_BYTES;
    uint32_t slots, head[4];

    if (size < at) {
        return;
    }
    sum(bytes, 0, at - 8);
    memcpy(&slots, bytes + 12, sizeof slots);
    while (size - at >= 24) {
        uint64_t len;

        memcpy(head, bytes + at, sizeof head);
        len = 16 + head[1] * (32 + UINT64_C(4) * WIDTH * (1 + (uint64_t)slots % 9)) +
              head[2] * UINT64_C(8) + head[3] * UINT64_C(16);
        if (len + 8 > size - at) {
            return;
        }
        sum(bytes, at, at + (size_t)len);
        at += (size_t)len + 8;
    }
}

static ps_status drop(void *arg, const void *bytes, size_t len)
{
    (void)bytes;
    *(size_t *)arg += len;
    return ps_ok();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ps_table_conf conf = ps_table_conf_default(WIDTH, ps_optim_find("adagrad"));
    ps_tables_conf all = {.table_count = 1, .tables = &conf, .keys_max = 8};
    uint8_t *bytes = malloc(size + 1);
    ps_tables_files *files;
    ps_tables *tables;
    ps_status st;

    if (bytes == NULL) {
        return 0;
    }
    conf.key_end = KEY_END;
    conf.unseen_max = 100;
    conf.rows_max = 1000;
    conf.saves_changes = true;
    conf.admission = PS_ADMIT_COUNT;
    conf.admit_count = 3;
    conf.values_only = size % 2 == 1;
    tables = ps_tables_create(&all);
    files = ps_tables_files_create(tables);
    memcpy(bytes, data, size);
    mend(bytes, size);
    st = ps_tables_files_take(files, bytes, size);
    if (!ps_is_ok(&st)) {
        if (st.text[0] == '\0' || ps_table_count(ps_tables_at(tables, 0)).rows != 0 ||
            ps_table_count(ps_tables_at(tables, 0)).candidates != 0) {
            abort();
        }
    } else {
        uint64_t keys[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        float rows[8 * WIDTH];
        size_t len = 0;

        st = ps_tables_pull(tables, keys, 8, rows);
        if (!ps_is_ok(&st)) {
            abort();
        }
        (void)ps_table_shrink(ps_tables_at(tables, 0));
        st = ps_table_save(ps_tables_at(tables, 0), PS_TABLE_WHOLE, drop, &len);
        if (!ps_is_ok(&st) || len < PS_TABLE_HEAD_BYTES) {
            abort();
        }
    }
    ps_tables_files_destroy(files);
    ps_tables_destroy(tables);
    free(bytes);
    return 0;
}
