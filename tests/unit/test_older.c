/* SPDX-License-Identifier: Apache-2.0 */
/* test_older.c - command lines and variables of PaddlePaddle, as its documents have them: what each
 * of them becomes, and that docs/launch.md shows the table. */
#include "common/base/older.h"

#include "common/base/files.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 32 };

/* A command line as it was typed there, with its variables before it, and what it is here. The name
 * of the program stands for what its user starts here. */
typedef struct older_line {
    unsigned who;
    const char *line, *now, *said; /* said: lines without the name of the program */
} older_line;

#define ONE_PORT "a server has one port for dense slices and rows"
#define TOLD "the coordinator tells each worker where the servers are"
#define COUNTED "the job says how many workers it has"
#define RANKED "the coordinator deals the ranks"
#define PROCESSORS "all computing is on processors"

static const older_line lines[] = {
    /* fleetrun, on one host and on two */
    {PS_OLDER_LAUNCH | PS_OLDER_JOB, "fleetrun --server_num=2 --worker_num=2 train.py",
     "fleetrun --pservers=2 --workers=2 train.py",
     "--server_num 2 is --pservers 2 today\n--worker_num 2 is --workers 2 today\n"},
    {PS_OLDER_LAUNCH | PS_OLDER_JOB, "fleetrun --server_num=1 --trainer_num=2 train.py",
     "fleetrun --pservers=1 --workers=2 train.py",
     "--server_num 1 is --pservers 1 today\n--trainer_num 2 is --workers 2 today\n"},
    {PS_OLDER_LAUNCH | PS_OLDER_JOB, "fleetrun --server_num 2 --worker_num 2 train.py",
     "fleetrun --pservers=2 --workers=2 train.py",
     "--server_num 2 is --pservers 2 today\n--worker_num 2 is --workers 2 today\n"},
    {PS_OLDER_LAUNCH | PS_OLDER_JOB,
     "fleetrun --servers=192.168.0.16:6170,192.168.0.17:6171 "
     "--workers=192.168.0.16:6172,192.168.0.17:6173,192.168.0.16:6174,192.168.0.17:6175 "
     "your_training_py",
     "fleetrun --servers=192.168.0.16:6170,192.168.0.17:6171 "
     "--worker-endpoints=192.168.0.16:6172,192.168.0.17:6173,192.168.0.16:6174,192.168.0.17:6175 "
     "your_training_py",
     "--workers 192.168.0.16:6172,192.168.0.17:6173,192.168.0.16:6174,192.168.0.17:6175 is "
     "--worker-endpoints "
     "192.168.0.16:6172,192.168.0.17:6173,192.168.0.16:6174,192.168.0.17:6175 today\n"},
    {PS_OLDER_LAUNCH | PS_OLDER_JOB,
     "fleetrun --server_num=2 --worker_num=2 --heter_worker_num=2 --heter_devices=gpu "
     "heter_train.py",
     "fleetrun --pservers=2 --workers=2 heter_train.py",
     "--server_num 2 is --pservers 2 today\n--worker_num 2 is --workers 2 today\n"
     "--heter_worker_num 2 is needless here: " PROCESSORS "\n"
     "--heter_devices gpu is needless here: " PROCESSORS "\n"},
    {PS_OLDER_LAUNCH | PS_OLDER_JOB, "fleetrun --ips=192.168.0.16,192.168.0.17 --gpus=0,1,2,3 t.py",
     "fleetrun --hosts=192.168.0.16,192.168.0.17 t.py",
     "--ips 192.168.0.16,192.168.0.17 is --hosts 192.168.0.16,192.168.0.17 today\n"
     "--gpus 0,1,2,3 is needless here: " PROCESSORS "\n"},
    {PS_OLDER_LAUNCH | PS_OLDER_JOB, "fleetrun --worker_endpoints=a:1,b:2 --log_dir=log job.yaml",
     "fleetrun --worker_endpoints=a:1,b:2 --log_dir=log job.yaml", ""},
    /* today's flags of the same names */
    {PS_OLDER_LAUNCH | PS_OLDER_JOB, "psgd --workers worker.json --pservers 2 -- --servers=x",
     "psgd --workers worker.json --pservers 2 -- --servers=x", ""},
    /* variables of Fleet, for a launch; flags win */
    {PS_OLDER_LAUNCH | PS_OLDER_JOB,
     "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:36001,127.0.0.1:36002 "
     "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:36003,127.0.0.1:36004 TRAINING_ROLE=TRAINER "
     "PADDLE_TRAINER_ID=0 PADDLE_TRAINERS_NUM=2 POD_IP=127.0.0.1 psgd --workers 4 job.yaml",
     "psgd --worker-endpoints=127.0.0.1:36003,127.0.0.1:36004 "
     "--servers=127.0.0.1:36001,127.0.0.1:36002 --workers 4 job.yaml",
     "PADDLE_TRAINERS_NUM 2 does not count: --workers is given\n"
     "PADDLE_PSERVERS_IP_PORT_LIST 127.0.0.1:36001,127.0.0.1:36002 is --servers "
     "127.0.0.1:36001,127.0.0.1:36002 today\n"
     "PADDLE_TRAINER_ENDPOINTS 127.0.0.1:36003,127.0.0.1:36004 is --worker-endpoints "
     "127.0.0.1:36003,127.0.0.1:36004 today\n"
     "TRAINING_ROLE TRAINER is needless here: launch starts both roles\n"
     "PADDLE_TRAINER_ID 0 is needless here: " RANKED "\n"},
    /* and for the services */
    {PS_OLDER_PSERVER,
     "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:36001,127.0.0.1:36002 TRAINING_ROLE=PSERVER "
     "POD_IP=127.0.0.1 PADDLE_PORT=36001 PADDLE_TRAINERS_NUM=2 psgd-pserver",
     "psgd-pserver --listen=127.0.0.1:36001",
     "PADDLE_TRAINERS_NUM 2 is needless here: " COUNTED "\n"
     "PADDLE_PSERVERS_IP_PORT_LIST 127.0.0.1:36001,127.0.0.1:36002 is needless here: " TOLD "\n"
     "TRAINING_ROLE PSERVER is needless here: the program is the role\n"
     "POD_IP 127.0.0.1 is the host of --listen today\n"
     "PADDLE_PORT 36001 is the port of --listen today\n"},
    {PS_OLDER_WORKER,
     "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:36003,127.0.0.1:36004 TRAINING_ROLE=TRAINER "
     "PADDLE_TRAINER_ID=1 PADDLE_TRAINERS_NUM=2 psgd-worker",
     "psgd-worker",
     "PADDLE_TRAINERS_NUM 2 is needless here: " COUNTED "\n"
     "PADDLE_TRAINER_ENDPOINTS 127.0.0.1:36003,127.0.0.1:36004 is needless here: " TOLD "\n"
     "TRAINING_ROLE TRAINER is needless here: the program is the role\n"
     "PADDLE_TRAINER_ID 1 is needless here: " RANKED "\n"},
    {PS_OLDER_WORKER, "PADDLE_PORT=6171 POD_IP=::1 psgd-worker -l 127.0.0.1:1",
     "psgd-worker -l 127.0.0.1:1",
     "POD_IP ::1 does not count: --listen is given\n"
     "PADDLE_PORT 6171 does not count: --listen is given\n"},
    {PS_OLDER_WORKER, "POD_IP=10.0.0.9 psgd-worker", "psgd-worker",
     ""}, /* Kubernetes sets it too */
    {PS_OLDER_WORKER, "POD_IP=::1 PADDLE_PORT=6171 psgd-worker", "psgd-worker --listen=[::1]:6171",
     "POD_IP ::1 is the host of --listen today\nPADDLE_PORT 6171 is the port of --listen today\n"},
    /* v2: paddle pserver */
    {PS_OLDER_PSERVER,
     "psgd-pserver --port=7164 --ports_num=1 --ports_num_for_sparse=1 --num_gradient_servers=1",
     "psgd-pserver --listen=:7164",
     "--port 7164 is the port of --listen today\n--ports_num 1 is needless here: " ONE_PORT "\n"
     "--ports_num_for_sparse 1 is needless here: " ONE_PORT "\n"
     "--num_gradient_servers 1 is needless here: " COUNTED "\n"},
    {PS_OLDER_PSERVER,
     "psgd-pserver --port 7164 --ports_num 2 --num_gradient_servers 4 --nics eth0 --tcp_rdma tcp "
     "--comment paddle_process_by_paddle",
     "psgd-pserver --listen=:7164 --threads=2",
     "--port 7164 is the port of --listen today\n--ports_num 2 is --threads 2 today\n"
     "--num_gradient_servers 4 is needless here: " COUNTED "\n"
     "--nics eth0 is needless here: gRPC over TCP is the only transport, and --listen says where\n"
     "--tcp_rdma tcp is needless here: gRPC over TCP is the only transport, and --listen says "
     "where\n"
     "--comment paddle_process_by_paddle is needless here: --node-id names a node\n"},
    /* v2: a trainer, by flags and by variables */
    {PS_OLDER_WORKER,
     "psgd-worker --port=5000 --pservers=192.168.100.101,192.168.100.102 --trainer_id=0 "
     "--trainer_count=1 --use_gpu=False --is_local=0 -d data",
     "psgd-worker -d data",
     "--port 5000 is needless here: " TOLD "\n"
     "--pservers 192.168.100.101,192.168.100.102 is needless here: " TOLD "\n"
     "--trainer_id 0 is needless here: " RANKED "\n"
     "--trainer_count 1 is needless here: --worker-threads of the job says it\n"
     "--use_gpu False is needless here: " PROCESSORS "\n"
     "--is_local 0 is needless here: psgd train needs no services, and psgd launch starts all on "
     "this host unless it is told others\n"},
    {PS_OLDER_LAUNCH | PS_OLDER_JOB,
     "PADDLE_INIT_USE_GPU=False PADDLE_INIT_TRAINER_COUNT=1 PADDLE_INIT_PORT=7164 "
     "PADDLE_INIT_PORTS_NUM=1 PADDLE_INIT_PORTS_NUM_FOR_SPARSE=1 "
     "PADDLE_INIT_NUM_GRADIENT_SERVERS=1 PADDLE_INIT_TRAINER_ID=0 PADDLE_INIT_PSERVERS=127.0.0.1 "
     "psgd job.yaml",
     "psgd --servers=127.0.0.1 --worker-threads=1 --workers=1 job.yaml",
     "PADDLE_INIT_PORT 7164 is needless here: services take free ports, unless --servers or "
     "--worker-endpoints name some\n"
     "PADDLE_INIT_PORTS_NUM 1 is needless here: " ONE_PORT "\n"
     "PADDLE_INIT_PORTS_NUM_FOR_SPARSE 1 is needless here: " ONE_PORT "\n"
     "PADDLE_INIT_NUM_GRADIENT_SERVERS 1 is --workers 1 today\n"
     "PADDLE_INIT_TRAINER_COUNT 1 is --worker-threads 1 today\n"
     "PADDLE_INIT_PSERVERS 127.0.0.1 is --servers 127.0.0.1 today\n"
     "PADDLE_INIT_TRAINER_ID 0 is needless here: " RANKED "\n"
     "PADDLE_INIT_USE_GPU False is needless here: " PROCESSORS "\n"},
    /* psgd submit and psgd train take the flags of a job, and no variables */
    {PS_OLDER_JOB,
     "PADDLE_INIT_TRAINER_ID=0 TRAINING_ROLE=TRAINER psgd --trainer_count 4 "
     "--num_gradient_servers=2 --pservers 1",
     "psgd --worker-threads=4 --workers=2 --pservers 1",
     "--trainer_count 4 is --worker-threads 4 today\n"
     "--num_gradient_servers 2 is --workers 2 today\n"},
};

