/* SPDX-License-Identifier: Apache-2.0 */
/* older.c - see older.h. */
#include "common/base/older.h"

#include "common/base/scalar.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    JOB = PS_OLDER_JOB,
    LAUNCH = PS_OLDER_LAUNCH,
    WORKER = PS_OLDER_WORKER,
    PSERVER = PS_OLDER_PSERVER,
    NODES = PS_OLDER_WORKER | PS_OLDER_PSERVER,
    ALL = PS_OLDER_LAUNCH | PS_OLDER_WORKER | PS_OLDER_PSERVER
};

static const char told[] = "the coordinator tells each worker where the servers are";
static const char counted[] = "the job says how many workers it has";
static const char ranked[] = "the coordinator deals the ranks";
static const char processors[] = "all computing is on processors";
static const char one_port[] = "a server has one port for dense slices and rows";
static const char both[] = "launch starts both roles";
static const char ports[] =
    "services take free ports, unless --servers or --worker-endpoints name some";
static const char wired[] = "gRPC over TCP is the only transport, and --listen says where";

/* clang-format off */
const ps_older ps_older_names[] = {
    /* fleetrun and what it sets */
    {"server-num", NULL, LAUNCH, PS_OLDER_IS, .now = "pservers"},
    {"worker-num", "PADDLE_TRAINERS_NUM", LAUNCH, PS_OLDER_IS, .now = "workers"},
    {"trainer-num", NULL, LAUNCH, PS_OLDER_IS, .now = "workers"},
    {NULL, "PADDLE_TRAINERS_NUM", NODES, PS_OLDER_NEEDLESS, .why = counted},
    {"servers", "PADDLE_PSERVERS_IP_PORT_LIST", LAUNCH, PS_OLDER_IS, .now = "servers"},
    {NULL, "PADDLE_PSERVERS_IP_PORT_LIST", NODES, PS_OLDER_NEEDLESS, .why = told},
    {"workers", "PADDLE_TRAINER_ENDPOINTS", LAUNCH, PS_OLDER_IS_LIST, .now = "worker-endpoints"},
    {"worker-endpoints", NULL, LAUNCH, PS_OLDER_IS, .now = "worker-endpoints"},
    {NULL, "PADDLE_TRAINER_ENDPOINTS", NODES, PS_OLDER_NEEDLESS, .why = told},
    {"ips", NULL, LAUNCH, PS_OLDER_IS, .now = "hosts"},
    {"log-dir", NULL, LAUNCH, PS_OLDER_IS, .now = "log-dir"},
    {"gpus", NULL, LAUNCH, PS_OLDER_NEEDLESS, .why = processors},
    {"heter-worker-num", NULL, LAUNCH, PS_OLDER_NEEDLESS, .why = processors},
    {"heter-workers", "PADDLE_HETER_TRAINER_IP_PORT_LIST", LAUNCH, PS_OLDER_NEEDLESS, .why = processors},
    {"heter-devices", NULL, LAUNCH, PS_OLDER_NEEDLESS, .why = processors},
    {NULL, "FLAGS_START_PORT", LAUNCH, PS_OLDER_NEEDLESS, .why = ports},
    {NULL, "TRAINING_ROLE", NODES, PS_OLDER_ROLE, .why = "the program is the role"},
    {NULL, "TRAINING_ROLE", LAUNCH, PS_OLDER_NEEDLESS, .why = both},
    {NULL, "PADDLE_TRAINER_ID", ALL, PS_OLDER_NEEDLESS, .why = ranked},
    {NULL, "POD_IP", NODES, PS_OLDER_HOST, .now = "listen"},
    {NULL, "PADDLE_PORT", NODES, PS_OLDER_PORT, .now = "listen"},
    {NULL, "PADDLE_PORT", LAUNCH, PS_OLDER_NEEDLESS, .why = ports},
    /* v2: paddle pserver, paddle train, paddle.init() */
    {"port", "PADDLE_INIT_PORT", PSERVER, PS_OLDER_PORT, .now = "listen"},
    {"port", "PADDLE_INIT_PORT", WORKER, PS_OLDER_NEEDLESS, .why = told},
    {"port", "PADDLE_INIT_PORT", LAUNCH, PS_OLDER_NEEDLESS, .why = ports},
    {"ports-num", "PADDLE_INIT_PORTS_NUM", PSERVER, PS_OLDER_IS_MANY, .now = "threads", .why = one_port},
    {"ports-num", "PADDLE_INIT_PORTS_NUM", LAUNCH | WORKER, PS_OLDER_NEEDLESS, .why = one_port},
    {"ports-num-for-sparse", "PADDLE_INIT_PORTS_NUM_FOR_SPARSE", ALL, PS_OLDER_NEEDLESS, .why = one_port},
    {"num-gradient-servers", "PADDLE_INIT_NUM_GRADIENT_SERVERS", JOB | LAUNCH, PS_OLDER_IS, .now = "workers"},
    {"num-gradient-servers", "PADDLE_INIT_NUM_GRADIENT_SERVERS", NODES, PS_OLDER_NEEDLESS, .why = counted},
    {"trainer-count", "PADDLE_INIT_TRAINER_COUNT", JOB | LAUNCH, PS_OLDER_IS, .now = "worker-threads"},
    {"trainer-count", "PADDLE_INIT_TRAINER_COUNT", NODES, PS_OLDER_NEEDLESS, .why = "--worker-threads of the job says it"},
    {"pservers", "PADDLE_INIT_PSERVERS", LAUNCH, PS_OLDER_IS_LIST, .now = "servers"},
    {"pservers", "PADDLE_INIT_PSERVERS", NODES, PS_OLDER_NEEDLESS, .why = told},
    {"trainer-id", "PADDLE_INIT_TRAINER_ID", ALL, PS_OLDER_NEEDLESS, .why = ranked},
    {"is-local", NULL, ALL, PS_OLDER_NEEDLESS, .why = "psgd train needs no services, and psgd launch starts all on this host unless it is told others", .is_bool = true},
    {"use-gpu", "PADDLE_INIT_USE_GPU", ALL, PS_OLDER_NEEDLESS, .why = processors, .is_bool = true},
    {"comment", NULL, ALL, PS_OLDER_NEEDLESS, .why = "--node-id names a node"},
    {"nics", NULL, ALL, PS_OLDER_NEEDLESS, .why = wired},
    {"rdma-tcp", NULL, ALL, PS_OLDER_NEEDLESS, .why = wired},
    {"tcp-rdma", NULL, ALL, PS_OLDER_NEEDLESS, .why = wired},
    {0},
};
/* clang-format on */

