/* SPDX-License-Identifier: Apache-2.0 */
/* learn.h - learns from all files of a set for those who have a part of them, and loads such a
 * part. What is learned, and how it is written: learned.h. */
#ifndef PS_COMMON_DATA_LEARN_H
#define PS_COMMON_DATA_LEARN_H

#include "common/data/learned.h"
#include "common/data/transform.h"

/* Learns from all files of `folder`, which a look has found good. `scratch` as in spill.h, kept
 * until the parts are freed. Reads the files as ps_data_look does, and if a transform measures
 * samples as ps_data_load too.
 * The caller frees *out. Returns RESOURCE_EXHAUSTED if there would be more than
 * PS_LEARNED_BYTES_MAX, with the field that bounds them; else as ps_data_load. */
PS_MUST_USE ps_status ps_data_learn(const ps_data_conf *conf, const ps_feed_conf *feed,
                                    const char *folder, const char *scratch, ps_learned_parts *out);

/* Loads as ps_data_load does. If the conf's share lacks training files, what was learned from all
 * of them is read from `learned_folder`. */
PS_MUST_USE ps_status ps_data_load_share(const ps_data_conf *conf, const char *folder,
                                         const char *learned_folder, const char *scratch,
                                         ps_dataset **out);

#endif
