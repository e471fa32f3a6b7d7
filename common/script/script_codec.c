/* SPDX-License-Identifier: Apache-2.0 */
/* script_codec.c - a codec of a script: its table, and the calls behind it.
 *
 * The head of an encoding has the number of the script, the payload is what the script wrote. If
 * the script fails, the encoding means zeros. The script keeps the failure; the process that
 * encodes finds it there (ps_script_failure) and ends its job with it.
 */
#include "common/codec/codec.h"
#include "common/codec/feedback.h"
#include "common/script/script_impl.h"

#include <math.h>
#include <string.h>

static ps_codec_facts facts(const ps_params *params)
{
    const ps_script_about *about = ps_script_about_of(ps_script_of_params(params));

    return (ps_codec_facts){
        .is_unbiased = (about->traits & PS_TRAIT_UNBIASED) != 0,
        .is_sparse = (about->traits & PS_TRAIT_SPARSE) != 0,
        .keeps_zeros = (about->traits & PS_TRAIT_KEEPS_ZEROS) != 0,
        .error_of_value = INFINITY,
        .error_of_max = INFINITY,
    };
}

static size_t most_bytes(double bits, size_t n)
{
    size_t bytes = (size_t)ceil(bits * (double)n / 8) + 8;

    bytes = bytes < 4 * n + 8 ? bytes : 4 * n + 8;
    return n == 0 ? 0 : bytes < PS_CODEC_ROOM ? bytes : PS_CODEC_ROOM;
}

static size_t size(const ps_params *params, size_t n)
{
    return most_bytes(ps_script_about_of(ps_script_of_params(params))->bits, n);
}

enum { ENCODE_ARGUMENTS = 4, DECODE_ARGUMENTS = 2 };

static void encode_arguments(const ps_script_about *about, const ps_params *params, uint64_t key,
                             const float *x, size_t n, ps_script_value *arguments)
{
    const ps_script_value all[ENCODE_ARGUMENTS] = {
        {.kind = PS_SANDBOX_VECTOR, .count = (uint32_t)n, .in = x},
        {.kind = PS_SANDBOX_NUMBERED, .count = about->number_count, .in = params->v + 1},
        {.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)key},
        {.kind = PS_SANDBOX_WRITER, .count = (uint32_t)most_bytes(about->bits, n)},
    };

    memcpy(arguments, all, sizeof all);
}

static void decode_arguments(const uint8_t *in, size_t len, size_t n, ps_script_value *arguments)
{
    arguments[0] = (ps_script_value){.kind = PS_SANDBOX_READER, .count = (uint32_t)len, .in = in};
    arguments[1] = (ps_script_value){.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)n};
}

static size_t encode(const ps_params *params, uint64_t key, const float *x, size_t n, uint8_t *out,
                     ps_encoding *head)
{
    ps_script *script = ps_script_of_params(params);
    const ps_script_about *about = ps_script_about_of(script);
    ps_script_value written = {.kind = PS_SANDBOX_WRITER, .out = out};
    ps_script_value arguments[ENCODE_ARGUMENTS];
    ps_status st;

    psgd__v1__script__init(&head->u.script);
    head->u.script.id = ps_script_id(script);
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_SCRIPT;
    head->msg.script = &head->u.script;
    if (n == 0) {
        return 0;
    }
    encode_arguments(about, params, key, x, n, arguments);
    written.count = arguments[ENCODE_ARGUMENTS - 1].count;
    if (!ps_script_ahead_take(script, (ps_ahead_id){x, key}, &written, &st)) {
        st = ps_script_call(script, "encode", arguments, ENCODE_ARGUMENTS, &written, 1);
    }
    return ps_is_ok(&st) ? written.count : 0;
}

static ps_status check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    ps_script *script = ps_script_of_id(head->script->id);

    (void)in;
    if (script == NULL || strcmp(ps_script_about_of(script)->kind, "codec") != 0) {
        return ps_fail(PS_DATA_LOSS,
                       "slice %u: is encoded by script %llu, which is none of the job's codecs",
                       head->slice, (unsigned long long)head->script->id);
    }
    if (len > most_bytes(ps_script_about_of(script)->bits, n)) {
        return ps_fail(PS_DATA_LOSS,
                       "slice %u: %s: %zu bytes for %zu values; at most %zu are allowed",
                       head->slice, ps_script_about_of(script)->name, len, n,
                       most_bytes(ps_script_about_of(script)->bits, n));
    }
    return ps_ok();
}