typedef struct translation {
    ps_older_args *out;
    unsigned who;
    const char *program;
    ps_strbuf *said;
    const char *host, *port; /* parts of --listen that older names gave; NULL: none did */
    /* true: add_flag puts flags before all arguments, because a "--" among them ends the flags */
    bool is_first;
} translation;

/* Today's flags that can also be given by a letter or by a variable of their own. */
static const struct {
    const char *flag;
    char letter;
    const char *variable;
} given_by[] = {
    {"workers", 'W', NULL},         {"workers", 'n', NULL},           {"pservers", 'P', NULL},
    {"listen", 'l', "PSGD_LISTEN"}, {"threads", 'T', "PSGD_THREADS"},
};

bool ps_older_is_name(const char *text, size_t n, const char *name)
{
    size_t i = 0;

    for (; i < n && name[i] != '\0'; i++) {
        if (text[i] != name[i] && !(text[i] == '_' && name[i] == '-')) {
            return false;
        }
    }
    return i == n && name[i] == '\0';
}

/* Returns whether the argument is the flag --name or --name=x, also with `_` for `-` in the name.
 * *value is x, or NULL if there is no "=". */
static bool is_flag(const char *arg, const char *name, const char **value)
{
    size_t n = strcspn(arg, "=");

    *value = arg[n] == '=' ? arg + n + 1 : NULL;
    return strncmp(arg, "--", 2) == 0 && n > 2 && ps_older_is_name(arg + 2, n - 2, name);
}

/* Returns whether today's flag `name` is among the translated arguments so far, by name or letter,
 * or its own variable is set. */
