/* SPDX-License-Identifier: Apache-2.0 */
/* older.h - the command lines and variables of PaddlePaddle, as far as programs of psgd understand
 * them: each name either does its work by a flag of today, or is needless here.
 *
 * One const table has them all, for psgd launch and for the services. docs/launch.md shows it.
 */
#ifndef PS_COMMON_BASE_OLDER_H
#define PS_COMMON_BASE_OLDER_H

#include "common/base/status.h"
#include "common/base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

/* Who understands a name. */
enum {
    PS_OLDER_JOB = 1, /* flags of psgd submit and psgd train; psgd launch has them too */
    PS_OLDER_LAUNCH = 2,
    PS_OLDER_WORKER = 4,
    PS_OLDER_PSERVER = 8
};

typedef enum ps_older_kind {
    PS_OLDER_IS, /* the old name means the flag `now` of today, with the same value */
    /* as PS_OLDER_IS if the value is a list of hosts; else the name itself is a flag of today */
    PS_OLDER_IS_LIST,
    PS_OLDER_IS_MANY, /* as PS_OLDER_IS, but needless if the value is a number of at most 1 */
    PS_OLDER_PORT,    /* the port of --listen */
    PS_OLDER_HOST,    /* the host of --listen; counts only if PADDLE_PORT is set */
    PS_OLDER_ROLE,    /* needless if its value is the role of the program; else an error */
    PS_OLDER_NEEDLESS /* nothing is done; a line says why it is needless */
} ps_older_kind;

typedef struct ps_older {
    const char *flag;     /* old flag without dashes; `-` in it stands for `_` too; NULL: none */
    const char *variable; /* old environment variable; NULL: none */
    unsigned who;         /* PS_OLDER_JOB and so on: which programs understand it */
    ps_older_kind kind;
    const char *now; /* the flag of today, without dashes; NULL: none */
    const char *why; /* why it is needless; NULL: it never is */
    bool is_bool;    /* the flag may stand without a value */
} ps_older;

/* The table; ends with an entry of neither a flag nor a variable. */
extern const ps_older ps_older_names[];

/* Arguments in which older flags and variables are flags of today. */
typedef struct ps_older_args {
    int argc;
    char **argv; /* (argc), then NULL */
    char **owned;
    size_t n_owned;
} ps_older_args;

/* Translates the arguments and, for launch and services, the environment. `who` has the bits of the
 * program, `program` its name. A line for people about each older name that was found is appended
 * to `said`. Today's flags win over older variables. argv must live as long as *args. The caller
 * calls ps_older_args_fini also after a failure.
 *
 * INVALID_ARGUMENT: TRAINING_ROLE names the role of another program. */
PS_MUST_USE ps_status ps_older_args_init(ps_older_args *args, unsigned who, const char *program,
                                         int argc, char *const *argv, ps_strbuf *said);

/* Returns whether the n bytes of `text` are `name`. Where `name` has `-`, `text` may have `_`. */
bool ps_older_is_name(const char *text, size_t n, const char *name);

/* Frees the arguments that ps_older_args_init has made. A zeroed struct is allowed. */
void ps_older_args_fini(ps_older_args *args);

#endif
