/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c - see tls.h and tls_impl.h.
 *
 * gRPC's file watcher reads identity.pem both as key and as certificate, so that both change at
 * once. libssl, within gRPC, verifies the chain. The verifier here checks whom the certificate
 * names and whether it was revoked.
 */
#include "common/rpc/tls_impl.h"

#include "common/base/clock.h"
#include "common/base/file_stamp.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/xalloc.h"
#include "common/pki/secret.h"
#include "common/rpc/guard.h"

#include <assert.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SEEN = 256,        /* certificates whose serial number and end are remembered */
    FAILED_LINES = 10, /* most lines of the log about failed handshakes within FAILED_LOG_US */
    FAILED_LOG_US = 10 * 1000000
};

/* A file that is read again when it changes. */
typedef struct watched_file {
    /* `read`: the state of the file whose content is in memory; `said`: the last state that a line
     * of the log was about */
    ps_file_stamp read, said;
} watched_file;

/* What is remembered of a certificate: the SHA-256 of its PEM text, its serial number and its
 * end. */
typedef struct seen {
    char digest[PS_SHA256_HEX_BYTES];
    char serial[PS_PKI_SERIAL_BYTES];
    int64_t not_after;
} seen;

struct ps_tls {
    atomic_uint refs;
    char dir[PS_PATH_MAX], tokens_file[PS_PATH_MAX]; /* tokens_file "": no tokens are taken */
    ps_certificate own;
    grpc_tls_certificate_provider *files;
    bool is_guest;              /* the program has no certificate; each of its calls brings
                                 * `token` */
    char token[PS_TOKEN_BYTES]; /* the token of a guest; "" if it is none */
    /* secret with which ps_tls_vouch marks its texts; "" for a guest */
    char secret[PS_SHA256_HEX_BYTES];
    pthread_mutex_t mutex; /* guards the members below */
    ps_revoked *revoked;   /* NULL: no certificate was revoked */
    watched_file crl_file;
    ps_tokens tokens;
    watched_file token_file;
    int64_t looked_us; /* when the files were last looked at */
    seen seen[SEEN];
};

struct ps_tls_expected {
    grpc_tls_certificate_verifier_external external;
    atomic_uint refs;
    ps_tls *tls;
    bool is_server;
    pthread_mutex_t mutex; /* guards the members below */
    ps_principal_kind kind;
    char name[PS_PRINCIPAL_NAME_BYTES];
    char problem[PS_TLS_PROBLEM_BYTES];
};

/* --- revoked certificates ------------------------------------------------------------ */

/* Notes whether the state `now` of the file could be read (st). If not, it is read again a second
 * later, as the reason may pass, such as a lack of descriptors. The log has one line about each
 * state that cannot be read, with `stays`. */
static void note_read(watched_file *file, const ps_file_stamp *now, const ps_status *st,
                      const char *stays)
{
    if (ps_is_ok(st)) {
        file->read = *now;
    } else if (!ps_file_stamp_is(now, &file->said)) {
        ps_log(PS_LOG_WARN, "tls", "%s; %s until it can be read", st->text, stays);
        file->said = *now;
    }
}

/* Reads the file of tokens if it has changed, and returns why it cannot be read. The tokens read
 * before then stay. */
static ps_status read_tokens(ps_tls *tls)
{
    ps_tokens tokens;
    ps_file_stamp now;
    ps_status st = ps_ok();

    if (tls->tokens_file[0] != '\0' &&
        ps_file_has_changed(tls->tokens_file, &tls->token_file.read, &now)) {
        st = ps_tokens_read(tls->tokens_file, &tokens);
        if (ps_is_ok(&st)) {
            ps_tokens_fini(&tls->tokens);
            tls->tokens = tokens;
            ps_log(PS_LOG_INFO, "tls", "read %zu tokens, %s", tokens.count,
                   PS_PATH_SHOWN(tls->tokens_file));
        }
        note_read(&tls->token_file, &now, &st, "the tokens before stay");
    }
    return st;
}

