/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator_life.c - see coordinator_life.h. */
#include "services/coordinator/coordinator_life.h"
#include "services/coordinator/coordinator_metrics.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/io/checkpoint_place.h"
#include "services/coordinator/io/registry_etcd.h"
#include "services/coordinator/io/registry_sqlite.h"
#include "services/coordinator/job_queue.h"
#include "services/coordinator/node_probe.h"
#include "services/coordinator/startup.h"
#include "services/coordinator/trackers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* While so many tasks wait in a queue, ps_may_wait adds no call of a client to it.
     * call_shares.h has lower limits: for the calls of one address, and for all calls except the
     * first of each address. */
    CALLS_MAX = 2 * PS_SHARES_MAX,
    CHECK_THREADS = 2,
    LOOK_THREADS = 2,
    PACKAGE_THREADS = 3,
    SEND_THREADS = 2,
    KNOCK_THREADS = 4,
    FILE_THREADS = 4
};

static const int64_t sweep_us = 1000000;

/* --- timers --------------------------------------------------------------------- */

static void on_soon(ps_event *event, bool ok)
{
    if (ok) {
        ps_queue_look(PS_CONTAINER_OF(event, ps_coordinator, soon.event));
    }
}

/* Tries again to store the jobs whose last change could not be stored, unless a change of the job
 * is being stored now. */
static void save_again(ps_coordinator *c)
{
    for (ps_live *job = c->jobs.first; job && c->jobs.board.unsaved > 0; job = job->next) {
        if (job->is_unsaved && job->writes == 0) {
            ps_live_save(job);
        }
    }
}

static void look_at_room(ps_task *task)
{
    ps_coordinator *c = PS_CONTAINER_OF(task, ps_coordinator, room_task);

    ps_room_look(&c->room);
    if (c->checkpoint_dir != NULL) {
        ps_room_look(&c->checkpoint_room);
    }
}

static void room_seen(ps_task *task)
{
    PS_CONTAINER_OF(task, ps_coordinator, room_task)->is_looking = false;
}

/* Starts the task that reads the free space of the disks, unless it is still running: a disk may
 * hang for a long time. */
static void start_look(ps_coordinator *c)
{
    if (!c->is_looking) {
        c->is_looking = true;
        c->room_task = (ps_task){.run = look_at_room, .done = room_seen};
        ps_tasks_submit(c->tasks, NULL, &c->room_task);
    }
}

static void on_sweep(ps_event *event, bool ok)
{
    ps_coordinator *c = PS_CONTAINER_OF(event, ps_coordinator, sweep.event);

    if (!ok) {
        return;
    }
    ps_nodes_forget(&c->nodes, ps_coordinator_now_us(c));
    ps_nodes_expel_revoked(c);
    ps_reclaims_check(c);
    ps_probe_nodes(c);
    start_look(c);
    save_again(c);
    ps_queue_look(c);
    ps_loop_after(c->loop, &c->sweep, sweep_us);
}

static void on_pulse(ps_event *event, bool ok)
{
    ps_coordinator *c = PS_CONTAINER_OF(event, ps_coordinator, pulse.event);

    if (ok) {
        ps_coordinator_now_us(c);
        ps_loop_after(c->loop, &c->pulse, PS_AWAKE_PULSE_US);
    }
}

/* --- life ---------------------------------------------------------------------- */

static ps_status start_threads(ps_coordinator *c)
{
    const struct {
        ps_tasks **out;
        unsigned threads;
    } kinds[] = {{&c->reads, 1},
                 {&c->checks, CHECK_THREADS},
                 {&c->looks, LOOK_THREADS},
                 {&c->packages, PACKAGE_THREADS},
                 {&c->sends, SEND_THREADS},
                 {&c->knocks, KNOCK_THREADS},
                 {&c->tasks, FILE_THREADS}};
    ps_status st = ps_registry_open_reader(c->registry, &c->reader);

    if (ps_is_ok(&st)) {
        st = ps_writer_create(c->loop, c->registry, &c->writer);
        c->store = (ps_job_store){.writer = c->writer, .exit_at = c->conf.exit_at};
    }
    if (ps_is_ok(&st)) {
        st = ps_audit_create(c->loop, c->conf.data_dir, &c->audit);
    }
    for (size_t i = 0; ps_is_ok(&st) && i < sizeof kinds / sizeof kinds[0]; i++) {
        st = ps_tasks_create(c->loop, kinds[i].threads, CALLS_MAX, kinds[i].out);
    }
    return st;
}

