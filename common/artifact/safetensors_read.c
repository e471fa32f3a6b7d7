/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_read.c - reads safetensors and checks every claim of the file.
 *
 * The header is read first; its length is bounded. The data are read into one aligned block, after
 * the header's ranges were found to cover them without holes or overlaps.
 */
#include "common/artifact/safetensors.h"

#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's byte order is ours");

enum { PREFIX_BYTES = 8 };

static const char meta_key[] = "__metadata__";

struct ps_safetensors {
    json_t *header; /* owns all names and texts */
    ps_tensor *tensors;
    size_t count;
    float *data;
};

/* The bytes that a tensor claims. */
typedef struct range {
    uint64_t begin, end;
    ps_tensor tensor;
} range;

static ps_status bad(const char *name, const char *why)
{
    return ps_fail(PS_INVALID_ARGUMENT, "tensor \"%s\": %s", PS_SHORT(name, 40), why);
}

static bool as_u64(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static ps_status read_shape(const char *name, const json_t *shape, range *out, uint64_t *bytes)
{
    uint64_t n = sizeof(float);

    if (!json_is_array(shape) || json_array_size(shape) > PS_TENSOR_RANK_MAX) {
        return bad(name, "shape is no array of at most 8 numbers");
    }
    out->tensor.rank = (uint32_t)json_array_size(shape);
    for (size_t i = 0; i < out->tensor.rank; i++) {
        if (!as_u64(json_array_get(shape, i), &out->tensor.dim[i])) {
            return bad(name, "shape holds what is no whole number of 0 or more");
        }
        if (__builtin_mul_overflow(n, out->tensor.dim[i], &n)) {
            return bad(name, "shape is larger than any memory");
        }
    }
    *bytes = n;
    return ps_ok();
}

static ps_status read_range(const char *name, const json_t *entry, uint64_t data_bytes, range *out)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t bytes = 0;
    ps_status st;

    if (!json_is_object(entry) || json_object_size(entry) != 3) {
        return bad(name, "expected dtype, shape and data_offsets, and nothing else");
    }
    if (dtype == NULL || strcmp(dtype, "F32") != 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "tensor \"%s\": dtype is %s, expected F32",
                       PS_SHORT(name, 40), PS_SHORT(dtype == NULL ? "no text" : dtype, 20));
    }
    st = read_shape(name, json_object_get(entry, "shape"), out, &bytes);
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (json_array_size(offsets) != 2 || !as_u64(json_array_get(offsets, 0), &out->begin) ||
        !as_u64(json_array_get(offsets, 1), &out->end)) {
        return bad(name, "data_offsets are not two whole numbers");
    }
    if (out->begin > out->end || out->end > data_bytes) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "tensor \"%s\": data_offsets %llu, %llu, expected within 0 to %llu",
                       PS_SHORT(name, 40), (unsigned long long)out->begin,
                       (unsigned long long)out->end, (unsigned long long)data_bytes);
    }
    if (out->end - out->begin != bytes) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "tensor \"%s\": data_offsets hold %llu bytes, expected %llu of its shape",
                       PS_SHORT(name, 40), (unsigned long long)(out->end - out->begin),
                       (unsigned long long)bytes);
    }
    out->tensor.name = name;
    return ps_ok();
}

static int by_begin(const void *a, const void *b)
{
    const range *x = a, *y = b;

    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    /* tensors without bytes may have equal ranges; their names make the order unique */
    return strcmp(x->tensor.name, y->tensor.name);
}

/* Sorts `ranges` and checks that they cover bytes 0 to data_bytes without a hole or an overlap. */
static ps_status check_cover(range *ranges, size_t count, uint64_t data_bytes)
{
    uint64_t at = 0;

    qsort(ranges, count, sizeof *ranges, by_begin);
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].begin != at) {
            return ps_fail(PS_INVALID_ARGUMENT, "tensor \"%s\": starts at %llu, expected %llu (%s)",
                           PS_SHORT(ranges[i].tensor.name, 40), (unsigned long long)ranges[i].begin,
                           (unsigned long long)at, ranges[i].begin > at ? "a hole" : "an overlap");
        }
        at = ranges[i].end;
    }
    if (at != data_bytes) {
        return ps_fail(PS_INVALID_ARGUMENT, "tensors end at %llu, expected at %llu, the data's end",
                       (unsigned long long)at, (unsigned long long)data_bytes);
    }
    return ps_ok();
}

