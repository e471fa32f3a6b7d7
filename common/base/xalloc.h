/* SPDX-License-Identifier: Apache-2.0 */
/* xalloc.h - allocates memory. Functions with an x abort when memory runs out, so no remote may
 * choose their sizes. The caller frees what they return by free(). Any thread. */
#ifndef PS_COMMON_BASE_XALLOC_H
#define PS_COMMON_BASE_XALLOC_H

#include <stddef.h>

enum { PS_ALIGN_BYTES = 64 }; /* a cache line, and the widest vector load */

void *ps_xmalloc(size_t bytes);
void *ps_xcalloc(size_t n, size_t bytes); /* zeroed; aborts when n * bytes overflows */
void *ps_xrealloc(void *old, size_t bytes);
char *ps_xstrdup(const char *text);
char *ps_xstrndup(const char *text, size_t n); /* copies at most n bytes */

/* Returns p, memory of `bytes` bytes; aborts if it is NULL. */
void *ps_or_abort(void *p, size_t bytes);

/* Returns memory aligned to 64 bytes, contents undefined; NULL when memory runs out. 8 MiB and more
 * are aligned to 2 MiB and in huge pages, where the system has them. */
void *ps_aligned_alloc(size_t bytes);

/* Returns memory as ps_aligned_alloc does, but aborts when memory runs out. */
void *ps_xaligned_alloc(size_t bytes);

#endif