/* Splits a line into words; variables before the program are set, and unset again by `clear`. */
static int split(char *text, char *words[WORDS_MAX])
{
    int n = 0;

    for (char *rest, *word = strtok_r(text, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');

        if (n == 0 && equals != NULL) {
            *equals = '\0';
            assert_int_equal(setenv(word, equals + 1, 1), 0);
        } else {
            assert_true(n < WORDS_MAX - 1);
            words[n++] = word;
        }
    }
    words[n] = NULL;
    return n;
}

static void clear(void)
{
    for (const ps_older *o = ps_older_names; o->flag != NULL || o->variable != NULL; o++) {
        if (o->variable != NULL) {
            unsetenv(o->variable);
        }
    }
}

/* Joins arguments by spaces. */
static void join(const ps_older_args *args, ps_strbuf *out)
{
    for (int i = 0; i < args->argc; i++) {
        ps_strbuf_printf(out, "%s%s", i > 0 ? " " : "", args->argv[i]);
    }
    assert_null(args->argv[args->argc]);
}

/* Puts "name: " before each line. */
static void put_lines(const char *name, const char *text, ps_strbuf *out)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n") + 1;

        ps_strbuf_printf(out, "%s: %.*s", name, (int)n, text);
        text += n;
    }
}

static void lines_of_their_documents_do_their_work_or_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const older_line *l = &lines[i];
        char *words[WORDS_MAX], *text = strdup(l->line);
        ps_strbuf got = {0}, said = {0}, want = {0};
        ps_older_args args;
        int argc;
        ps_status st;

        clear();
        assert_non_null(text);
        argc = split(text, words);
        st = ps_older_args_init(&args, l->who, "psgd", argc, words, &said);
        assert_string_equal(st.text, "");
        join(&args, &got);
        put_lines("psgd", l->said, &want);
        assert_string_equal(ps_strbuf_text(&got), l->now);
        assert_string_equal(ps_strbuf_text(&said), ps_strbuf_text(&want));
        ps_older_args_fini(&args);
        ps_strbuf_fini(&got);
        ps_strbuf_fini(&said);
        ps_strbuf_fini(&want);
        free(text);
    }
    clear();
}

