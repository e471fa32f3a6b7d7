/* SPDX-License-Identifier: Apache-2.0 */
/* codec_spec.c - see codec_spec.h. */
#include "common/codec/codec_spec.h"

#include "common/base/nearest.h"
#include "common/base/scalar.h"
#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/codec/feedback.h"
#include "common/codec/wrap.h"

#include <string.h>

enum { SPEC_BYTES = 512, CODECS_MAX = 64 };

typedef struct names {
    const char *all[CODECS_MAX];
    size_t count;
    ps_strbuf text;
} names;

static void add_name(const ps_codec *codec, void *arg)
{
    names *n = arg;

    ps_strbuf_printf(&n->text, "%s%s", n->count == 0 ? "" : ", ", codec->name);
    if (n->count < CODECS_MAX) {
        n->all[n->count++] = codec->name;
    }
}

static ps_status no_such_codec(const char *name)
{
    names n = {0};
    const char *meant;
    ps_status st;

    ps_codec_each(add_name, &n);
    meant = ps_nearest(name, n.all, n.count);
    st = ps_fail(PS_INVALID_ARGUMENT, "codec: is \"%s\"%s%s%s; allowed: %s", PS_SHORT(name, 64),
                 meant != NULL ? "; did you mean \"" : "", meant != NULL ? meant : "",
                 meant != NULL ? "\"?" : "", ps_strbuf_text(&n.text));
    ps_strbuf_fini(&n.text);
    return st;
}

/* Parses an item "NUMBER=VALUE" and sets that number of the codec in *params. */
static ps_status set_number(const ps_codec *codec, char *item, ps_params *params)
{
    char *equals = strchr(item, '=');
    double value;
    ps_status st;

    if (equals == NULL) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: is \"%s\"; NUMBER=VALUE is allowed", codec->name,
                       PS_SHORT(item, 64));
    }
    *equals = '\0';
    if (!ps_scalar_double(equals + 1, &value)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s.%s: is \"%s\"; a finite number is allowed",
                       codec->name, PS_SHORT(item, 40), PS_SHORT(equals + 1, 64));
    }
    st = ps_param_set(codec->params, item, value, params);
    return ps_wrap(st, "%s.%s", codec->name, PS_SHORT(item, 40));
}

/* Refuses numbers that do not go together, and rows of a shape that is not known here. */
static ps_status check_uses(const ps_codec *codec, const ps_params *params)
{
    double rows = ps_wrap_of(codec, params, PS_WRAP_ROWS);
    double lazy = ps_wrap_of(codec, params, PS_WRAP_LAZY);
    bool differs = ps_feedback_differs(codec, params);

    if (rows == 1) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s.rows: is 1; the shape is not known here: 0 or the length of a row, 2 to "
                       "%d, is allowed",
                       codec->name, PS_CODEC_VALUES);
    }
    if (rows != 0 && codec->sum_add != NULL) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s.rows: is %g; the codec always sends all values: 0 is allowed",
                       codec->name, rows);
    }
    if (differs && ps_wrap_of(codec, params, PS_WRAP_FEEDBACK) != 0) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s.difference: is 1 as error_feedback is; one of them is allowed",
                       codec->name);
    }
    if (differs && codec->sum_is_vote) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s.difference: is 1; for votes only 0 is allowed",
                       codec->name);
    }
    if (!differs && lazy != 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s.lazy: is %g; without difference only 0 is allowed",
                       codec->name, lazy);
    }
    return ps_ok();
}

ps_status ps_codec_spec_parse(const char *text, const ps_codec **codec, ps_params *params)
{
    char room[SPEC_BYTES], *numbers, *item;
    ps_status st = ps_ok();

    if (strlen(text) >= sizeof room) {
        return ps_fail(PS_INVALID_ARGUMENT, "codec: has %zu bytes; at most %zu are allowed",
                       strlen(text), sizeof room - 1);
    }
    strcpy(room, text);
    numbers = room;
    item = strsep(&numbers, ":");
    *codec = ps_codec_find(item);
    if (*codec == NULL) {
        return no_such_codec(item);
    }
    *params = ps_params_default((*codec)->params);
    while (ps_is_ok(&st) && numbers != NULL) {
        st = set_number(*codec, strsep(&numbers, ","), params);
    }
    return ps_is_ok(&st) ? check_uses(*codec, params) : st;
}