/* Reads the list of revoked certificates if its file has changed. If it cannot be read or is gone,
 * the list read before stays. */
static void read_revoked(ps_tls *tls)
{
    ps_credentials_paths at;
    ps_revoked *revoked;
    ps_file_stamp now;
    ps_status st = ps_credentials_find(tls->dir, &at);

    if (!ps_is_ok(&st) || !ps_file_has_changed(at.crl, &tls->crl_file.read, &now)) {
        return;
    }
    st = ps_revoked_read(tls->dir, &revoked);
    if (ps_is_ok(&st) && revoked != NULL) { /* NULL: the file is gone */
        ps_revoked_destroy(tls->revoked);
        tls->revoked = revoked;
        ps_log(PS_LOG_INFO, "tls", "read the list of revoked certificates, %s",
               PS_PATH_SHOWN(at.crl));
    }
    note_read(&tls->crl_file, &now, &st, "the list before stays");
}

/* Reads the files of tokens and of revoked certificates again if they have changed; looks at them
 * once a second at most. Called with the mutex. */
static void refresh(ps_tls *tls)
{
    int64_t now_us = ps_clock_us();

    if (tls->looked_us != 0 && now_us - tls->looked_us < 1000000) {
        return;
    }
    tls->looked_us = now_us;
    (void)read_tokens(tls);
    read_revoked(tls);
}

bool ps_tls_takes_tokens(const ps_tls *tls)
{
    return tls->tokens_file[0] != '\0';
}

bool ps_tls_may_refuse(ps_tls *tls)
{
    bool may;

    pthread_mutex_lock(&tls->mutex);
    refresh(tls);
    may = tls->revoked != NULL || tls->tokens_file[0] != '\0';
    pthread_mutex_unlock(&tls->mutex);
    return may;
}

bool ps_tls_has_revoked(ps_tls *tls, const char *serial)
{
    bool is;

    pthread_mutex_lock(&tls->mutex);
    refresh(tls);
    is = ps_revoked_has(tls->revoked, serial);
    pthread_mutex_unlock(&tls->mutex);
    return is;
}

ps_status ps_tls_check_peer(ps_tls *tls, const char *pem, ps_principal_kind kind, const char *name,
                            ps_principal *out)
{
    char has[PS_PRINCIPAL_TEXT_BYTES], wanted[PS_PRINCIPAL_TEXT_BYTES];
    ps_principal expected = {.kind = kind};
    ps_certificate facts;
    ps_status st = ps_certificate_read("its certificate", pem, strlen(pem), &facts);

    if (!ps_is_ok(&st)) {
        st.code = PS_UNAUTHENTICATED;
        return st;
    }
    *out = facts.subject.who;
    snprintf(expected.name, sizeof expected.name, "%s", name[0] != '\0' ? name : out->name);
    if (kind != PS_PRINCIPAL_NONE && !ps_principal_is(out, kind, expected.name)) {
        return ps_fail(PS_UNAUTHENTICATED, "its certificate is of %s; %s is expected",
                       ps_principal_text(out, has),
                       name[0] != '\0' ? ps_principal_text(&expected, wanted)
                                       : ps_principal_kind_name(kind));
    }
    if (ps_tls_has_revoked(tls, facts.serial)) {
        return ps_fail(PS_UNAUTHENTICATED, "the certificate %s of %s was revoked", facts.serial,
                       ps_principal_text(out, has));
    }
    return ps_ok();
}

/* --- gRPC's verifier ------------------------------------------------------------------ */

static atomic_bool is_hushed;

void ps_tls_hush(bool is)
{
    atomic_store(&is_hushed, is);
}

/* The folder of certificates. A process has only one, and gRPC reads it again every
 * PS_TLS_REFRESH_S seconds. */