static void a_role_for_another_program_is_refused(void **state)
{
    char name[] = "psgd-worker", *const argv[] = {name, NULL};
    ps_strbuf said = {0};
    ps_older_args args;
    ps_status st;

    (void)state;
    assert_int_equal(setenv("TRAINING_ROLE", "PSERVER", 1), 0);
    st = ps_older_args_init(&args, PS_OLDER_WORKER, "psgd-worker", 1, argv, &said);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_string_equal(st.text,
                        "TRAINING_ROLE is \"PSERVER\", and this is psgd-worker: TRAINER is "
                        "for psgd-worker, PSERVER for psgd-pserver");
    ps_older_args_fini(&args);
    ps_strbuf_fini(&said);
    clear();
}

/* --- the table in the documents ---------------------------------------------------- */

static void put_name(const ps_older *o, ps_strbuf *out)
{
    if (o->flag != NULL) {
        ps_strbuf_puts(out, "`--");
        for (const char *c = o->flag; *c != '\0'; c++) {
            ps_strbuf_putc(out, *c == '-' ? '_' : *c);
        }
        ps_strbuf_printf(out, "`%s", o->variable != NULL ? ", " : "");
    }
    if (o->variable != NULL) {
        ps_strbuf_printf(out, "`%s`", o->variable);
    }
}