/* Decodes n > 0 values to *result, which says how (ps_script_value). */
static ps_status decode_to(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n,
                           ps_script_value *result)
{
    ps_script_value arguments[DECODE_ARGUMENTS];
    ps_status st = check(head, in, len, n);
    ps_script *script = ps_script_of_id(head->script->id);

    if (!ps_is_ok(&st)) {
        return st;
    }
    decode_arguments(in, len, n, arguments);
    if (!ps_script_ahead_take(script, (ps_ahead_id){head, len}, result, &st) &&
        !ps_script_ahead_take_back(script, in, len, result, &st)) {
        st = ps_script_call(script, "decode", arguments, DECODE_ARGUMENTS, result, 1);
    }
    return st;
}

static ps_status decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, ps_into into,
                        float *y, size_t n)
{
    float room[PS_CODEC_VALUES];
    ps_script_value result = {
        .kind = PS_SANDBOX_VECTOR, .count = (uint32_t)n, .out = into == PS_INTO_SET ? y : room};
    ps_status st = n > 0 ? decode_to(head, in, len, n, &result) : check(head, in, len, n);

    for (size_t i = 0; i < n && into == PS_INTO_ADD && ps_is_ok(&st); i++) {
        y[i] += room[i];
    }
    return st;
}

_Static_assert(PS_SANDBOX_SPARSE_MAX == PS_CODEC_VALUES / 2, "positions of decode_few have room");

static ps_status decode_few(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, float *y,
                            uint16_t *positions, size_t n, size_t *k)
{
    ps_script_value result = {
        .kind = PS_SANDBOX_VECTOR, .count = (uint32_t)n, .out = y, .positions = positions};
    ps_status st = n > 0 ? decode_to(head, in, len, n, &result) : check(head, in, len, n);

    *k = result.kind == PS_SANDBOX_SPARSE ? (size_t)result.integer : n;
    return st;
}

/* ---- Slices that are encoded or decoded together ---- */

static bool encode_ahead(const ps_params *params, uint64_t key, const float *x, size_t n,
                         float **room)
{
    ps_script *script = ps_script_of_params(params);
    ps_script_value arguments[ENCODE_ARGUMENTS];

    encode_arguments(ps_script_about_of(script), params, key, x, n, arguments);
    if (room != NULL) {
        arguments[0].in = NULL;
        arguments[0].room = room;
    }
    return n > 0 &&
           ps_script_ahead_add(
               script, ps_feedback_decodes(ps_script_codec(script), params) ? NULL : "encode",
               (ps_ahead_id){x, key}, arguments, ENCODE_ARGUMENTS);
}

static bool decode_ahead(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    ps_script_value arguments[DECODE_ARGUMENTS];
    ps_status st = check(head, in, len, n);

    decode_arguments(in, len, n, arguments);
    return ps_is_ok(&st) && n > 0 &&
           ps_script_ahead_add(ps_script_of_id(head->script->id), "decode",
                               (ps_ahead_id){head, len}, arguments, DECODE_ARGUMENTS);
}

static const ps_codec_ahead ahead = {
    .encode = encode_ahead,
    .decode = decode_ahead,
    .run = ps_script_ahead_run,
    .end = ps_script_ahead_end,
};

/* The codec that decodes encodings of all scripts: their heads name the script. */
static const ps_codec any = {
    .name = "script",
    .summary = "a script's",
    .wire = PSGD__V1__ENCODING__CODEC_SCRIPT,
    .depends_on_data = true,
    .check = check,
    .decode = decode,
    .decode_few = decode_few,
    .ahead = &ahead,
};

void ps_script_codec_make(const ps_script_about *about, ps_script_plugin *plugin)
{
    static const ps_param wraps[] = {PS_WRAP_PARAMS, {0}};
    size_t n = plugin->param_count;

    plugin->codec = (ps_codec){
        .name = about->name,
        .summary = about->summary,
        .params = plugin->params,
        .own = n,
        .wire = PSGD__V1__ENCODING__CODEC_SCRIPT,
        .facts = facts,
        .depends_on_data = true,
        .size = size,
        .encode = encode,
        .check = check,
        .decode = decode,
        .decode_few = decode_few,
        .ahead = &ahead,
    };
    memcpy(plugin->params + n, wraps, sizeof wraps);
    ps_codec_know_scripts(&any);
}
