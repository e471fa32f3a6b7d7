/* SPDX-License-Identifier: Apache-2.0 */
/* bare_tls.c - see bare.h. libssl without gRPC: blocking sockets, records of 16 KiB, system calls
 * of 256 KiB. */
#include "common/pki/credentials.h"
#include "tests/bench/bare.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 256 << 10 };

typedef struct peer {
    SSL_CTX *context;
    int fd;
    uint8_t *block;
    size_t of, bytes, count;
} peer;

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "bare_tls: %s\n", what);
        ERR_print_errors_fp(stderr);
        exit(1);
    }
}

/* Returns a session on the socket, whose writes are gathered until BIO_flush. */
static SSL *session_of(const peer *p)
{
    SSL *ssl = SSL_new(p->context);
    BIO *reads = BIO_new_socket(p->fd, BIO_NOCLOSE), *writes = BIO_new_socket(p->fd, BIO_NOCLOSE);
    BIO *gathers = BIO_new(BIO_f_buffer());

    check(ssl != NULL && reads != NULL && writes != NULL && gathers != NULL, "memory");
    check(BIO_set_write_buffer_size(gathers, BATCH) == 1, "buffer");
    SSL_set_bio(ssl, reads, BIO_push(gathers, writes));
    return ssl;
}

static void *receive(void *arg)
{
    const peer *p = arg;
    size_t at = 0, left = p->bytes * p->count;
    SSL *ssl = session_of(p);

    ps_bare_place(1);
    check(SSL_accept(ssl) == 1, "accept");
    while (left > 0) {
        size_t room = p->of - at, done;

        check(SSL_read_ex(ssl, p->block + at, room < left ? room : left, &done) == 1, "read");
        at = (at + done) % p->of;
        left -= done;
    }
    SSL_free(ssl);
    return NULL;
}

static SSL_CTX *context_of(const char *dir)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    ps_credentials_paths at;
    ps_status st = ps_credentials_find(dir, &at);

    check(ps_is_ok(&st) && context != NULL, st.text);
    check(SSL_CTX_use_PrivateKey_file(context, at.identity, SSL_FILETYPE_PEM) == 1, at.identity);
    check(SSL_CTX_use_certificate_file(context, at.identity, SSL_FILETYPE_PEM) == 1, at.identity);
    check(SSL_CTX_load_verify_file(context, at.root) == 1, at.root);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, BATCH);
    return context;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double ps_bare_tls_stream(const char *dir, size_t of, size_t bytes, size_t count)
{
    SSL_CTX *context = context_of(dir);
    uint8_t *block = ps_bare_block(of), *there = ps_bare_block(of);
    size_t at = 0, done;
    pthread_t thread;
    double begin;
    int pair[2];
    peer p, other;
    SSL *ssl;

    ps_bare_connect(pair);
    p = (peer){context, pair[0], block, of, bytes, count};
    other = (peer){context, pair[1], there, of, bytes, count};
    pthread_create(&thread, NULL, receive, &other);
    ssl = session_of(&p);
    check(SSL_connect(ssl) == 1, "connect");
    begin = now();
    for (size_t i = 0; i < count; i++) {
        check(SSL_write_ex(ssl, block + at, bytes, &done) == 1 && done == bytes, "write");
        check(BIO_flush(SSL_get_wbio(ssl)) == 1, "flush");
        at = (at + bytes) % of;
    }
    pthread_join(thread, NULL);
    begin = now() - begin;
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(pair[0]);
    close(pair[1]);
    free(block);
    free(there);
    return begin;
}
