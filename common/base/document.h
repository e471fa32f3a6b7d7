/* SPDX-License-Identifier: Apache-2.0 */
/* document.h - parses YAML or JSON text into a tree of jansson values.
 *
 * For files that people write: job files, settings, worker lists. A text has at most 1 MiB and 32
 * levels. Refused are a key that occurs twice in a mapping, anchors, aliases, tags other than !!str
 * and !, and a second document: they make a small text large, or ambiguous. Plain scalars are those
 * of YAML 1.2's core schema: null, true, 12, 0x1f, 1.5e3. Quoted scalars are strings. A whole
 * number that does not fit 64 bits is refused. So are infinities and NaN, because jansson has none.
 *
 * A text that is refused gives INVALID_ARGUMENT with line and column, both from 1; one that is too
 * long gives RESOURCE_EXHAUSTED. The caller releases the tree by json_decref.
 */
#ifndef PS_COMMON_BASE_DOCUMENT_H
#define PS_COMMON_BASE_DOCUMENT_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/status.h"

enum { PS_TREE_MAX_BYTES = 1 << 20, PS_TREE_MAX_DEPTH = 32 };

/* Parses n bytes. Text whose first character, after white space, is { or [ is JSON, any other is
 * YAML. An empty text is null. */
PS_MUST_USE ps_status ps_document_parse(const char *text, size_t n, json_t **out);

/* Parses a file; "-" is standard input. Errors are those of ps_document_parse and of reading the
 * file; their text begins with the path. */
PS_MUST_USE ps_status ps_document_parse_file(const char *path, json_t **out);

/* Returns the line, from 1, of the value at `path` in a text that ps_document_parse accepts, or 0
 * if it is not there. A path is "model.layers[2].kind"; letter case and underscores of keys do not
 * matter. For a member that an item of a list does not have, returns the line of the item. */
size_t ps_document_line(const char *text, size_t n, const char *path);

#endif
