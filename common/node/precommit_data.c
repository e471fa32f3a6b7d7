/* SPDX-License-Identifier: Apache-2.0 */
/* precommit_data.c - the packages of PreCommit with data sets: finds the set in the cache, or
 * receives it.
 *
 * Tasks write the received bytes; the stream is not read meanwhile. If the attempt ends before
 * the set is complete, a task removes what was written.
 */
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/node/packages.h"
#include "common/node/precommit_impl.h"

#include <stdlib.h>
#include <string.h>

struct ps_storing {
    ps_task task;
    ps_node *node;
    ps_precommit *pc; /* NULL: the PreCommit has ended */
    bool is_running;  /* a task runs; the members below then belong to its thread */
    ps_data_wanted wanted;
    ps_data_files files; /* the files to receive: those of the package from number `from` on */
    uint32_t from;
    ps_data_store store;
    uint8_t *piece; /* (PS_PAYLOAD_MAX): n bytes of file `file` at `offset` */
    size_t n;
    uint32_t file;
    uint64_t offset;
    bool is_complete; /* the piece was the last of its file */
    ps_status status;
    const char *reason; /* ps_error.reason of a failure; NULL: none */
};

static void abandon(ps_task *task)
{
    ps_data_store_abandon(&PS_CONTAINER_OF(task, ps_storing, task)->store);
}

static void abandoned(ps_task *task)
{
    ps_storing *s = PS_CONTAINER_OF(task, ps_storing, task);
    ps_node *node = s->node;

    ps_data_files_free(&s->files);
    free(s->piece);
    free(s);
    ps_node_gone(node);
}

static void submit(ps_storing *s, void (*run)(ps_task *task), void (*done)(ps_task *task))
{
    s->task.run = run;
    s->task.done = done;
    s->is_running = true;
    ps_tasks_submit(s->node->tasks, NULL, &s->task);
}

void ps_precommit_leave_data(ps_precommit *pc)
{
    ps_storing *s = pc->storing;

    pc->storing = NULL;
    if (s != NULL) {
        s->pc = NULL;
        if (!s->is_running) {
            submit(s, abandon, abandoned);
        }
    }
}

/* Notes that a task has ended. Returns whether the PreCommit goes on: a failed task fails it. If
 * the PreCommit has ended meanwhile, starts a task that removes what was written. */
static bool goes_on(ps_storing *s)
{
    s->is_running = false;
    if (s->pc == NULL) {
        submit(s, abandon, abandoned);
        return false;
    }
    if (!ps_is_ok(&s->status)) {
        ps_precommit_fail(s->pc, s->status, s->reason);
        return false;
    }
    return true;
}

/* --- the beginning ------------------------------------------------------------- */

static void open_store(ps_task *task)
{
    ps_storing *s = PS_CONTAINER_OF(task, ps_storing, task);
    char folder[512];
    uint64_t bytes = 0;

    for (size_t i = 0; i < s->files.count; i++) {
        bytes += s->files.at[i].size;
    }
    s->reason = "NO_DATA_ROOM";
    s->status = ps_datasets_make_room(s->node->datasets, &s->wanted, bytes);
    if (ps_is_ok(&s->status)) {
        s->reason = NULL;
        s->status = ps_datasets_folder(s->node->datasets, s->wanted.sha256, folder, sizeof folder);
    }
    if (ps_is_ok(&s->status)) {
        s->status = ps_data_store_open(&s->store, folder, &s->files);
    }
}

static void store_opened(ps_task *task)
{
    ps_storing *s = PS_CONTAINER_OF(task, ps_storing, task);

    if (goes_on(s)) {
        s->pc->expected = PS_PACKAGE_FILES;
        ps_precommit_acknowledge(s->pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA, true, s->from);
    }
}

/* Starts a task that makes room and a folder for the files, to receive them. With `has_own` the
 * node has the data files, so only those with what was learned from all data are received. */
static void start_storing(ps_precommit *pc, bool has_own)
{
    ps_storing *s = ps_xcalloc(1, sizeof *s);

    s->node = pc->node;
    s->node->alive++;
    s->pc = pc;
    s->wanted = pc->wanted;
    s->files = pc->files;
    pc->files = (ps_data_files){.count = 0};
    if (has_own) {
        s->from = (uint32_t)(s->files.count - s->files.learned);
        s->files.count = s->files.learned;
        memmove(s->files.at, s->files.at + s->from, s->files.count * sizeof *s->files.at);
    }
    s->piece = ps_xmalloc(PS_PAYLOAD_MAX);
    pc->storing = s;
    submit(s, open_store, store_opened);
}

