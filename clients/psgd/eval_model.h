/* SPDX-License-Identifier: Apache-2.0 */
/* eval_model.h - a model file opened with its network and its data, for psgd eval and psgd predict.
 *
 * A model file of psgd says which network it is of and which data it was trained on. A job file or
 * flags override that.
 */
#ifndef PS_CLIENTS_PSGD_EVAL_MODEL_H
#define PS_CLIENTS_PSGD_EVAL_MODEL_H

#include "clients/psgd/build_spec.h"
#include "clients/psgd/cli.h"

#include "common/train/evaluation_rows.h"

typedef struct ps_eval_model {
    /* Set by the options. */
    const char *path, *job_path, *data_path, *split_name;
    ps_spec_flags flags;
    ps_option_list tables;
    /* Opened as the options say. */
    /* id and step of the job that left the model, as the model file says; "" if it does not */
    char *job_id, *step;
    ps_plan *plan;
    ps_model *model;
    float *weights;           /* (param_count): the model's weights */
    ps_evaluation_rows *rows; /* rows of sparse tables; NULL: the model has none */
    ps_dataset *data;
    ps_feed *feed;      /* the data, through the transforms of the job */
    float *x, *targets; /* inputs and targets of one batch */
} ps_eval_model;

/* The lines for an option table of `type`, whose `member` is a ps_eval_model. */
/* clang-format off */
#define PS_EVAL_MODEL_OPTIONS(type, member)                                                        \
    PS_OPTION_STRING(type, member.path, .name = "model", .letter = 'm', .metavar = "FILE",         \
                     .help = "the model file (safetensors)"),                                      \
    PS_OPTION_LIST(type, member.tables, .name = "table", .letter = 'T', .metavar = "FILE",         \
                   .help = "file of a sparse table; give that of each server, and a file of "      \
                           "changes after the file that it changes (default: those of the same "   \
                           "job beside the model)"),                                               \
    PS_OPTION_STRING(type, member.job_path, .name = "job", .letter = 'j', .metavar = "FILE",       \
                     .help = "job file with the network and the data (default: as the model file " \
                             "says)"),                                                             \
    PS_OPTION_STRING(type, member.flags.data, .name = "data", .letter = 'D', .metavar = "NAME",    \
                     .help = "data set, instead of the job's"),                                    \
    PS_OPTION_STRING(type, member.data_path, .name = "data-path", .env = "PSGD_DATA",              \
                     .metavar = "DIR", .help = "folder of the data sets, with mnist/ and others"), \
    PS_OPTION_STRING(type, member.split_name, .name = "split", .choices = "test|train",            \
                     .value = "test", .help = "which samples"),                                    \
    PS_OPTION_STRING(type, member.flags.train_limit, .name = "train-limit", .metavar = "N",        \
                     .help = "training samples to use; 0: all"),                                   \
    PS_OPTION_STRING(type, member.flags.test_limit, .name = "test-limit", .metavar = "N",          \
                     .help = "test samples to use; 0: all"),                                       \
    PS_OPTION_LIST(type, member.flags.set, .name = "set", .letter = 's', .metavar = "PATH=VALUE",  \
                   .help = "set any field of the job, such as model.loss=mse")
/* clang-format on */

/* Makes the plan from the model file, the job file and the flags. If they are wrong, writes a
 * message and returns false. */
bool ps_eval_model_plan(ps_eval_model *m);

/* Reads the weights and the rows of sparse tables. */
PS_MUST_USE ps_status ps_eval_model_load(ps_eval_model *m);

/* Loads the data set. FAILED_PRECONDITION: the split has no samples. */
PS_MUST_USE ps_status ps_eval_model_load_data(ps_eval_model *m);

/* Returns the split that --split names. */
ps_split ps_eval_model_split(const ps_eval_model *m);

/* Copies the next batch of the split, which begins after `done` samples, to x and targets. Returns
 * its number of samples. */
uint32_t ps_eval_model_gather(ps_eval_model *m, uint64_t done);

/* Copies the rows of sparse tables that the n samples in x need into the weights. Fails if a value
 * is not an id. */
PS_MUST_USE ps_status ps_eval_model_put_rows(ps_eval_model *m, uint32_t n);

void ps_eval_model_fini(ps_eval_model *m);

/* Writes the failure and ends the program with PS_EXIT_ARGUMENTS. */
void ps_eval_model_fail(ps_cli *cli, const ps_status *st);

#endif
