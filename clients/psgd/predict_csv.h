/* SPDX-License-Identifier: Apache-2.0 */
/* predict_csv.h - reads the inputs of a model from a CSV file: a line for each sample, with a
 * number for each input of the network and no header.
 *
 * The numbers are those that the network receives, behind all transforms of the data set. Numbers
 * that are ids must be integers below the vocabulary.
 */
#ifndef PS_CLIENTS_PSGD_PREDICT_CSV_H
#define PS_CLIENTS_PSGD_PREDICT_CSV_H

#include "common/job/plan.h"

typedef struct ps_predict_csv ps_predict_csv;

/* Opens a file of at least one sample and checks every line of it. Copies the facts.
 *
 *   INVALID_ARGUMENT    names the line, the field and what is allowed
 *   RESOURCE_EXHAUSTED  the file is too long
 *   else the errors of the file
 */
PS_MUST_USE ps_status ps_predict_csv_open(const char *path, const ps_data_facts *facts,
                                          ps_predict_csv **out);
void ps_predict_csv_close(ps_predict_csv *csv); /* NULL is allowed */

/* Writes the next samples, at most `most`, to x (n, features). Returns their number n; 0 at the
 * end. */
uint32_t ps_predict_csv_next(ps_predict_csv *csv, uint32_t most, float *x);

/* Returns whether ps_predict_csv_next has returned all samples of the file. */
bool ps_predict_csv_is_over(const ps_predict_csv *csv);

#endif
