/* SPDX-License-Identifier: Apache-2.0 */
/* loop_link.c - see loop_link.h. */
#include "services/worker/loop_link.h"

#include "common/base/log.h"
#include "common/base/loop_protocol.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LOOK_MS = 200, ALIGN = 64 };

_Static_assert((int)PS_LOOP_NAME_MAX == (int)PS_VAR_NAME_MAX, "names of variables fit");
_Static_assert((int)PS_LOOP_DIMS == (int)PS_SHAPE_MAX, "shapes fit");
_Static_assert((int)PS_LOOP_METRICS_MAX == (int)PS_METRICS_MAX, "metrics fit");
_Static_assert((int)PS_LOOP_METRIC_BYTES > (int)PS_PROGRAM_METRIC_MAX, "names of metrics fit");

struct ps_loop_link {
    int fd;
    pid_t program; /* the parent of this process */
    pthread_t watcher;
    atomic_bool stop;
};

struct ps_loop_rank {
    ps_loop_link *link;
    uint32_t rank;
    int memory_fd;
    int fd, theirs; /* ends of the rank's socket; theirs is -1 after the start */
    size_t bytes, param_count,
        state_bytes; /* copies: the program may overwrite those in `memory` */
    ps_loop_memory *memory;
    float *weights; /* the weights in `memory` */
    ps_foreign_loop ops;
    uint64_t clock; /* clock of the weights that the program was given last */
};

/* --- the program ------------------------------------------------------------- */

/* Ends this process as if it had been killed: the job counts it as lost. */
_Noreturn static void end_too(const char *why)
{
    ps_log(PS_LOG_WARN, "loop", "%s", why);
    _exit(1);
}

static const char has_ended[] = "the program that computes has ended";

static void *watch(void *arg)
{
    ps_loop_link *link = arg;
    ps_loop_message m;

    while (!atomic_load(&link->stop)) {
        struct pollfd p = {.fd = link->fd, .events = POLLIN};
        int ready = poll(&p, 1, LOOK_MS);
        ssize_t n = ready > 0 ? recv(link->fd, &m, sizeof m, MSG_DONTWAIT) : -1;

        if (n == (ssize_t)sizeof m && m.kind == PS_LOOP_LEAVE) {
            ps_log(PS_LOG_INFO, "loop", "the program leaves");
            (void)kill(getpid(), SIGTERM);
        } else if (n == 0 || getppid() != link->program) {
            /* Children of the program may hold its end of the socket open after it has ended, so
             * the id of this process's parent is compared too. */
            end_too(has_ended);
        }
    }
    return NULL;
}

ps_status ps_loop_link_create(int fd, ps_loop_link **out)
{
    ps_loop_link *link;
    int type = 0;
    socklen_t length = sizeof type;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_SEQPACKET) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "--loop-fd is %d; the descriptor of a socket that libpsgd has made is "
                       "allowed",
                       fd);
    }
    link = ps_xcalloc(1, sizeof *link);
    link->fd = fd;
    link->program = getppid();
    if (pthread_create(&link->watcher, NULL, watch, link) != 0) {
        free(link);
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no thread to watch the program that computes");
    }
    *out = link;
    return ps_ok();
}

void ps_loop_link_destroy(ps_loop_link *link)
{
    if (link == NULL) {
        return;
    }
    atomic_store(&link->stop, true);
    pthread_join(link->watcher, NULL);
    close(link->fd);
    free(link);
}

/* Sends a message with `count` descriptors. Never waits. */
static ps_status tell(int fd, const ps_loop_message *m, const int *fds, size_t count)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)m, .iov_len = sizeof *m};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (count > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
    }
    if (sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *m) {
        return ps_ok();
    }
    return ps_fail(PS_UNAVAILABLE, "the program that computes %s",
                   errno == EAGAIN ? "does not ask for its next step" : "has ended");
}

static void tell_all(const ps_loop_link *link, uint32_t kind, const char *text)
{
    ps_loop_message m = {.kind = kind};
    ps_status st;

    snprintf(m.text, sizeof m.text, "%s", text);
    st = tell(link->fd, &m, NULL, 0);
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "loop", "%s", st.text);
    }
}

void ps_loop_link_done(ps_loop_link *link)
{
    tell_all(link, PS_LOOP_DONE, "");
}

void ps_loop_link_over(ps_loop_link *link, const ps_status *why)
{
    tell_all(link, PS_LOOP_OVER, ps_is_ok(why) ? "" : why->text);
}

/* --- a rank ------------------------------------------------------------------- */

/* Copies weights into the shared memory and tells the program. The socket has room: the program is
 * told of a clock only after it has answered the one before. So if the message cannot be sent, the
 * program has ended, and this process ends too. */
