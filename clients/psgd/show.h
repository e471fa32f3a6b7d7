/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - jobs and times for people. */
#ifndef PS_CLIENTS_PSGD_SHOW_H
#define PS_CLIENTS_PSGD_SHOW_H

#include "clients/psgd/cli.h"
#include "clients/psgd/show_progress.h"

#include <google/protobuf/timestamp.pb-c.h>

/* "QUEUED", without the prefix of its type; "?" for a value not known. */
const char *ps_show_enum(const ProtobufCEnumDescriptor *type, int value);
const char *ps_show_state(Psgd__V1__JobState state);
bool ps_show_is_over(Psgd__V1__JobState state);

const char *ps_show_time(const Google__Protobuf__Timestamp *time, char text[PS_SHOW_BYTES]);
double ps_show_seconds(const Google__Protobuf__Timestamp *time); /* 0 for NULL */

/* "loss 0.1471 accuracy 0.9553" */
void ps_show_result(const Psgd__V1__Job *job, char *text, size_t cap);

/* "QUEUED: NOT_ENOUGH_NODES: waits for 1 more worker" */
void ps_show_state_line(const Psgd__V1__Job *job, char *text, size_t cap);

/* A job whole, to stdout; its files alone. */
void ps_show_job(const Psgd__V1__Job *job);
void ps_show_files(const Psgd__V1__Job *job);

/* The job of an answer, in the format that is wanted; ends the program. NULL:
 * the server's mistake. */
void ps_show_reply(ps_cli *cli, const Psgd__V1__Job *job);

#endif
