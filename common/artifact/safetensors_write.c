/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c - writes the header, padded to 8 bytes, and the data in the given order. */
#include "common/artifact/safetensors.h"

#include "common/base/files.h"
#include "common/base/strbuf.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's byte order is ours");

static const char meta_key[] = "__metadata__";

/* Returns the number of values. It cannot overflow, because the values are in memory. */
static uint64_t values_of(const ps_tensor *tensor)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < tensor->rank; i++) {
        n *= tensor->dim[i];
    }
    return n;
}

/* Adds a member. A name that occurs twice, or a text that is not UTF-8, is a bug of the caller. */
static void put(json_t *object, const char *key, json_t *value)
{
    assert(json_object_get(object, key) == NULL);
    assert(value != NULL && json_object_set_new(object, key, value) == 0);
}

static json_t *make_header(const ps_tensor *tensors, size_t count, const ps_meta *meta,
                           size_t meta_count)
{
    json_t *header = json_object(), *texts = json_object();
    uint64_t offset = 0;

    for (size_t i = 0; i < meta_count; i++) {
        put(texts, meta[i].key, json_string(meta[i].value));
    }
    if (meta_count > 0) {
        put(header, meta_key, json_incref(texts));
    }
    json_decref(texts);
    for (size_t i = 0; i < count; i++) {
        uint64_t end = offset + values_of(&tensors[i]) * sizeof(float);
        json_t *shape = json_array();

        assert(tensors[i].rank <= PS_TENSOR_RANK_MAX);
        for (uint32_t d = 0; d < tensors[i].rank; d++) {
            json_array_append_new(shape, json_integer((json_int_t)tensors[i].dim[d]));
        }
        put(header, tensors[i].name,
            json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
                      (json_int_t)offset, (json_int_t)end));
        offset = end;
    }
    return header;
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
    json_t *header = make_header(tensors, count, meta, meta_count);
    char *text = json_dumps(header, JSON_COMPACT);
    ps_file_writer writer;
    ps_strbuf json = {0};
    ps_status st;

    ps_strbuf_puts(&json, text);
    free(text);
    json_decref(header);
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