static struct {
    pthread_mutex_t mutex; /* guards the members below */
    char dir[PS_PATH_MAX];
    int64_t unread_us; /* when gRPC last could not read a file there */
} watched = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void ps_tls_note_unread(void)
{
    int64_t now_us = ps_clock_us();
    bool is_new;

    pthread_mutex_lock(&watched.mutex);
    is_new = watched.unread_us == 0 ||
             now_us - watched.unread_us > 5 * PS_TLS_REFRESH_S * INT64_C(1000000);
    watched.unread_us = now_us;
    if (is_new) {
        ps_log(PS_LOG_WARN, "tls",
               "root.pem and identity.pem in %s cannot be read; what was read before stays until "
               "they can: put them back, or see 'psgd pki request'",
               PS_PATH_SHOWN(watched.dir));
    }
    pthread_mutex_unlock(&watched.mutex);
}

void ps_tls_note_failed(const char *why)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static int64_t began_us; /* when the counting of `lines` began */
    static unsigned lines, unsaid;
    int64_t now_us = ps_clock_us();
    const char *from = ps_guard_reading();
    char more[48] = "";
    bool is_due;

    if (from[0] == '\0' && atomic_load(&is_hushed)) {
        return;
    }
    pthread_mutex_lock(&mutex);
    if (began_us == 0 || now_us - began_us >= FAILED_LOG_US) {
        began_us = now_us;
        lines = 0;
    }
    is_due = lines++ < FAILED_LINES;
    unsaid += !is_due;
    if (is_due && unsaid > 0) {
        snprintf(more, sizeof more, "; %u more before", unsaid);
        unsaid = 0;
    }
    pthread_mutex_unlock(&mutex);
    if (is_due && from[0] != '\0') {
        ps_log(PS_LOG_WARN, "tls", "a client at %s is refused: %s%s", from, why, more);
    } else if (is_due) {
        ps_log(PS_LOG_WARN, "tls", "a handshake with a server failed: %s%s", why, more);
    }
}

/* Checks whom the certificate of the other side names and that it was not revoked. gRPC calls this
 * when libssl has accepted the chain. A channel that expects nobody refuses all. A server that
 * takes tokens also takes clients without a certificate. */
static int verify(void *arg, grpc_tls_custom_verification_check_request *request,
                  grpc_tls_on_custom_verification_check_done_cb done, void *done_arg,
                  grpc_status_code *code, char **details)
{
    ps_tls_expected *e = arg;
    const char *pem = request->peer_info.peer_cert;
    char name[PS_PRINCIPAL_NAME_BYTES];
    ps_principal_kind kind;
    ps_principal who;
    ps_status st;

    (void)done;
    (void)done_arg;
    pthread_mutex_lock(&e->mutex);
    kind = e->kind;
    memcpy(name, e->name, sizeof name);
    pthread_mutex_unlock(&e->mutex);
    if (!e->is_server && kind == PS_PRINCIPAL_NONE) {
        st = ps_fail(PS_UNAUTHENTICATED, "nobody is expected there");
    } else if (pem == NULL && e->is_server && ps_tls_takes_tokens(e->tls)) {
        st = ps_ok(); /* each call of this client needs a token */
    } else if (pem == NULL) {
        st = ps_fail(PS_UNAUTHENTICATED, "it has no certificate");
    } else {
        st = ps_tls_check_peer(e->tls, pem, kind, name, &who);
    }
    pthread_mutex_lock(&e->mutex);
    snprintf(e->problem, sizeof e->problem, "%s", st.text);
    pthread_mutex_unlock(&e->mutex);
    if (!ps_is_ok(&st) && e->is_server) {
        ps_tls_note_failed(st.text);
    }
    *code = (grpc_status_code)st.code;
    *details = ps_is_ok(&st) ? NULL : gpr_strdup(st.text);
    return 1; /* decided at once */
}

static void cancel(void *arg, grpc_tls_custom_verification_check_request *request)
{
    (void)arg;
    (void)request;
}

void ps_tls_expected_release(ps_tls_expected *e)
{
    if (e != NULL && atomic_fetch_sub(&e->refs, 1) == 1) {
        ps_tls_release(e->tls);
        pthread_mutex_destroy(&e->mutex);
        free(e);
    }
}

