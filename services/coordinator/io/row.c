/* SPDX-License-Identifier: Apache-2.0 */
/* row.c - converts a job to a row of jobs.db and back. */
#include "services/coordinator/io/row.h"

#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/rpc/wire.h"
#include "services/coordinator/domain/job_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Order of the columns in PS_ROW_COLUMNS. */
enum { NUMBER, ID, STATE, OUTCOME, SEQUENCE, SPEC, DETAIL, SPEC_SUM, DETAIL_SUM };

static uint8_t *pack(const ProtobufCMessage *message, size_t *len)
{
    uint8_t *bytes = ps_xmalloc(protobuf_c_message_get_packed_size(message) + 1);

    *len = protobuf_c_message_pack(message, bytes);
    return bytes;
}

void ps_row_bind_message(sqlite3_stmt *s, int at, const ProtobufCMessage *message)
{
    size_t len;
    uint8_t *bytes = pack(message, &len);

    sqlite3_bind_blob64(s, at, bytes, len, free); /* SQLite takes ownership of the bytes */
}

static void bind_with_sum(sqlite3_stmt *s, int at, const ProtobufCMessage *message)
{
    size_t len;
    uint8_t *bytes = pack(message, &len);

    sqlite3_bind_int64(s, at + 1, (sqlite3_int64)XXH3_64bits(bytes, len));
    sqlite3_bind_blob64(s, at, bytes, len, free); /* SQLite takes ownership of the bytes */
}

void ps_row_bind_spec(sqlite3_stmt *s, int at, const Psgd__V1__Job *job)
{
    bind_with_sum(s, at, &job->spec->base);
}

void ps_row_bind_detail(sqlite3_stmt *s, int at, const Psgd__V1__Job *job)
{
    Psgd__V1__Job bare = *job;

    bare.spec = NULL;
    bind_with_sum(s, at, &bare.base);
}

/* Unpacks a message from the blob in column `at`. Checks the blob against its sum in column
 * `sum_at`, which is NULL in rows of older programs. */
static ps_status read_message(sqlite3_stmt *s, int at, int sum_at,
                              const ProtobufCMessageDescriptor *type, ProtobufCMessage **out)
{
    const uint8_t *bytes = sqlite3_column_blob(s, at);
    size_t n = (size_t)sqlite3_column_bytes(s, at);
    ps_status st;

    if (sqlite3_column_type(s, sum_at) != SQLITE_NULL &&
        (uint64_t)sqlite3_column_int64(s, sum_at) != XXH3_64bits(bytes, n)) {
        return ps_fail(PS_DATA_LOSS, "%s does not have the sum that was stored",
                       sqlite3_column_name(s, at));
    }
    st = ps_wire_check(type, bytes, n);
    if (!ps_is_ok(&st)) {
        return ps_fail(PS_DATA_LOSS, "%s: %s", sqlite3_column_name(s, at), st.text);
    }
    *out = protobuf_c_message_unpack(type, NULL, n, bytes);
    return *out ? ps_ok() : ps_fail(PS_DATA_LOSS, "%s does not unpack", sqlite3_column_name(s, at));
}

static ps_status check_columns(sqlite3_stmt *s, const Psgd__V1__Job *job)
{
    const char *id = (const char *)sqlite3_column_text(s, ID);

    if (!id || strcmp(id, job->id) != 0) {
        return ps_fail(PS_DATA_LOSS, "id is not that of the job in it");
    }
    if (sqlite3_column_int64(s, STATE) != (int)job->state) {
        return ps_fail(PS_DATA_LOSS, "state is not that of the job in it");
    }
    return ps_ok();
}

ps_status ps_row_read(sqlite3_stmt *s, ps_record *out)
{
    ps_record record = {.number = (uint64_t)sqlite3_column_int64(s, NUMBER),
                        .outcome = (Psgd__V1__JobState)sqlite3_column_int(s, OUTCOME),
                        .sequence = (uint64_t)sqlite3_column_int64(s, SEQUENCE)};
    ProtobufCMessage *spec = NULL, *job = NULL;
    ps_status st = read_message(s, SPEC, SPEC_SUM, &psgd__v1__job_spec__descriptor, &spec);

    if (ps_is_ok(&st)) {
        st = read_message(s, DETAIL, DETAIL_SUM, &psgd__v1__job__descriptor, &job);
    }
    if (ps_is_ok(&st)) {
        st = check_columns(s, (const Psgd__V1__Job *)job);
    }
    if (!ps_is_ok(&st)) {
        protobuf_c_message_free_unpacked(spec, NULL);
        protobuf_c_message_free_unpacked(job, NULL);
        return st;
    }
    record.job = (Psgd__V1__Job *)job;
    record.job->spec = (Psgd__V1__JobSpec *)spec;
    *out = record;
    return st;
}

void ps_row_stand_in(sqlite3_stmt *s, const ps_status *why, ps_record *out)
{
    const Psgd__V1__JobSpec nothing = PSGD__V1__JOB_SPEC__INIT;
    const char *id = (const char *)sqlite3_column_text(s, ID);
    int state = sqlite3_column_int(s, STATE);
    char text[PS_STATUS_TEXT_BYTES + 200];

    *out = (ps_record){.number = (uint64_t)sqlite3_column_int64(s, NUMBER), .is_damaged = true};
    out->job = ps_job_create(&nothing, 0);
    if (id && ps_name_is_safe(id)) {
        ps_text_set(&out->job->id, id);
    } else {
        snprintf(text, sizeof text, "row-%" PRIu64, out->number);
        ps_text_set(&out->job->id, text);
    }
    out->job->state = protobuf_c_enum_descriptor_get_value(&psgd__v1__job_state__descriptor, state)
                          ? (Psgd__V1__JobState)state
                          : PSGD__V1__JOB_STATE__JOB_STATE_UNSPECIFIED;
    ps_text_set(&out->job->reason, "REGISTRY_DAMAGED");
    snprintf(text, sizeof text,
             "row %" PRIu64 " of jobs.db is damaged: %s. Its files are kept. " PS_ROW_ADVICE,
             out->number, why->text);
    ps_text_set(&out->job->message, text);
}
