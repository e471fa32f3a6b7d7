/* SPDX-License-Identifier: Apache-2.0 */
/* taken_sandbox.c - a sandbox that an attacker has taken over, for test_script_taken.c. The name by
 * which it is started says what it does. */
#include "common/script/sandbox_protocol.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static ps_sandbox_memory *shared;

static void set_turn(uint32_t turn)
{
    atomic_store(&shared->turn, turn);
    syscall(SYS_futex, &shared->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wait_for_call(void)
{
    uint32_t turn;

    while ((turn = atomic_load(&shared->turn)) != PS_SANDBOX_CALLED) {
        syscall(SYS_futex, &shared->turn, FUTEX_WAIT, turn, NULL, NULL, 0);
    }
}

/* Never answers, but changes the turn and wakes the service all the time. */
static void flip(void)
{
    for (uint32_t turn = 5;; turn++) {
        set_turn(turn % 7 == PS_SANDBOX_DONE ? 9 : turn % 7);
    }
}

/* Answers at once, even before it is called, with results that change all the time. */
static void scribble(void)
{
    static const uint32_t kinds[] = {PS_SANDBOX_VECTOR, PS_SANDBOX_TEXT, PS_SANDBOX_SPARSE,
                                     PS_SANDBOX_SPARSE};
    uint64_t state = 1;

    for (;;) {
        for (uint32_t i = 0; i < PS_SANDBOX_RESULTS; i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
            /* often valid, so that a reader that checks a value and then reads it again is caught
             */
            shared->results[i] = (ps_sandbox_value){
                .kind = kinds[state >> 62],
                .at = (state >> 61 & 1) != 0 ? 64 : (uint32_t)(state >> 32),
                .count = (state >> 60 & 1) != 0 ? 4096 : (uint32_t)(state >> 20) % 8192,
                .as.integer = (state >> 59 & 1) != 0 ? 100 : (int64_t)(state << 8)};
        }
        shared->result_count = (uint32_t)(state >> 40);
        memset(shared->error, (int)(state >> 50), sizeof shared->error);
        memset(shared->out, (int)(state >> 48), 9000);
        shared->failed = (uint32_t)(state >> 58) == 3;
        set_turn(PS_SANDBOX_DONE);
    }
}

/* Answers calls with a description. */
static void say(const char *text)
{
    for (;;) {
        wait_for_call();
        strcpy((char *)shared->out, text);
        shared->results[0] =
            (ps_sandbox_value){.kind = PS_SANDBOX_TEXT, .count = (uint32_t)strlen(text)};
        shared->result_count = 1;
        shared->failed = 0;
        set_turn(PS_SANDBOX_DONE);
    }
}

int main(int argc, char **argv)
{
    const char *name = argc > 0 ? strrchr(argv[0], '/') + 1 : "";

    alarm(60); /* ends the process if the test fails to */
    if (strcmp(name, "ends") == 0) {
        return 7;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, PS_SANDBOX_FD, 0);
    set_turn(PS_SANDBOX_DONE);
    if (strcmp(name, "flips") == 0) {
        wait_for_call();
        flip();
    } else if (strcmp(name, "scribbles") == 0) {
        scribble();
    } else if (strcmp(name, "stops") == 0) {
        wait_for_call();
        kill(getpid(), SIGSTOP);
    } else if (strcmp(name, "dies") == 0) {
        wait_for_call();
        kill(getpid(), SIGKILL);
    } else if (strcmp(name, "shrinks") == 0) {
        if (ftruncate(PS_SANDBOX_FD, 0) == 0) {
            set_turn(PS_SANDBOX_CALLED);
        }
        say("kind codec\nname a\n");
    } else if (strcmp(name, "paints") == 0) {
        say("kind codec\nname a\nsummary \x1b[2J\n");
    } else if (strcmp(name, "climbs") == 0) {
        say("kind codec\nname ../../a\n");
    } else if (strcmp(name, "repeats") == 0) {
        say("kind codec\nname a\nnumber b 1 0 2 0 x\nnumber b 1 0 2 0 x\n");
    } else if (strcmp(name, "shadows") == 0) {
        say("kind codec\nname a\nnumber script 1 0 2 0 x\n");
    } else if (strcmp(name, "exceeds") == 0) {
        say("kind codec\nname a\nnumber b 1e300 0 1e300 1 x\n");
    } else if (strcmp(name, "many") == 0) {
        say("kind codec\nname a\nnumber b 1 0 2 0 x\nnumber c 1 0 2 0 x\nnumber d 1 0 2 0 x\n"
            "number e 1 0 2 0 x\nnumber f 1 0 2 0 x\nnumber g 1 0 2 0 x\n");
    }
    return 0;
}
