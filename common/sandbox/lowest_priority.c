/* SPDX-License-Identifier: Apache-2.0 */
/* lowest_priority.c - see lowest_priority.h.
 *
 * A nice value orders the processes of one session only, where the kernel shares the processors
 * among sessions first (sched(7), autogroup). There the process begins a session of its own, whose
 * nice value orders it among the sessions.
 */
#include "common/sandbox/lowest_priority.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    LOWEST = 19,
    TRIES = 60,      /* more than those that a machine's other processes can take */
    BETWEEN_MS = 100 /* interval at which the kernel lets somebody change a session */
};

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
    return is_low && setpriority(PRIO_PROCESS, 0, LOWEST) == 0 ? NULL
                                                               : "its priority cannot be lowered";
}
