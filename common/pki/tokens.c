/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.c - see tokens.h. */
#include "common/pki/tokens.h"

#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/pki/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    FILE_MAX_BYTES = 256 << 10,
    HEX = PS_SHA256_HEX_BYTES - 1,
    LOCK_TRIES = 250, /* attempts to get the lock, for 5 s in all; others hold it for
                       * milliseconds */
    LOCK_PAUSE_MS = 20
};

static const char prefix[] = "psgd_";

static bool is_user(ps_principal_kind kind)
{
    return kind == PS_PRINCIPAL_ADMIN || kind == PS_PRINCIPAL_SUBMITTER ||
           kind == PS_PRINCIPAL_OBSERVER;
}

void ps_tokens_fini(ps_tokens *tokens)
{
    free(tokens->items);
    *tokens = (ps_tokens){0};
}

/* --- the file ---------------------------------------------------------------------- */

static void set_id(ps_token *t)
{
    snprintf(t->id, sizeof t->id, "%.*s", PS_TOKEN_ID_BYTES - 1, t->digest);
}

/* Reads a line of the file, "PRINCIPAL SECONDS DIGEST" (tokens.h). `what` and `number` are the file
 * and the line for errors. */
static ps_status read_line(const char *what, size_t number, const char *line, ps_token *out)
{
    char who[PS_PRINCIPAL_TEXT_BYTES], more;
    long long not_after;
    ps_status st;

    memset(out, 0, sizeof *out);
    if (sscanf(line, "%79s %lld %64s %c", who, &not_after, out->digest, &more) != 3 ||
        not_after < 0 || strspn(out->digest, "0123456789abcdef") != HEX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s:%zu: KIND/NAME, seconds since 1970 and 64 digits of a SHA-256 are "
                       "expected",
                       what, number);
    }
    st = ps_principal_parse(who, &out->who);
    if (ps_is_ok(&st) && !is_user(out->who.kind)) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s: admin, submitter and observer have tokens", who);
    }
    out->not_after = not_after;
    set_id(out);
    return ps_wrap(st, "%s:%zu", what, number);
}

static ps_status read_lines(const char *what, char *text, ps_tokens *out)
{
    size_t number = 0;
    ps_status st = ps_ok();

    for (char *line = text, *next; ps_is_ok(&st) && line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        number++;
        if (line[strspn(line, " \t\r")] == '\0' || line[0] == '#') {
            continue;
        }
        if (out->count == PS_TOKENS_MAX) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s:%zu: at most %d tokens are allowed", what,
                           number, PS_TOKENS_MAX);
        }
        st = read_line(what, number, line, &out->items[out->count]);
        out->count += ps_is_ok(&st);
    }
    return st;
}

ps_status ps_tokens_parse(const char *what, const char *text, size_t n, ps_tokens *out)
{
    char *copy;
    ps_status st;

    *out = (ps_tokens){0};
    if (n > FILE_MAX_BYTES || memchr(text, '\0', n) != NULL) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: a text of at most %d bytes is expected", what,
                       FILE_MAX_BYTES);
    }
    copy = ps_xmalloc(n + 1);
    memcpy(copy, text, n);
    copy[n] = '\0';
    out->items = ps_xcalloc(PS_TOKENS_MAX, sizeof out->items[0]);
    st = read_lines(what, copy, out);
    free(copy);
    if (!ps_is_ok(&st)) {
        ps_tokens_fini(out);
    }
    return st;
}

ps_status ps_tokens_read(const char *file, ps_tokens *out)
{
    struct stat facts;
    char *text = NULL;
    size_t n = 0;
    int fd = -1;
    ps_status st;

    *out = (ps_tokens){0};
    st = ps_file_open(file, &fd, &facts);
    if (!ps_is_ok(&st)) {
        return st;
    }
    close(fd);
    if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s: others may write it, mode %04o; 0600 is allowed: chmod 600",
                       PS_PATH_SHOWN(file), (unsigned)(facts.st_mode & 07777));
    }
    st = ps_file_read(file, FILE_MAX_BYTES, &text, &n);
    if (ps_is_ok(&st)) {
        st = ps_tokens_parse(PS_PATH_SHOWN(file), text, n, out);
    }
    free(text);
    return st;
}