static void log_share(const ps_data_share *share, const ps_dataset *data)
{
    ps_log(PS_LOG_INFO, "node",
           "data set loaded: %u training files with %u samples, of workers %u to %u of %u",
           ps_dataset_file_count(data), ps_dataset_count(data, PS_TRAIN), share->first,
           share->first + share->count - 1, share->of);
}

/* Handles the result of pc->request: the data set was looked up for the offer (is_offer), or loaded
 * after it was sent. */
static void data_arrived(void *arg, const ps_status *st, bool has_own, ps_dataset *data)
{
    ps_precommit *pc = arg;
    bool is_offer = pc->is_offer;

    pc->request = NULL;
    pc->is_offer = false;
    if (is_offer && st->code == PS_NOT_FOUND && pc->files.count > 0) {
        start_storing(pc, has_own);
        return;
    }
    if (!ps_is_ok(st)) {
        ps_precommit_fail(pc, ps_wrap(*st, "load the data set"), "BAD_DATA");
        return;
    }
    pc->session->data = data;
    if (pc->wanted.conf.share.of > 0) {
        log_share(&pc->wanted.conf.share, data);
    }
    if (is_offer) {
        ps_precommit_acknowledge(pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA, false, 0);
    } else if (pc->is_sealed) {
        ps_precommit_seal(pc);
    }
}

void ps_precommit_take_offer(ps_precommit *pc, const Psgd__V1__DataPackage *package)
{
    ps_error error;

    pc->expected = PS_PACKAGE_WEIGHTS;
    if (!ps_precommit_is_worker(pc)) { /* a server needs no data set */
        ps_precommit_acknowledge(pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA, false, 0);
        return;
    }
    if (!ps_package_data(package, pc->session, &pc->wanted, &pc->files, &error)) {
        ps_precommit_give_up(pc, &error);
        return;
    }
    pc->session->data = ps_datasets_cached(pc->node->datasets, &pc->wanted);
    if (pc->session->data != NULL) {
        ps_precommit_acknowledge(pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA, false, 0);
        return;
    }
    pc->is_offer = true;
    pc->request = ps_datasets_get(pc->node->datasets, &pc->wanted, data_arrived, pc);
}

/* --- pieces -------------------------------------------------------------------- */

static void write_piece(ps_task *task)
{
    ps_storing *s = PS_CONTAINER_OF(task, ps_storing, task);

    s->reason = "BAD_DATA";
    s->status = ps_data_store_add(&s->store, s->file, s->offset, s->piece, s->n, &s->is_complete);
    if (ps_is_ok(&s->status) && ps_data_store_has_all(&s->store)) {
        s->status = ps_data_store_commit(&s->store);
    }
}

/* Starts to load the complete set. */
static void load_received(ps_precommit *pc)
{
    ps_log_with(PS_LOG_INFO, "node",
                PS_LOG_FIELDS(PS_LOG_STR("data", pc->wanted.conf.source->name),
                              PS_LOG_STR("sha256", pc->wanted.sha256)),
                pc->storing->from == 0 ? "data set received" : "learned facts received");
    pc->expected = PS_PACKAGE_WEIGHTS;
    pc->request = ps_datasets_get(pc->node->datasets, &pc->wanted, data_arrived, pc);
}

static void piece_written(ps_task *task)
{
    ps_storing *s = PS_CONTAINER_OF(task, ps_storing, task);

    if (!goes_on(s)) {
        return;
    }
    if (ps_data_store_has_all(&s->store)) {
        load_received(s->pc);
    }
    if (s->is_complete) {
        ps_precommit_acknowledge(s->pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA_FILE, false,
                                 s->from + s->file);
    } else {
        ps_precommit_read(s->pc);
    }
}

void ps_precommit_take_data(ps_precommit *pc, const Psgd__V1__DataChunk *chunk, ps_payload *payload)
{
    ps_storing *s = pc->storing;
    const uint8_t *bytes;

    s->n = ps_payload_len(payload);
    if (s->n == 0) {
        ps_precommit_fail(pc, ps_fail(PS_INVALID_ARGUMENT, "a piece of a data file without bytes"),
                          "BAD_DATA");
        return;
    }
    bytes = ps_payload_view(payload, 0, s->n, s->piece);
    if (bytes != s->piece) {
        memcpy(s->piece, bytes, s->n);
    }
    s->file = chunk->file - s->from; /* below `from` this wraps, and ps_data_store_add refuses */
    s->offset = chunk->offset;
    submit(s, write_piece, piece_written);
}