static ps_status check_meta(json_t *meta)
{
    void *it = json_object_iter(meta);

    if (!json_is_object(meta)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s is no object", meta_key);
    }
    for (; it != NULL; it = json_object_iter_next(meta, it)) {
        if (!json_is_string(json_object_iter_value(it))) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: \"%s\" is no text", meta_key,
                           PS_SHORT(json_object_iter_key(it), 40));
        }
    }
    return ps_ok();
}

static ps_status read_entries(ps_safetensors *file, uint64_t data_bytes)
{
    size_t room = json_object_size(file->header), count = 0;
    range *ranges = ps_xcalloc(room + 1, sizeof *ranges);
    ps_status st = ps_ok();

    for (void *it = json_object_iter(file->header); it != NULL && ps_is_ok(&st);
         it = json_object_iter_next(file->header, it)) {
        const char *name = json_object_iter_key(it);

        if (strcmp(name, meta_key) == 0) {
            st = check_meta(json_object_iter_value(it));
        } else {
            st = read_range(name, json_object_iter_value(it), data_bytes, &ranges[count++]);
        }
    }
    if (ps_is_ok(&st)) {
        st = check_cover(ranges, count, data_bytes);
    }
    if (ps_is_ok(&st)) {
        file->tensors = ps_xcalloc(count + 1, sizeof *file->tensors);
        file->count = count;
        for (size_t i = 0; i < count; i++) {
            file->tensors[i] = ranges[i].tensor;
        }
    }
    free(ranges);
    return st;
}

/* Parses the n bytes of a header, behind which the file has data_bytes of data. */
static ps_status read_header(const char *json, size_t n, uint64_t data_bytes, ps_safetensors *file)
{
    json_error_t error;

    if (n == 0 || json[0] != '{') {
        return ps_fail(PS_INVALID_ARGUMENT, "offset 8: the header does not start with {");
    }
    file->header = json_loadb(json, n, JSON_REJECT_DUPLICATES, &error);
    if (file->header == NULL) {
        /* The parser's own text is not used: it repeats bytes of the file, which the reader of the
         * message may not be allowed to see. */
        return ps_fail(PS_INVALID_ARGUMENT, "offset %zu: the header %s",
                       PREFIX_BYTES + (size_t)error.position,
                       json_error_code(&error) == json_error_duplicate_key ? "has a duplicate name"
                                                                           : "is not valid JSON");
    }
    return read_entries(file, data_bytes);
}

/* Points each tensor to its values in the data block, where tensors follow each other. Their sizes
 * do not overflow: read_shape has checked that. */
static void place_tensors(ps_safetensors *file)
{
    const float *next = file->data;

    for (size_t i = 0; i < file->count; i++) {
        ps_tensor *tensor = &file->tensors[i];
        uint64_t n = 1;

        for (uint32_t d = 0; d < tensor->rank; d++) {
            n *= tensor->dim[d];
        }
        tensor->data = next;
        next += n;
    }
}

/* Where the file's bytes come from: `read` gives the next n of them. */
typedef struct input {
    ps_status (*read)(void *from, void *bytes, size_t n);
    void *from;
    uint64_t file_bytes;
    bool shapes_only;
} input;

