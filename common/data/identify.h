/* SPDX-License-Identifier: Apache-2.0 */
/* identify.h - identifies the data set in a folder by the checksums of its files.
 *
 * Describing MNIST hashes 55 MB. A cache that the caller owns makes that happen once per
 * process and file, not once per job.
 */
#ifndef PS_COMMON_DATA_IDENTIFY_H
#define PS_COMMON_DATA_IDENTIFY_H

#include "common/data/dataset.h"

#include <time.h>

enum { PS_DATA_CACHE_FILES = 256 };

/* Descriptions of files by their identity; a file that is written or replaced has another
 * change time. {0} is an empty cache. It owns nothing. Any thread may use it; files are hashed
 * without a lock. */
typedef struct ps_data_cache {
    struct {
        uint64_t device, inode, packed_bytes;
        struct timespec modified, changed;
        ps_data_file file;
    } entry[PS_DATA_CACHE_FILES];
    size_t count; /* number of entries ever added; the oldest entry is overwritten */
} ps_data_cache;

/* Does what ps_data_describe does, with a cache, which may be NULL. */
PS_MUST_USE ps_status ps_data_describe_cached(ps_data_cache *cache, const ps_data_conf *conf,
                                              const char *folder, ps_data_files *out);

/* Estimates the unpacked bytes of the files of a conf in `folder` from their sizes and the
 * trailers of packed ones. Missing files count 0. Does not read the content. */
uint64_t ps_data_bytes(const ps_data_conf *conf, const char *folder);

#endif