static void give(ps_loop_rank *r, uint32_t kind, uint64_t clock, const float *weights)
{
    ps_loop_message m = {.kind = kind, .rank = r->rank, .value = clock};

    memcpy(r->weights, weights, r->param_count * sizeof *weights);
    r->clock = clock;
    if (send(r->fd, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof m) {
        end_too(has_ended);
    }
}

static ps_status begin(void *arg, uint64_t clock, const float *weights)
{
    give(arg, PS_LOOP_STEP, clock, weights);
    return ps_ok();
}

static void end(void *arg, uint64_t clock, const float *weights)
{
    give(arg, PS_LOOP_LAST, clock, weights);
}

static void give_up(void *arg, const ps_status *why)
{
    (void)arg;
    end_too(why->text);
}

static ps_status next(void *arg, int wait_ms, ps_foreign_said *said)
{
    ps_loop_rank *r = arg;
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    ps_loop_message m;
    ssize_t n;

    *said = (ps_foreign_said){.kind = PS_FOREIGN_NOTHING};
    if (poll(&p, 1, wait_ms) <= 0) {
        return ps_ok();
    }
    n = recv(r->fd, &m, sizeof m, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return ps_ok();
    }
    if (n <= 0) {
        end_too(has_ended);
    }
    if (n != (ssize_t)sizeof m || m.value != r->clock ||
        (m.kind != PS_LOOP_LOSS && m.kind != PS_LOOP_METRIC && m.kind != PS_LOOP_READY)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "rank %" PRIu32 ": a message of kind %" PRIu32 " for clock %" PRIu64
                       " from the program that computes; at clock %" PRIu64
                       " a loss, metrics and gradients are expected",
                       r->rank, n == (ssize_t)sizeof m ? m.kind : 0,
                       n == (ssize_t)sizeof m ? m.value : 0, r->clock);
    }
    *said = (ps_foreign_said){.kind = m.kind == PS_LOOP_LOSS     ? PS_FOREIGN_LOSS
                                      : m.kind == PS_LOOP_METRIC ? PS_FOREIGN_METRIC
                                                                 : PS_FOREIGN_READY,
                              .first = m.first,
                              .count = m.count,
                              .number = m.number};
    return ps_ok();
}

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void describe(ps_loop_rank *r, const ps_session *session, size_t weights_at)
{
    const ps_plan *plan = session->plan;
    const ps_layout *layout = &plan->layout;
    size_t block = rounded(layout->param_count * sizeof(float));
    ps_loop_memory *head = r->memory;
    ps_loop_variable *vars = (ps_loop_variable *)(void *)(head + 1);

    *head = (ps_loop_memory){.magic = PS_LOOP_MAGIC,
                             .variable_count = layout->variable_count,
                             .rank = r->rank,
                             .workers = plan->spec->workers,
                             .block_size = plan->spec->block_size,
                             .steps_of_epoch = plan->batches_per_epoch,
                             .total_steps = plan->total_steps,
                             .param_count = layout->param_count,
                             .weights_at = weights_at,
                             .gradients_at = weights_at + block,
                             .state_at = weights_at + 2 * block,
                             .state_bytes = r->state_bytes,
                             .metric_count = (uint32_t)plan->spec->n_program_metrics};
    for (uint32_t i = 0; i < head->metric_count; i++) {
        snprintf(head->metrics[i], sizeof head->metrics[i], "%s", plan->spec->program_metrics[i]);
    }
    snprintf(head->job_id, sizeof head->job_id, "%s", session->job_id);
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        const ps_variable *from = &layout->variables[v];

        memcpy(vars[v].name, from->name, sizeof vars[v].name);
        vars[v].rank = from->shape.rank;
        memcpy(vars[v].dim, from->shape.dim, sizeof vars[v].dim);
        vars[v].at = from->at;
        vars[v].size = from->size;
    }
    r->weights = (float *)(void *)((uint8_t *)head + head->weights_at);
    r->ops = (ps_foreign_loop){.begin = begin,
                               .next = next,
                               .end = end,
                               .give_up = give_up,
                               .gradients =
                                   (const float *)(void *)((uint8_t *)head + head->gradients_at),
                               .state = (uint8_t *)head + head->state_at,
                               .state_bytes = r->state_bytes,
                               .arg = r};
}

ps_status ps_loop_rank_create(ps_loop_link *link, const ps_session *session, uint32_t rank,
                              ps_loop_rank **out)
{
    const ps_layout *layout = &session->plan->layout;
    size_t weights_at =
               rounded(sizeof(ps_loop_memory) + layout->variable_count * sizeof(ps_loop_variable)),
           block = rounded(layout->param_count * sizeof(float));
    ps_loop_rank *r = ps_xcalloc(1, sizeof *r);
    void *at = MAP_FAILED;
    int ends[2] = {-1, -1};
    ps_status st;

    *r = (ps_loop_rank){.link = link, .rank = rank, .fd = -1, .theirs = -1};
    r->state_bytes = ps_plan_program_bytes(session->plan);
    r->bytes = weights_at + 2 * block + r->state_bytes;
    r->param_count = layout->param_count;
    r->memory_fd = memfd_create("psgd-loop", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (r->memory_fd >= 0 && posix_fallocate(r->memory_fd, 0, (off_t)r->bytes) == 0 &&
        fcntl(r->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        at = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->memory_fd, 0);
    }
    if (at == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        if (at != MAP_FAILED) {
            (void)munmap(at, r->bytes);
        }
        st = ps_fail(PS_RESOURCE_EXHAUSTED,
                     "no %zu bytes of shared memory for the program that computes rank %" PRIu32,
                     r->bytes, rank);
        ps_loop_rank_destroy(r);
        return st;
    }
    r->memory = at;
    r->fd = ends[0];
    r->theirs = ends[1];
    describe(r, session, weights_at);
    *out = r;
    return ps_ok();
}

void ps_loop_rank_destroy(ps_loop_rank *r)
{
    if (r == NULL) {
        return;
    }
    if (r->memory != NULL) {
        (void)munmap(r->memory, r->bytes);
    }
    for (size_t i = 0; i < 3; i++) {
        int fd = i == 0 ? r->memory_fd : i == 1 ? r->fd : r->theirs;

        if (fd >= 0) {
            close(fd);
        }
    }
    free(r);
}

ps_status ps_loop_rank_start(ps_loop_rank *r)
{
    ps_loop_message m = {.kind = PS_LOOP_BEGIN, .rank = r->rank, .value = r->bytes};
    const int fds[2] = {r->memory_fd, r->theirs};
    ps_status st = tell(r->link->fd, &m, fds, 2);

    close(r->theirs);
    r->theirs = -1;
    return st;
}

const ps_foreign_loop *ps_loop_rank_ops(const ps_loop_rank *r)
{
    return &r->ops;
}
