/* SPDX-License-Identifier: Apache-2.0 */
/* https.c - see https.h. */
#include "common/ops/https.h"

#include "common/base/clock.h"
#include "common/base/file_stamp.h"
#include "common/base/library.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/pki/credentials.h"

#include <gnutls/abstract.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIN_MAX = 4, FILE_BYTES = 65536 };

/* look_us: the certificate's file is looked at no more often. keep_us: for so long a certificate
 * that was replaced stays in memory, as a handshake that has begun may still use it. */
static const int64_t look_us = 1000000, keep_us = 600 * INT64_C(1000000);

/* The functions of GnuTLS, without gnutls_ in their names; load_library sets them. */
static struct {
    __typeof__(&gnutls_pcert_list_import_x509_raw) pcert_list_import_x509_raw;
    __typeof__(&gnutls_pcert_deinit) pcert_deinit;
    __typeof__(&gnutls_privkey_init) privkey_init;
    __typeof__(&gnutls_privkey_import_x509_raw) privkey_import_x509_raw;
    __typeof__(&gnutls_privkey_deinit) privkey_deinit;
    __typeof__(&gnutls_certificate_get_peers) certificate_get_peers;
    __typeof__(&gnutls_strerror) strerror;
} gnutls;

typedef struct identity identity;
struct identity {
    identity *before; /* the identity that this one replaced; NULL: none, or it was freed */
    int64_t replaced_us;
    gnutls_privkey_t key;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned count; /* number of certificates in the chain */
};

static struct {
    pthread_mutex_t mutex; /* guards the members below */
    char path[PS_PATH_MAX];
    /* States of the file `path`: `read`, when it was read; `said`, when a warning was logged that
     * it cannot be read. */
    ps_file_stamp read, said;
    int64_t looked_us;
    identity *newest;
    char *roots; /* text of root.pem; that file is read once */
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void destroy(identity *i)
{
    for (unsigned n = 0; n < i->count; n++) {
        gnutls.pcert_deinit(&i->chain[n]);
    }
    if (i->key != NULL) {
        gnutls.privkey_deinit(i->key);
    }
    free(i);
}

/* Reads private key and certificate chain from own.path. */
static ps_status read_identity(identity **out)
{
    identity *i = ps_xcalloc(1, sizeof *i);
    char *bytes = NULL;
    size_t n = 0;
    int rc = 0;
    ps_status st = ps_file_read(own.path, FILE_BYTES, &bytes, &n);

    if (ps_is_ok(&st)) {
        gnutls_datum_t pem = {(unsigned char *)bytes, (unsigned)n};

        i->count = CHAIN_MAX;
        rc = gnutls.pcert_list_import_x509_raw(i->chain, &i->count, &pem, GNUTLS_X509_FMT_PEM, 0);
        i->count = rc < 0 ? 0 : i->count;
        rc = rc < 0 ? rc : gnutls.privkey_init(&i->key);
        rc = rc < 0 ? rc
                    : gnutls.privkey_import_x509_raw(i->key, &pem, GNUTLS_X509_FMT_PEM, NULL, 0);
    }
    ps_credentials_forget(bytes, n);
    if (rc < 0) {
        st =
            ps_fail(PS_FAILED_PRECONDITION, "%s: %s", PS_PATH_SHOWN(own.path), gnutls.strerror(rc));
    }
    if (!ps_is_ok(&st)) {
        destroy(i);
        return st;
    }
    *out = i;
    return st;
}

/* Frees the identities that were replaced keep_us ago or earlier. The caller holds the mutex. */
static void forget(int64_t now_us)
{
    for (identity **at = &own.newest->before; *at != NULL;) {
        identity *i = *at;

        if (now_us - i->replaced_us < keep_us) {
            at = &i->before;
        } else {
            *at = i->before;
            destroy(i);
        }
    }
}

/* Reads own.path again if it has changed; looks at most once in look_us. If it cannot be read, the
 * identity that was read before stays in use. The caller holds the mutex. */
static void refresh(void)
{
    int64_t now_us = ps_clock_us();
    ps_file_stamp now;
    identity *read;
    ps_status st;

    if (now_us - own.looked_us < look_us) {
        return;
    }
    own.looked_us = now_us;
    if (!ps_file_has_changed(own.path, &own.read, &now)) {
        return;
    }
    st = read_identity(&read);
    if (ps_is_ok(&st)) {
        own.newest->replaced_us = now_us;
        read->before = own.newest;
        own.newest = read;
        own.read = now;
        forget(now_us);
    } else if (!ps_file_stamp_is(&now, &own.said)) {
        ps_log(PS_LOG_WARN, "http", "%s; the certificate before stays until it can be read",
               st.text);
        own.said = now;
    }
}

static int give_certificate(gnutls_session_t session, const gnutls_datum_t *authorities,
                            int authority_count, const gnutls_pk_algorithm_t *algorithms,
                            int algorithm_count, gnutls_pcert_st **chain, unsigned *count,
                            gnutls_privkey_t *key)
{
    (void)session;
    (void)authorities;
    (void)authority_count;
    (void)algorithms;
    (void)algorithm_count;
    pthread_mutex_lock(&own.mutex);
    refresh();
    *chain = own.newest->chain;
    *count = own.newest->count;
    *key = own.newest->key;
    pthread_mutex_unlock(&own.mutex);
    return 0;
}

intptr_t ps_https_certificate(void)
{
    return (intptr_t)give_certificate;
}

static ps_status load_library(const char *flag)
{
    const ps_library_function functions[] = {
        {"gnutls_pcert_list_import_x509_raw", &gnutls.pcert_list_import_x509_raw},
        {"gnutls_pcert_deinit", &gnutls.pcert_deinit},
        {"gnutls_privkey_init", &gnutls.privkey_init},
        {"gnutls_privkey_import_x509_raw", &gnutls.privkey_import_x509_raw},
        {"gnutls_privkey_deinit", &gnutls.privkey_deinit},
        {"gnutls_certificate_get_peers", &gnutls.certificate_get_peers},
        {"gnutls_strerror", &gnutls.strerror},
        {NULL, NULL},
    };

    return ps_library_load(flag, "libgnutls.so.30", "libgnutls30", functions);
}

ps_status ps_https_load(const char *flag, const char *dir)
{
    ps_credentials_paths at;
    size_t n;
    ps_status st = ps_credentials_find(dir, &at);

    pthread_mutex_lock(&own.mutex);
    if (ps_is_ok(&st) && own.newest == NULL) {
        memcpy(own.path, at.identity, sizeof own.path);
        st = load_library(flag);
        if (ps_is_ok(&st) && own.roots == NULL) {
            st = ps_wrap(ps_file_read(at.root, FILE_BYTES, &own.roots, &n), "%s", flag);
        }
        if (ps_is_ok(&st)) {
            (void)ps_file_has_changed(own.path, &own.read, &own.read);
            st = ps_wrap(read_identity(&own.newest), "%s", flag);
        }
    }
    pthread_mutex_unlock(&own.mutex);
    return st;
}

const char *ps_https_roots(void)
{
    return own.roots;
}

ps_status ps_https_client(void *session, ps_tls *tls, ps_tls_identity *out)
{
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls.certificate_get_peers(session, &count);

    return chain != NULL && count > 0 ? ps_tls_identify(tls, chain[0].data, chain[0].size, out)
                                      : ps_fail(PS_NOT_FOUND, "no certificate");
}
