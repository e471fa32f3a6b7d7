/* SPDX-License-Identifier: Apache-2.0 */
/* script_codec.c - a codec of a script: its table, and the calls behind it.
 *
 * An encoding says the script's number and is what the script wrote. A failure gives an encoding of
 * zeros; the script keeps the failure, with which whoever encodes ends its job (ps_script_failure).
 */
#include "common/codec/codec.h"
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

static size_t encode(const ps_params *params, uint64_t key, const float *x, size_t n, uint8_t *out,
                     ps_encoding *head)
{
    ps_script *script = ps_script_of_params(params);
    const ps_script_about *about = ps_script_about_of(script);
    ps_script_value written = {.kind = PS_SANDBOX_WRITER, .out = out};
    ps_status st;

    psgd__v1__script__init(&head->u.script);
    head->u.script.id = ps_script_id(script);
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_SCRIPT;
    head->msg.script = &head->u.script;
    if (n == 0) {
        return 0;
    }
    written.count = (uint32_t)most_bytes(about->bits, n);
    st = ps_script_call(
        script, "encode",
        (const ps_script_value[]){
            {.kind = PS_SANDBOX_VECTOR, .count = (uint32_t)n, .in = x},
            {.kind = PS_SANDBOX_NUMBERED, .count = about->number_count, .in = params->v + 1},
            {.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)key},
            {.kind = PS_SANDBOX_WRITER, .count = written.count},
        },
        4, &written, 1);
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

static ps_status decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, ps_into into,
                        float *y, size_t n)
{
    float values[PS_CODEC_VALUES];
    ps_script_value result = {.kind = PS_SANDBOX_VECTOR, .count = (uint32_t)n, .out = values};
    ps_status st = check(head, in, len, n);

    if (ps_is_ok(&st) && n > 0) {
        st = ps_script_call(ps_script_of_id(head->script->id), "decode",
                            (const ps_script_value[]){
                                {.kind = PS_SANDBOX_READER, .count = (uint32_t)len, .in = in},
                                {.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)n},
                            },
                            2, &result, 1);
    }
    for (size_t i = 0; i < n && ps_is_ok(&st); i++) {
        y[i] = into == PS_INTO_SET ? values[i] : y[i] + values[i];
    }
    return st;
}

/* What decodes encodings of whichever script. */
static const ps_codec any = {
    .name = "script",
    .summary = "a script's",
    .wire = PSGD__V1__ENCODING__CODEC_SCRIPT,
    .depends_on_data = true,
    .check = check,
    .decode = decode,
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
    };
    memcpy(plugin->params + n, wraps, sizeof wraps);
    ps_codec_know_scripts(&any);
}
