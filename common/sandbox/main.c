/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - psgd-sandbox: runs the code of a job apart from the services.
 *
 * A service starts it with shared memory and nothing else (sandbox_protocol.h). It holds no
 * connection, no file and no secret, and the kernel lets it do nothing but compute.
 */
#include "common/base/cpu.h"
#include "common/sandbox/confine.h"
#include "common/sandbox/lowest_priority.h"
#include "common/sandbox/vm.h"
#include "common/script/sandbox_protocol.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_NS = 500 * 1000 * 1000
}; /* LOOK_NS: interval at which a waiting sandbox checks whether its service still runs */

/* Blocks until it is the sandbox's turn. Ends the process if the service has ended. */
static void wait_for_turn(ps_sandbox_memory *shared)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    uint32_t turn;

    while ((turn = atomic_load_explicit(&shared->turn, memory_order_acquire)) !=
           PS_SANDBOX_CALLED) {
        if (syscall(SYS_futex, &shared->turn, FUTEX_WAIT, turn, &look, NULL, 0) != 0 &&
            errno == ETIMEDOUT && (uint64_t)getppid() != shared->service) {
            _exit(0);
        }
    }
}

static void give_turn(ps_sandbox_memory *shared, uint32_t turn)
{
    atomic_store_explicit(&shared->turn, turn, memory_order_release);
    syscall(SYS_futex, &shared->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void set_timer(__itimer_which_t which, uint64_t nanoseconds)
{
    const struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)(nanoseconds / 1000000000u),
                     .tv_usec = (suseconds_t)(nanoseconds / 1000 % 1000000)}};

    setitimer(which, &timer, NULL);
}

/* Has the kernel end the process after so many nanoseconds of processor time, and in the background
 * PS_SANDBOX_PATIENCE times as many of any; 0: never. Counting Lua's instructions is not enough:
 * one library call, such as a search by pattern, can take for ever. */
static void set_end(uint64_t nanoseconds, bool is_background)
{
    set_timer(ITIMER_PROF, nanoseconds);
    if (is_background) {
        set_timer(ITIMER_REAL, nanoseconds * PS_SANDBOX_PATIENCE);
    }
}

/* Makes the call. */
static void answer(ps_sandbox_memory *shared)
{
    /* of the end that is set: its nanoseconds, 0: none, and the time of the call that set it */
    static uint64_t end;
    static int64_t began_us;
    uint64_t most = shared->nanoseconds * (1u + shared->repeats) *
                    (shared->what == PS_SANDBOX_ROUND_TRIP ? 2 : 1);
    int64_t now_us = shared->called_us;

    if (shared->is_background != 0) {
        set_end(most, true);
        ps_vm_answer(shared);
        set_end(0, true);
        return;
    }
    /* Two system calls in each call would take longer than some codecs do. So an end stays until
     * it is too close. Between calls the process uses no processor time. */
    if (end != most || now_us - began_us > PS_SANDBOX_SPARE_US) {
        set_end(most + PS_SANDBOX_SPARE_US * UINT64_C(1000), false);
        end = most;
        began_us = now_us;
    }
    ps_vm_answer(shared);
}

int main(void)
{
    ps_sandbox_memory *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, PS_SANDBOX_FD, 0);
    ps_status st = ps_cpu_init();
    const char *wrong;

    if (shared == MAP_FAILED || shared->protocol != PS_SANDBOX_PROTOCOL || !ps_is_ok(&st)) {
        fputs("psgd-sandbox: psgd's services of the same version start this program\n", stderr);
        return 2;
    }
    (void)ps_cpu_level();
    wrong = shared->is_background != 0 ? ps_lowest_priority() : NULL;
    if (wrong == NULL) {
        wrong =
            ps_confine(shared->memory + (16u << 20), PS_SANDBOX_CPU_S, shared->is_background != 0);
    }
    if (wrong != NULL) {
        snprintf(shared->error, sizeof shared->error, "%s", wrong);
        shared->failed = 1;
        give_turn(shared, PS_SANDBOX_DONE);
        return 1;
    }
    give_turn(shared, PS_SANDBOX_DONE);
    for (;;) {
        wait_for_turn(shared);
        answer(shared);
        give_turn(shared, PS_SANDBOX_DONE);
    }
}
