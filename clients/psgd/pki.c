/* SPDX-License-Identifier: Apache-2.0 */
/* pki.c - psgd pki ACTION: keys and certificates of a cluster, without a coordinator.
 *
 * The holder of the authority uses init, approve, token, list and revoke; the machine that gets a
 * certificate uses request, install and renew. Private keys never leave their machine.
 */
#include "clients/psgd/cli.h"
#include "clients/psgd/text_table.h"

#include "common/base/files.h"
#include "common/base/nearest.h"
#include "common/pki/authority.h"
#include "common/pki/credentials.h"
#include "common/pki/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct pki_options {
    const char *pki, *out, *fingerprint;
    int64_t valid_us, join_port;
    ps_option_list hosts;
} pki_options;

static const int64_t day_s = 86400;
static const double day_us = 86400e6;

static const ps_option options[] = {
    PS_OPTION_STRING(pki_options, pki, .name = "pki", .env = "PSGD_PKI", .value = "psgd-pki",
                     .metavar = "DIR",
                     .help = "init, approve, token, list, revoke: the folder of the authority"),
    PS_OPTION_LIST(pki_options, hosts, .name = "host", .metavar = "HOST",
                   .help = "request: a name or address at which others reach it; may be given "
                           "several times"),
    PS_OPTION_DURATION(pki_options, valid_us, .name = "valid", .min = 1e6, .max = 36500 * day_us,
                       .metavar = "DURATION",
                       .help = "init: how long the root is valid, by default 3650d; approve: how "
                               "long the certificate is, by default 365d; token: how long it can "
                               "be used, by default 10m"),
    PS_OPTION_INT(pki_options, join_port, .name = "join-port", .value = "15389", .min = 1,
                  .max = 65535, .metavar = "PORT",
                  .help = "token: the port of the coordinator's --join-listen"),
    PS_OPTION_STRING(pki_options, out, .name = "out", .letter = 'o', .metavar = "FILE",
                     .help = "approve: where the answer goes, by default KIND-NAME.pem"),
    PS_OPTION_STRING(pki_options, fingerprint, .name = "fingerprint", .metavar = "SHA256",
                     .help = "install: that of the root certificate, as init printed it; needed "
                             "the first time"),
    PS_OPTION_END,
};

/* An action while it runs. */
typedef struct turn {
    ps_cli *cli;
    const pki_options *options;
    json_t *json;        /* the answer with --format json; actions fill it */
    ps_strbuf text;      /* the answer with --format text, if `table` has no columns */
    ps_text_table table; /* the answer with --format text, if it has columns */
} turn;

/* Adds a line to the answer: the value by `key` in JSON, and behind `label` in the text. */
static void put(turn *t, const char *key, const char *label, const char *value)
{
    json_object_set_new(t->json, key, json_string(value));
    ps_strbuf_printf(&t->text, "%-12s %s\n", label, value);
}

static void put_time(turn *t, const char *key, const char *label, int64_t seconds)
{
    char text[PS_PKI_TIME_BYTES];

    put(t, key, label, ps_pki_time(seconds, text));
}

static void put_subject(turn *t, const ps_subject *subject)
{
    char text[PS_PRINCIPAL_TEXT_BYTES];
    json_t *hosts = json_array();
    ps_strbuf names = {0};

    put(t, "principal", "principal", ps_principal_text(&subject->who, text));
    for (size_t i = 0; i < subject->host_count; i++) {
        json_array_append_new(hosts, json_string(subject->hosts[i]));
        ps_strbuf_printf(&names, "%s%s", i > 0 ? ", " : "", subject->hosts[i]);
    }
    ps_strbuf_printf(&t->text, "%-12s %s\n", "hosts",
                     subject->host_count > 0 ? ps_strbuf_text(&names) : "none");
    json_object_set_new(t->json, "hosts", hosts);
    ps_strbuf_fini(&names);
}

