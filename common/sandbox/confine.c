/* SPDX-License-Identifier: Apache-2.0 */
/* confine.c - see confine.h. */
#include "common/sandbox/confine.h"

#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static bool limit(int what, uint64_t most)
{
    const struct rlimit both = {.rlim_cur = (rlim_t)most, .rlim_max = (rlim_t)most};

    return setrlimit(what, &both) == 0;
}

/* Returns the bytes of address space that the process has; 0 if they cannot be read. */
static uint64_t address_space(void)
{
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f != NULL) {
        if (fscanf(f, "%llu", &pages) != 1) {
            pages = 0;
        }
        fclose(f);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Allows a system call whatever its arguments. */
static bool allow(scmp_filter_ctx filter, int call)
{
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0) == 0;
}

static bool install(void)
{
    static const int calls[] = {SCMP_SYS(futex),          SCMP_SYS(brk),     SCMP_SYS(munmap),
                                SCMP_SYS(mremap),         SCMP_SYS(madvise), SCMP_SYS(setitimer),
                                SCMP_SYS(getppid),        SCMP_SYS(exit),    SCMP_SYS(exit_group),
                                SCMP_SYS(restart_syscall)};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    bool ok = filter != NULL;

    for (size_t i = 0; ok && i < sizeof calls / sizeof calls[0]; i++) {
        ok = allow(filter, calls[i]);
    }
    /* memory of one's own that cannot be executed; without mprotect it never can be */
    ok = ok && seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
                                SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                                SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS)) == 0;
    ok = ok && seccomp_load(filter) == 0; /* sets no_new_privs */
    seccomp_release(filter);
    return ok;
}

const char *ps_confine(uint64_t memory)
{
    uint64_t has = address_space();

    if (has == 0) {
        return "its address space cannot be read";
    }
    if (close_range(0, ~0U, 0) != 0) {
        return "its descriptors cannot be closed";
    }
    if (prctl(PR_SET_DUMPABLE, 0) != 0 || !limit(RLIMIT_CORE, 0) ||
        !limit(RLIMIT_AS, has + memory) || !limit(RLIMIT_NOFILE, 0) || !limit(RLIMIT_FSIZE, 0)) {
        return "its resources cannot be limited";
    }
    return install() ? NULL : "its system calls cannot be limited (seccomp)";
}
