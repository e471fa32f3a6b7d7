/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_files.c - tasks that make and remove the folder of an attempt and the log in it.
 *
 * CanCommit is answered when folder and log exist. If the attempt is released before, the release
 * waits for the task that makes them, and then removes the folder.
 */
#include "common/node/node_impl.h"

#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- begin ------------------------------------------------------------------- */

struct ps_beginning {
    ps_task task;
    ps_node *node;
    char folder[sizeof((ps_node *)0)->folder];
    char coordinator[PS_NODE_ADDRESS_MAX];
    ps_joblog_conf log_conf;
    ps_joblog *log; /* set by make_files; NULL: there is none, `status` says why */
    ps_status status;
};

static void has_read_log(void *arg)
{
    ps_node *node = arg;

    if (node->link != NULL) {
        ps_link_hurry(node->link);
    }
}

static void make_files(ps_task *task)
{
    ps_beginning *b = PS_CONTAINER_OF(task, ps_beginning, task);
    char path[sizeof b->folder + 16];
    ps_status removed;

    b->status = ps_dir_make(b->folder);
    if (ps_is_ok(&b->status)) {
        b->status = ps_path_join(path, sizeof path, b->folder, "log");
    }
    if (ps_is_ok(&b->status)) {
        b->status = ps_joblog_open(path, &b->log_conf, &b->log);
    }
    if (!ps_is_ok(&b->status)) {
        removed = ps_dir_remove(b->folder);
        (void)removed; /* only the failure in b->status is reported */
    }
}

/* Gives up an attempt whose files could not be made: frees the node for others, and fails the calls
 * that wait for the files. */
static void give_up(ps_node *node, ps_status st)
{
    st = ps_wrap(st, "begin an attempt");
    ps_log(PS_LOG_ERROR, "node", "%s", st.text);
    (void)ps_agent_abort(&node->agent, node->agent.job_id, node->agent.attempt);
    ps_node_fail_waiting(node, st);
}

static void files_made(ps_task *task)
{
    ps_beginning *b = PS_CONTAINER_OF(task, ps_beginning, task);
    ps_node *node = b->node;
    ps_status st = b->status;

    node->beginning = NULL;
    node->log = b->log;
    node->log_shipped = 0;
    if (ps_is_ok(&st) && !node->is_releasing) {
        node->link = ps_link_knows(node->home, b->coordinator) ? node->home
                                                               : ps_link_open(node, b->coordinator);
    }
    free(b);
    if (node->is_releasing) {
        ps_node_go_on_releasing(node);
    } else if (!ps_is_ok(&st)) {
        give_up(node, st);
    } else {
        ps_node_changed(node);
        ps_node_answer_waiting(node);
    }
}

void ps_attempt_begin(ps_node *node, const char *coordinator)
{
    ps_beginning *b = ps_xcalloc(1, sizeof *b);

    assert(node->beginning == NULL && node->log == NULL);
    snprintf(node->folder, sizeof node->folder, "%s/sessions/%s-%u", node->data_dir,
             node->agent.job_id, node->agent.attempt);
    *b = (ps_beginning){
        .task = {.run = make_files, .done = files_made},
        .node = node,
        .log_conf = {.tasks = node->log_tasks, .has_read = has_read_log, .arg = node},
    };
    memcpy(b->folder, node->folder, sizeof b->folder);
    snprintf(b->coordinator, sizeof b->coordinator, "%s", coordinator);
    node->beginning = b;
    ps_tasks_submit(node->log_tasks, NULL, &b->task);
}

/* --- end --------------------------------------------------------------------- */

typedef struct removal {
    ps_task task;
    ps_node *node;
    char folder[sizeof((ps_node *)0)->folder];
    ps_status status;
} removal;

static void remove_files(ps_task *task)
{
    removal *r = PS_CONTAINER_OF(task, removal, task);

    r->status = ps_dir_remove(r->folder);
}

static void files_removed(ps_task *task)
{
    removal *r = PS_CONTAINER_OF(task, removal, task);
    ps_node *node = r->node;

    if (!ps_is_ok(&r->status)) {
        ps_log(PS_LOG_WARN, "node", "remove the attempt's files: %s", r->status.text);
    }
    free(r);
    ps_node_become_idle(node);
}

void ps_attempt_remove(ps_node *node)
{
    removal *r = ps_xcalloc(1, sizeof *r);

    *r = (removal){.task = {.run = remove_files, .done = files_removed}, .node = node};
    memcpy(r->folder, node->folder, sizeof r->folder);
    /* log_tasks has one thread: it closes the log's file, then removes the folder with it */
    ps_joblog_close(node->log);
    node->log = NULL;
    ps_tasks_submit(node->log_tasks, NULL, &r->task);
}