static void put_certificate(turn *t, const ps_certificate *c)
{
    put_subject(t, &c->subject);
    put(t, "serial", "serial", c->serial);
    put_time(t, "valid_until", "valid until", c->not_after);
}

/* Adds a hint to the text of the answer; its JSON has no hints. */
static void hint(turn *t, const char *text)
{
    ps_strbuf_printf(&t->text, "%s\n", text);
}

static ps_status need_tls_dir(const turn *t)
{
    return t->cli->general.tls_dir != NULL
               ? ps_ok()
               : ps_fail(PS_INVALID_ARGUMENT, "--tls-dir DIR is needed (or PSGD_TLS_DIR)");
}

static int64_t valid_s(const turn *t, int64_t days)
{
    return t->options->valid_us > 0 ? t->options->valid_us / 1000000 : days * day_s;
}

/* --- the authority ----------------------------------------------------------------- */

static ps_status init(turn *t)
{
    ps_certificate root;
    ps_status st = ps_authority_create(t->options->pki, valid_s(t, 3650), &root);

    if (ps_is_ok(&st)) {
        put(t, "authority", "authority", t->options->pki);
        put(t, "fingerprint", "fingerprint", root.fingerprint);
        put_time(t, "valid_until", "valid until", root.not_after);
        hint(t, "Keep this folder secret. Tell members the fingerprint by another way than their "
                "files come.");
    }
    return st;
}

static ps_status approve(turn *t)
{
    const char *file = ps_cli_argument(t->cli, 1);
    char *pem = NULL, name[PS_PRINCIPAL_TEXT_BYTES + 8];
    const char *out = t->options->out;
    size_t n = 0;
    ps_strbuf answer = {0};
    ps_certificate certificate;
    ps_principal who;
    ps_status st = ps_principal_parse(ps_cli_argument(t->cli, 2), &who);

    if (ps_is_ok(&st)) {
        st = ps_file_read(file, PS_PKI_FILE_MAX, &pem, &n);
    }
    if (ps_is_ok(&st)) {
        st = ps_authority_approve(t->options->pki, PS_PATH_SHOWN(file), pem, n, &who,
                                  valid_s(t, 365), &answer, &certificate);
    }
    if (ps_is_ok(&st) && out == NULL) {
        snprintf(name, sizeof name, "%s-%s.pem", ps_principal_kind_name(who.kind), who.name);
        out = name;
    }
    if (ps_is_ok(&st)) {
        st = ps_file_write(out, answer.data, answer.len);
    }
    if (ps_is_ok(&st)) {
        put_certificate(t, &certificate);
        put(t, "answer", "answer", out);
        hint(t, "The answer has no secrets. 'psgd pki install' takes it where the request was "
                "made.");
    }
    ps_strbuf_fini(&answer);
    free(pem);
    return st;
}

static ps_status token(turn *t)
{
    int64_t life_s = t->options->valid_us > 0 ? t->options->valid_us / 1000000 : PS_JOIN_VALID_S;
    char text[PS_JOIN_TOKEN_BYTES], who[PS_PRINCIPAL_TEXT_BYTES];
    ps_principal principal;
    ps_status st = ps_principal_parse(ps_cli_argument(t->cli, 1), &principal);

    if (ps_is_ok(&st) && life_s > PS_JOIN_VALID_MAX_S) {
        st = ps_fail(PS_INVALID_ARGUMENT, "--valid: a join token is valid for a day at most");
    }
    if (ps_is_ok(&st)) {
        st = ps_join_token_add(t->options->pki, &principal, (uint16_t)t->options->join_port, life_s,
                               text);
    }
    if (ps_is_ok(&st)) {
        put(t, "principal", "principal", ps_principal_text(&principal, who));
        put_time(t, "valid_until", "valid until", (int64_t)time(NULL) + life_s);
        put(t, "token", "token", text);
        hint(t, "It can be used once. On the machine of the node: psgd-worker --join TOKEN "
                "--coordinator HOST:PORT\n(or psgd-pserver). Nobody can show the token again.");
    }
    return st;
}

