/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h - writes what a thread has in memory as it is now, while the thread goes on and
 * changes it.
 *
 * A copy of the process (fork) writes: the kernel copies a page when either of the two changes it.
 * So the thread stands still for the fork alone, about a millisecond for each 100 MB of the
 * process, whatever the state is made of. The copy has no other thread. It reads what the thread
 * that took it owns, writes a file in memory and ends; it uses no lock of other threads but those
 * of malloc, which fork() leaves in order, and nothing of gRPC. It dies with the thread that took
 * it, and is the first that the kernel ends for want of memory.
 *
 * Where no copy can be made, the thread writes the file itself.
 */
#ifndef PS_COMMON_BASE_SNAPSHOT_H
#define PS_COMMON_BASE_SNAPSHOT_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct ps_snapshot {
    int fd;      /* the file, in memory; -1: there is none */
    pid_t copy;  /* the process that writes; 0: none */
    int copy_fd; /* the pidfd of `copy`; -1: none */
    /* result of `write`: in this process, or in the copy once ps_snapshot_wait has seen its end */
    ps_code result;
    int64_t stood_us; /* how long ps_snapshot_begin took */
    /* processor time of the calling thread within stood_us; less than stood_us if the thread waited
     * for a processor */
    int64_t spent_us;
} ps_snapshot;

/* Writes into `fd`, by ps_snapshot_write, what `arg` stands for. */
typedef ps_status ps_snapshot_fn(void *arg, int fd);

/* Begins a snapshot: has write(arg, fd) called in a copy of the process, or at once in this one.
 * Never fails; ps_snapshot_wait reports what went wrong. If a copy was made that cannot be waited
 * for, `write` is called in this process after the copy, which was killed in the midst of it. So
 * `write` empties (ps_snapshot_empty) what it writes to besides `fd`. */
ps_snapshot ps_snapshot_begin(ps_snapshot_fn *write, void *arg);

/* Makes a snapshot of a file of `size` zeros, which others write by ps_snapshot_put. Fails with
 * RESOURCE_EXHAUSTED. */
PS_MUST_USE ps_status ps_snapshot_blank(size_t size, ps_snapshot *out);

/* Blocks until the file is written, for wait_us at most; the caller then reads `fd` by pread. Any
 * thread. Fails with the code of what `write` returned; with RESOURCE_EXHAUSTED if there was no
 * memory for the file; with DEADLINE_EXCEEDED if the copy still writes; with INTERNAL if the copy
 * was killed. */
PS_MUST_USE ps_status ps_snapshot_wait(ps_snapshot *s, int64_t wait_us);

/* Ends the copy, if it still writes, and closes the file. */
void ps_snapshot_drop(ps_snapshot *s);

/* Returns the bytes of the file. */
uint64_t ps_snapshot_size(const ps_snapshot *s);

/* A file of which a part is in common with other files, and in memory once: the bytes of `own`, and
 * between them, at offset `at`, all of `common`. */
typedef struct ps_spliced {
    int own, common; /* descriptors; common -1: none */
    uint64_t at;
    uint64_t common_size; /* bytes of `common` */
} ps_spliced;

/* Reads from the spliced file as pread does. Any thread. */
ssize_t ps_spliced_read(const ps_spliced *file, void *to, size_t len, uint64_t at);

/* Empties the file, so that ps_snapshot_write begins at its start. INTERNAL: it cannot. */
PS_MUST_USE ps_status ps_snapshot_empty(int fd);

/* Appends to the file: a ps_state_write_fn (state.h) whose arg is a pointer to the fd. */
PS_MUST_USE ps_status ps_snapshot_write(void *fd, const void *bytes, size_t len);

/* Writes `len` bytes at offset `at` of the file. RESOURCE_EXHAUSTED: there is no memory. */
PS_MUST_USE ps_status ps_snapshot_put(int fd, uint64_t at, const void *bytes, size_t len);

#endif