static void stop_threads(ps_coordinator *c)
{
    ps_tasks **const kinds[] = {&c->tasks, &c->knocks, &c->sends, &c->packages,
                                &c->looks, &c->checks, &c->reads};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        ps_tasks_destroy(*kinds[i]);
        *kinds[i] = NULL;
    }
    ps_audit_stop(c->audit);
    ps_writer_destroy(c->writer);
    c->writer = c->store.writer = NULL;
    c->jobs.board.is_closed = true;
}

/* Registers the observers of jobs, in the order in which they are called. */
static void observe(ps_coordinator *c)
{
    ps_jobs_observe(&c->jobs.board, ps_trackers_changed, &c->trackers);
    ps_jobs_observe(&c->jobs.board, ps_job_store_changed, &c->store);
    ps_jobs_observe(&c->jobs.board, ps_job_log_changed, NULL);
    ps_jobs_observe(&c->jobs.board, ps_watchers_changed, c);
    ps_jobs_observe(&c->jobs.board, ps_reclaims_changed, c);
    ps_jobs_observe(&c->jobs.board, ps_queue_changed, c);
    ps_jobs_observe(&c->jobs.board, ps_metrics_job_changed, c);
}

/* Writes the path of the file `stopped`, which a coordinator leaves when it ends in order. */
static void name_stopped(const ps_coordinator *c, char *path, size_t cap)
{
    snprintf(path, cap, "%s/stopped", c->conf.data_dir);
}

/* Returns whether the earlier process ended in order: it left the file `stopped`. Removes the file
 * at once, because this process may crash later. */
static bool take_stopped(const ps_coordinator *c)
{
    char path[900];

    name_stopped(c, path, sizeof path);
    return unlink(path) == 0;
}

static void leave_stopped(const ps_coordinator *c)
{
    char path[900];
    ps_status st;

    name_stopped(c, path, sizeof path);
    st = ps_file_write(path, "", 0);
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "main", "%s; jobs that were being started count as interrupted",
               st.text);
    }
}

/* Loads the jobs from the registry, then starts all threads: those that read and change the
 * registry, and those of tasks. */
static ps_status load(ps_coordinator *c)
{
    ps_status st;

    c->was_stopped = take_stopped(c);
    st = ps_startup(c);
    return ps_is_ok(&st) ? start_threads(c) : st;
}

/* Opens the folder of --checkpoint-path, if it is given. Locks it, unless several coordinators
 * share it (etcd). */
static ps_status open_checkpoint_path(ps_coordinator *c)
{
    const ps_coordinator_conf *conf = &c->conf;
    ps_status st;

    if (conf->checkpoint_path == NULL || conf->checkpoint_path[0] == '\0') {
        return ps_ok();
    }
    st = ps_checkpoint_place_open(conf->checkpoint_path, conf->data_dir, &c->checkpoint_dir,
                                  conf->etcd ? NULL : &c->checkpoint_lock);
    if (ps_is_ok(&st)) {
        ps_room_init(&c->checkpoint_room, c->checkpoint_dir, true, conf->min_free_bytes);
    }
    return st;
}

ps_status ps_coordinator_create(ps_loop *loop, const ps_coordinator_conf *conf,
                                ps_coordinator **out)
{
    ps_coordinator *c = ps_xcalloc(1, sizeof *c);
    ps_status st;

    c->loop = loop;
    c->conf = *conf;
    c->start_wall_us = ps_clock_wall_us();
    ps_awake_init(&c->awake, ps_clock_us());
    c->sweep.event.fire = on_sweep;
    c->soon.event.fire = on_soon;
    c->pulse.event.fire = on_pulse;
    ps_jobs_init(&c->jobs, ps_clock_us);
    observe(c);
    ps_nodes_init(&c->nodes, conf->heartbeat_us, conf->lease_us);
    ps_room_init(&c->room, conf->data_dir, false, conf->min_free_bytes);
    c->checkpoint_lock = -1;
    st = conf->quotas && conf->quotas[0] != '\0'
             ? ps_wrap(ps_quotas_create(conf->quotas, &c->quotas), "--quotas")
             : ps_ok();
    if (ps_is_ok(&st)) {
        st = ps_trackers_create(c, conf->trackers, &c->trackers);
    }
    if (ps_is_ok(&st)) {
        st = conf->etcd ? ps_dir_make(conf->data_dir)
                        : ps_registry_open_sqlite(conf->data_dir, &c->registry);
    }
    if (ps_is_ok(&st)) {
        st = open_checkpoint_path(c);
    }
    if (ps_is_ok(&st) && !conf->etcd) {
        st = load(c);
    }
    if (!ps_is_ok(&st)) {
        ps_coordinator_destroy(c);
        return st;
    }
    *out = c;
    return ps_ok();
}

