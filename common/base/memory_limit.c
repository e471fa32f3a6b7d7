/* SPDX-License-Identifier: Apache-2.0 */
/* memory_limit.c - see memory_limit.h. */
#include "common/base/memory_limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, LINE_BYTES = 2048 };

/* Returns the limit, in bytes, in the file `name` of a control group. Returns UINT64_MAX, no limit,
 * if the file says "max" or cannot be read. */
static uint64_t limit_in(const char *root, const char *mount, const char *group, const char *name)
{
    char path[PATH_BYTES];
    uint64_t bytes;
    FILE *in;
    int n = snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, name);
    int found;

    in = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    if (in == NULL) {
        return UINT64_MAX;
    }
    found = fscanf(in, "%" SCNu64, &bytes);
    fclose(in);
    return found == 1 ? bytes : UINT64_MAX;
}

/* Returns the smallest limit of a control group and of those above it; changes `group`. In a
 * container /proc/self/cgroup may name a group by its path on the host, which the container does
 * not have. The root of the mount, which comes last, is then the container's own group. */
static uint64_t least_above(const char *root, const char *mount, char *group, const char *name)
{
    uint64_t least = UINT64_MAX;

    for (;;) {
        uint64_t bytes = limit_in(root, mount, group, name);
        char *slash = strrchr(group, '/');

        least = bytes < least ? bytes : least;
        if (slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

/* Returns whether "memory" is one of the names in a comma-separated list of controllers. */
static int has_memory(const char *controllers)
{
    const char *at = strstr(controllers, "memory");

    return at != NULL && (at == controllers || at[-1] == ',') &&
           (at[strlen("memory")] == '\0' || at[strlen("memory")] == ',');
}

uint64_t ps_memory_limit_of_groups(const char *list, const char *root)
{
    FILE *in = fopen(list, "re");
    uint64_t least = UINT64_MAX;
    char line[LINE_BYTES];

    /* a line is NUMBER:CONTROLLERS:GROUP, as 4:cpu,memory:/a/b */
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        uint64_t bytes = UINT64_MAX;

        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        controllers++;
        group[strcspn(group, "\n")] = '\0';
        if (controllers[0] == '\0') {
            bytes = least_above(root, "", group, "memory.max");
        } else if (has_memory(controllers)) {
            bytes = least_above(root, "/memory", group, "memory.limit_in_bytes");
        }
        least = bytes < least ? bytes : least;
    }
    if (in != NULL) {
        fclose(in);
    }
    return least;
}

uint64_t ps_memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t host = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
    uint64_t limit = ps_memory_limit_of_groups("/proc/self/cgroup", "/sys/fs/cgroup");

    return limit != UINT64_MAX && (host == 0 || limit < host) ? limit : host;
}