static void destruct(void *arg)
{
    ps_tls_expected_release(arg);
}

void ps_tls_expect(ps_tls_expected *e, ps_principal_kind kind, const char *name)
{
    pthread_mutex_lock(&e->mutex);
    e->kind = kind;
    snprintf(e->name, sizeof e->name, "%s", name);
    pthread_mutex_unlock(&e->mutex);
}

void ps_tls_problem(ps_tls_expected *e, char out[PS_TLS_PROBLEM_BYTES])
{
    pthread_mutex_lock(&e->mutex);
    memcpy(out, e->problem, PS_TLS_PROBLEM_BYTES);
    pthread_mutex_unlock(&e->mutex);
}

/* Returns options with the files of `tls` and a verifier, whose state is *out. A guest shows no
 * certificate. *out has two references: gRPC has one (destruct), the caller the other. */
static grpc_tls_credentials_options *make_options(ps_tls *tls, bool is_server, bool is_guest,
                                                  ps_tls_expected **out)
{
    grpc_tls_credentials_options *options = grpc_tls_credentials_options_create();
    ps_tls_expected *e = ps_xcalloc(1, sizeof *e);
    grpc_tls_certificate_verifier *verifier;

    atomic_init(&e->refs, 2);
    atomic_fetch_add(&tls->refs, 1);
    e->tls = tls;
    e->is_server = is_server;
    pthread_mutex_init(&e->mutex, NULL);
    e->external = (grpc_tls_certificate_verifier_external){e, verify, cancel, destruct};
    verifier = grpc_tls_certificate_verifier_external_create(&e->external);
    grpc_tls_credentials_options_set_certificate_provider(options, tls->files);
    grpc_tls_credentials_options_watch_root_certs(options);
    if (!is_guest) {
        grpc_tls_credentials_options_watch_identity_key_cert_pairs(options);
    }
    grpc_tls_credentials_options_set_certificate_verifier(options, verifier);
    grpc_tls_certificate_verifier_release(verifier);
    *out = e;
    return options;
}

