/* SPDX-License-Identifier: Apache-2.0 */
/* tracker_login.c - see tracker_login.h. */
#include "common/tracker/tracker_login.h"

#include "common/base/files.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 256 << 10, WORDS_MAX = 5 };

/* Returns whether a header can carry the text: printable ASCII. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text < 0x20 || *text > 0x7e) {
            return false;
        }
    }
    return true;
}

/* Copies `text` to `out`. Returns false if it is too long or not printable ASCII. */
static bool take(const char *text, char *out, size_t cap)
{
    size_t n = strlen(text);

    if (n >= cap || !is_plain(text)) {
        return false;
    }
    memcpy(out, text, n + 1);
    return true;
}

/* Reads the address of a tracker and a login from the words of a line. The text of an error repeats
 * none of the words, because they are secret. */
static ps_status read_words(char *const *words, size_t count, struct ps_tracker_login_of *out)
{
    bool is_token = count == 3 && strcmp(words[1], "token") == 0;
    bool is_password = count == 4 && strcmp(words[1], "password") == 0;
    ps_status st;

    if ((!is_token && !is_password) ||
        (is_password && !take(words[2], out->login.user, sizeof out->login.user)) ||
        !take(words[count - 1], out->login.secret, sizeof out->login.secret)) {
        return ps_fail(PS_INVALID_ARGUMENT, "HOST:PORT token TOKEN or HOST:PORT password USER "
                                            "PASSWORD is expected, in printable ASCII");
    }
    st = ps_address_parse(words[0], "", 0, &out->address);
    return ps_is_ok(&st) && (out->address.port == 0 || out->address.host[0] == '\0')
               ? ps_fail(PS_INVALID_ARGUMENT, "HOST:PORT is expected, both parts")
               : st;
}

static ps_status read_line(char *line, ps_tracker_logins *out)
{
    char *words[WORDS_MAX], *rest = NULL;
    size_t count = 0;
    ps_status st;

    for (char *word = strtok_r(line, " \t\r", &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " \t\r", &rest)) {
        words[count++] = word;
    }
    if (count == 0 || words[0][0] == '#') {
        return ps_ok();
    }
    if (out->count == PS_TRACKER_LOGINS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "at most %d lines are allowed", PS_TRACKER_LOGINS_MAX);
    }
    st = read_words(words, count, &out->items[out->count]);
    out->count += ps_is_ok(&st);
    return st;
}

ps_status ps_tracker_logins_read(const char *file, ps_tracker_logins *out)
{
    struct stat facts;
    char *text = NULL;
    size_t n = 0, number = 0;
    ps_status st = ps_ok();

    if (file == NULL || file[0] == '\0') {
        return st;
    }
    if (stat(file, &facts) == 0 && (facts.st_mode & 077) != 0) {
        return ps_fail(PS_PERMISSION_DENIED,
                       "%s: it has secrets and mode %04o; 0600 is allowed: chmod 600 it",
                       PS_PATH_SHOWN(file), (unsigned)(facts.st_mode & 07777));
    }
    st = ps_file_read(file, FILE_MAX_BYTES, &text, &n);
    if (!ps_is_ok(&st)) {
        return st;
    }
    out->items = ps_xcalloc(PS_TRACKER_LOGINS_MAX, sizeof out->items[0]);
    for (char *line = text, *next; ps_is_ok(&st) && line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        number++;
        st = ps_wrap(read_line(line, out), "%s:%zu", PS_PATH_SHOWN(file), number);
    }
    explicit_bzero(text, n);
    free(text);
    return st;
}

ps_status ps_tracker_logins_set(ps_tracker_logins *logins, const char *token, const char *user,
                                const char *password)
{
    ps_tracker_login *to = &logins->others;
    bool is_ok = true;

    if (token != NULL && token[0] != '\0') {
        is_ok = take(token, to->secret, sizeof to->secret);
    } else if (user != NULL && user[0] != '\0') {
        is_ok = take(user, to->user, sizeof to->user) && strchr(user, ':') == NULL &&
                take(password != NULL ? password : "", to->secret, sizeof to->secret);
    }
    return is_ok ? ps_ok()
                 : ps_fail(PS_INVALID_ARGUMENT,
                           "MLFLOW_TRACKING_TOKEN, MLFLOW_TRACKING_USERNAME and "
                           "MLFLOW_TRACKING_PASSWORD: short texts of printable ASCII are expected");
}

const ps_tracker_login *ps_tracker_login_find(const ps_tracker_logins *logins,
                                              const ps_address *address)
{
    for (size_t i = 0; i < logins->count; i++) {
        const ps_address *at = &logins->items[i].address;

        if (at->port == address->port && strcasecmp(at->host, address->host) == 0) {
            return &logins->items[i].login;
        }
    }
    return logins->others.secret[0] != '\0' || logins->others.user[0] != '\0' ? &logins->others
                                                                              : NULL;
}

void ps_tracker_logins_fini(ps_tracker_logins *logins)
{
    if (logins->items != NULL) {
        explicit_bzero(logins->items, PS_TRACKER_LOGINS_MAX * sizeof logins->items[0]);
    }
    free(logins->items);
    explicit_bzero(logins, sizeof *logins);
}
