/* SPDX-License-Identifier: Apache-2.0 */
/* confine.c - see confine.h. */
#include "common/sandbox/confine.h"

#include <linux/capability.h>
#include <linux/futex.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

/* Whether this build has a sanitizer, whose runtime keeps freed memory and makes calls of its own.
 * No build for users has one. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HAS_SANITIZER = 1 };
#else
enum { HAS_SANITIZER = 0 };
#endif

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

/* Gives up all capabilities, which a process of root has. Returns false if it cannot. */
static bool drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[2] = {{0}}, none[2] = {{0}};

    if (syscall(SYS_capget, &head, has) != 0) {
        return false;
    }
    /* Services under systemd have no capabilities, and their own filter may forbid capset. */
    return memcmp(has, none, sizeof has) == 0 || syscall(SYS_capset, &head, none) == 0;
}

/* Allows a system call whatever its arguments. */
static bool allow(scmp_filter_ctx filter, int call)
{
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0) == 0;
}

/* Allows a system call whose argument `which` is `value`. */
static bool allow_if(scmp_filter_ctx filter, int call, unsigned which, uint64_t value)
{
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, SCMP_CMP(which, SCMP_CMP_EQ, value)) ==
           0;
}

/* Allows what a sanitizer's runtime does: it maps memory at fixed places, gives pages back, asks
 * for the signal stack where an error of Lua jumps, and for random bytes, and it keeps signals for
 * a moment at which its state is whole. */
static bool allow_sanitizer(scmp_filter_ctx filter)
{
    return allow_if(filter, SCMP_SYS(mmap), 2, PROT_READ | PROT_WRITE) &&
           allow(filter, SCMP_SYS(madvise)) && allow(filter, SCMP_SYS(sched_yield)) &&
           allow(filter, SCMP_SYS(getrandom)) && allow(filter, SCMP_SYS(sigaltstack)) &&
           allow(filter, SCMP_SYS(rt_sigprocmask));
}

static bool install(bool has_signals)
{
    static const int calls[] = {SCMP_SYS(brk),  SCMP_SYS(munmap),     SCMP_SYS(getppid),
                                SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(restart_syscall)};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    bool ok = filter != NULL;

    for (size_t i = 0; ok && i < sizeof calls / sizeof calls[0]; i++) {
        ok = allow(filter, calls[i]);
    }
    ok = ok && allow_if(filter, SCMP_SYS(futex), 1, FUTEX_WAIT) &&
         allow_if(filter, SCMP_SYS(futex), 1, FUTEX_WAKE) &&
         allow_if(filter, SCMP_SYS(setitimer), 0, ITIMER_REAL) &&
         allow_if(filter, SCMP_SYS(setitimer), 0, ITIMER_PROF) &&
         allow_if(filter, SCMP_SYS(mremap), 3, MREMAP_MAYMOVE);
    /* Private memory that cannot be executed. mprotect, which could change that, is not allowed. */
    ok = ok && seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
                                SCMP_A2(SCMP_CMP_EQ, PROT_READ | PROT_WRITE),
                                SCMP_A3(SCMP_CMP_EQ, MAP_PRIVATE | MAP_ANONYMOUS)) == 0;
    ok = ok && (!has_signals || allow(filter, SCMP_SYS(rt_sigreturn))) &&
         (!HAS_SANITIZER || allow_sanitizer(filter));
    ok = ok && seccomp_load(filter) == 0; /* sets no_new_privs */
    seccomp_release(filter);
    return ok;
}

const char *ps_confine(uint64_t memory, uint64_t cpu_s, bool has_signals)
{
    uint64_t has = address_space();

    if (has == 0) {
        return "its address space cannot be read";
    }
    if (close_range(0, ~0U, 0) != 0) {
        return "its descriptors cannot be closed";
    }
    if (!drop_capabilities()) {
        return "its capabilities cannot be given up";
    }
    if (prctl(PR_SET_DUMPABLE, 0) != 0 || !limit(RLIMIT_CORE, 0) ||
        (!HAS_SANITIZER && !limit(RLIMIT_AS, has + memory)) || !limit(RLIMIT_NOFILE, 0) ||
        !limit(RLIMIT_FSIZE, 0) || !limit(RLIMIT_MEMLOCK, 0) || !limit(RLIMIT_CPU, cpu_s)) {
        return "its resources cannot be limited";
    }
    return install(has_signals) ? NULL : "its system calls cannot be limited (seccomp)";
}
