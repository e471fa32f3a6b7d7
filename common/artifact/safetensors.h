/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - reads and writes model files: u64 header length, JSON header, float32 data. */
#ifndef PS_COMMON_ARTIFACT_SAFETENSORS_H
#define PS_COMMON_ARTIFACT_SAFETENSORS_H

#include "common/base/sha256.h"
#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_TENSOR_RANK_MAX = 8, PS_SAFETENSORS_HEADER_MAX = 16 << 20 /* header in bytes */ };

typedef struct ps_tensor {
    const char *name;
    uint32_t rank;
    uint64_t dim[PS_TENSOR_RANK_MAX];
    const float *data; /* product of dim values; NULL: only the shape is known */
} ps_tensor;

typedef struct ps_meta {
    const char *key, *value;
} ps_meta;

/* Writes a file atomically: tensors in the given order, data aligned to 8 bytes. Names and keys
 * are UTF-8 and unique, and no tensor is called "__metadata__". Errors are those of
 * ps_file_writer. */
PS_MUST_USE ps_status ps_safetensors_write(const char *path, const ps_tensor *tensors, size_t count,
                                           const ps_meta *meta, size_t meta_count);

/* Gives values that are not in memory. */
typedef struct ps_tensor_source {
    /* Writes the next n values to `values`: those of the first tensor, then of the second, ... */
    ps_status (*read)(void *arg, float *values, size_t n);
    void *arg;
} ps_tensor_source;

/* Size and digest of a file, taken while it was written. */
typedef struct ps_written {
    uint64_t size; /* bytes */
    char sha256[PS_SHA256_HEX_BYTES];
} ps_written;

/* Writes a file as ps_safetensors_write does, with values that `source` gives piece by piece;
 * `data` of the tensors is ignored. Sets *written. Returns the first failure of the source or of
 * ps_file_writer; then there is no new file. */
PS_MUST_USE ps_status ps_safetensors_write_from(const char *path, const ps_tensor *tensors,
                                                size_t count, const ps_meta *meta,
                                                size_t meta_count, const ps_tensor_source *source,
                                                ps_written *written);

/* A file that was read. All of it is in memory, so the file may be removed. Immutable, so any
 * thread may use it. Tensors are in the order of their data. */
typedef struct ps_safetensors ps_safetensors;

/* Reads a file and checks it strictly: data covered without holes, F32 only, unique
 * names, a header of at most 16 MiB, at most 8 dimensions, metadata of texts only.
 *
 *   INVALID_ARGUMENT    names the tensor or the offset, and what is wrong there
 *   RESOURCE_EXHAUSTED  no memory for its data
 *   DATA_LOSS           the file became shorter while it was read
 *   else                those of ps_file_open (files.h) and of reading
 */
PS_MUST_USE ps_status ps_safetensors_open(const char *path, ps_safetensors **out);

/* Reads names and shapes only: the data of every tensor is NULL. Reads no more than the header.
 * Errors are those of ps_safetensors_open. */
PS_MUST_USE ps_status ps_safetensors_open_shapes(const char *path, ps_safetensors **out);

/* Parses n bytes in memory, which are copied, as ps_safetensors_open does. */
PS_MUST_USE ps_status ps_safetensors_parse(const void *bytes, size_t n, ps_safetensors **out);

/* Returns the number of tensors. */
size_t ps_safetensors_count(const ps_safetensors *file);

/* Returns tensor `index`, which is less than the count. Valid until close. */
const ps_tensor *ps_safetensors_at(const ps_safetensors *file, size_t index);

/* Returns the metadata text of `key`, or NULL. Valid until close. */
const char *ps_safetensors_meta(const ps_safetensors *file, const char *key);

/* Frees the file and all its tensors. */
void ps_safetensors_close(ps_safetensors *file);

#endif