/* Adopts the attempts that an earlier process left, and starts the timers `sweep` and `pulse`.
 * `sweep` starts queued jobs. */
static void begin(ps_coordinator *c)
{
    ps_live *next;

    c->is_open = true;
    for (ps_live *job = c->jobs.first; job; job = next) {
        next = job->next;
        if (job->record.job->state == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED) {
            continue;
        }
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", job->record.job->id)),
                    "taken up again in %s", ps_state_name(job->record.job->state));
        ps_attempt_adopt(c, job);
    }
    ps_trackers_begin(c->trackers);
    ps_loop_after(c->loop, &c->sweep, 0);
    ps_loop_after(c->loop, &c->pulse, PS_AWAKE_PULSE_US);
}

/* --- leadership ---------------------------------------------------------------- */

static void lost(void *arg, const char *why)
{
    const ps_coordinator *c = arg;

    c->conf.lost(c->conf.lost_arg, why);
}

static int64_t lasts_until_us(void *arg)
{
    return ps_leadership_lasts_until_us(((ps_coordinator *)arg)->leadership);
}

static void check_leadership(void *arg)
{
    ps_leadership_check(((ps_coordinator *)arg)->leadership);
}

/* Handles the election of this coordinator: reads the rest of the registry from etcd and goes on
 * with its jobs. If that fails, the process starts again as after a lost leadership. */
static void elected(void *arg)
{
    ps_coordinator *c = arg;
    ps_registry_etcd_conf conf = {.etcd = c->conf.etcd,
                                  .temp_dir = c->conf.temp_dir,
                                  .leadership = ps_leadership_revision(c->leadership),
                                  .lasts_until_us = lasts_until_us,
                                  .lost = lost,
                                  .arg = c};
    ps_status st;

    if (c->is_stopping) {
        return;
    }
    ps_log(PS_LOG_INFO, "leader", "leads from now on, by revision %lld of etcd",
           (long long)conf.leadership);
    ps_loop_check(c->loop, check_leadership, c);
    c->registry = ps_registry_ahead_take(c->ahead);
    c->ahead = NULL;
    st = ps_registry_etcd_lead(c->registry, &conf);
    if (ps_is_ok(&st)) {
        st = load(c);
    }
    if (!ps_is_ok(&st)) {
        lost(c, st.text);
        return;
    }
    begin(c);
}

bool ps_coordinator_admits(void *state, ps_call *call)
{
    ps_coordinator *c = state;
    char leader[PS_LEADER_ADDRESS_MAX];
    ps_status why;
    ps_error error;

    if (c->is_open || !c->leadership) {
        return true;
    }
    ps_leadership_leader(c->leadership, leader, &why);
    if (strcmp(leader, c->address) == 0) {
        ps_error_init(&error, ps_fail(PS_UNAVAILABLE, "%s begins to lead", c->address),
                      "NOT_LEADER");
        ps_error_meta(&error, "leader", "%s", leader); /* so that the caller stays here */
    } else if (leader[0] != '\0') {
        ps_error_init(&error, ps_fail(PS_UNAVAILABLE, "%s follows; %s leads", c->address, leader),
                      "NOT_LEADER");
        ps_error_meta(&error, "leader", "%s", leader);
    } else {
        ps_error_init(&error,
                      ps_is_ok(&why)
                          ? ps_fail(PS_UNAVAILABLE, "no coordinator leads just now")
                          : ps_fail(PS_UNAVAILABLE, "no coordinator leads: %s", why.text),
                      "NOT_LEADER");
    }
    ps_call_fail_error(call, &error);
    return false;
}