static bool is_given(const translation *t, const char *name)
{
    const char *value;

    for (int i = 1; i < t->out->argc; i++) {
        if (is_flag(t->out->argv[i], name, &value)) {
            return true;
        }
    }
    for (size_t k = 0; k < sizeof given_by / sizeof given_by[0]; k++) {
        const char *variable = given_by[k].variable;

        if (strcmp(given_by[k].flag, name) != 0) {
            continue;
        }
        for (int i = 1; i < t->out->argc; i++) {
            const char *arg = t->out->argv[i];

            if (arg[0] == '-' && arg[1] == given_by[k].letter) {
                return true;
            }
        }
        if (variable != NULL && getenv(variable) != NULL && getenv(variable)[0] != '\0') {
            return true;
        }
    }
    return false;
}

static void add(translation *t, char *text)
{
    t->out->argv[t->out->argc++] = text;
    t->out->argv[t->out->argc] = NULL;
}

static void add_flag(translation *t, const char *name, const char *value)
{
    char **argv = t->out->argv;
    ps_strbuf text = {0};
    char *flag;

    ps_strbuf_printf(&text, "--%s=%s", name, value);
    flag = t->out->owned[t->out->n_owned++] = ps_strbuf_take(&text);
    add(t, flag);
    if (t->is_first) {
        memmove(&argv[2], &argv[1], ((size_t)t->out->argc - 2) * sizeof *argv);
        argv[1] = flag;
    }
}

/* Returns whether `value` is a list of hosts, rather than a number or the path of a file. */
static bool is_list(const char *value)
{
    struct in_addr address;

    return strpbrk(value, ",:") != NULL || inet_pton(AF_INET, value, &address) == 1;
}

static void say_needless(translation *t, const char *dashes, const char *name, const char *value,
                         const char *why)
{
    ps_strbuf_printf(t->said, "%s: %s%s%s%s is needless here: %s\n", t->program, dashes, name,
                     value[0] != '\0' ? " " : "", PS_SHORT(value, 80), why);
}

static void say_today(translation *t, const char *dashes, const char *name, const char *value,
                      const char *now)
{
    ps_strbuf_printf(t->said, "%s: %s%s %s is --%s %s today\n", t->program, dashes, name,
                     PS_SHORT(value, 80), now, PS_SHORT(value, 80));
}

static void say_part(translation *t, const char *dashes, const char *name, const char *value,
                     const char *part)
{
    ps_strbuf_printf(t->said, "%s: %s%s %s is the %s of --listen today\n", t->program, dashes, name,
                     PS_SHORT(value, 80), part);
}

/* Acts on an old name that was found among the arguments (`dashes` is "--") or in the environment
 * (""): adds today's flag, remembers a part of --listen, or says that the name is needless. */
static ps_status take(translation *t, const ps_older *row, const char *dashes, const char *name,
                      const char *value)
{
    int64_t n = 0;

    switch (row->kind) {
    case PS_OLDER_IS_MANY:
        if (ps_scalar_int(value, &n) && n <= 1) {
            say_needless(t, dashes, name, value, row->why);
            break;
        }
        /* fall through */
    case PS_OLDER_IS:
    case PS_OLDER_IS_LIST:
        say_today(t, dashes, name, value, row->now);
        add_flag(t, row->now, value);
        break;
    case PS_OLDER_PORT:
        say_part(t, dashes, name, value, "port");
        t->port = value;
        break;
    case PS_OLDER_HOST:
        say_part(t, dashes, name, value, "host");
        t->host = value;
        break;
    case PS_OLDER_ROLE:
        if (strcasecmp(value, t->who == WORKER ? "TRAINER" : "PSERVER") != 0) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "%s is \"%s\", and this is %s: TRAINER is for psgd-worker, PSERVER for "
                           "psgd-pserver",
                           name, PS_SHORT(value, 20), t->program);
        }
        say_needless(t, dashes, name, value, row->why);
        break;
    case PS_OLDER_NEEDLESS:
        say_needless(t, dashes, name, value, row->why);
        break;
    }
    return ps_ok();
}

/* Returns the row of the table for argument `at`, which is an old flag; NULL: it is none, or a flag
 * of today. *value is its value, *used how many arguments flag and value take. */
