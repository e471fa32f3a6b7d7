/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - see audit.h. */
#include "services/coordinator/audit.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/rpc/tasks.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 900 };

struct ps_audit {
    char path[PATH_BYTES];
    ps_tasks *tasks; /* the queue of the thread that writes the file; NULL: the audit is stopped */
    ps_strbuf waiting;
    uint64_t dropped; /* lines that were dropped since the last one was added */
    bool is_writing;

    ps_task task;
    ps_strbuf lines; /* the lines that `task` writes; used by it only while is_writing */
    ps_status status;
    bool has_failed; /* the last task failed, so another failure is not logged */
};

/* --- the file, on the thread ------------------------------------------------------- */

static void name_old(const ps_audit *audit, int i, char out[PATH_BYTES + 8])
{
    snprintf(out, PATH_BYTES + 8, i > 0 ? "%s.%d" : "%s", audit->path, i);
}

/* Renames audit.jsonl to audit.jsonl.1, and each old file to the next number. Replaces the oldest
 * file, that of number PS_AUDIT_OLD. */
static void rotate(const ps_audit *audit)
{
    char from[PATH_BYTES + 8], to[PATH_BYTES + 8];

    for (int i = PS_AUDIT_OLD - 1; i >= 0; i--) {
        name_old(audit, i, from);
        name_old(audit, i + 1, to);
        (void)rename(from, to); /* fails if there is no such file yet */
    }
}

static ps_status write_all(int fd, const char *bytes, size_t n)
{
    for (ssize_t done; n > 0; bytes += done, n -= (size_t)done) {
        done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR) {
            done = 0;
        } else if (done < 0) {
            return ps_fail_errno(errno, "audit.jsonl");
        }
    }
    return ps_ok();
}

/* Appends a newline if the file of `size` bytes does not end with one: a write of its last line was
 * cut off, as by a full disk. */
static ps_status end_line(int fd, off_t size)
{
    char last = '\n';

    if (size > 0 && pread(fd, &last, 1, size - 1) < 0) {
        return ps_fail_errno(errno, "audit.jsonl");
    }
    return last == '\n' ? ps_ok() : write_all(fd, "\n", 1);
}

static ps_status append(const ps_audit *audit, const ps_strbuf *lines)
{
    int fd = open(audit->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                  0600);
    struct stat facts;
    ps_status st = ps_ok();

    if (fd < 0 || fstat(fd, &facts) != 0) {
        st = ps_fail_errno(errno, "%s", PS_PATH_SHOWN(audit->path));
    } else if (!S_ISREG(facts.st_mode)) {
        st = ps_fail(PS_FAILED_PRECONDITION, "%s: it is no regular file",
                     PS_PATH_SHOWN(audit->path));
    } else {
        st = end_line(fd, facts.st_size);
        st = ps_is_ok(&st) ? write_all(fd, lines->data, lines->len) : st;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (ps_is_ok(&st) && (size_t)facts.st_size + lines->len >= PS_AUDIT_FILE_MAX) {
        rotate(audit);
    }
    return st;
}

static void run(ps_task *task)
{
    ps_audit *audit = PS_CONTAINER_OF(task, ps_audit, task);

    audit->status = append(audit, &audit->lines);
}

/* --- lines ---------------------------------------------------------------------------- */

static void start(ps_audit *audit);

static void done(ps_task *task)
{
    ps_audit *audit = PS_CONTAINER_OF(task, ps_audit, task);
    bool has_failed = !ps_is_ok(&audit->status);

    if (has_failed && !audit->has_failed) {
        ps_log(PS_LOG_ERROR, "audit", "calls are not audited: %s", audit->status.text);
    }
    audit->has_failed = has_failed;
    audit->is_writing = false;
    ps_strbuf_fini(&audit->lines);
    audit->lines = (ps_strbuf){0};
    if (audit->waiting.len > 0 && audit->tasks != NULL) {
        start(audit);
    }
}

static void start(ps_audit *audit)
{
    audit->is_writing = true;
    audit->lines = audit->waiting;
    audit->waiting = (ps_strbuf){0};
    audit->status = ps_ok();
    audit->task = (ps_task){.run = run, .done = done, .runs_at_end = true};
    ps_tasks_submit(audit->tasks, NULL, &audit->task);
}

/* Writes the present UTC time as "2026-11-22T21:05:11.208Z". */
static void write_time(char out[48])
{
    int64_t wall_us = ps_clock_wall_us();
    time_t seconds = (time_t)(wall_us / 1000000);
    struct tm tm;
    char text[32];

    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, 48, "%s.%03dZ", text, (int)(wall_us % 1000000 / 1000));
}