static const char *state_of(const ps_issued *i)
{
    return i->is_revoked                                     ? "revoked"
           : i->certificate.not_after <= (int64_t)time(NULL) ? "expired"
                                                             : "valid";
}

/* Adds an issued certificate to the table and to the JSON rows. */
static void add_row(turn *t, json_t *rows, const ps_issued *i)
{
    const ps_certificate *c = &i->certificate;
    char who[PS_PRINCIPAL_TEXT_BYTES], until[PS_PKI_TIME_BYTES];
    turn row = {.cli = t->cli, .json = json_object()};

    put_certificate(&row, c);
    put(&row, "state", "state", state_of(i));
    json_array_append_new(rows, row.json);
    ps_strbuf_fini(&row.text);
    ps_text_table_add(&t->table, ps_principal_text(&c->subject.who, who));
    ps_text_table_add(&t->table, state_of(i));
    ps_text_table_add(&t->table, ps_pki_time(c->not_after, until));
    ps_text_table_add(&t->table, c->serial);
}

static ps_status list(turn *t)
{
    static const char *const heads[] = {"PRINCIPAL", "STATE", "VALID UNTIL", "SERIAL"};
    json_t *rows = json_array();
    ps_issued *all = NULL;
    size_t n = 0;
    ps_status st = ps_authority_list(t->options->pki, &all, &n);

    t->table.n_columns = sizeof heads / sizeof heads[0];
    for (size_t i = 0; ps_is_ok(&st) && i < t->table.n_columns; i++) {
        ps_text_table_add(&t->table, heads[i]);
    }
    for (size_t i = 0; i < n; i++) {
        add_row(t, rows, &all[i]);
    }
    json_object_set_new(t->json, "certificates", rows);
    free(all);
    return st;
}

/* Installs the authority's list of revoked certificates in `tls_dir`, the folder of a member. */
static ps_status install_list(turn *t, const char *tls_dir)
{
    char path[PS_PATH_MAX], *pem = NULL;
    ps_certificate own;
    size_t n = 0;
    ps_status st = ps_path_join(path, sizeof path, t->options->pki, "crl.pem");

    if (ps_is_ok(&st)) {
        st = ps_file_read(path, PS_CRL_FILE_MAX, &pem, &n);
    }
    if (ps_is_ok(&st)) {
        st = ps_credentials_install(tls_dir, PS_PATH_SHOWN(path), pem, n, NULL, &own);
    }
    if (ps_is_ok(&st)) {
        put(t, "installed", "installed", tls_dir);
    }
    free(pem);
    return st;
}

static ps_status revoke(turn *t)
{
    const char *tls_dir = t->cli->general.tls_dir;
    const char *which = ps_cli_argument(t->cli, 1);
    size_t count = 0, ended = 0;
    /* End join tokens before certificates are revoked, so that none is used for a new certificate
     * in between. */
    ps_status st = ps_join_tokens_end(t->options->pki, which, &ended);
    bool is_list = false;

    if (ps_is_ok(&st)) {
        st = ps_authority_revoke(t->options->pki, which, &count);
        is_list = ps_is_ok(&st);
        /* There was no certificate to revoke, but join tokens were ended: this is a success. */
        if (st.code == PS_NOT_FOUND && ended > 0) {
            st = ps_ok();
        }
    }
    if (is_list && tls_dir != NULL && tls_dir[0] != '\0') {
        st = ps_wrap(install_list(t, tls_dir),
                     "%zu certificates are revoked, but the list is not installed", count);
    }
    if (ps_is_ok(&st)) {
        json_object_set_new(t->json, "revoked", json_integer((json_int_t)count));
        json_object_set_new(t->json, "join_tokens", json_integer((json_int_t)ended));
        ps_strbuf_printf(&t->text, "%-12s %zu\n%-12s %zu\n", "revoked", count, "join tokens",
                         ended);
    }
    if (ps_is_ok(&st) && is_list) {
        ps_strbuf_printf(&t->text, "%-12s %s/crl.pem\n", "list", t->options->pki);
        hint(t, "Install the list on every (other) member: psgd pki install crl.pem --tls-dir DIR");
    }
    return st;
}

