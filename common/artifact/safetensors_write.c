/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c - writes the header, padded to 8 bytes, and the data in the given order. */
#include "common/artifact/safetensors.h"

#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's byte order is ours");

enum { PIECE = 1 << 16 }; /* most values of a source that are read and written at a time */

static const char meta_key[] = "__metadata__";

/* Returns the number of values. It does not overflow, because the values are in memory or a source
 * gives them all. */
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

/* A file that is being written. */
typedef struct output {
    ps_file_writer writer;
    ps_sha256 *sha; /* NULL: nobody wants a digest */
} output;

static ps_status put_bytes(output *out, const void *bytes, size_t n)
{
    if (out->sha != NULL) {
        ps_sha256_add(out->sha, bytes, n);
    }
    return ps_file_writer_add(&out->writer, bytes, n);
}

static ps_status put_from(output *out, const ps_tensor_source *source, uint64_t n)
{
    float *piece = ps_xmalloc(PIECE * sizeof *piece);
    ps_status st = ps_ok();

    while (n > 0 && ps_is_ok(&st)) {
        size_t some = n < PIECE ? (size_t)n : PIECE;

        st = source->read(source->arg, piece, some);
        if (ps_is_ok(&st)) {
            st = put_bytes(out, piece, some * sizeof *piece);
        }
        n -= some;
    }
    free(piece);
    return st;
}

/* Writes the header and the values: those of the source, or if it is NULL those of the tensors. */
static ps_status put_all(output *out, const ps_strbuf *json, const ps_tensor *tensors, size_t count,
                         const ps_tensor_source *source)
{
    uint64_t header_bytes = json->len, n = 0;
    ps_status st = put_bytes(out, &header_bytes, sizeof header_bytes);

    if (ps_is_ok(&st)) {
        st = put_bytes(out, json->data, json->len);
    }
    for (size_t i = 0; i < count && ps_is_ok(&st); i++) {
        n += values_of(&tensors[i]);
        if (source == NULL) {
            st = put_bytes(out, tensors[i].data, values_of(&tensors[i]) * sizeof(float));
        }
    }
    return source != NULL && ps_is_ok(&st) ? put_from(out, source, n) : st;
}

static ps_strbuf header_text(const ps_tensor *tensors, size_t count, const ps_meta *meta,
                             size_t meta_count)
{
    json_t *header = make_header(tensors, count, meta, meta_count);
    char *text = json_dumps(header, JSON_COMPACT);
    ps_strbuf json = {0};

    ps_strbuf_puts(&json, text);
    free(text);
    json_decref(header);
    ps_strbuf_pad(&json, ' ', (8 - json.len % 8) % 8);
    assert(json.len <= PS_SAFETENSORS_HEADER_MAX);
    return json;
}

static ps_status write_file(output *out, const char *path, const ps_strbuf *json,
                            const ps_tensor *tensors, size_t count, const ps_tensor_source *source)
{
    ps_status st = ps_file_writer_open(&out->writer, path);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = put_all(out, json, tensors, count, source);
    if (!ps_is_ok(&st)) {
        ps_file_writer_abandon(&out->writer);
        return st;
    }
    return ps_file_writer_commit(&out->writer);
}

ps_status ps_safetensors_write(const char *path, const ps_tensor *tensors, size_t count,
                               const ps_meta *meta, size_t meta_count)
{
    ps_strbuf json = header_text(tensors, count, meta, meta_count);
    output out = {0};
    ps_status st = write_file(&out, path, &json, tensors, count, NULL);

    ps_strbuf_fini(&json);
    return st;
}

ps_status ps_safetensors_write_from(const char *path, const ps_tensor *tensors, size_t count,
                                    const ps_meta *meta, size_t meta_count,
                                    const ps_tensor_source *source, ps_written *written)
{
    ps_strbuf json = header_text(tensors, count, meta, meta_count);
    ps_sha256 sha = {0};
    output out = {.sha = &sha};
    ps_status st;

    written->size = sizeof(uint64_t) + json.len;
    for (size_t i = 0; i < count; i++) {
        written->size += values_of(&tensors[i]) * sizeof(float);
    }
    ps_sha256_init(&sha);
    st = write_file(&out, path, &json, tensors, count, source);
    ps_sha256_finish(&sha, written->sha256);
    ps_strbuf_fini(&json);
    return st;
}
