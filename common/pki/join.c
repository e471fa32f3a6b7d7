/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - see join.h.
 *
 * A line of join-tokens is "PRINCIPAL END DIGEST open|used": END in seconds since 1970, DIGEST the
 * SHA-256 of the secret. A line stays for an hour after its END, so that a node that uses the token
 * too late, or a second time, is told why it is refused. When there are LINES_MAX lines, a new
 * token takes the place of one that was used or has ended.
 */
#include "common/pki/join.h"

#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/pki/authority.h"
#include "common/pki/credentials.h"
#include "common/pki/secret.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    HEX = PS_SHA256_HEX_BYTES - 1,
    /* most lines, including tokens that were used or have ended */
    LINES_MAX = 4 * PS_JOIN_TOKENS_MAX,
    FILE_MAX_BYTES = LINES_MAX * 200,
    KEPT_S = 3600
};

static const char scheme[] = "psgd-join:";
static const char greeting[] = "psgd-join 1 ";
static const char granted[] = "ok\n", refused[] = "refused\n", put_off[] = "later\n";

typedef struct line {
    ps_principal who;
    int64_t not_after;
    char digest[PS_SHA256_HEX_BYTES];
    bool is_used;
} line;

typedef struct lines {
    line items[LINES_MAX];
    size_t count;
} lines;

static bool is_hex(const char *text, size_t n, const char *digits)
{
    return strspn(text, digits) >= n;
}

/* --- tokens ---------------------------------------------------------------------------- */

ps_status ps_join_token_parse(const char *text, ps_join_token *out)
{
    static const char why[] = "it is no join token, which has the form "
                              "psgd-join:node/NAME:PORT:FINGERPRINT:SECRET; 'psgd pki token' "
                              "prints one";
    char who[PS_PRINCIPAL_TEXT_BYTES], more;
    unsigned port;
    ps_status st;

    ps_secret_keep_from_dumps();
    memset(out, 0, sizeof *out);
    if (strnlen(text, PS_JOIN_TOKEN_BYTES) >= PS_JOIN_TOKEN_BYTES ||
        strncmp(text, scheme, sizeof scheme - 1) != 0 ||
        sscanf(text + sizeof scheme - 1, "%79[^:]:%5u:%64[0-9A-Fa-f]:%64[0-9a-f]%c", who, &port,
               out->fingerprint, out->secret, &more) != 4 ||
        port == 0 || port > UINT16_MAX || strlen(out->fingerprint) != HEX ||
        strlen(out->secret) != HEX) {
        OPENSSL_cleanse(out, sizeof *out);
        return ps_fail(PS_INVALID_ARGUMENT, "%s", why);
    }
    out->port = (uint16_t)port;
    st = ps_principal_parse(who, &out->who);
    if (ps_is_ok(&st) && out->who.kind != PS_PRINCIPAL_NODE) {
        st = ps_fail(PS_INVALID_ARGUMENT, "the join token is for %s; only nodes join", who);
    }
    return st;
}

/* Writes the SHA-256 of the root certificate of `dir`, without colons. */
static ps_status find_fingerprint(const char *dir, char out[PS_SHA256_HEX_BYTES])
{
    char fingerprint[PS_FINGERPRINT_BYTES];
    size_t n = 0;
    ps_status st = ps_authority_fingerprint(dir, fingerprint);

    for (const char *at = fingerprint; ps_is_ok(&st) && *at != '\0'; at++) {
        if (*at != ':' && n < HEX) {
            out[n++] = *at;
        }
    }
    out[n] = '\0';
    return st;
}

/* --- the file -------------------------------------------------------------------------- */

static ps_status read_line(const char *what, const char *text, line *out)
{
    char who[PS_PRINCIPAL_TEXT_BYTES], state[5], more;
    long long not_after;

    if (sscanf(text, "%79s %lld %64s %4s %c", who, &not_after, out->digest, state, &more) != 4 ||
        not_after < 0 || strlen(out->digest) != HEX ||
        !is_hex(out->digest, HEX, "0123456789abcdef") ||
        (strcmp(state, "open") != 0 && strcmp(state, "used") != 0)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s: a line is not KIND/NAME, seconds since 1970, 64 digits of a SHA-256, "
                       "and open or used",
                       what);
    }
    out->not_after = not_after;
    out->is_used = strcmp(state, "used") == 0;
    return ps_wrap(ps_principal_parse(who, &out->who), "%s", what);
}