ps_status ps_token_read(const char *file, char token[PS_TOKEN_BYTES])
{
    struct stat facts;
    char *text = NULL;
    size_t n = 0, digits = sizeof prefix - 1;
    int fd = -1;
    ps_status st = ps_file_open(file, &fd, &facts);

    ps_secret_keep_from_dumps();
    if (!ps_is_ok(&st)) {
        return st;
    }
    close(fd);
    if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s: it has a token and mode %04o; 0600 is allowed: chmod 600 it",
                       PS_PATH_SHOWN(file), (unsigned)(facts.st_mode & 07777));
    }
    st = ps_file_read(file, 4 * PS_TOKEN_BYTES, &text, &n);
    if (ps_is_ok(&st)) {
        size_t begin = strspn(text, " \t\r\n"), len = strcspn(text + begin, " \t\r\n");

        if (len != PS_TOKEN_BYTES - 1 ||
            text[begin + len + strspn(text + begin + len, " \t\r\n")] ||
            memcmp(text + begin, prefix, digits) != 0 ||
            strspn(text + begin + digits, "0123456789abcdef") < HEX) {
            st = ps_fail(
                PS_INVALID_ARGUMENT,
                "%s: one token is expected, psgd_ and 64 hexadecimal digits, as 'psgd token "
                "create' prints it",
                PS_PATH_SHOWN(file));
        } else {
            memcpy(token, text + begin, len);
            token[len] = '\0';
        }
        OPENSSL_cleanse(text, n);
    }
    free(text);
    return st;
}

static ps_status write_file(const char *file, const ps_tokens *tokens)
{
    char who[PS_PRINCIPAL_TEXT_BYTES];
    ps_strbuf text = {0};
    ps_status st;

    ps_strbuf_puts(&text, "# Tokens of users: principal, end in seconds since 1970, SHA-256. "
                          "'psgd token' changes this file.\n");
    for (size_t i = 0; i < tokens->count; i++) {
        const ps_token *t = &tokens->items[i];

        ps_strbuf_printf(&text, "%s %lld %s\n", ps_principal_text(&t->who, who),
                         (long long)t->not_after, t->digest);
    }
    st = ps_file_write_private(file, text.data, text.len);
    ps_strbuf_fini(&text);
    return st;
}

/* Locks the file FILE.lock beside `file`, because each change replaces `file` itself. Waits up to 5
 * s, then fails with UNAVAILABLE. The caller closes *fd, also after a failure; this unlocks it. */
static ps_status lock_beside(const char *file, int *fd)
{
    char path[PS_PATH_MAX];
    ps_status st = ps_dir_make_for(file);

    if (ps_is_ok(&st) && snprintf(path, sizeof path, "%s.lock", file) >= PS_PATH_MAX) {
        st = ps_fail(PS_OUT_OF_RANGE, "%s: the path is too long", PS_PATH_SHOWN(file));
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0) {
        return ps_fail_errno(errno, "%s", PS_PATH_SHOWN(path));
    }
    for (int i = 0; flock(*fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return ps_fail_errno(errno, "%s", PS_PATH_SHOWN(path));
        }
        if (i == LOCK_TRIES) {
            return ps_fail(PS_UNAVAILABLE, "%s: another program holds it; try again later",
                           PS_PATH_SHOWN(path));
        }
        poll(NULL, 0, LOCK_PAUSE_MS);
    }
    return ps_ok();
}

/* Locks and reads the file of tokens, for a change. If it does not exist, there are no tokens. The
 * caller calls close_file, also after a failure. */
