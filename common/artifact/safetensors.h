/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - model files: u64 header length, JSON header, float32 data. */
#ifndef PS_COMMON_ARTIFACT_SAFETENSORS_H
#define PS_COMMON_ARTIFACT_SAFETENSORS_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_TENSOR_RANK_MAX = 8, PS_SAFETENSORS_HEADER_MAX = 16 << 20 /* bytes */ };

typedef struct ps_tensor {
    const char *name;
    uint32_t rank;
    uint64_t dim[PS_TENSOR_RANK_MAX];
    const float *data; /* product of dim; NULL: the shape alone */
} ps_tensor;

typedef struct ps_meta {
    const char *key, *value;
} ps_meta;

/* Writes atomically; tensors in the order given, data aligned to 8 bytes. Names
 * and keys are UTF-8 and each stands once; no tensor is called "__metadata__".
 * Errors are those of ps_file_writer. */
PS_MUST_USE ps_status ps_safetensors_write(const char *path, const ps_tensor *tensors, size_t count,
                                           const ps_meta *meta, size_t meta_count);

/* An open file: all of it in memory, so the file itself may go. Immutable, any
 * thread. Tensors are in the order of their data. */
typedef struct ps_safetensors ps_safetensors;

/* Strict: covered without holes, F32 only, no duplicates, a header of at most
 * 16 MiB, at most 8 dimensions, metadata of texts only.
 *
 * INVALID_ARGUMENT    names the tensor or the offset, and what is wrong there
 * RESOURCE_EXHAUSTED  no memory for its data
 * else                errno's, of open and read */
PS_MUST_USE ps_status ps_safetensors_open(const char *path, ps_safetensors **out);

/* The names and shapes alone: every tensor's data is NULL. Reads no more than the
 * header. Errors as before. */
PS_MUST_USE ps_status ps_safetensors_open_shapes(const char *path, ps_safetensors **out);

/* As ps_safetensors_open, of bytes in memory, which are copied. */
PS_MUST_USE ps_status ps_safetensors_parse(const void *bytes, size_t n, ps_safetensors **out);
size_t ps_safetensors_count(const ps_safetensors *file);
const ps_tensor *ps_safetensors_at(const ps_safetensors *file, size_t index);
const char *ps_safetensors_meta(const ps_safetensors *file, const char *key); /* or NULL */
void ps_safetensors_close(ps_safetensors *file);

#endif
