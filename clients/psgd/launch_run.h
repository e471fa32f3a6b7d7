/* SPDX-License-Identifier: Apache-2.0 */
/* launch_run.h - a launch from its first keeper to its last. */
#ifndef PS_CLIENTS_PSGD_LAUNCH_RUN_H
#define PS_CLIENTS_PSGD_LAUNCH_RUN_H

#include "clients/psgd/launch_host.h"

typedef struct ps_launch_conf {
    const char *self; /* path of psgd here */
    const ps_launch_plan *plan;
    ps_launch_ssh ssh;
    const char *address;   /* of this host, for the others; NULL: as sshd sees it */
    const char *data_path; /* of the coordinator; NULL: that of the environment */
    const char *log_dir;
    const char *output;        /* folder for the job's files; NULL: the job's id */
    const char *format;        /* of what the commands print */
    bool is_insecure;          /* no TLS between hosts */
    bool is_quiet;             /* prints nothing but what the commands do */
    uint64_t workers_min;      /* worker processes with which the job goes on; 0: all are needed */
    const char *const *submit; /* arguments of psgd submit; ends with NULL */
} ps_launch_conf;

/* Runs the job and returns the exit code of the program: 0 only if the job is DONE and its files
 * are here. Nothing runs any more when it returns. */
int ps_launch_run(const ps_launch_conf *conf);

#endif