/* --- members ------------------------------------------------------------------------ */

/* Makes a private key and a request, and tells the user what to do with the request. */
static ps_status ask(turn *t, const ps_subject *subject)
{
    const char *dir = t->cli->general.tls_dir;
    char who[PS_PRINCIPAL_TEXT_BYTES];
    ps_credentials_paths at;
    ps_request request;
    ps_status st = ps_credentials_request(dir, subject, &request);

    if (ps_is_ok(&st)) {
        st = ps_credentials_find(dir, &at);
    }
    if (ps_is_ok(&st)) {
        put_subject(t, &request.subject);
        put(t, "key_fingerprint", "key", request.key_fingerprint);
        put(t, "request", "request", at.request);
        ps_strbuf_printf(&t->text, "Take the request to the authority: psgd pki approve %s %s\n",
                         at.request, ps_principal_text(&subject->who, who));
    }
    return st;
}

static ps_status request(turn *t)
{
    ps_subject subject = {0};
    ps_status st = ps_principal_parse(ps_cli_argument(t->cli, 1), &subject.who);

    for (size_t i = 0; ps_is_ok(&st) && i < t->options->hosts.n; i++) {
        st = ps_subject_add_host(&subject, t->options->hosts.items[i]);
    }
    if (ps_is_ok(&st)) {
        st = need_tls_dir(t);
    }
    return ps_is_ok(&st) ? ask(t, &subject) : st;
}

static ps_status renew(turn *t)
{
    ps_credentials_paths at;
    ps_certificate own;
    char *pem = NULL;
    size_t n = 0;
    ps_status st = need_tls_dir(t);

    if (ps_is_ok(&st)) {
        st = ps_credentials_find(t->cli->general.tls_dir, &at);
    }
    /* Do not check whether the certificate has expired: it may be renewed even then. */
    if (ps_is_ok(&st)) {
        st = ps_file_read(at.identity, PS_PKI_FILE_MAX, &pem, &n);
    }
    if (ps_is_ok(&st)) {
        st = ps_certificate_read(PS_PATH_SHOWN(at.identity), pem, n, &own);
    }
    ps_credentials_forget(pem, n);
    return ps_is_ok(&st) ? ask(t, &own.subject) : st;
}

static ps_status install(turn *t)
{
    const char *file = ps_cli_argument(t->cli, 1);
    char *pem = NULL;
    size_t n = 0;
    ps_certificate own = {0};
    ps_status st = need_tls_dir(t);

    if (ps_is_ok(&st)) {
        st = ps_file_read(file, PS_CRL_FILE_MAX, &pem, &n);
    }
    if (ps_is_ok(&st)) {
        st = ps_credentials_install(t->cli->general.tls_dir, PS_PATH_SHOWN(file), pem, n,
                                    t->options->fingerprint, &own);
    }
    if (ps_is_ok(&st) && own.subject.who.kind != PS_PRINCIPAL_NONE) {
        put_certificate(t, &own);
    }
    if (ps_is_ok(&st)) {
        put(t, "installed", "installed", t->cli->general.tls_dir);
    }
    free(pem);
    return st;
}

/* --- actions ------------------------------------------------------------------------- */

typedef struct action {
    const char *name;
    const char *arguments; /* names of the arguments, for messages */
    size_t argument_count;
    const char *allowed[4]; /* options that it takes, beside those of every command */
    ps_status (*run)(turn *t);
} action;

static const action actions[] = {
    {"init", "", 0, {"pki", "valid"}, init},
    {"request", " PRINCIPAL", 1, {"host"}, request},
    {"approve", " FILE PRINCIPAL", 2, {"pki", "valid", "out"}, approve},
    {"token", " PRINCIPAL", 1, {"pki", "valid", "join-port"}, token},
    {"install", " FILE", 1, {"fingerprint"}, install},
    {"list", "", 0, {"pki"}, list},
    {"revoke", " SERIAL|PRINCIPAL", 1, {"pki"}, revoke},
    {"renew", "", 0, {NULL}, renew},
};

