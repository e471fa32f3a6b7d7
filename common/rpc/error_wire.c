/* SPDX-License-Identifier: Apache-2.0 */
/* error_wire.c - see error_wire.h. */
#include "common/rpc/error_wire.h"

#include "common/base/utf8.h"
#include "common/rpc/wire.h"

#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TYPE_URL "type.googleapis.com/"
#define DOMAIN "psgd.v1"
#define DROPPED "violations_dropped"

typedef Google__Rpc__ErrorInfo error_info;
typedef Google__Rpc__ErrorInfo__MetadataEntry meta_entry;
typedef Google__Rpc__BadRequest bad_request;
typedef Google__Rpc__BadRequest__FieldViolation field_violation;
typedef Google__Protobuf__Any any;

enum { DETAILS_MAX = 2, SCRUB_BYTES = sizeof(ps_violation) };

/* Room for a text in valid UTF-8, which every protobuf implementation accepts. A text may have
 * other bytes: if it was cut within a character, or has the name of a file. scrub() replaces each
 * of them by '?'. */
typedef struct scrubbed {
    char text[SCRUB_BYTES];
} scrubbed;

static char *scrub(scrubbed *out, const char *text)
{
    size_t n = strlen(text), i = 0;

    assert(n < sizeof out->text);
    memcpy(out->text, text, n + 1);
    while (i < n) {
        size_t len = ps_utf8_length(out->text + i, n - i);

        if (len == 0) {
            out->text[i] = '?';
            len = 1;
        }
        i += len;
    }
    return out->text;
}

/* A google.rpc.Status under construction, with all memory that its pointers refer to. */
typedef struct draft {
    error_info info;
    meta_entry meta[PS_ERROR_META_MAX + 1], *meta_at[PS_ERROR_META_MAX + 1];
    char dropped[24];
    bad_request bad;
    field_violation violations[PS_ERROR_VIOLATIONS_MAX], *violations_at[PS_ERROR_VIOLATIONS_MAX];
    any details[DETAILS_MAX], *details_at[DETAILS_MAX];
    uint8_t packed[DETAILS_MAX][PS_ERROR_TRAILER_MAX];
    Google__Rpc__Status status;
    scrubbed message, reason, keys[PS_ERROR_META_MAX], values[PS_ERROR_META_MAX],
        fields[PS_ERROR_VIOLATIONS_MAX], texts[PS_ERROR_VIOLATIONS_MAX];
} draft;

static void draft_info(draft *d, const ps_error *e)
{
    google__rpc__error_info__init(&d->info);
    d->info.reason = scrub(&d->reason, e->reason);
    d->info.domain = (char *)DOMAIN;
    d->info.metadata = d->meta_at;
    d->info.n_metadata = e->meta_count;
    for (size_t i = 0; i < e->meta_count; i++) {
        d->meta_at[i] = &d->meta[i];
        google__rpc__error_info__metadata_entry__init(&d->meta[i]);
        d->meta[i].key = scrub(&d->keys[i], e->meta[i].key);
        d->meta[i].value = scrub(&d->values[i], e->meta[i].value);
    }
}

static void draft_dropped(draft *d, const ps_error *e, size_t dropped)
{
    meta_entry *m = &d->meta[e->meta_count];

    if (dropped == 0) {
        return;
    }
    snprintf(d->dropped, sizeof d->dropped, "%zu", dropped);
    google__rpc__error_info__metadata_entry__init(m);
    m->key = (char *)DROPPED;
    m->value = d->dropped;
    d->meta_at[e->meta_count] = m;
    d->info.n_metadata = e->meta_count + 1;
}

static void draft_violations(draft *d, const ps_error *e)
{
    google__rpc__bad_request__init(&d->bad);
    d->bad.field_violations = d->violations_at;
    d->bad.n_field_violations = e->violation_count;
    for (size_t i = 0; i < e->violation_count; i++) {
        d->violations_at[i] = &d->violations[i];
        google__rpc__bad_request__field_violation__init(&d->violations[i]);
        d->violations[i].field = scrub(&d->fields[i], e->violations[i].field);
        d->violations[i].description = scrub(&d->texts[i], e->violations[i].text);
    }
}

static void add_detail(draft *d, const ProtobufCMessage *message, const char *type_url)
{
    size_t i = d->status.n_details++, len = protobuf_c_message_get_packed_size(message);

    google__protobuf__any__init(&d->details[i]);
    d->details_at[i] = &d->details[i];
    d->details[i].type_url = (char *)type_url;
    d->details[i].value.len = len;
    if (len <= sizeof d->packed[i]) {
        d->details[i].value.data = d->packed[i];
        protobuf_c_message_pack(message, d->packed[i]);
    }
}