static ps_status open_file(const char *file, int *lock, ps_tokens *out)
{
    ps_status st = lock_beside(file, lock);

    *out = (ps_tokens){0};
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_tokens_read(file, out);
    if (st.code == PS_NOT_FOUND) {
        out->items = ps_xcalloc(PS_TOKENS_MAX, sizeof out->items[0]);
        st = ps_ok();
    }
    return st;
}

static void close_file(int lock, ps_tokens *tokens)
{
    ps_tokens_fini(tokens);
    if (lock >= 0) {
        close(lock);
    }
}

/* --- tokens -------------------------------------------------------------------------- */

const ps_token *ps_tokens_find(const ps_tokens *tokens, const char *text, size_t n)
{
    char digest[PS_SHA256_HEX_BYTES];
    const ps_token *found = NULL;

    ps_sha256_of(text, n, digest);
    for (size_t i = 0; i < tokens->count; i++) {
        if (CRYPTO_memcmp(tokens->items[i].digest, digest, HEX) == 0) {
            found = &tokens->items[i];
        }
    }
    return found;
}

bool ps_tokens_has(const ps_tokens *tokens, const char *id, int64_t now_s)
{
    for (size_t i = 0; i < tokens->count; i++) {
        if (strcmp(tokens->items[i].id, id) == 0 && tokens->items[i].not_after > now_s) {
            return true;
        }
    }
    return false;
}

static ps_status draw(char token[PS_TOKEN_BYTES])
{
    memcpy(token, prefix, sizeof prefix);
    return ps_secret_draw(token + sizeof prefix - 1);
}

ps_status ps_tokens_add(const char *file, const ps_principal *who, int64_t not_after,
                        char token[PS_TOKEN_BYTES], ps_token *out)
{
    char text[PS_PRINCIPAL_TEXT_BYTES];
    ps_tokens tokens;
    int lock = -1;
    ps_status st;

    if (!is_user(who->kind)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s has no tokens; admin, submitter and observer have them, and others a "
                       "certificate (psgd pki)",
                       ps_principal_text(who, text));
    }
    st = open_file(file, &lock, &tokens);
    if (ps_is_ok(&st) && tokens.count == PS_TOKENS_MAX) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED,
                     "%s has %d tokens, the most that are allowed; revoke "
                     "some first",
                     PS_PATH_SHOWN(file), PS_TOKENS_MAX);
    }
    if (ps_is_ok(&st)) {
        st = draw(token);
    }
    if (ps_is_ok(&st)) {
        *out = (ps_token){.who = *who, .not_after = not_after};
        ps_sha256_of(token, PS_TOKEN_BYTES - 1, out->digest);
        set_id(out);
        tokens.items[tokens.count++] = *out;
        st = write_file(file, &tokens);
    }
    close_file(lock, &tokens);
    return st;
}

ps_status ps_tokens_remove(const char *file, const char *which, size_t *count)
{
    char who[PS_PRINCIPAL_TEXT_BYTES];
    size_t kept = 0;
    ps_tokens tokens;
    int lock = -1;
    ps_status st = open_file(file, &lock, &tokens);

    *count = 0;
    for (size_t i = 0; ps_is_ok(&st) && i < tokens.count; i++) {
        const ps_token *t = &tokens.items[i];

        if (strcmp(t->id, which) != 0 && strcmp(ps_principal_text(&t->who, who), which) != 0) {
            tokens.items[kept++] = *t;
        }
    }
    if (ps_is_ok(&st)) {
        *count = tokens.count - kept;
        tokens.count = kept;
        st = *count > 0 ? write_file(file, &tokens)
                        : ps_fail(PS_NOT_FOUND,
                                  "%s has no token %s; 'psgd token list' shows ids and principals",
                                  PS_PATH_SHOWN(file), PS_SHORT(which, 80));
    }
    close_file(lock, &tokens);
    return st;
}