static const ps_older *find(const translation *t, int argc, char *const *argv, int at,
                            const char **value, int *used)
{
    const char *next = at + 1 < argc ? argv[at + 1] : NULL;

    for (const ps_older *row = ps_older_names; row->flag != NULL || row->variable != NULL; row++) {
        if (row->flag == NULL || (row->who & t->who) == 0 || !is_flag(argv[at], row->flag, value)) {
            continue;
        }
        *used = 1;
        if (*value == NULL && row->is_bool) {
            bool has =
                next != NULL && (strcasecmp(next, "true") == 0 || strcasecmp(next, "false") == 0 ||
                                 strcmp(next, "0") == 0 || strcmp(next, "1") == 0);

            *used = has ? 2 : 1;
            *value = has ? next : "";
        } else if (*value == NULL) {
            *used = next != NULL ? 2 : 1;
            *value = next;
        }
        if (*value == NULL || (row->kind == PS_OLDER_IS_LIST && !is_list(*value)) ||
            (row->now != NULL && strcmp(row->now, row->flag) == 0)) {
            return NULL; /* with this value, or by this name, it is a flag of today */
        }
        return row;
    }
    return NULL;
}

static ps_status take_flags(translation *t, int argc, char *const *argv)
{
    ps_status st = ps_ok();
    bool has_ended = false;

    for (int i = 0, used = 1; i < argc && ps_is_ok(&st); i += used) {
        const char *value = NULL;
        const ps_older *row;

        used = 1;
        has_ended = has_ended || (i > 0 && strcmp(argv[i], "--") == 0);
        row = i > 0 && !has_ended ? find(t, argc, argv, i, &value, &used) : NULL;
        if (row != NULL) {
            char name[64];

            snprintf(name, sizeof name, "%.*s", (int)strcspn(argv[i] + 2, "="), argv[i] + 2);
            /* the message has the name as the user has typed it, maybe with `_` */
            st = take(t, row, "--", name, value);
        } else {
            used = 1;
            add(t, argv[i]);
        }
    }
    return st;
}

/* Returns whether a row's variable is set. POD_IP, which clusters of all kinds set, counts only
 * beside PADDLE_PORT, which fleetrun sets with it. */
static bool counts(const ps_older *row)
{
    const char *value = getenv(row->variable), *port = getenv("PADDLE_PORT");

    return value != NULL && value[0] != '\0' &&
           (row->kind != PS_OLDER_HOST || (port != NULL && port[0] != '\0'));
}

static ps_status take_variables(translation *t)
{
    ps_status st = ps_ok();

    for (const ps_older *row = ps_older_names;
         ps_is_ok(&st) && (row->flag != NULL || row->variable != NULL); row++) {
        if (row->variable == NULL || (row->who & t->who & ALL) == 0 || !counts(row)) {
            continue;
        }
        if (row->now != NULL &&
            (is_given(t, row->now) || (row->kind == PS_OLDER_PORT && t->port != NULL))) {
            ps_strbuf_printf(t->said, "%s: %s %s does not count: --%s is given\n", t->program,
                             row->variable, PS_SHORT(getenv(row->variable), 80), row->now);
            continue;
        }
        st = take(t, row, "", row->variable, getenv(row->variable));
    }
    return st;
}

ps_status ps_older_args_init(ps_older_args *args, unsigned who, const char *program, int argc,
                             char *const *argv, ps_strbuf *said)
{
    translation t = {.out = args, .who = who, .program = program, .said = said};
    size_t most = (size_t)argc + sizeof ps_older_names / sizeof ps_older_names[0] + 2;
    ps_status st;

    *args = (ps_older_args){.argv = ps_xcalloc(most, sizeof *args->argv),
                            .owned = ps_xcalloc(most, sizeof *args->owned)};
    st = take_flags(&t, argc, argv);
    t.is_first = true;
    if (ps_is_ok(&st)) {
        st = take_variables(&t);
    }
    if (ps_is_ok(&st) && (t.port != NULL || t.host != NULL) && !is_given(&t, "listen")) {
        char listen[160];
        bool is_v6 = t.host != NULL && strchr(t.host, ':') != NULL;

        snprintf(listen, sizeof listen, "%s%.100s%s:%.10s", is_v6 ? "[" : "",
                 t.host != NULL ? t.host : "", is_v6 ? "]" : "", t.port != NULL ? t.port : "0");
        add_flag(&t, "listen", listen);
    }
    assert((size_t)args->argc < most);
    return st;
}

void ps_older_args_fini(ps_older_args *args)
{
    for (size_t i = 0; i < args->n_owned; i++) {
        free(args->owned[i]);
    }
    free(args->owned);
    free(args->argv);
    *args = (ps_older_args){0};
}
