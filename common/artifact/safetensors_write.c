/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c - the header padded to 8 bytes, the data in the order given. */
#include "common/artifact/safetensors.h"

#include "common/base/files.h"
#include "common/base/strbuf.h"

#include <assert.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's byte order is ours");

static const char meta_key[] = "__metadata__";

/* Without overflow: the values are in our memory. */
static uint64_t values_of(const ps_tensor *tensor)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < tensor->rank; i++) {
        n *= tensor->dim[i];
    }
    return n;
}

static void put_text(ps_strbuf *json, const char *text)
{
    ps_strbuf_json_string(json, text, strlen(text));
}

static void put_meta(ps_strbuf *json, const ps_meta *meta, size_t count)
{
    put_text(json, meta_key);
    ps_strbuf_puts(json, ":{");
    for (size_t i = 0; i < count; i++) {
        ps_strbuf_puts(json, i == 0 ? "" : ",");
        put_text(json, meta[i].key);
        ps_strbuf_putc(json, ':');
        put_text(json, meta[i].value);
    }
    ps_strbuf_putc(json, '}');
}

static void put_tensor(ps_strbuf *json, const ps_tensor *tensor, uint64_t *offset)
{
    uint64_t end = *offset + values_of(tensor) * sizeof(float);

    assert(tensor->rank <= PS_TENSOR_RANK_MAX);
    put_text(json, tensor->name);
    ps_strbuf_puts(json, ":{\"dtype\":\"F32\",\"shape\":[");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        ps_strbuf_printf(json, "%s%llu", i == 0 ? "" : ",", (unsigned long long)tensor->dim[i]);
    }
    ps_strbuf_printf(json, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*offset,
                     (unsigned long long)end);
    *offset = end;
}

static ps_status write_tensors(ps_file_writer *writer, const ps_strbuf *json,
                               const ps_tensor *tensors, size_t count)
{
    uint64_t header_bytes = json->len;
    ps_status st = ps_file_writer_add(writer, &header_bytes, sizeof header_bytes);

    if (ps_is_ok(&st)) {
        st = ps_file_writer_add(writer, json->data, json->len);
    }
    for (size_t i = 0; i < count && ps_is_ok(&st); i++) {
        st = ps_file_writer_add(writer, tensors[i].data, values_of(&tensors[i]) * sizeof(float));
    }
    return st;
}

ps_status ps_safetensors_write(const char *path, const ps_tensor *tensors, size_t count,
                               const ps_meta *meta, size_t meta_count)
{
    ps_file_writer writer;
    ps_strbuf json = {0};
    uint64_t offset = 0;
    ps_status st;

    ps_strbuf_putc(&json, '{');
    if (meta_count > 0) {
        put_meta(&json, meta, meta_count);
    }
    for (size_t i = 0; i < count; i++) {
        ps_strbuf_puts(&json, json.len == 1 ? "" : ",");
        put_tensor(&json, &tensors[i], &offset);
    }
    ps_strbuf_putc(&json, '}');
    ps_strbuf_pad(&json, ' ', (8 - json.len % 8) % 8);
    assert(json.len <= PS_SAFETENSORS_HEADER_MAX);
    st = ps_file_writer_open(&writer, path);
    if (ps_is_ok(&st)) {
        st = write_tensors(&writer, &json, tensors, count);
        if (ps_is_ok(&st)) {
            st = ps_file_writer_commit(&writer);
        } else {
            ps_file_writer_abandon(&writer);
        }
    }
    ps_strbuf_fini(&json);
    return st;
}