enum { ACTIONS = sizeof actions / sizeof actions[0] };

static const action *find_action(const char *name)
{
    const char *names[ACTIONS], *nearest;

    for (size_t i = 0; i < ACTIONS; i++) {
        names[i] = actions[i].name;
        if (strcmp(name, names[i]) == 0) {
            return &actions[i];
        }
    }
    nearest = ps_nearest(name, names, ACTIONS);
    fprintf(stderr, "psgd: unknown action '%s'", name);
    fprintf(stderr, nearest != NULL ? "; did you mean '%s'?\n" : "\n", nearest);
    fputs("See 'psgd pki --help'.\n", stderr);
    return NULL;
}

/* Returns whether the action allows the option. */
static bool takes(const action *a, const char *option)
{
    bool found = false;

    for (size_t i = 0; i < sizeof a->allowed / sizeof a->allowed[0] && a->allowed[i]; i++) {
        found = found || strcmp(a->allowed[i], option) == 0;
    }
    return found;
}

/* Refuses an unknown action, a wrong number of arguments, and flags of other actions. */
static bool prepare(ps_cli *cli, void *arg)
{
    const action *a = find_action(ps_cli_argument(cli, 0));

    (void)arg;
    if (a == NULL) {
        return false;
    }
    if (cli->config->n_args != a->argument_count + 1) {
        fprintf(stderr, "psgd: 'psgd pki %s%s' has %zu arguments; %zu were given\n", a->name,
                a->arguments, a->argument_count, cli->config->n_args - 1);
        return false;
    }
    for (const ps_option *o = options; o->name != NULL; o++) {
        if (ps_config_source_of(cli->config, o->name) == PS_FROM_FLAG && !takes(a, o->name)) {
            fprintf(stderr, "psgd: --%s is no option of 'psgd pki %s'\n", o->name, a->name);
            return false;
        }
    }
    return true;
}

static void start(ps_cli *cli, void *arg)
{
    turn t = {.cli = cli, .options = arg, .json = json_object()};
    ps_status st = find_action(ps_cli_argument(cli, 0))->run(&t);
    ps_exit code = PS_EXIT_OK;

    if (!ps_is_ok(&st)) {
        code = ps_cli_status(&st);
    } else if (cli->format != PS_FORMAT_TEXT) {
        ps_cli_json_value(cli, t.json);
    } else if (t.table.n_columns > 0) {
        ps_text_table_print(&t.table);
    } else {
        fputs(ps_strbuf_text(&t.text), stdout);
    }
    json_decref(t.json);
    ps_strbuf_fini(&t.text);
    ps_text_table_fini(&t.table);
    ps_cli_end(cli, code);
}

const ps_subcommand ps_subcommand_pki = {
    .command =
        {.name = "psgd pki",
         .summary =
             "Makes the keys and certificates with which the programs of a cluster know "
             "each other. The authority: init, approve, token, list, revoke. Members: request, "
             "install, renew. PRINCIPAL is KIND/NAME, such as node/worker-1; KIND is "
             "admin, submitter, observer, node or coordinator.",
         .usage = "[options] ACTION [FILE] [PRINCIPAL]",
         .args_min = 1,
         .args_max = 3,
         .examples = "psgd pki init\n"
                     "psgd pki request node/worker-1 --host 10.0.0.7 --tls-dir tls\n"
                     "psgd pki approve tls/request.pem node/worker-1\n"
                     "psgd pki install node-worker-1.pem --tls-dir tls --fingerprint AB:CD:...\n"
                     "psgd pki token node/worker-2\n"
                     "psgd pki list\n"
                     "psgd pki revoke node/worker-1"},
    .options = options,
    .options_size = sizeof(pki_options),
    .is_local = true,
    .prepare = prepare,
    .start = start,
};
