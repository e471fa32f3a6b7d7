/* SPDX-License-Identifier: Apache-2.0 */
/* config_file.c - reads a settings file into the slots of options. */
#include "common/base/config_impl.h"

#include "common/base/document.h"
#include "common/base/files.h"
#include "common/base/shorten.h"

#include <jansson.h>
#include <string.h>

/* Returns the text that the value of the file would have as a flag, or NULL if the option does not
 * allow a value of this type. */
static const char *text_of(ps_slots *slots, const ps_option *option, const json_t *value)
{
    bool is_text = option->kind == PS_KIND_STRING || option->kind == PS_KIND_LIST;

    if (json_is_string(value)) {
        return ps_slots_text(slots, "%s", json_string_value(value));
    }
    if (json_is_integer(value)) {
        return ps_slots_text(slots, "%lld", (long long)json_integer_value(value));
    }
    /* An option that wants text refuses bools, and numbers with a point or exponent: the parser has
     * lost how they were written, such as 1.10 or TRUE. */
    if (json_is_real(value) && !is_text) {
        return ps_slots_text(slots, "%.17g", json_real_value(value));
    }
    if (json_is_boolean(value) && option->kind == PS_KIND_BOOL) {
        return json_is_true(value) ? "true" : "false";
    }
    return NULL;
}

static ps_status give_one(ps_slots *slots, ps_slot *slot, bool is_used, const json_t *value)
{
    const char *text = text_of(slots, slot->option, value);
    ps_status st;

    if (text == NULL) {
        bool is_container = json_is_object(value) || json_is_array(value);

        return ps_fail(PS_INVALID_ARGUMENT,
                       is_container ? "one value is wanted: %s" : "write the value in quotes: %s",
                       ps_option_metavar(slot->option));
    }
    /* The value is checked even if a flag overrides it: the file has to be corrected anyway. */
    st = ps_option_check(slot->option, text);
    if (ps_is_ok(&st) && is_used) {
        ps_slots_give(slots, slot, PS_FROM_FILE, text);
    }
    return st;
}

static ps_status give(ps_slots *slots, ps_slot *slot, const json_t *value)
{
    bool is_used = slot->source == PS_FROM_DEFAULT;
    ps_status st = ps_ok();
    const json_t *item;
    size_t i;

    if (json_is_null(value)) {
        return st;
    }
    if (slot->option->kind != PS_KIND_LIST || !json_is_array(value)) {
        return give_one(slots, slot, is_used, value);
    }
    if (is_used) {
        /* An empty list gives no text, and only ps_slots_give would set the source. */
        slot->source = PS_FROM_FILE;
    }
    json_array_foreach(value, i, item)
    {
        st = give_one(slots, slot, is_used, item);
        if (!ps_is_ok(&st)) {
            break;
        }
    }
    return st;
}

/* Reads the keys of a mapping, and of mappings in it: the names of options are the keys on the way,
 * joined by "-". `prefix` is "" or ends with "-". The recursion is as deep as the tree. */
static ps_status read_mapping(ps_slots *slots, const char *prefix, json_t *mapping)
{
    const char *key;
    json_t *value;

    json_object_foreach(mapping, key, value)
    {
        const char *name = ps_slots_text(slots, "%s%s", prefix, key);
        ps_slot *slot = ps_slots_find(slots, name, strlen(name));
        ps_status st;

        if (slot != NULL && slot->base != slots) {
            st = ps_wrap(give(slots, slot, value), "%s", PS_SHORT(name, 40));
        } else if (slot != NULL) {
            st = ps_fail(PS_INVALID_ARGUMENT, "key %s is not for a file", name);
        } else if (json_is_object(value)) {
            st = read_mapping(slots, ps_slots_text(slots, "%s-", name), value);
        } else {
            st = ps_fail(PS_INVALID_ARGUMENT, "unknown key %s%s", PS_SHORT(name, 40),
                         ps_slots_hint(slots, name, ""));
        }
        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    return ps_ok();
}

ps_status ps_slots_read_file(ps_slots *slots, const char *path)
{
    json_t *tree = NULL;
    ps_status st = ps_document_parse_file(path, &tree);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (json_is_object(tree)) {
        st = read_mapping(slots, "", tree);
    } else if (!json_is_null(tree)) {
        st = ps_fail(PS_INVALID_ARGUMENT, "settings are a mapping, key: value");
    }
    json_decref(tree);
    return ps_wrap(st, "%s", PS_PATH_SHOWN(path));
}
