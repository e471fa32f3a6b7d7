/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_protocol.h - the memory that a service shares with a sandbox process, and whose turn it
 * is.
 *
 * The service writes a call, sets `turn` to PS_SANDBOX_CALLED and wakes the sandbox by the futex on
 * it. The sandbox answers in the same memory, sets `turn` to PS_SANDBOX_DONE and wakes the service.
 * Each side writes only when it is its turn. A sandbox that an attacker has taken over may break
 * that rule, so the service copies each value once and checks the copy. */
#ifndef PS_COMMON_SCRIPT_SANDBOX_PROTOCOL_H
#define PS_COMMON_SCRIPT_SANDBOX_PROTOCOL_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    /* number of the descriptor of the shared memory in the sandbox process */
    PS_SANDBOX_FD = 3,
    PS_SANDBOX_TOGETHER = 16, /* most calls that are made together */
    /* most arguments of all calls that are made together */
    PS_SANDBOX_ARGUMENTS = 64,
    /* most results of all calls that are made together */
    PS_SANDBOX_RESULTS = 2 * PS_SANDBOX_TOGETHER,
    PS_SANDBOX_ERROR = 512,            /* bytes of an error's text */
    PS_SANDBOX_TEXT_MAX = 65536,       /* bytes of a file of code */
    PS_SANDBOX_NUMBERS = 12,           /* most numbers of a plugin */
    PS_SANDBOX_ROOM = 4 * 1024 * 1024, /* bytes of `in` and of `out` */
    PS_SANDBOX_CPU_S = 600,            /* processor seconds after which the kernel ends a sandbox */
    /* a call in the background may last so many times its budget, which is of processor time there,
     * because other processes have the processor first and it pauses (lowest_priority.h) */
    PS_SANDBOX_PATIENCE = 60,
    PS_SANDBOX_SPARE_US = 1000000,
    PS_SANDBOX_PROTOCOL = 7 /* changes with this file */
};

/* Whose turn it is. */
enum { PS_SANDBOX_STARTED = 1, PS_SANDBOX_CALLED, PS_SANDBOX_DONE };

/* What the sandbox is to do. */
enum {
    /* compile the code in `in`, of arguments[0].count bytes, and write the description of its
     * plugin to `out`, as script_about.c reads it */
    PS_SANDBOX_LOAD = 1,
    PS_SANDBOX_RUN, /* call a function of the plugin */
    /* Call encode, and then decode with the bytes that encode wrote and the number of values of
     * encode's first argument. There are two results: the bytes, and what decode returned. If
     * encode wrote no bytes, which mean zeros, decode is not called and the second result is
     * nil. */
    PS_SANDBOX_ROUND_TRIP,
    PS_SANDBOX_MAP, /* for code of the kind compute: make the records of a partition */
    /* for code of the kind compute: make one record for each key of sorted records */
    PS_SANDBOX_MERGE
};

/* Kinds of values. */
enum {
    PS_SANDBOX_NIL,
    PS_SANDBOX_BOOLEAN, /* integer 0 or 1 */
    PS_SANDBOX_NUMBER,
    PS_SANDBOX_INTEGER,
    PS_SANDBOX_NUMBERED, /* argument: the plugin's numbers as a table by name, `count` of them in
                            `in` as double */
    PS_SANDBOX_VECTOR,   /* `count` float32 */
    PS_SANDBOX_READER,   /* argument: `count` bytes to read from */
    PS_SANDBOX_WRITER,   /* argument: takes up to `count` bytes, which stand in `out`; as a result
                            `count` is their number */
    PS_SANDBOX_TEXT,     /* `count` bytes */
    PS_SANDBOX_SPARSE    /* result: a vector of `count` values, of which all but as.integer are 0.
                            Those stand in `out`, behind them the position of each as uint16_t. */
};

/* Most values of a vector that is sparse, and of them that are not 0. */
enum { PS_SANDBOX_SPARSE_VALUES = 16384, PS_SANDBOX_SPARSE_MAX = PS_SANDBOX_SPARSE_VALUES / 2 };

typedef struct ps_sandbox_value {
    uint32_t kind;
    uint32_t at,
        count; /* an argument's place in `in`, a result's in `out` (bytes); elements or bytes */
    uint32_t reserved;
    union {
        double number;
        int64_t integer;
    } as;
} ps_sandbox_value;

typedef struct ps_sandbox_memory {
    _Atomic uint32_t turn;
    uint32_t protocol; /* PS_SANDBOX_PROTOCOL of the service */
    uint32_t what;
    /* 0: the calls succeeded; else the answer is the text in `error`: 1, or 2 if decode of a round
     * trip failed */
    uint32_t failed;
    uint64_t instructions, memory; /* budgets of a call: instructions of Lua; bytes in use */
    /* time budget of a function, in the background of processor time. The service ends the sandbox
     * after the sum of those of all calls. In the background the sandbox ends itself then, else
     * after as much processor time and at most PS_SANDBOX_SPARE_US more, for its service may have
     * died. */
    uint64_t nanoseconds;
    int64_t called_us; /* the service's monotonic time at the call */
    uint64_t service;  /* process id of the service; the sandbox ends with it */
    char function[32];
    /* arguments, and most results, of one call; the bytes of a writer do not count as a result */
    uint32_t argument_count, result_max;
    uint32_t repeats;       /* further calls of the function. Their arguments and results follow
                               those of the first call. */
    uint32_t result_count;  /* number of results of all calls */
    uint32_t is_background; /* 1: the sandbox takes the lowest priority (lowest_priority.h) */
    ps_sandbox_value arguments[PS_SANDBOX_ARGUMENTS], results[PS_SANDBOX_RESULTS];
    char error[PS_SANDBOX_ERROR];
    _Alignas(64) uint8_t in[PS_SANDBOX_ROOM];
    _Alignas(64) uint8_t out[PS_SANDBOX_ROOM];
} ps_sandbox_memory;

#endif