static ps_status read_whole(const input *in, ps_safetensors *file)
{
    uint64_t header_bytes = 0, data_bytes, most;
    char *json = NULL;
    ps_status st;

    if (in->file_bytes < PREFIX_BYTES) {
        return ps_fail(PS_INVALID_ARGUMENT, "ends at offset %llu, expected 8 bytes of length",
                       (unsigned long long)in->file_bytes);
    }
    st = in->read(in->from, &header_bytes, PREFIX_BYTES);
    if (!ps_is_ok(&st)) {
        return st;
    }
    most = in->file_bytes - PREFIX_BYTES;
    most = most < PS_SAFETENSORS_HEADER_MAX ? most : PS_SAFETENSORS_HEADER_MAX;
    if (header_bytes > most) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "offset 0: a header of %llu bytes in a file of %llu, expected at most %llu",
                       (unsigned long long)header_bytes, (unsigned long long)in->file_bytes,
                       (unsigned long long)most);
    }
    data_bytes = in->file_bytes - PREFIX_BYTES - header_bytes;
    json = ps_xmalloc(header_bytes);
    st = in->read(in->from, json, header_bytes);
    if (ps_is_ok(&st)) {
        st = read_header(json, header_bytes, data_bytes, file);
    }
    free(json);
    if (!ps_is_ok(&st) || in->shapes_only) {
        return st;
    }
    /* fails if the file has more data than there is memory */
    file->data = ps_aligned_alloc(data_bytes);
    if (file->data == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %llu bytes of data",
                       (unsigned long long)data_bytes);
    }
    place_tensors(file);
    return in->read(in->from, file->data, data_bytes);
}

static ps_status open_input(const input *in, ps_safetensors **out)
{
    ps_safetensors *file = ps_xcalloc(1, sizeof *file);
    ps_status st = read_whole(in, file);

    if (ps_is_ok(&st)) {
        *out = file;
    } else {
        ps_safetensors_close(file);
    }
    return st;
}

static ps_status read_fd(void *from, void *bytes, size_t n)
{
    int fd = *(int *)from;
    uint8_t *at = bytes;

    while (n > 0) {
        ssize_t got = read(fd, at, n);

        if (got == 0) {
            return ps_fail(PS_DATA_LOSS, "became shorter while it was read");
        }
        if (got < 0 && errno != EINTR) {
            return ps_fail_errno(errno, "read");
        }
        at += got < 0 ? 0 : got;
        n -= got < 0 ? 0 : (size_t)got;
    }
    return ps_ok();
}

static ps_status open_path(const char *path, bool shapes_only, ps_safetensors **out)
{
    int fd = -1;
    struct stat info = {0};
    input in = {.read = read_fd, .from = &fd, .shapes_only = shapes_only};
    ps_status st = ps_file_open(path, &fd, &info);

    if (!ps_is_ok(&st)) {
        return st;
    }
    in.file_bytes = (uint64_t)info.st_size;
    st = open_input(&in, out);
    close(fd);
    return ps_wrap(st, "%s", PS_PATH_SHOWN(path));
}

ps_status ps_safetensors_open(const char *path, ps_safetensors **out)
{
    return open_path(path, false, out);
}

ps_status ps_safetensors_open_shapes(const char *path, ps_safetensors **out)
{
    return open_path(path, true, out);
}

static ps_status read_memory(void *from, void *bytes, size_t n)
{
    const uint8_t **at = from;

    memcpy(bytes, *at, n);
    *at += n;
    return ps_ok();
}

ps_status ps_safetensors_parse(const void *bytes, size_t n, ps_safetensors **out)
{
    const uint8_t *at = bytes;
    input in = {.read = read_memory, .from = &at, .file_bytes = n};

    return open_input(&in, out);
}

size_t ps_safetensors_count(const ps_safetensors *file)
{
    return file->count;
}

const ps_tensor *ps_safetensors_at(const ps_safetensors *file, size_t index)
{
    assert(index < file->count);
    return &file->tensors[index];
}

const char *ps_safetensors_meta(const ps_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, meta_key), key));
}

void ps_safetensors_close(ps_safetensors *file)
{
    if (file == NULL) {
        return;
    }
    json_decref(file->header);
    free(file->tensors);
    free(file->data);
    free(file);
}
