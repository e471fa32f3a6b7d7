/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - shows jobs and times to people. */
#ifndef PS_CLIENTS_PSGD_SHOW_H
#define PS_CLIENTS_PSGD_SHOW_H

#include "clients/psgd/cli.h"
#include "clients/psgd/show_progress.h"

#include <google/protobuf/timestamp.pb-c.h>

/* Returns the name of a value without the prefix of its type, such as "QUEUED"; "?" if it is
 * unknown. */
const char *ps_show_enum(const ProtobufCEnumDescriptor *type, int value);

/* Returns the name of a state, such as "QUEUED". */
const char *ps_show_state(Psgd__V1__JobState state);

/* Returns whether a job in this state has ended. */
bool ps_show_is_over(Psgd__V1__JobState state);

/* Returns `time` as local time, "2026-11-20 12:26:00", written into `text`; "-" if it is NULL. */
const char *ps_show_time(const Google__Protobuf__Timestamp *time, char text[PS_SHOW_BYTES]);

/* Returns the seconds of `time` since 1970; 0 if it is NULL. */
double ps_show_seconds(const Google__Protobuf__Timestamp *time);

/* Writes the job's result, such as "loss 0.1471 accuracy 0.9553"; "" if it has none. */
void ps_show_result(const Psgd__V1__Job *job, char *text, size_t cap);

/* Writes the last loss and metrics of training, if the job has trained and is done, and either has
 * no result or its programs have reported metrics. Else writes "". */
void ps_show_trained(const Psgd__V1__Job *job, char *text, size_t cap);

/* Prints those of the texts of ps_show_result and ps_show_trained that are not "", a line each. */
void ps_show_results(const Psgd__V1__Job *job);

/* Writes the job's state with its reason and message, such as "QUEUED: NOT_ENOUGH_NODES: waits for
 * 1 more worker". */
void ps_show_state_line(const Psgd__V1__Job *job, char *text, size_t cap);

/* Writes a recovery as "recovered worker-3 (NODE_LOST), back after 1.2 s, 4 steps repeated"; as
 * "rolled back to step 40, rate halved (DIVERGED), back after 0.2 s, 4 steps repeated"; with
 * is_survived as "went on without worker-3 (NODE_LOST) from step 40"; and a planned change as
 * "scaled by a client to 2 worker processes and 1 server (SCALED): stood still for 0.2 s, 0 steps
 * repeated". */
void ps_show_recovery(const Psgd__V1__Recovery *r, char *text, size_t cap);

/* Writes what a tracker has of the job, or why it has nothing, in one line. */
void ps_show_tracker(const Psgd__V1__TrackerRun *run, char *text, size_t cap);

/* If the job is over and has recovered from losses, prints its fraction of useful time. */
void ps_show_goodput(const Psgd__V1__Job *job);

/* Prints everything about a job. */
void ps_show_job(const Psgd__V1__Job *job);

/* Prints the files of a job. */
void ps_show_files(const Psgd__V1__Job *job);

/* Prints the job in an answer in the chosen format and ends the program. `job` NULL is reported as
 * a mistake of the server. */
void ps_show_reply(ps_cli *cli, const Psgd__V1__Job *job);

/* Prints the nodes of the job with their addresses and versions, a line each. If `before` is not
 * NULL, only the nodes whose part in the job differs from that in `before`. */
void ps_show_nodes(const Psgd__V1__Job *job, const Psgd__V1__Job *before);

/* Writes what a worker has reported as a line of text: step, loss, accuracy, metrics of its
 * program, time that it waited. */
void ps_show_worker(const Psgd__V1__Job *job, const Psgd__V1__WorkerProgress *worker, char *text,
                    size_t cap);

#endif