/* Appends a comma and a JSON member, unless its text is empty. */
static void put(ps_strbuf *line, const char *key, const char *text)
{
    if (text[0] != '\0') {
        ps_strbuf_printf(line, ",\"%s\":", key);
        ps_strbuf_json_string(line, text, strlen(text));
    }
}

/* Appends the member "result": the code as gRPC names it, such as "NOT_FOUND". */
static void put_result(ps_strbuf *line, ps_code code)
{
    ps_strbuf_puts(line, ",\"result\":\"");
    for (const char *c = ps_code_name(code); *c != '\0'; c++) {
        ps_strbuf_putc(line, (char)(*c == ' ' ? '_' : toupper((unsigned char)*c)));
    }
    ps_strbuf_putc(line, '"');
}

void ps_audit_add(ps_audit *audit, const ps_ended_call *end)
{
    char time[48], who[PS_PRINCIPAL_TEXT_BYTES];
    ps_strbuf *line = &audit->waiting;

    if (audit->tasks == NULL) {
        return;
    }
    if (line->len >= PS_AUDIT_WAIT_MAX) {
        audit->dropped++;
        return;
    }
    write_time(time);
    ps_strbuf_printf(line, "{\"time\":\"%s\"", time);
    put(line, "who", ps_principal_text(end->caller, who));
    put(line, "credential", end->credential);
    put(line, "from", end->from);
    put(line, "method", end->method);
    put(line, "about", end->about);
    put_result(line, end->code);
    put(line, "reason", end->reason);
    if (audit->dropped > 0) {
        ps_strbuf_printf(line, ",\"dropped_before\":%" PRIu64, audit->dropped);
        audit->dropped = 0;
    }
    ps_strbuf_puts(line, "}\n");
    if (!audit->is_writing) {
        start(audit);
    }
}

/* --- life ------------------------------------------------------------------------------- */

ps_status ps_audit_create(ps_loop *loop, const char *data_dir, ps_audit **out)
{
    ps_audit *audit = ps_xcalloc(1, sizeof *audit);
    ps_status st = ps_path_join(audit->path, sizeof audit->path, data_dir, "audit.jsonl");

    if (ps_is_ok(&st)) {
        st = ps_tasks_create(loop, 1, 1, &audit->tasks);
    }
    if (!ps_is_ok(&st)) {
        free(audit);
        return st;
    }
    *out = audit;
    return st;
}

void ps_audit_stop(ps_audit *audit)
{
    ps_tasks *tasks = audit != NULL ? audit->tasks : NULL;
    ps_status st;

    if (tasks == NULL) {
        return;
    }
    audit->tasks = NULL;
    /* waits for the running task; the lines behind its own are written below */
    ps_tasks_destroy(tasks);
    st = audit->waiting.len > 0 ? append(audit, &audit->waiting) : ps_ok();
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_ERROR, "audit", "the last calls are not audited: %s", st.text);
    }
}

void ps_audit_destroy(ps_audit *audit)
{
    if (audit != NULL) {
        ps_audit_stop(audit);
        ps_strbuf_fini(&audit->waiting);
        ps_strbuf_fini(&audit->lines);
        free(audit);
    }
}
