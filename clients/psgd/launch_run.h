/* SPDX-License-Identifier: Apache-2.0 */
/* launch_run.h - runs a whole launch: starts the keepers and services, submits the job, fetches its
 * files, and ends everything. */
#ifndef PS_CLIENTS_PSGD_LAUNCH_RUN_H
#define PS_CLIENTS_PSGD_LAUNCH_RUN_H

#include "clients/psgd/launch_host.h"

typedef struct ps_launch_conf {
    const char *self; /* path of psgd here */
    const ps_launch_plan *plan;
    ps_launch_ssh ssh;
    /* address of this host for the other hosts; NULL: as their sshd sees it */
    const char *address;
    const char *data_path; /* data path of the coordinator; NULL: that of the environment */
    const char *log_dir;
    const char *output; /* folder for the job's files; NULL: the job's id */
    const char *format; /* format of what the commands print */
    bool is_insecure;   /* no TLS between hosts */
    bool is_quiet;      /* prints only what the commands print */
    /* least number of worker processes with which the job goes on when others have ended; 0: it
     * needs all of them */
    uint64_t workers_min;
    const char *const *submit; /* arguments of psgd submit; ends with NULL */
} ps_launch_conf;

/* Runs the job and returns the exit code of the program: 0 only if the job is DONE and its files
 * are on this host. On return nothing of the launch runs any more, except for some seconds on hosts
 * whose link was lost. */
int ps_launch_run(const ps_launch_conf *conf);

#endif
