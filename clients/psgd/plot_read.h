/* SPDX-License-Identifier: Apache-2.0 */
/* plot_read.h - reads the jobs that the arguments of a subcommand name: folders that psgd train or
 * psgd download has left, or ids and titles of jobs of the coordinator, whose reports are fetched
 * into a temporary folder. */
#ifndef PS_CLIENTS_PSGD_PLOT_READ_H
#define PS_CLIENTS_PSGD_PLOT_READ_H

#include "clients/psgd/fetch.h"
#include "clients/psgd/plot_job.h"

enum { PS_PLOT_READ_PATH_BYTES = 4096, PS_PLOT_READ_ID_BYTES = 256 };

typedef struct ps_plot_read {
    ps_cli *cli;
    ps_plot_job *jobs; /* (number of arguments): zeroed before; the jobs that were read */
    /* number of jobs whose reading has begun; the caller calls ps_plot_job_fini for each */
    size_t n;
    size_t rows_max; /* most rows of all jobs together */
    /* called when all jobs were read; a failure ends the program instead */
    void (*done)(void *arg);
    void *arg;
    /* Private. */
    size_t next; /* index of the next argument */
    ps_fetch fetch;
    /* is_fetching: files of a job are being fetched; by_title: the argument was a title, and `id`
     * was found by it */
    bool is_fetching, by_title;
    /* id and folder of the job that is being fetched */
    char id[PS_PLOT_READ_ID_BYTES], folder[PS_PLOT_READ_PATH_BYTES];
} ps_plot_read;

/* Returns whether all arguments are folders, so that no coordinator is needed. */
bool ps_plot_read_is_local(const ps_cli *cli);

/* Asks for the newest 1000 jobs, for ps_plot_read_newest. */
void ps_plot_read_list(ps_cli *cli, ps_reply_fn *on_list, void *arg);

/* `id` (cap) has a title: replaces it by the id of the newest of `jobs` with this title. If there
 * is none, writes a message to stderr and returns false. */
bool ps_plot_read_newest(char *id, size_t cap, const Psgd__V1__ListJobsResponse *jobs);

/* Starts to read. The caller has set the members that are not private; n is 0. */
void ps_plot_read_start(ps_plot_read *read);

/* Removes the folder of fetched files, if there is one. A zeroed struct is allowed. */
void ps_plot_read_fini(ps_plot_read *read);

#endif
