/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - YAML or JSON text as a tree of jansson values.
 *
 * For files that people write: job files, settings, worker lists. At most 1 MiB
 * and 32 levels; a key that stands twice in a mapping is refused, and so are
 * anchors, aliases and a second document, which can make a small text large or
 * mean two things. Scalars are those of YAML 1.2's core schema: null, true,
 * 12, 0x1f, 1.5e3; what is quoted is a string. Whole numbers fit 64 bits, and
 * infinities are refused, as jansson has none.
 *
 * INVALID_ARGUMENT names line and column, both from 1. The tree is the
 * caller's, to json_decref.
 */
#ifndef PS_COMMON_BASE_TREE_H
#define PS_COMMON_BASE_TREE_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/status.h"

enum { PS_TREE_MAX_BYTES = 1 << 20, PS_TREE_MAX_DEPTH = 32 };

/* Text that starts with { or [ is JSON, all other YAML. An empty text is null. */
PS_MUST_USE ps_status ps_tree_parse(const char *text, size_t n, json_t **out);

/* The same of a file; "-" is standard input. Errors start with the path. */
PS_MUST_USE ps_status ps_tree_parse_file(const char *path, json_t **out);

/* The line, from 1, at which the value of `path` stands in a text that ps_tree_parse takes:
 * "model.layers[2].kind", keys without regard to letter case and underscores. What an item of a
 * list lacks stands where the item does. 0: it is not there. */
size_t ps_tree_line(const char *text, size_t n, const char *path);

#endif
