/* SPDX-License-Identifier: Apache-2.0 */
/* logs.c - psgd logs [-f] JOB: shows what the nodes of a job have logged.
 *
 * With -f the lines of all nodes are printed as they arrive. Without -f, or with --format json,
 * they are collected, and at the end of the stream sorted by time and printed.
 */
#include "clients/psgd/reader.h"
#include "clients/psgd/show.h"

#include "common/base/utf8.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NODES_MAX = 1024, LINE_MAX_BYTES = 1 << 20 };

/* The log file of one node, and what has arrived of it. */
typedef struct file {
    char *name, *node;
    uint64_t next;  /* offset in the file of the next byte to take */
    ps_strbuf rest; /* the last line, which is not complete yet */
} file;

typedef struct line {
    char *text;
    /* a copy of the line's member "time", "" if it has none; strcmp gives the order in time */
    char *time;
    const char *node; /* owned by the file */
    size_t place;     /* number of the line in order of arrival */
} line;

typedef struct logs {
    bool wants_follow;
    const char *node;
    int64_t max_bytes;
    ps_cli *cli;
    ps_reader reader;
    Psgd__V1__ReclaimLogsRequest request;
    Psgd__V1__ArtifactKind kind;
    file *files;
    size_t n_files;
    line *lines; /* the lines that are collected, of all files; none if they are printed at once */
    size_t n_lines, cap;
    uint8_t *scratch; /* PS_PAYLOAD_MAX bytes, for ps_payload_view */
} logs;

static const ps_option options[] = {
    PS_OPTION_BOOL(logs, wants_follow, .name = "follow", .letter = 'f',
                   .help = "print new lines until the job has ended"),
    PS_OPTION_STRING(logs, node, .name = "node", .letter = 'n', .metavar = "ID",
                     .help = "only lines of this node; without JOB: the end of its whole log"),
    PS_OPTION_INT(logs, max_bytes, .name = "bytes", .value = "65536", .min = 1, .max = 262144,
                  .metavar = "N", .help = "maximum of bytes from the end of a node's whole log"),
    PS_OPTION_END,
};

/* --- a line ---------------------------------------------------------------------- */

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text == NULL ? "" : text;
}

/* Prints text that a node has written, with "?" for each character that could control the terminal
 * and each byte that is not UTF-8. */
static void put_plain(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = ps_utf8_length(text + i, n - i);
        unsigned char c = (unsigned char)text[i];

        if (len == 0 || c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[i + 1] < 0xa0)) {
            putchar('?');
        } else {
            fwrite(text + i, 1, len, stdout);
        }
        i += len == 0 ? 1 : len;
    }
}

/* Prints a time such as "2026-11-20T11:26:00.250000Z" in local time, as "12:26:00". Text in another
 * form is printed as it is. */
static void put_time(const char *text)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    time_t seconds;
    char out[PS_SHOW_BYTES];

    if (end == NULL) {
        put_plain(text, strlen(text));
        return;
    }
    seconds = timegm(&tm);
    localtime_r(&seconds, &tm);
    strftime(out, sizeof out, "%H:%M:%S", &tm);
    fputs(out, stdout);
}

/* Returns whether a member of a log line is left out of the fields behind the message, because it
 * only says where the line is from, or is printed before them. */