grpc_server_credentials *ps_tls_server_credentials(ps_tls *tls)
{
    ps_tls_expected *e;
    grpc_tls_credentials_options *options = make_options(tls, true, false, &e);

    ps_tls_expected_release(e); /* nothing is expected of clients; the reference of gRPC stays */
    grpc_tls_credentials_options_set_cert_request_type(
        options, ps_tls_takes_tokens(tls)
                     ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                     : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    return grpc_tls_server_credentials_create(options);
}

grpc_channel_credentials *ps_tls_channel_credentials(ps_tls *tls, bool is_guest,
                                                     ps_tls_expected **expected)
{
    grpc_tls_credentials_options *options =
        make_options(tls, false, is_guest || tls->is_guest, expected);
    grpc_channel_credentials *link, *both;
    grpc_call_credentials *token;

    grpc_tls_credentials_options_set_verify_server_cert(options, 1);
    /* not the host name: verify() compares principals */
    grpc_tls_credentials_options_set_check_call_host(options, 0);
    link = grpc_tls_credentials_create(options);
    if (!tls->is_guest) {
        return link;
    }
    token = grpc_access_token_credentials_create(tls->token, NULL);
    both = grpc_composite_channel_credentials_create(link, token, NULL);
    grpc_call_credentials_release(token);
    grpc_channel_credentials_release(link);
    return both;
}

/* --- calls ------------------------------------------------------------------------------ */

/* Writes serial number and end of a certificate (`n` bytes of PEM) to *out. A certificate that is
 * remembered is not parsed again. */
static ps_status read_peer(ps_tls *tls, const char *pem, size_t n, ps_tls_identity *out)
{
    char digest[PS_SHA256_HEX_BYTES];
    ps_certificate facts;
    seen *s;
    bool is_known;
    ps_status st;

    ps_sha256_of(pem, n, digest);
    s = &tls->seen[strtoul((char[]){digest[0], digest[1], '\0'}, NULL, 16) % SEEN];
    pthread_mutex_lock(&tls->mutex);
    is_known = memcmp(s->digest, digest, sizeof digest) == 0;
    if (is_known) {
        memcpy(out->serial, s->serial, sizeof s->serial);
        out->not_after = s->not_after;
    }
    pthread_mutex_unlock(&tls->mutex);
    if (is_known) {
        return ps_ok();
    }
    st = ps_certificate_read("its certificate", pem, n, &facts);
    if (ps_is_ok(&st)) {
        memcpy(out->serial, facts.serial, sizeof facts.serial);
        out->not_after = facts.not_after;
        pthread_mutex_lock(&tls->mutex);
        memcpy(s->digest, digest, sizeof digest);
        memcpy(s->serial, facts.serial, sizeof s->serial);
        s->not_after = facts.not_after;
        pthread_mutex_unlock(&tls->mutex);
    }
    return st;
}

/* Returns the first property with this name of a call's connection, or NULL. */
static const grpc_auth_property *find_property(const grpc_auth_context *context, const char *name)
{
    grpc_auth_property_iterator i = grpc_auth_context_find_properties_by_name(context, name);

    return grpc_auth_property_iterator_next(&i);
}

ps_status ps_tls_check_identity(ps_tls *tls, const ps_tls_identity *identity)
{
    char text[PS_PRINCIPAL_TEXT_BYTES];
    bool has;

    if (identity->serial[0] != '\0' && ps_tls_has_revoked(tls, identity->serial)) {
        return ps_fail(PS_UNAUTHENTICATED, "the certificate %s of %s was revoked", identity->serial,
                       ps_principal_text(&identity->who, text));
    }
    if (identity->serial[0] != '\0') {
        return ps_ok();
    }
    pthread_mutex_lock(&tls->mutex);
    refresh(tls);
    has = ps_tokens_has(&tls->tokens, identity->token, ps_clock_wall_us() / 1000000);
    pthread_mutex_unlock(&tls->mutex);
    return has ? ps_ok()
               : ps_fail(PS_UNAUTHENTICATED, "the token %s of %s was revoked or has ended",
                         identity->token, ps_principal_text(&identity->who, text));
}

/* Finds a call's token, the text behind "authorization: Bearer ". *n is 0 if it has none. */
static const char *find_bearer(const grpc_metadata_array *metadata, size_t *n)
{
    static const char key[] = "authorization", scheme[] = "bearer ";

    *n = 0;
    for (size_t i = 0; i < metadata->count; i++) {
        /* a pointer, not a copy of the slice: a short slice holds its bytes within the struct */
        const grpc_slice *value = &metadata->metadata[i].value;
        const char *text = (const char *)GRPC_SLICE_START_PTR(*value);

        if (grpc_slice_str_cmp(metadata->metadata[i].key, key) == 0 &&
            GRPC_SLICE_LENGTH(*value) >= sizeof scheme &&
            strncasecmp(text, scheme, sizeof scheme - 1) == 0) {
            *n = GRPC_SLICE_LENGTH(*value) - (sizeof scheme - 1);
            return text + sizeof scheme - 1;
        }
    }
    return "";
}

ps_status ps_tls_identify_token(ps_tls *tls, const char *text, size_t n, ps_tls_identity *out)
{
    const ps_token *token;

    *out = (ps_tls_identity){0};
    if (!ps_tls_takes_tokens(tls)) {
        return ps_fail(PS_UNAUTHENTICATED, "no certificate");
    }
    pthread_mutex_lock(&tls->mutex);
    refresh(tls);
    token = ps_tokens_find(&tls->tokens, text, n);
    if (token != NULL) {
        out->who = token->who;
        memcpy(out->token, token->id, sizeof out->token);
    }
    pthread_mutex_unlock(&tls->mutex);
    return token != NULL ? ps_tls_check_identity(tls, out)
                         : ps_fail(PS_UNAUTHENTICATED,
                                   "the token is not known; 'psgd token create' makes one");
}

ps_status ps_tls_identify(ps_tls *tls, const void *der, size_t n, ps_tls_identity *out)
{
    ps_certificate facts = {0};
    ps_status st = ps_credentials_check_client(tls->dir, "its certificate", der, n, &facts);

    *out = (ps_tls_identity){.who = facts.subject.who, .not_after = facts.not_after};
    memcpy(out->serial, facts.serial, sizeof out->serial);
    return ps_is_ok(&st) ? ps_tls_check_identity(tls, out) : st;
}

void ps_tls_vouch(const ps_tls *tls, const ps_tls_identity *identity,
                  char out[PS_TLS_VOUCHED_BYTES])
{
    char who[PS_PRINCIPAL_TEXT_BYTES];

    snprintf(out, PS_TLS_VOUCHED_BYTES, "%s%s:%s", tls->secret, identity->serial,
             ps_principal_text(&identity->who, who));
}

/* Reads the identity in a text that ps_tls_vouch has written. Returns false if it was not written
 * by ps_tls_vouch of this process. */
static bool take_vouched(const ps_tls *tls, const char *text, size_t n, ps_tls_identity *out)
{
    const size_t secret = sizeof tls->secret - 1;
    char rest[PS_TLS_VOUCHED_BYTES], *end;
    ps_status st;

    if (tls->is_guest || n <= secret || n - secret >= sizeof rest ||
        CRYPTO_memcmp(text, tls->secret, secret) != 0) {
        return false;
    }
    memcpy(rest, text + secret, n - secret);
    rest[n - secret] = '\0';
    end = strchr(rest, ':');
    assert(end != NULL && end - rest < PS_PKI_SERIAL_BYTES);
    *end = '\0';
    snprintf(out->serial, sizeof out->serial, "%.*s", PS_PKI_SERIAL_BYTES - 1, rest);
    st = ps_principal_parse(end + 1, &out->who);
    return ps_is_ok(&st);
}

/* Finds out who calls without a certificate, by the token in a call's metadata: a user's token, or
 * a text of ps_tls_vouch. */
static ps_status take_bearer(ps_tls *tls, const grpc_metadata_array *metadata, ps_tls_identity *out)
{
    size_t n;
    const char *text = find_bearer(metadata, &n);

    if (n == 0 && ps_tls_takes_tokens(tls)) {
        return ps_fail(PS_UNAUTHENTICATED,
                       "neither a certificate nor a token: send the metadata 'authorization' with "
                       "'Bearer TOKEN'");
    }
    return take_vouched(tls, text, n, out) ? ps_tls_check_identity(tls, out)
                                           : ps_tls_identify_token(tls, text, n, out);
}

ps_status ps_tls_caller(ps_tls *tls, grpc_call *call, const grpc_metadata_array *metadata,
                        ps_tls_identity *out)
{
    grpc_auth_context *context = grpc_call_auth_context(call);
    const grpc_auth_property *uri = NULL, *pem = NULL;
    char text[PS_PRINCIPAL_URI_BYTES] = "";
    ps_status st;

    *out = (ps_tls_identity){0};
    if (context != NULL) {
        uri = find_property(context, GRPC_PEER_URI_PROPERTY_NAME);
        pem = find_property(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
    }
    if (pem == NULL) {
        st = take_bearer(tls, metadata, out);
    } else {
        if (uri != NULL && uri->value_length < sizeof text) {
            memcpy(text, uri->value, uri->value_length);
        }
        st = ps_principal_parse_uri(text, &out->who);
        if (ps_is_ok(&st)) {
            st = read_peer(tls, pem->value, pem->value_length, out);
        }
        if (ps_is_ok(&st)) {
            st = ps_tls_check_identity(tls, out);
        }
    }
    if (!ps_is_ok(&st)) {
        st.code = PS_UNAUTHENTICATED;
    }
    grpc_auth_context_release(context);
    return st;
}

/* --- life --------------------------------------------------------------------------------- */

/* Has gRPC watch the files of `dir`, which the caller has checked, for `tls`, and stores it in
 * *out. Frees `tls` after a failure. */
static ps_status watch_files(ps_tls *tls, const char *dir, ps_tls **out)
{
    ps_credentials_paths at;
    ps_status st = ps_credentials_find(dir, &at);

    if (!ps_is_ok(&st)) {
        free(tls);
        return st;
    }
    atomic_init(&tls->refs, 1);
    snprintf(tls->dir, sizeof tls->dir, "%s", dir);
    pthread_mutex_init(&tls->mutex, NULL);
    pthread_mutex_lock(&watched.mutex);
    snprintf(watched.dir, sizeof watched.dir, "%s", dir);
    pthread_mutex_unlock(&watched.mutex);
    tls->files = grpc_tls_certificate_provider_file_watcher_create(
        tls->is_guest ? NULL : at.identity, tls->is_guest ? NULL : at.identity, at.root,
        PS_TLS_REFRESH_S);
    *out = tls;
    return ps_ok();
}

ps_status ps_tls_create(const char *dir, ps_tls **out)
{
    ps_tls *tls = ps_xcalloc(1, sizeof *tls);
    ps_revoked *revoked = NULL;
    ps_status st = ps_credentials_check(dir, &tls->own);

    /* fails here if crl.pem cannot be read or is not signed: else the clients whose certificates it
     * names would be let in */
    if (ps_is_ok(&st)) {
        st = ps_revoked_read(dir, &revoked);
    }
    ps_revoked_destroy(revoked);
    if (ps_is_ok(&st)) {
        st = ps_secret_draw(tls->secret);
    }
    if (!ps_is_ok(&st)) {
        free(tls);
        return st;
    }
    return watch_files(tls, dir, out);
}

ps_status ps_tls_create_guest(const char *dir, const char *token, ps_tls **out)
{
    ps_tls *tls = ps_xcalloc(1, sizeof *tls);
    char fingerprint[PS_FINGERPRINT_BYTES];
    ps_status st = ps_token_read(token, tls->token);

    if (ps_is_ok(&st)) {
        /* only checks that root.pem can be read */
        st = ps_credentials_fingerprint(dir, fingerprint);
    }
    if (!ps_is_ok(&st)) {
        free(tls);
        return st;
    }
    tls->is_guest = true;
    return watch_files(tls, dir, out);
}

void ps_tls_release(ps_tls *tls)
{
    if (tls != NULL && atomic_fetch_sub(&tls->refs, 1) == 1) {
        grpc_tls_certificate_provider_release(tls->files);
        ps_revoked_destroy(tls->revoked);
        ps_tokens_fini(&tls->tokens);
        explicit_bzero(tls->token, sizeof tls->token);
        explicit_bzero(tls->secret, sizeof tls->secret);
        pthread_mutex_destroy(&tls->mutex);
        free(tls);
    }
}

ps_status ps_tls_take_tokens(ps_tls *tls, const char *file)
{
    ps_status st;

    if (strlen(file) >= sizeof tls->tokens_file) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: at most %d bytes of a path are allowed",
                       PS_PATH_SHOWN(file), PS_PATH_MAX - 1);
    }
    snprintf(tls->tokens_file, sizeof tls->tokens_file, "%s", file);
    pthread_mutex_lock(&tls->mutex);
    st = read_tokens(tls);
    if (ps_is_ok(&st) && tls->tokens.items == NULL) {
        st = ps_fail(PS_NOT_FOUND, "%s: there is no such file; 'psgd token create' makes it",
                     PS_PATH_SHOWN(file));
    }
    pthread_mutex_unlock(&tls->mutex);
    return st;
}

const char *ps_tls_dir(const ps_tls *tls)
{
    return tls->dir;
}

const ps_certificate *ps_tls_own(const ps_tls *tls)
{
    return &tls->own;
}
