/* SPDX-License-Identifier: Apache-2.0 */
#include "common/explain/explain_ranks.h"

#include "common/base/files.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SUMMARY_MAX = 16 << 20 };

ps_explain_rank ps_explain_rank_of(const Psgd__V1__WorkerProgress *p, const char *node_id)
{
    ps_explain_rank rank = {.number = p->rank,
                            .steps = p->timed_steps,
                            .seconds = p->seconds_training,
                            .compute_s = p->seconds_computing,
                            .wait_s = p->seconds_waiting,
                            .read_s = p->seconds_reading,
                            .disk_s = p->seconds_disk,
                            .bytes_up = (double)p->bytes_up,
                            .bytes_down = (double)p->bytes_down,
                            .float32_up = (double)p->bytes_up_float32,
                            .float32_down = (double)p->bytes_down_float32};

    snprintf(rank.node_id, sizeof rank.node_id, "%s", node_id);
    return rank;
}

static bool is_amount(double value)
{
    return isfinite(value) && value >= 0;
}

/* Returns whether the rank's measurements are usable by ps_explain. They come from nodes, so each
 * may be any number. */
static bool is_measured(const ps_explain_rank *r)
{
    return r->steps > 0 && is_amount(r->seconds) && r->seconds > 0 && is_amount(r->compute_s) &&
           is_amount(r->wait_s) && is_amount(r->read_s) && is_amount(r->disk_s) &&
           is_amount(r->bytes_up) && is_amount(r->bytes_down) && is_amount(r->float32_up) &&
           is_amount(r->float32_down);
}

ps_status ps_explain_ranks_since(ps_explain_rank *ranks, const ps_explain_rank *before, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ps_explain_rank *now = &ranks[i];
        const ps_explain_rank *then = &before[i];

        now->steps = now->steps > then->steps ? now->steps - then->steps : 0;
        now->seconds -= then->seconds;
        now->compute_s -= then->compute_s;
        now->wait_s -= then->wait_s;
        now->read_s -= then->read_s;
        now->disk_s -= then->disk_s;
        now->bytes_up -= then->bytes_up;
        now->bytes_down -= then->bytes_down;
        now->float32_up -= then->float32_up;
        now->float32_down -= then->float32_down;
        if (!is_measured(now)) {
            return ps_fail(PS_DEADLINE_EXCEEDED,
                           "worker %u has reported no step meanwhile: measure for longer; psgd get "
                           "says for whom the job waits",
                           now->number);
        }
    }
    return ps_ok();
}

static double number_of(const json_t *from, const char *member)
{
    const json_t *value = json_object_get(from, member);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static ps_explain_rank read_rank(const json_t *from, const char *node_id)
{
    double steps = number_of(from, "timed_steps"), number = number_of(from, "rank");
    ps_explain_rank rank = {.number = number >= 0 && number < 1e6 ? (uint32_t)number : 0,
                            .steps = steps >= 1 && steps < 0x1p53 ? (uint64_t)steps : 0,
                            .seconds = number_of(from, "seconds_training"),
                            .compute_s = number_of(from, "seconds_computing"),
                            .wait_s = number_of(from, "seconds_waiting"),
                            .read_s = number_of(from, "seconds_reading"),
                            .disk_s = number_of(from, "seconds_disk"),
                            .bytes_up = number_of(from, "bytes_up"),
                            .bytes_down = number_of(from, "bytes_down"),
                            .float32_up = number_of(from, "bytes_up_float32"),
                            .float32_down = number_of(from, "bytes_down_float32")};

    snprintf(rank.node_id, sizeof rank.node_id, "%s", node_id != NULL ? node_id : "");
    return rank;
}

static int by_number(const void *a, const void *b)
{
    const ps_explain_rank *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

ps_status ps_explain_ranks_read(const json_t *summary, ps_explain_rank *ranks, size_t *n)
{
    const json_t *node, *one;
    size_t i, k;

    *n = 0;
    json_array_foreach(json_object_get(summary, "nodes"), i, node)
    {
        const char *node_id = json_string_value(json_object_get(node, "node_id"));

        json_array_foreach(json_object_get(node, "ranks"), k, one)
        {
            ps_explain_rank rank = read_rank(one, node_id);

            if (!is_measured(&rank)) {
                return ps_fail(PS_NOT_FOUND,
                               "worker %u: summary.json does not say where its time went: it has "
                               "taken no step, or by an older psgd",
                               rank.number);
            }
            if (*n == PS_EXPLAIN_RANKS_MAX) {
                return ps_fail(PS_OUT_OF_RANGE, "summary.json has more than %d workers",
                               PS_EXPLAIN_RANKS_MAX);
            }
            ranks[(*n)++] = rank;
        }
    }
    qsort(ranks, *n, sizeof *ranks, by_number);
    return *n > 0 ? ps_ok()
                  : ps_fail(PS_NOT_FOUND, "summary.json has no worker that has taken a step");
}

ps_status ps_explain_ranks_read_folder(const char *folder, ps_explain_rank *ranks, size_t *n)
{
    char path[PATH_MAX], *text = NULL;
    ps_status st = ps_path_join(path, sizeof path, folder, "summary.json");
    json_t *summary = NULL;
    size_t bytes = 0;

    *n = 0;
    if (ps_is_ok(&st)) {
        st = ps_file_read(path, SUMMARY_MAX, &text, &bytes);
    }
    if (ps_is_ok(&st)) {
        summary = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
        st = ps_explain_ranks_read(summary, ranks, n);
    }
    json_decref(summary);
    free(text);
    return st;
}
