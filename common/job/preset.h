/* SPDX-License-Identifier: Apache-2.0 */
/* preset.h - named sets of choices, as a const table. */
#ifndef PS_COMMON_JOB_PRESET_H
#define PS_COMMON_JOB_PRESET_H

#include <stddef.h>

typedef struct ps_preset {
    const char *name;
    const char *summary;
    const char *json; /* the JobSpec fields it sets, as in a job file */
} ps_preset;

/* Returns the preset of this name, or NULL. */
const ps_preset *ps_preset_find(const char *name);

/* Calls fn for each preset, in the order of the tables. */
void ps_preset_each(void (*fn)(const ps_preset *preset, void *arg), void *arg);

#endif