/* Reads the lines of join-tokens, without those whose tokens ended more than KEPT_S ago. A missing
 * file has none. */
static ps_status read_lines(const char *path, int64_t now_s, lines *out)
{
    char *text = NULL, *at, *next;
    size_t n = 0;
    ps_status st = ps_file_read(path, FILE_MAX_BYTES, &text, &n);

    out->count = 0;
    if (st.code == PS_NOT_FOUND) {
        return ps_ok();
    }
    for (at = text; ps_is_ok(&st) && at != NULL && *at != '\0'; at = next) {
        line *l = &out->items[out->count];

        next = strchr(at, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        if (out->count == LINES_MAX) {
            st = ps_fail(PS_INVALID_ARGUMENT, "%s: at most %d lines are allowed",
                         PS_PATH_SHOWN(path), LINES_MAX);
            break;
        }
        st = read_line(PS_PATH_SHOWN(path), at, l);
        out->count += ps_is_ok(&st) && l->not_after + KEPT_S > now_s;
    }
    free(text);
    return st;
}

static ps_status write_lines(const char *path, const lines *all)
{
    char who[PS_PRINCIPAL_TEXT_BYTES];
    ps_strbuf text = {0};
    ps_status st;

    for (size_t i = 0; i < all->count; i++) {
        const line *l = &all->items[i];

        ps_strbuf_printf(&text, "%s %lld %s %s\n", ps_principal_text(&l->who, who),
                         (long long)l->not_after, l->digest, l->is_used ? "used" : "open");
    }
    st = ps_file_write_private(path, ps_strbuf_text(&text), text.len);
    ps_strbuf_fini(&text);
    return st;
}

/* Removes, of the lines whose tokens were used or have ended, the one whose token ends first.
 * Returns false if there is none. */
static bool forget_one(lines *all, int64_t now_s)
{
    size_t found = LINES_MAX;

    for (size_t i = 0; i < all->count; i++) {
        const line *l = &all->items[i];

        if ((l->is_used || l->not_after <= now_s) &&
            (found == LINES_MAX || l->not_after < all->items[found].not_after)) {
            found = i;
        }
    }
    if (found != LINES_MAX) {
        all->items[found] = all->items[--all->count];
    }
    return found != LINES_MAX;
}

ps_status ps_join_token_add(const char *dir, const ps_principal *who, uint16_t port,
                            int64_t valid_s, char token[PS_JOIN_TOKEN_BYTES])
{
    char path[PS_PATH_MAX], text[PS_PRINCIPAL_TEXT_BYTES], fingerprint[PS_SHA256_HEX_BYTES];
    char secret[PS_SHA256_HEX_BYTES];
    int64_t now_s = (int64_t)time(NULL);
    lines *all = NULL;
    size_t open = 0;
    int lock = -1;
    ps_status st;

    if (who->kind != PS_PRINCIPAL_NODE) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s: only node/NAME may join by a token; others get a certificate by 'psgd "
                       "pki request', users also a token by 'psgd token create'",
                       ps_principal_text(who, text));
    }
    st = find_fingerprint(dir, fingerprint);
    if (ps_is_ok(&st)) {
        st = ps_path_join(path, sizeof path, dir, "join-tokens");
    }
    if (ps_is_ok(&st)) {
        st = ps_authority_lock(dir, &lock);
    }
    if (ps_is_ok(&st)) {
        all = ps_xcalloc(1, sizeof *all);
        st = read_lines(path, now_s, all);
    }
    for (size_t i = 0; ps_is_ok(&st) && i < all->count; i++) {
        open += !all->items[i].is_used && all->items[i].not_after > now_s;
    }
    if (ps_is_ok(&st) &&
        (open >= PS_JOIN_TOKENS_MAX || (all->count == LINES_MAX && !forget_one(all, now_s)))) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED,
                     "%zu join tokens wait to be used, the most that are allowed; they end by "
                     "themselves",
                     open);
    }
    if (ps_is_ok(&st)) {
        st = ps_secret_draw(secret);
    }
    if (ps_is_ok(&st)) {
        line *l = &all->items[all->count++];

        *l = (line){.who = *who, .not_after = now_s + valid_s};
        ps_sha256_of(secret, HEX, l->digest);
        snprintf(token, PS_JOIN_TOKEN_BYTES, "%s%s:%u:%s:%s", scheme, ps_principal_text(who, text),
                 (unsigned)port, fingerprint, secret);
        st = write_lines(path, all);
    }
    OPENSSL_cleanse(secret, sizeof secret);
    if (lock >= 0) {
        close(lock);
    }
    free(all);
    return st;
}