ps_status ps_coordinator_open(ps_coordinator *c, const char *address)
{
    ps_leadership_conf conf = {.etcd = c->conf.etcd,
                               .address = c->address,
                               .ttl_s = c->conf.leader_lease_us / 1000000,
                               .loop = c->loop,
                               .elected = elected,
                               .lost = lost,
                               .arg = c};

    snprintf(c->address, sizeof c->address, "%s", address);
    if (c->conf.etcd) {
        ps_status st = ps_registry_ahead_start(c->conf.etcd, c->conf.temp_dir, &c->ahead);

        return ps_is_ok(&st) ? ps_leadership_start(&conf, &c->leadership) : st;
    }
    begin(c);
    return ps_ok();
}

/* The checkpoints that are taken before the coordinator stops. */
typedef struct last_checkpoints {
    ps_loop *loop;
    ps_event *done;
    size_t left;
} last_checkpoints;

typedef struct last_checkpoint {
    ps_checkpoint_wait wait;
    last_checkpoints *all;
    char job_id[PS_COORDINATOR_ID_MAX];
} last_checkpoint;

static void count_last(last_checkpoints *all)
{
    if (--all->left == 0) {
        ps_loop_post(all->loop, all->done);
        free(all);
    }
}

static void last_is_told(ps_checkpoint_wait *wait, const ps_status *result, uint64_t step)
{
    last_checkpoint *last = PS_CONTAINER_OF(wait, last_checkpoint, wait);

    (void)step; /* the driver has logged the step of a stored checkpoint */
    if (!ps_is_ok(result)) {
        ps_log_with(PS_LOG_WARN, "job", PS_LOG_FIELDS(PS_LOG_STR("job", last->job_id)),
                    "no checkpoint before the coordinator stops: %s", result->text);
    }
    count_last(last->all);
    free(last);
}

void ps_coordinator_last_checkpoints(ps_coordinator *c, int64_t within_us, ps_event *done)
{
    last_checkpoints *all = ps_xcalloc(1, sizeof *all);
    ps_live *next;

    *all = (last_checkpoints){.loop = c->loop, .done = done, .left = 1};
    c->is_stopping = true;
    for (ps_live *job = c->jobs.active; job; job = next) {
        last_checkpoint *last;

        next = job->active_next;
        if (!ps_attempt_has_checkpoints(job->attempt)) {
            continue;
        }
        last = ps_xcalloc(1, sizeof *last);
        last->wait.told = last_is_told;
        last->all = all;
        snprintf(last->job_id, sizeof last->job_id, "%s", job->record.job->id);
        all->left++;
        ps_attempt_await_checkpoint(job->attempt, within_us, &last->wait);
    }
    count_last(all);
}

void ps_coordinator_drain(ps_coordinator *c)
{
    c->is_stopping = true;
    ps_loop_cancel(c->loop, &c->sweep);
    ps_loop_cancel(c->loop, &c->pulse);
    ps_loop_cancel(c->loop, &c->soon);
    ps_watchers_end(c);
    ps_reclaims_end(c);
    ps_explaining_end(c);
    ps_probes_end(c);
    while (c->jobs.active) {
        ps_attempt_drop(c->jobs.active->attempt);
    }
}

void ps_coordinator_stop(ps_coordinator *c)
{
    ps_trackers_stop(c->trackers);
    stop_threads(c);
    if (c->is_open) { /* a follower has started no job, so it leaves no file `stopped` */
        leave_stopped(c);
    }
}

void ps_coordinator_destroy(ps_coordinator *c)
{
    if (!c) {
        return;
    }
    assert(c->attempts == 0); /* an attempt's calls use the coordinator */
    ps_trackers_destroy(c->trackers);
    stop_threads(c);
    ps_leadership_stop(c->leadership);
    ps_registry_close(ps_registry_ahead_take(c->ahead));
    ps_jobs_fini(&c->jobs);
    ps_nodes_fini(&c->nodes);
    ps_room_fini(&c->room);
    if (c->checkpoint_dir != NULL) {
        ps_room_fini(&c->checkpoint_room);
    }
    if (c->checkpoint_lock >= 0) {
        close(c->checkpoint_lock);
    }
    free(c->checkpoint_dir);
    ps_audit_destroy(c->audit);
    ps_quotas_destroy(c->quotas);
    ps_registry_close(c->reader);
    ps_registry_close(c->registry);
    free(c);
}
