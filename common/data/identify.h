/* SPDX-License-Identifier: Apache-2.0 */
/* identify.h - identifies the data set in a folder by the checksums of its files.
 *
 * Hashing takes time: MNIST has 55 MB. With a cache, which the caller owns, a process hashes each
 * file once, not once for each job.
 */
#ifndef PS_COMMON_DATA_IDENTIFY_H
#define PS_COMMON_DATA_IDENTIFY_H

#include "common/data/conf.h"

#include <time.h>

/* A file of a data set, as on the wire. Size and checksum are of the unpacked content. */
typedef struct ps_data_file {
    char name[PS_DATA_FILE_NAME_MAX];
    uint64_t size;
    char sha256[65];
} ps_data_file;

/* The files of a data set. */
typedef struct ps_data_files {
    ps_data_file *at; /* (count) */
    size_t count;
    size_t train;    /* the first so many are training files */
    size_t learned;  /* the last so many were learned from all files (learned.h) */
    char sha256[65]; /* of the whole: SHA-256 over the lines "name size sha256\n" of all files */
} ps_data_files;

/* Frees the list. A zeroed one is allowed. */
void ps_data_files_free(ps_data_files *files);

/* Describes the files of a conf in `folder`. A drawn source has no files; its checksum is the
 * SHA-256 of "name:version". The caller frees *out after success. Returns NOT_FOUND with a missing
 * file and its folder, or as ps_file_list_open. Where some files suffice (source.h), leaves missing
 * ones out, and returns NOT_FOUND only if all are missing. */
PS_MUST_USE ps_status ps_data_describe(const ps_data_conf *conf, const char *folder,
                                       ps_data_files *out);

/* Describes the files of a conf as ps_data_describe does, and those that were learned (learned.h)
 * in `learned_folder`. NULL: without learned files. */
PS_MUST_USE ps_status ps_data_describe_share(const ps_data_conf *conf, const char *folder,
                                             const char *learned_folder, ps_data_files *out);

/* Writes to *out those files of a list, made by ps_data_describe, that a process with this share
 * needs, without what is learned. The caller frees *out. */
void ps_data_files_share(const ps_data_files *files, const ps_data_share *share,
                         ps_data_files *out);

/* Appends a file that was learned. The caller then calls ps_data_files_sum. */
void ps_data_files_add_learned(ps_data_files *files, const ps_data_file *file);

/* Sets `sha256` of the list from the checksums of its files. */
void ps_data_files_sum(ps_data_files *files);

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

/* Describes the files of a conf as ps_data_describe does, but hashes only files that the cache does
 * not know. NULL: there is no cache. */
PS_MUST_USE ps_status ps_data_describe_cached(ps_data_cache *cache, const ps_data_conf *conf,
                                              const char *folder, ps_data_files *out);

#endif
