/* SPDX-License-Identifier: Apache-2.0 */
/* lowest_priority.c - see lowest_priority.h.
 *
 * A nice value orders the processes of one session only, where the kernel shares the processors
 * among sessions first (sched(7), autogroup). There the process begins a session of its own, whose
 * nice value orders it among the sessions.
 *
 * A process that only takes what others leave still costs them: it uses the caches and memory, and
 * runs on for a moment when they wake. So it also pauses.
 */
#include "common/sandbox/lowest_priority.h"

#include "common/script/sandbox_protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
    LOWEST = 19,
    TRIES = 60,       /* more than those that a machine's other processes can take */
    BETWEEN_MS = 100, /* interval at which the kernel lets somebody change a session */
    /* Processor time before the first pause and between two, and how long one is. Most codecs of
     * code are tried out before the first. */
    FIRST_US = 20000,
    RUN_US = 4000, /* no shorter: the kernel counts it by its ticks, often of 4 ms */
    PAUSE_NS = 196000000
};

_Static_assert(PS_SANDBOX_PATIENCE > 1 + PAUSE_NS / 1000 / RUN_US,
               "what pauses can use up its budget of processor time before patience ends");

/* Pauses. It waits by the one call for waiting that the process may make later (confine.c). */
static void pause_now(int number)
{
    static const uint32_t word = 0;
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    int error = errno;

    (void)number;
    syscall(SYS_futex, &word, FUTEX_WAIT, 0, &pause, NULL, 0);
    errno = error;
}

/* Has the process pause again and again while it computes. */
static bool begin_pauses(void)
{
    const struct sigaction action = {.sa_handler = pause_now, .sa_flags = SA_RESTART};
    const struct itimerval timer = {.it_value.tv_usec = FIRST_US, .it_interval.tv_usec = RUN_US};

    return sigaction(SIGVTALRM, &action, NULL) == 0 && setitimer(ITIMER_VIRTUAL, &timer, NULL) == 0;
}

/* Gives the session whose file is `fd` the lowest nice value. */
static bool lower_session(int fd)
{
    for (int i = 0; i < TRIES; i++) {
        if (write(fd, "19", 2) == 2) {
            return true;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return false;
        }
        poll(NULL, 0, BETWEEN_MS); /* the kernel announces nothing that could be waited for */
    }
    return false;
}

const char *ps_lowest_priority(void)
{
    int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    bool is_low = fd < 0 || (setsid() >= 0 && lower_session(fd));

    if (fd >= 0) {
        close(fd);
    } else {
        (void)setpgid(0, 0); /* keeps signals of the terminal from it, as a session does */
    }
    return is_low && setpriority(PRIO_PROCESS, 0, LOWEST) == 0 && begin_pauses()
               ? NULL
               : "its priority cannot be lowered";
}
