/* SPDX-License-Identifier: Apache-2.0 */
/* packed.h - reads a file of a data set as if it were not compressed.
 *
 * Looks for FOLDER/NAME, then FOLDER/NAME.gz. Reads return the unpacked content in both cases.
 * One thread at a time.
 */
#ifndef PS_COMMON_DATA_PACKED_H
#define PS_COMMON_DATA_PACKED_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct ps_packed ps_packed;

/* Opens a file. Keeps `name`, which must outlive the result. `facts` (optional) receives the
 * stat of the file itself. Returns NOT_FOUND if neither file exists, INVALID_ARGUMENT if it is not
 * a regular file or a link leads out of `folder`. */
PS_MUST_USE ps_status ps_packed_open(const char *folder, const char *name, ps_packed **out,
                                     struct stat *facts);

/* Bounds the unpacked content of every file, for all threads: a small .gz may unpack to any size.
 * Call it before threads are started. `flag` names the flag that sets the bound, for the message.
 * 0: no bound; so it is until the first call. */
void ps_packed_set_limit(uint64_t bytes, const char *flag);

/* Reads n bytes, fewer only at the end of the content. Returns DATA_LOSS with file and offset
 * if the compressed data is damaged or truncated, RESOURCE_EXHAUSTED beyond the limit. */
PS_MUST_USE ps_status ps_packed_read(ps_packed *file, void *bytes, size_t n, size_t *got);
/* Closes the file. NULL is allowed. */
void ps_packed_close(ps_packed *file);

#endif
