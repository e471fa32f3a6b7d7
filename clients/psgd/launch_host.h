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
    PS_LAUNCH_HOST_FDS = 4, /* number of descriptors of a host to poll */
    PS_LAUNCH_REASON_BYTES = 600,
    PS_LAUNCH_ADDRESS_BYTES = 64
};

typedef struct ps_launch_host {
    const char *name;
    bool is_remote;
    bool is_up;   /* the keeper has said hello */
    bool is_gone; /* the link has ended */
    ps_child child;
    ps_strbuf in, out, err; /* err: the last bytes that ssh or the keeper has written to stderr */
    /* monotonic microseconds at which something of the keeper last arrived, and at which it was
     * last sent a sign of life */
    int64_t heard_us, said_us;
    char folder[256]; /* folder of the keeper */
    /* address of this host (the launcher's), as the sshd of the keeper's host sees it */
    char from[PS_LAUNCH_ADDRESS_BYTES];
    /* address of the keeper's host, at which this host reaches it */
    char at[PS_LAUNCH_ADDRESS_BYTES];
    char reason[PS_LAUNCH_REASON_BYTES]; /* why the link has ended, and what the user can do */
} ps_launch_host;

/* How hosts are reached. */
typedef struct ps_launch_ssh {
    const char *config; /* file for ssh -F; NULL: the user's */
    const char *psgd;   /* path of psgd on the other hosts */
} ps_launch_ssh;

/* Called for each document that a keeper writes, except hello. */
typedef void ps_launch_hear_fn(void *arg, ps_launch_host *host, const json_t *document);

/* Starts the keeper of a host: by ssh if is_remote, else as a child. `self` is the path of psgd on
 * this host. */
PS_MUST_USE ps_status ps_launch_host_start(ps_launch_host *host, const char *name, bool is_remote,
                                           const char *self, const ps_launch_ssh *ssh);

/* Sends a document to the keeper and drops the caller's reference to it. */
void ps_launch_host_say(ps_launch_host *host, json_t *document);

/* Fills PS_LAUNCH_HOST_FDS entries for poll. */
void ps_launch_host_poll(const ps_launch_host *host, struct pollfd *fds);

/* After a poll: reads and writes what is possible, and checks whether the host still answers. If it
 * does not, sets is_gone and reason. */
void ps_launch_host_look(ps_launch_host *host, int64_t now_us, ps_launch_hear_fn *hear, void *arg);

/* Writes the address of this host at which the other hosts reach it: 127.0.0.1 if there is no other
 * host; else `address` if it is not NULL; else the address from which every other host's sshd sees
 * the connection of ssh come. hosts[0] is this one. Returns FAILED_PRECONDITION if the sshds know
 * no address, or different ones. */
PS_MUST_USE ps_status ps_launch_host_find_here(const ps_launch_host *hosts, size_t count,
                                               const char *address,
                                               char here[PS_ADDRESS_HOST_BYTES]);

/* Ends the link at once; the keeper then kills its services. A zeroed host is allowed. */
void ps_launch_host_fini(ps_launch_host *host);

#endif
