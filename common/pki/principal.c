/* SPDX-License-Identifier: Apache-2.0 */
/* principal.c - see principal.h. */
#include "common/pki/principal.h"

#include "common/base/shorten.h"

#include <stdio.h>
#include <string.h>

static const char scheme[] = "psgd://";

static const char *const names[] = {[PS_PRINCIPAL_NONE] = "nobody",
#define X(constant, name) [PS_PRINCIPAL_##constant] = name,
                                    PS_PRINCIPAL_KINDS(X)
#undef X
};

enum { KINDS = sizeof names / sizeof names[0] };

const char *ps_principal_kind_name(ps_principal_kind kind)
{
    return (size_t)kind < KINDS ? names[kind] : names[PS_PRINCIPAL_NONE];
}

ps_status ps_principal_parse(const char *text, ps_principal *out)
{
    const char *slash = strchr(text, '/');

    for (size_t kind = PS_PRINCIPAL_NONE + 1; slash != NULL && kind < KINDS; kind++) {
        size_t n = (size_t)(slash - text);

        if (strlen(names[kind]) == n && strncmp(names[kind], text, n) == 0 &&
            ps_plain_name_is_valid(slash + 1, PS_PLAIN_NAME_NODE)) {
            *out = (ps_principal){.kind = (ps_principal_kind)kind};
            snprintf(out->name, sizeof out->name, "%s", slash + 1);
            return ps_ok();
        }
    }
    return ps_fail(PS_INVALID_ARGUMENT,
                   "\"%s\": KIND/NAME is allowed, where KIND is admin, submitter, observer, node "
                   "or coordinator, and NAME is 1 to 64 of A-Z a-z 0-9 . _ -",
                   PS_SHORT(text, 100));
}

ps_status ps_principal_parse_uri(const char *uri, ps_principal *out)
{
    size_t n = sizeof scheme - 1;
    ps_status st;

    if (strncmp(uri, scheme, n) != 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "\"%s\": psgd://KIND/NAME is allowed",
                       PS_SHORT(uri, 100));
    }
    st = ps_principal_parse(uri + n, out);
    return ps_wrap(st, "psgd://");
}

const char *ps_principal_text(const ps_principal *who, char out[PS_PRINCIPAL_TEXT_BYTES])
{
    if (who->kind == PS_PRINCIPAL_NONE) {
        snprintf(out, PS_PRINCIPAL_TEXT_BYTES, "%s", names[PS_PRINCIPAL_NONE]);
    } else {
        snprintf(out, PS_PRINCIPAL_TEXT_BYTES, "%s/%s", ps_principal_kind_name(who->kind),
                 who->name);
    }
    return out;
}

const char *ps_principal_uri(const ps_principal *who, char out[PS_PRINCIPAL_URI_BYTES])
{
    char text[PS_PRINCIPAL_TEXT_BYTES];

    snprintf(out, PS_PRINCIPAL_URI_BYTES, "%s%s", scheme, ps_principal_text(who, text));
    return out;
}

bool ps_principal_is(const ps_principal *who, ps_principal_kind kind, const char *name)
{
    return who->kind == kind && strcmp(who->name, name) == 0;
}