ps_status ps_join_tokens_end(const char *dir, const char *which, size_t *count)
{
    char path[PS_PATH_MAX], who[PS_PRINCIPAL_TEXT_BYTES];
    int64_t now_s = (int64_t)time(NULL);
    lines *all = NULL;
    int lock = -1;
    ps_status st = ps_path_join(path, sizeof path, dir, "join-tokens");

    *count = 0;
    if (ps_is_ok(&st)) {
        st = ps_authority_lock(dir, &lock);
    }
    if (ps_is_ok(&st)) {
        all = ps_xcalloc(1, sizeof *all);
        st = read_lines(path, now_s, all);
    }
    for (size_t i = 0; ps_is_ok(&st) && i < all->count; i++) {
        line *l = &all->items[i];

        if (strcmp(ps_principal_text(&l->who, who), which) == 0 && l->not_after > now_s) {
            *count += !l->is_used;
            l->not_after = now_s;
        }
    }
    if (ps_is_ok(&st) && *count > 0) {
        st = write_lines(path, all);
    }
    if (lock >= 0) {
        close(lock);
    }
    free(all);
    return st;
}

/* Checks that `who` may use the token of a line now. `l` is NULL if no line has the token. */
static ps_status check_line(const line *l, const ps_principal *who, int64_t now_s)
{
    char has[PS_PRINCIPAL_TEXT_BYTES], asked[PS_PRINCIPAL_TEXT_BYTES], end[PS_PKI_TIME_BYTES];

    if (l == NULL) {
        return ps_fail(PS_UNAUTHENTICATED,
                       "the join token is not known here; 'psgd pki token' makes one");
    }
    if (l->is_used) {
        return ps_fail(PS_UNAUTHENTICATED,
                       "the join token of %s was used already: each can be used once; 'psgd pki "
                       "token' makes another. If you have not used it, somebody else has: 'psgd "
                       "pki revoke'",
                       ps_principal_text(&l->who, has));
    }
    if (l->not_after <= now_s) {
        return ps_fail(PS_UNAUTHENTICATED,
                       "the join token of %s ended at %s; 'psgd pki token' makes another",
                       ps_principal_text(&l->who, has), ps_pki_time(l->not_after, end));
    }
    if (!ps_principal_is(&l->who, who->kind, who->name)) {
        return ps_fail(PS_PERMISSION_DENIED, "the join token is for %s; the request names %s",
                       ps_principal_text(&l->who, has), ps_principal_text(who, asked));
    }
    return ps_ok();
}

/* Who wants to use the token with this secret, at the authority in `dir`. */
typedef struct use {
    const char *dir, *secret;
    const ps_principal *who;
    bool is_look; /* the token is only checked, and not used up */
} use;

/* Checks that u->who may use the token and, unless it is only a look, marks it as used. It stays
 * used even if no certificate can be issued afterwards, because a token must never work twice.
 * `arg` is a `use`. Called with the lock of the authority. */
static ps_status use_token(void *arg)
{
    const use *u = arg;
    char path[PS_PATH_MAX], digest[PS_SHA256_HEX_BYTES];
    int64_t now_s = (int64_t)time(NULL);
    lines *all = NULL;
    line *found = NULL;
    ps_status st = ps_path_join(path, sizeof path, u->dir, "join-tokens");

    ps_sha256_of(u->secret, HEX, digest);
    if (ps_is_ok(&st)) {
        all = ps_xcalloc(1, sizeof *all);
        st = read_lines(path, now_s, all);
    }
    /* compares all lines, so that the time taken tells nothing about the token */
    for (size_t i = 0; ps_is_ok(&st) && i < all->count; i++) {
        if (CRYPTO_memcmp(all->items[i].digest, digest, HEX) == 0) {
            found = &all->items[i];
        }
    }
    if (ps_is_ok(&st)) {
        st = check_line(found, u->who, now_s);
    }
    if (ps_is_ok(&st) && !u->is_look) {
        found->is_used = true;
        st = write_lines(path, all);
    }
    free(all);
    return st;
}

/* Checks whether a token may be used, without using it up. ps_join_answer calls this before it asks
 * for the approval, so that the private key of the authority is read only for a token that may be
 * used. */