/* Assembles the message with the first `violation_count` violations; the others are counted in its
 * metadata as dropped. Returns its packed size in bytes, or 0 if it is larger than
 * PS_ERROR_TRAILER_MAX. */
static size_t assemble(draft *d, const ps_error *e, size_t violation_count)
{
    size_t len;

    draft_dropped(d, e, e->violations_dropped + e->violation_count - violation_count);
    d->status.n_details = 0;
    d->status.details = d->details_at;
    add_detail(d, &d->info.base, TYPE_URL "google.rpc.ErrorInfo");
    if (violation_count != 0) {
        d->bad.n_field_violations = violation_count;
        add_detail(d, &d->bad.base, TYPE_URL "google.rpc.BadRequest");
    }
    for (size_t i = 0; i < d->status.n_details; i++) {
        if (d->details[i].value.len > sizeof d->packed[i]) {
            return 0;
        }
    }
    len = google__rpc__status__get_packed_size(&d->status);
    return len <= PS_ERROR_TRAILER_MAX ? len : 0;
}

grpc_slice ps_error_pack(const ps_error *e)
{
    draft *d = malloc(sizeof *d);
    size_t n = e->violation_count, len;
    grpc_slice slice;

    if (d == NULL) {
        abort();
    }
    google__rpc__status__init(&d->status);
    d->status.code = (int32_t)e->status.code;
    d->status.message = scrub(&d->message, e->status.text);
    draft_info(d, e);
    draft_violations(d, e);
    while ((len = assemble(d, e, n)) == 0) {
        assert(n > 0); /* status, reason and metadata alone always fit */
        n--;
    }
    slice = grpc_slice_malloc(len);
    google__rpc__status__pack(&d->status, GRPC_SLICE_START_PTR(slice));
    free(d);
    return slice;
}

/* --- receiving ------------------------------------------------------------- */

static void *arena_alloc(void *arena, size_t size)
{
    return ps_arena_alloc(arena, size);
}

static void arena_free(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

static const void *unpack(ps_arena *arena, const ProtobufCMessageDescriptor *type,
                          const uint8_t *bytes, size_t n)
{
    ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
    ps_status st = ps_wire_check(type, bytes, n);

    return ps_is_ok(&st) ? protobuf_c_message_unpack(type, &allocator, n, bytes) : NULL;
}

static void read_info(ps_error *e, const error_info *info)
{
    if (info->reason[0] != '\0') {
        snprintf(e->reason, sizeof e->reason, "%s", info->reason);
    }
    for (size_t i = 0; i < info->n_metadata; i++) {
        const meta_entry *m = info->metadata[i];

        if (strcmp(m->key, DROPPED) == 0) {
            e->violations_dropped += strtoul(m->value, NULL, 10);
        } else {
            ps_error_meta(e, m->key, "%s", m->value);
        }
    }
}

static void read_bad_request(ps_error *e, const bad_request *bad)
{
    for (size_t i = 0; i < bad->n_field_violations; i++) {
        const field_violation *v = bad->field_violations[i];

        ps_error_violate(e, v->field, "%s", v->description);
    }
}

void ps_error_unpack(ps_error *e, const uint8_t *bytes, size_t n)
{
    const Google__Rpc__Status *status;
    ps_arena arena;

    ps_arena_init(&arena, PS_WIRE_ARENA_RATIO * n + PS_WIRE_ARENA_EXTRA);
    status = unpack(&arena, &google__rpc__status__descriptor, bytes, n);
    for (size_t i = 0; status != NULL && i < status->n_details; i++) {
        const any *a = status->details[i];
        const void *detail;

        if (strcmp(a->type_url, TYPE_URL "google.rpc.ErrorInfo") == 0) {
            detail =
                unpack(&arena, &google__rpc__error_info__descriptor, a->value.data, a->value.len);
            if (detail != NULL) {
                read_info(e, detail);
            }
        } else if (strcmp(a->type_url, TYPE_URL "google.rpc.BadRequest") == 0) {
            detail =
                unpack(&arena, &google__rpc__bad_request__descriptor, a->value.data, a->value.len);
            if (detail != NULL) {
                read_bad_request(e, detail);
            }
        }
    }
    ps_arena_fini(&arena);
}
