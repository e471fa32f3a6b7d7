/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - a text, and jobs of train_world.h that learn it with an embedding. */
#ifndef PS_TESTS_SUPPORT_WORDS_H
#define PS_TESTS_SUPPORT_WORDS_H

#include "tests/support/temp_dir.h"

#include <stdint.h>

enum { WORDS_MAX = 900 }; /* more than the text has different words */

/* The folder with the files "train" and "test", and the number of different words. They exist from
 * words_write to words_drop. */
extern temp_dir words_folder;
extern uint32_t words_count;

/* Writes lines of words, some often and most seldom, and makes them tw_other. The setup of a group
 * of tests. */
int words_write(void **state);
int words_drop(void **state); /* the teardown */

/* Returns the choices of a job that learns the text in one epoch, with an embedding of `rows` rows
 * that are 10 wide. `table` are further members of its model, `choices` further members of its
 * JobSpec, each with a comma before it. The result is valid until the next call. */
const char *words_job(uint32_t rows, const char *table, const char *choices);

#endif
