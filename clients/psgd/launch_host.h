/* SPDX-License-Identifier: Apache-2.0 */
/* launch_host.h - the launcher's link to the keeper (keeper.h) of one host: a child process, or one
 * that ssh starts there. */
#ifndef PS_CLIENTS_PSGD_LAUNCH_HOST_H
#define PS_CLIENTS_PSGD_LAUNCH_HOST_H

#include "clients/psgd/child.h"
#include "clients/psgd/launch_plan.h"
#include "clients/psgd/line_pipe.h"

#include "common/base/address.h"

#include <poll.h>

enum {
    PS_LAUNCH_HOST_FDS = 4, /* descriptors of a host to poll */
    PS_LAUNCH_REASON_BYTES = 600,
    PS_LAUNCH_ADDRESS_BYTES = 64
};

typedef struct ps_launch_host {
    const char *name;
    bool is_remote;
    bool is_up;   /* it has said hello */
    bool is_gone; /* the link has ended */
    ps_child child;
    ps_strbuf in, out, err; /* err: the end of what ssh or the keeper says on stderr */
    int64_t heard_us, said_us;
    char folder[256];                    /* of the keeper */
    char from[PS_LAUNCH_ADDRESS_BYTES];  /* this host, as the other one sees it */
    char at[PS_LAUNCH_ADDRESS_BYTES];    /* the other one, as this host reaches it */
    char reason[PS_LAUNCH_REASON_BYTES]; /* why it is gone, and what to do */
} ps_launch_host;

/* How hosts are reached. */
typedef struct ps_launch_ssh {
    const char *config; /* file for ssh -F; NULL: the user's */
    const char *psgd;   /* path of psgd on the other hosts */
} ps_launch_ssh;

/* Called for each document that a keeper says, but hello. */
typedef void ps_launch_hear_fn(void *arg, ps_launch_host *host, const json_t *document);

/* Starts the keeper of a host: here if `is_remote` is not set. `self` is the path of psgd here. */
PS_MUST_USE ps_status ps_launch_host_start(ps_launch_host *host, const char *name, bool is_remote,
                                           const char *self, const ps_launch_ssh *ssh);

/* Sends a document and drops the reference. */
void ps_launch_host_say(ps_launch_host *host, json_t *document);

/* Fills PS_LAUNCH_HOST_FDS entries for poll. */
void ps_launch_host_poll(const ps_launch_host *host, struct pollfd *fds);

/* Reads and writes after a poll, and looks whether the host is still there. When it is gone,
 * is_gone and reason are set. */
void ps_launch_host_look(ps_launch_host *host, int64_t now_us, ps_launch_hear_fn *hear, void *arg);

/* Writes the address of this host at which the others reach it: `address` if it is not NULL, else
 * the one from which each other host's sshd sees the connection of ssh come, and 127.0.0.1 if there
 * is no other host. hosts[0] is this one. Fails with FAILED_PRECONDITION if sshds say none, or
 * different ones. */
PS_MUST_USE ps_status ps_launch_host_find_here(const ps_launch_host *hosts, size_t count,
                                               const char *address,
                                               char here[PS_ADDRESS_HOST_BYTES]);

/* Ends the link at once; the keeper then kills what it keeps. A zeroed host is allowed. */
void ps_launch_host_fini(ps_launch_host *host);

#endif
