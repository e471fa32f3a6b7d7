/* SPDX-License-Identifier: Apache-2.0 */
/* slow_decode.c - to be loaded before libc (LD_PRELOAD): what LZ4 has compressed takes
 * $SLOW_DECODE_MS milliseconds longer to decompress, and no processor meanwhile. So a test can have
 * an overloaded server without loading the machine.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>

int LZ4_decompress_safe(const char *in, char *out, int n, int room);

int LZ4_decompress_safe(const char *in, char *out, int n, int room)
{
    int (*real)(const char *, char *, int, int);
    const char *ms = getenv("SLOW_DECODE_MS");

    *(void **)&real = dlsym(RTLD_NEXT, "LZ4_decompress_safe");
    poll(NULL, 0, ms != NULL ? atoi(ms) : 0);
    return real(in, out, n, room);
}