static bool is_frame(const char *key)
{
    static const char *const frame[] = {"time", "level", "service", "room", "msg", "job"};

    for (size_t i = 0; i < sizeof frame / sizeof frame[0]; i++) {
        if (strcmp(key, frame[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void put_members(const json_t *json)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)json, key, value)
    {
        char *text = is_frame(key) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

        if (text != NULL) {
            putchar(' ');
            put_plain(key, strlen(key));
            putchar('=');
            put_plain(text, strlen(text));
            free(text);
        }
    }
}

static void put_line(const logs *l, const char *node, const char *text, size_t n)
{
    json_t *json;

    if (l->cli->format == PS_FORMAT_JSONL) {
        fwrite(text, 1, n, stdout);
        putchar('\n');
        return;
    }
    json = json_loadb(text, n, 0, NULL);
    put_plain(node, strlen(node));
    fputs("  ", stdout);
    if (json_is_object(json)) {
        put_time(text_of(json, "time"));
        printf(" %-5.5s ", text_of(json, "level"));
        put_plain(text_of(json, "msg"), strlen(text_of(json, "msg")));
        put_members(json);
    } else {
        put_plain(text, n);
    }
    putchar('\n');
    json_decref(json);
}

static void collect(logs *l, const char *node, const char *text, size_t n)
{
    json_t *json = json_loadb(text, n, 0, NULL);

    if (l->n_lines == l->cap) {
        l->cap = l->cap == 0 ? 256 : l->cap * 2;
        l->lines = ps_xrealloc(l->lines, l->cap * sizeof *l->lines);
    }
    l->lines[l->n_lines] = (line){.text = ps_xstrndup(text, n),
                                  .time = ps_xstrdup(text_of(json, "time")),
                                  .node = node,
                                  .place = l->n_lines};
    l->n_lines++;
    json_decref(json);
}

static void take_line(logs *l, const file *f, const char *text, size_t n)
{
    if (n == 0) {
        return;
    }
    if (l->wants_follow && l->cli->format != PS_FORMAT_JSON) {
        put_line(l, f->node, text, n);
    } else {
        collect(l, f->node, text, n);
    }
}

/* --- the stream -------------------------------------------------------------------- */

static file *find_file(logs *l, const Psgd__V1__Artifact *artifact)
{
    for (size_t i = 0; i < l->n_files; i++) {
        if (strcmp(l->files[i].name, artifact->name) == 0) {
            return &l->files[i];
        }
    }
    if (l->n_files == NODES_MAX) {
        return NULL;
    }
    l->files[l->n_files] = (file){
        .name = ps_xstrdup(artifact->name),
        .node = ps_xstrdup(artifact->node_id[0] != '\0' ? artifact->node_id : artifact->name)};
    return &l->files[l->n_files++];
}

static void take_bytes(logs *l, file *f, const char *bytes, size_t n)
{
    const char *newline;

    while (n > 0 && (newline = memchr(bytes, '\n', n)) != NULL) {
        size_t len = (size_t)(newline - bytes);

        if (f->rest.len > 0) {
            ps_strbuf_append(&f->rest, bytes, len);
            take_line(l, f, f->rest.data, f->rest.len);
            ps_strbuf_clear(&f->rest);
        } else {
            take_line(l, f, bytes, len);
        }
        bytes += len + 1;
        n -= len + 1;
    }
    if (f->rest.len < LINE_MAX_BYTES) {
        ps_strbuf_append(&f->rest, bytes, n);
    }
}

static void on_chunk(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    logs *l = arg;
    const Psgd__V1__ReclaimLogsResponse *chunk = (const Psgd__V1__ReclaimLogsResponse *)head;
    size_t n = ps_payload_len(payload), skip;
    const uint8_t *bytes;
    file *f;

    if (chunk->artifact == NULL || n == 0 ||
        (l->node != NULL && strcmp(l->node, chunk->artifact->node_id) != 0)) {
        return;
    }
    f = find_file(l, chunk->artifact);
    /* After a lost connection the file is sent again from its start: skip what has arrived
     * before. */
    if (f == NULL || chunk->offset + n <= f->next) {
        return;
    }
    skip = chunk->offset < f->next ? (size_t)(f->next - chunk->offset) : 0;
    bytes = ps_payload_view(payload, skip, n - skip, l->scratch);
    f->next = chunk->offset + n;
    take_bytes(l, f, (const char *)bytes, n - skip);
    fflush(stdout);
}

static int by_time(const void *a, const void *b)
{
    const line *x = a, *y = b;
    int order = strcmp(x->time, y->time);

    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static void put_json(logs *l)
{
    json_t *list = json_array();

    for (size_t i = 0; i < l->n_lines; i++) {
        json_t *json = json_loads(l->lines[i].text, 0, NULL);

        if (!json_is_object(json)) {
            json_decref(json);
            json = json_pack("{s:s}", "msg", l->lines[i].text);
        }
        if (json == NULL) {
            continue; /* the line is not UTF-8: leave it out */
        }
        if (json_object_get(json, "node") == NULL) {
            json_object_set_new(json, "node", json_string(l->lines[i].node));
        }
        json_array_append_new(list, json);
    }
    ps_cli_json_value(l->cli, list);
    json_decref(list);
}

static void on_end(void *arg, const ps_error *error)
{
    logs *l = arg;

    for (size_t i = 0; i < l->n_files; i++) {
        take_line(l, &l->files[i], ps_strbuf_text(&l->files[i].rest), l->files[i].rest.len);
    }
    if (l->n_lines > 0) {
        qsort(l->lines, l->n_lines, sizeof *l->lines, by_time);
    }
    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(l->cli, error);
        return;
    }
    if (l->cli->format == PS_FORMAT_JSON) {
        put_json(l);
    } else {
        for (size_t i = 0; i < l->n_lines; i++) {
            put_line(l, l->lines[i].node, l->lines[i].text, strlen(l->lines[i].text));
        }
    }
    if (l->n_files == 0) {
        fputs(l->node != NULL ? "psgd: no log of that node\n" : "psgd: no logs yet\n", stderr);
    }
    ps_cli_end(l->cli, l->n_files == 0 && l->node != NULL ? PS_EXIT_SERVER : PS_EXIT_OK);
}

static const ProtobufCMessage *on_open(void *arg)
{
    return &((logs *)arg)->request.base;
}

static void on_node_log(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__GetNodeLogResponse *answer = (const Psgd__V1__GetNodeLogResponse *)reply;
    logs *l = arg;

    if (ps_is_ok(&error->status)) {
        l->files[l->n_files++] = (file){.name = ps_xstrdup(l->node), .node = ps_xstrdup(l->node)};
        take_bytes(l, &l->files[0], (const char *)answer->lines.data, answer->lines.len);
    }
    on_end(l, error);
}

static void ask_for_node(logs *l)
{
    Psgd__V1__GetNodeLogRequest request = PSGD__V1__GET_NODE_LOG_REQUEST__INIT;

    request.node_id = (char *)l->node;
    request.max_bytes = (uint32_t)l->max_bytes;
    ps_cli_call(l->cli, "GetNodeLog", &request.base, on_node_log, l);
}

static bool prepare(ps_cli *cli, void *arg)
{
    const logs *l = arg;
    bool has_job = cli->config->n_args > 0;

    if (!has_job && (l->node == NULL || l->wants_follow)) {
        fputs("psgd: logs takes a JOB, or --node ID for the end of a node's whole log, which "
              "cannot be followed\nSee 'psgd logs --help'.\n",
              stderr);
        return false;
    }
    return true;
}

static void start(ps_cli *cli, void *arg)
{
    static const ps_reader_events events = {on_open, on_chunk, on_end};
    logs *l = arg;

    l->cli = cli;
    l->files = ps_xcalloc(NODES_MAX, sizeof *l->files);
    l->scratch = ps_xmalloc(PS_PAYLOAD_MAX);
    if (cli->config->n_args == 0) {
        ask_for_node(l);
        return;
    }
    psgd__v1__reclaim_logs_request__init(&l->request);
    l->kind = PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG;
    l->request.job_id = (char *)ps_cli_job(cli);
    l->request.kinds = &l->kind;
    l->request.n_kinds = 1;
    l->request.follow = l->wants_follow;
    ps_reader_open(&l->reader, cli, "ReclaimLogs", l->request.job_id, 0, &events, l);
}

static void fini(void *arg)
{
    logs *l = arg;

    for (size_t i = 0; i < l->n_files; i++) {
        free(l->files[i].name);
        free(l->files[i].node);
        ps_strbuf_fini(&l->files[i].rest);
    }
    for (size_t i = 0; i < l->n_lines; i++) {
        free(l->lines[i].text);
        free(l->lines[i].time);
    }
    free(l->files);
    free(l->lines);
    free(l->scratch);
}

const ps_subcommand ps_subcommand_logs = {
    .command = {.name = "psgd logs",
                .summary = "Prints the log lines of a job's nodes, while it runs and after it; "
                           "without a job the end of a node's whole log. --format jsonl prints the "
                           "lines as the nodes wrote them.",
                .usage = "[options] [JOB]",
                .args_max = 1,
                .examples = "psgd logs -f JOB\n"
                            "psgd logs JOB --node worker-0 --format jsonl\n"
                            "psgd logs --node worker-0 --bytes 200000"},
    .options = options,
    .options_size = sizeof(logs),
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