static void put_who(unsigned who, ps_strbuf *out)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {{PS_OLDER_JOB, "submit, train"},
                 {PS_OLDER_LAUNCH, "launch"},
                 {PS_OLDER_WORKER, "worker"},
                 {PS_OLDER_PSERVER, "server"}};
    size_t n = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((who & names[i].bit) != 0) {
            ps_strbuf_printf(out, "%s%s", n++ > 0 ? ", " : "", names[i].name);
        }
    }
}

static void put_row(const ps_older *o, ps_strbuf *out)
{
    ps_strbuf_puts(out, "| ");
    put_name(o, out);
    ps_strbuf_puts(out, " | ");
    put_who(o->who, out);
    ps_strbuf_puts(out, " | ");
    switch (o->kind) {
    case PS_OLDER_IS:
        ps_strbuf_printf(out, "`--%s`", o->now);
        break;
    case PS_OLDER_IS_LIST:
        ps_strbuf_printf(out, "`--%s`, if it is a list of hosts", o->now);
        break;
    case PS_OLDER_IS_MANY:
        ps_strbuf_printf(out, "`--%s`, from 2 on; %s", o->now, o->why);
        break;
    case PS_OLDER_PORT:
        ps_strbuf_puts(out, "the port of `--listen`");
        break;
    case PS_OLDER_HOST:
        ps_strbuf_puts(out, "the host of `--listen`, beside `PADDLE_PORT`");
        break;
    case PS_OLDER_ROLE:
        ps_strbuf_printf(out, "needless: %s; a wrong one is refused", o->why);
        break;
    case PS_OLDER_NEEDLESS:
        ps_strbuf_printf(out, "needless: %s", o->why);
        break;
    }
    ps_strbuf_puts(out, " |\n");
}

static void the_documents_have_the_table(void **state)
{
    ps_strbuf table = {0};
    char *text = NULL;
    size_t n = 0;
    ps_status st = ps_file_read(PS_LAUNCH_DOCUMENT, 1 << 20, &text, &n);

    (void)state;
    assert_string_equal(st.text, "");
    ps_strbuf_puts(&table, "| there | of | here |\n| --- | --- | --- |\n");
    for (const ps_older *o = ps_older_names; o->flag != NULL || o->variable != NULL; o++) {
        put_row(o, &table);
    }
    if (strstr(text, ps_strbuf_text(&table)) == NULL) {
        fprintf(stderr, "%s", ps_strbuf_text(&table));
        fail_msg("docs/launch.md does not have the table above");
    }
    ps_strbuf_fini(&table);
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_their_documents_do_their_work_or_are_named),
        cmocka_unit_test(a_role_for_another_program_is_refused),
        cmocka_unit_test(the_documents_have_the_table),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
