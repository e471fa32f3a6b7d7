/* SPDX-License-Identifier: Apache-2.0 */
/* packed.h - a file of a data set, read as if it were not compressed.
 *
 * Looks for FOLDER/NAME, then FOLDER/NAME.gz. What is read is the unpacked
 * content either way. One thread at a time.
 */
#ifndef PS_COMMON_DATA_PACKED_H
#define PS_COMMON_DATA_PACKED_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct ps_packed ps_packed;

/* `name` is kept and must outlive the result. NOT_FOUND when there is neither
 * file. `facts` (optional) receives the stat of the file itself. */
PS_MUST_USE ps_status ps_packed_open(const char *folder, const char *name, ps_packed **out,
                                     struct stat *facts);

/* Bytes of its unpacked content, of a .gz as its last four bytes say it (modulo 4 GiB);
 * 0 when it is not there. For estimates. */
uint64_t ps_packed_bytes(const char *folder, const char *name);

/* Reads n bytes, fewer only at the end of the content. DATA_LOSS when the
 * packing is damaged or ends early; the text names file and offset. */
PS_MUST_USE ps_status ps_packed_read(ps_packed *file, void *bytes, size_t n, size_t *got);
void ps_packed_close(ps_packed *file);

#endif
