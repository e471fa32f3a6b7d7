/* SPDX-License-Identifier: Apache-2.0 */
/* describe.h - which data set is in a folder: the checksums of its files.
 *
 * Describing MNIST hashes 55 MB; a cache in the caller's hands makes that once a
 * process and file, not once a job.
 */
#ifndef PS_COMMON_DATA_DESCRIBE_H
#define PS_COMMON_DATA_DESCRIBE_H

#include "common/data/dataset.h"

#include <time.h>

enum { PS_DATA_CACHE_FILES = 256 };

/* Descriptions by the identity of a file: one that is written or replaced has
 * another change time. {0} is an empty cache; it owns nothing. One thread at a time. */
typedef struct ps_data_cache {
    struct {
        uint64_t device, inode, packed_bytes;
        struct timespec modified, changed;
        ps_data_file file;
    } entry[PS_DATA_CACHE_FILES];
    size_t count; /* ever added; the oldest gives way */
} ps_data_cache;

/* ps_data_describe with a cache, which may be NULL. */
PS_MUST_USE ps_status ps_data_describe_cached(ps_data_cache *cache, const ps_data_conf *conf,
                                              const char *folder,
                                              ps_data_file files[PS_DATA_FILES_MAX], size_t *count,
                                              char sha256[65]);

/* Bytes that the files of a conf in `folder` have unpacked, as their sizes and the ends of packed
 * ones say; what is not there counts nothing. For estimates: nothing is read. */
uint64_t ps_data_bytes(const ps_data_conf *conf, const char *folder);

#endif
