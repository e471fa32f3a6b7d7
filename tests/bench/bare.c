/* SPDX-License-Identifier: Apache-2.0 */
/* bare.c - see bare.h. */
#include "tests/bench/bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ECHO_BYTES = 16 };

void ps_bare_place(unsigned side)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(side % (unsigned)(count < 1 ? 1 : count), &one);
    sched_setaffinity(0, sizeof one, &one); /* not allowed: let chance decide */
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(int result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
}

void ps_bare_connect(int pair[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    check(listener, "socket");
    check(bind(listener, (struct sockaddr *)&at, sizeof at), "bind");
    check(listen(listener, 1), "listen");
    check(getsockname(listener, (struct sockaddr *)&at, &len), "getsockname");
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    check(pair[0], "socket");
    check(connect(pair[0], (struct sockaddr *)&at, sizeof at), "connect");
    pair[1] = accept(listener, NULL, NULL);
    check(pair[1], "accept");
    close(listener);
    for (int i = 0; i < 2; i++) {
        check(setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), "TCP_NODELAY");
    }
}

static void send_all(int fd, const uint8_t *bytes, size_t n)
{
    while (n != 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

        check((int)(sent < 0 ? -1 : 0), "send");
        bytes += sent;
        n -= (size_t)sent;
    }
}

static int recv_all(int fd, uint8_t *bytes, size_t n)
{
    while (n != 0) {
        ssize_t got = recv(fd, bytes, n, 0);

        check((int)(got < 0 ? -1 : 0), "recv");
        if (got == 0) {
            return 0;
        }
        bytes += got;
        n -= (size_t)got;
    }
    return 1;
}

typedef struct peer {
    int fd;
    size_t of, bytes, count;
} peer;

uint8_t *ps_bare_block(size_t bytes)
{
    uint8_t *block = malloc(bytes);

    check(block == NULL ? -1 : 0, "malloc");
    memset(block, 0x3e, bytes);
    return block;
}

static void *receive(void *arg)
{
    const peer *p = arg;
    uint8_t *block = ps_bare_block(p->of);
    size_t at = 0;

    ps_bare_place(1);
    for (size_t i = 0; i < p->count && recv_all(p->fd, block + at, p->bytes); i++) {
        at = (at + p->bytes) % p->of;
    }
    free(block);
    return NULL;
}

static void *echo(void *arg)
{
    const peer *p = arg;
    uint8_t buffer[ECHO_BYTES];

    ps_bare_place(1);
    while (recv_all(p->fd, buffer, sizeof buffer)) {
        send_all(p->fd, buffer, sizeof buffer);
    }
    return NULL;
}

double ps_bare_stream(size_t of, size_t bytes, size_t count)
{
    uint8_t *block = ps_bare_block(of);
    size_t at = 0;
    pthread_t thread;
    double begin;
    int pair[2];
    peer p;

    ps_bare_connect(pair);
    p = (peer){pair[1], of, bytes, count};
    pthread_create(&thread, NULL, receive, &p);
    begin = now();
    for (size_t i = 0; i < count; i++) {
        send_all(pair[0], block + at, bytes);
        at = (at + bytes) % of;
    }
    pthread_join(thread, NULL);
    begin = now() - begin;
    close(pair[0]);
    close(pair[1]);
    free(block);
    return begin;
}

void ps_bare_echo(double *us, size_t count)
{
    uint8_t buffer[ECHO_BYTES] = {0};
    pthread_t thread;
    int pair[2];
    peer p;

    ps_bare_connect(pair);
    p = (peer){.fd = pair[1]};
    pthread_create(&thread, NULL, echo, &p);
    for (size_t i = 0; i < count; i++) {
        double begin = now();

        send_all(pair[0], buffer, sizeof buffer);
        recv_all(pair[0], buffer, sizeof buffer);
        us[i] = (now() - begin) * 1e6;
    }
    shutdown(pair[0], SHUT_WR);
    pthread_join(thread, NULL);
    close(pair[0]);
    close(pair[1]);
}
