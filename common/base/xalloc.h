/* SPDX-License-Identifier: Apache-2.0 */
/* xalloc.h - memory of sizes that we choose.
 *
 * The functions with an x abort when memory runs out, with a line on stderr.
 * A size that a peer or a file chooses is bounded first and then goes through
 * malloc or ps_aligned_alloc, whose NULL becomes RESOURCE_EXHAUSTED.
 *
 * All results are the caller's to free(). A size of 0 gives a valid pointer.
 */
#ifndef PS_COMMON_BASE_XALLOC_H
#define PS_COMMON_BASE_XALLOC_H

#include <stddef.h>

enum { PS_ALIGN_BYTES = 64 }; /* a cache line, and the widest vector load */

void *ps_xmalloc(size_t bytes);
void *ps_xcalloc(size_t n, size_t bytes); /* zeroed; aborts when n * bytes overflows */
void *ps_xrealloc(void *old, size_t bytes);
char *ps_xstrdup(const char *text);
char *ps_xstrndup(const char *text, size_t n); /* at most n bytes of it */

/* Aligned to 64 bytes, contents undefined. */
void *ps_aligned_alloc(size_t bytes);  /* NULL when memory runs out */
void *ps_xaligned_alloc(size_t bytes); /* aborts */

#endif