static ps_status look_at_token(use u)
{
    int lock = -1;
    ps_status st = ps_authority_lock(u.dir, &lock);

    u.is_look = true;
    if (ps_is_ok(&st)) {
        st = use_token(&u);
    }
    if (lock >= 0) {
        close(lock);
    }
    return st;
}

/* --- messages --------------------------------------------------------------------------- */

void ps_join_put_request(ps_strbuf *out, const char *secret, const char *pem, size_t n)
{
    ps_strbuf_printf(out, "%s%s\n", greeting, secret);
    ps_strbuf_append(out, pem, n);
}

void ps_join_put_refusal(ps_strbuf *out, const ps_status *why)
{
    ps_strbuf_printf(out, "%s%s", why->code == PS_UNAVAILABLE ? put_off : refused, why->text);
}

ps_status ps_join_read_request(const char *request, size_t n, char secret[PS_SHA256_HEX_BYTES],
                               const char **pem, size_t *pem_n)
{
    size_t head = sizeof greeting - 1 + HEX + 1;

    if (n > PS_JOIN_MESSAGE_MAX || n < head ||
        memcmp(request, greeting, sizeof greeting - 1) != 0 || request[head - 1] != '\n') {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "this is no request to join: \"psgd-join 1 SECRET\", a line feed and a "
                       "request in PEM are expected, %d bytes at most",
                       PS_JOIN_MESSAGE_MAX);
    }
    memcpy(secret, request + sizeof greeting - 1, HEX);
    secret[HEX] = '\0';
    *pem = request + head;
    *pem_n = n - head;
    return is_hex(secret, HEX, "0123456789abcdef")
               ? ps_ok()
               : ps_fail(PS_INVALID_ARGUMENT, "the secret to join has 64 hexadecimal digits");
}

/* Returns a refusal of the authority as a failure with `code`. Its text is the `n` bytes of the
 * answer behind the word for a refusal. */
static ps_status read_refusal(ps_code code, const char *text, size_t n)
{
    return ps_fail(code, "%.*s", (int)(n < PS_STATUS_TEXT_BYTES ? n : PS_STATUS_TEXT_BYTES), text);
}

ps_status ps_join_read_answer(const char *answer, size_t n, const char **pem, size_t *pem_n)
{
    size_t ok = sizeof granted - 1, no = sizeof refused - 1, later = sizeof put_off - 1;

    if (n >= no && memcmp(answer, refused, no) == 0) {
        return read_refusal(PS_PERMISSION_DENIED, answer + no, n - no);
    }
    if (n >= later && memcmp(answer, put_off, later) == 0) {
        return read_refusal(PS_UNAVAILABLE, answer + later, n - later);
    }
    if (n < ok || memcmp(answer, granted, ok) != 0) {
        return ps_fail(PS_INTERNAL, "the coordinator's answer is none to a request to join");
    }
    *pem = answer + ok;
    *pem_n = n - ok;
    return ps_ok();
}

ps_status ps_join_answer(const char *dir, const char *request, size_t n, int64_t valid_s,
                         ps_strbuf *answer, ps_joined *out)
{
    static const char what[] = "the request";
    char secret[PS_SHA256_HEX_BYTES] = "";
    const char *pem = NULL;
    size_t pem_n = 0, before = answer->len;
    ps_request asked;
    use u;
    ps_status st;

    memset(out, 0, sizeof *out);
    st = ps_join_read_request(request, n, secret, &pem, &pem_n);
    if (ps_is_ok(&st)) {
        st = ps_request_read(what, pem, pem_n, &asked);
    }
    if (ps_is_ok(&st)) {
        out->who = asked.subject.who;
    }
    if (ps_is_ok(&st) && asked.subject.host_count > 0) {
        st =
            ps_fail(PS_INVALID_ARGUMENT, "%s: it names %zu hosts; who joins by a token proves none",
                    what, asked.subject.host_count);
    }
    if (ps_is_ok(&st)) {
        u = (use){.dir = dir, .secret = secret, .who = &out->who};
        st = look_at_token(u);
    }
    if (ps_is_ok(&st)) {
        ps_strbuf_puts(answer, granted);
        st = ps_authority_approve_if(dir, what, pem, pem_n, &out->who, valid_s, use_token, &u,
                                     answer, &out->certificate);
    }
    OPENSSL_cleanse(secret, sizeof secret);
    if (!ps_is_ok(&st)) {
        ps_strbuf_truncate(answer, before);
        ps_join_put_refusal(answer, &st);
    }
    return st;
}
