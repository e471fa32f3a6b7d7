/* SPDX-License-Identifier: Apache-2.0 */
/* describe_plugin.h - what a file of code says of its plugin. */
#ifndef PS_COMMON_SANDBOX_DESCRIBE_PLUGIN_H
#define PS_COMMON_SANDBOX_DESCRIBE_PLUGIN_H

#include "common/script/sandbox_protocol.h"

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

/* The numbers of the plugin, in the order of their names. */
typedef struct ps_plugin_numbers {
    uint32_t count;
    char names[PS_SANDBOX_NUMBERS][32];
    bool is_integer[PS_SANDBOX_NUMBERS];
} ps_plugin_numbers;

/* Writes the description of the plugin whose table is on top of the stack to text (room), as lines
 * of a key, a blank and a value: kind, name, summary, bits, "trait NAME" for each trait that is
 * true, and for each number "number NAME DEFAULT MIN MAX INTEGER HELP". Fills *numbers. Returns the
 * number of bytes. Raises an error if a field is missing or wrong. */
uint32_t ps_describe_plugin(lua_State *lua, char *text, size_t room, ps_plugin_numbers *numbers);

#endif
