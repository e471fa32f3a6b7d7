/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - calls the functions of a registry's kind. */
#include "services/coordinator/io/registry.h"

void ps_registry_close(ps_registry *r)
{
    if (r) {
        r->type->close(r);
    }
}

ps_status ps_registry_open_reader(ps_registry *of, ps_registry **out)
{
    return of->type->open_reader(of, out);
}

const ps_database *ps_registry_database(const ps_registry *r)
{
    return r->database;
}

size_t ps_registry_changes_max(const ps_registry *r)
{
    return r->type->changes_max;
}

ps_status ps_registry_begin(ps_registry *r)
{
    return r->type->begin(r);
}

ps_status ps_registry_end(ps_registry *r, const ps_status *st)
{
    return r->type->end(r, st);
}

void ps_registry_relax(ps_registry *r, bool relaxed)
{
    r->type->relax(r, relaxed);
}

void ps_registry_avoid(ps_registry *r, bool (*is_taken)(void *arg, const char *job_id), void *arg)
{
    r->type->avoid(r, is_taken, arg);
}

ps_status ps_registry_add(ps_registry *r, ps_record *record, const char *title,
                          const char *request_id, const char *content)
{
    return r->type->add(r, record, title, request_id, content);
}

ps_status ps_registry_find_request(ps_registry *r, const char *request_id, char *job_id, size_t cap,
                                   char content[PS_CONTENT_HASH_BYTES])
{
    return r->type->find_request(r, request_id, job_id, cap, content);
}

ps_status ps_registry_put(ps_registry *r, ps_record *record, int64_t wall_us)
{
    return r->type->put(r, record, wall_us);
}

ps_status ps_registry_save(ps_registry *r, const ps_record *record,
                           const Psgd__V1__WatchJobResponse *event)
{
    return r->type->save(r, record, event);
}

ps_status ps_registry_load(ps_registry *r, const char *job_id, ps_record *out)
{
    return r->type->load(r, job_id, out);
}

ps_status ps_registry_remove(ps_registry *r, const char *job_id)
{
    return r->type->remove(r, job_id);
}

ps_status ps_registry_each(ps_registry *r, uint64_t before, uint32_t states, ps_registry_fn *fn,
                           void *arg)
{
    return r->type->each(r, before, states, fn, arg);
}

ps_status ps_registry_next_event(ps_registry *r, uint64_t number, uint64_t sequence,
                                 Psgd__V1__WatchJobResponse **out)
{
    return r->type->next_event(r, number, sequence, out);
}
